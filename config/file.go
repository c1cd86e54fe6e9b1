// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/magiconair/properties"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// maxFileBytes bounds a settings file, so that a wrong path (a log, a disk)
// is a message and not a full memory.
const maxFileBytes = 4 << 20

// fileDecoder turns a settings file into one flat map for viper and remembers
// what viper does not: where each key stood, and what was wrong.
type fileDecoder struct {
	path   string
	format string // "yaml" or "properties"
	values map[string]string
	where  map[string]string
	faults Faults
}

func newFileDecoder(path string) (*fileDecoder, error) {
	d := &fileDecoder{path: path, values: make(map[string]string), where: make(map[string]string)}
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".yaml", ".yml", ".json":
		d.format = "yaml" // of which JSON is a part
	case ".properties":
		d.format = "properties"
	default:
		return nil, fmt.Errorf("its name ends in %q, want .yaml, .yml, .json or .properties", ext)
	}
	return d, nil
}

// Decoder gives viper this decoder for its format.
func (d *fileDecoder) Decoder(format string) (viper.Decoder, error) {
	if format != d.format {
		return nil, fmt.Errorf("no decoder for %q", format)
	}
	return d, nil
}

// Decode fills m with what b says, key by key as it stands there.
func (d *fileDecoder) Decode(b []byte, m map[string]any) error {
	var err error
	if d.format == "yaml" {
		err = d.decodeYAML(b)
	} else {
		err = d.decodeProperties(b)
	}
	for k, v := range d.values {
		m[k] = v
	}
	return err
}

func (d *fileDecoder) decodeProperties(b []byte) error {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(b)
	if err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(p.Map())) {
		d.values[k], _ = p.Get(k)
		d.where[k] = d.path
	}
	return nil
}

// decodeYAML reads a mapping of dotted keys to scalars or lists of scalars.
// Scalars are taken as they are spelled, not as YAML would type them.
func (d *fileDecoder) decodeYAML(b []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return err
	}
	if len(doc.Content) == 0 {
		return nil // empty, or comments only
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return errors.New("want a mapping of settings to values")
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		d.takeYAML(root.Content[i], root.Content[i+1])
	}
	return nil
}

func (d *fileDecoder) takeYAML(key, value *yaml.Node) {
	where := fmt.Sprintf("%s:%d", d.path, key.Line)
	fail := func(want string) {
		d.faults = append(d.faults, Fault{Key: key.Value, Value: "…", Source: where, Want: want})
	}
	if key.Kind != yaml.ScalarNode {
		key = &yaml.Node{Value: "?", Line: key.Line}
		fail("want the name of a setting as the key")
		return
	}
	if _, twice := d.values[key.Value]; twice {
		fail("is set twice; first at " + d.where[key.Value])
		return
	}
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	switch value.Kind {
	case yaml.ScalarNode:
		v := value.Value
		if value.Tag == "!!null" {
			v = ""
		}
		d.values[key.Value], d.where[key.Value] = v, where
	case yaml.SequenceNode:
		var elements []string
		for _, e := range value.Content {
			if e.Kind != yaml.ScalarNode {
				fail("want a list of plain values")
				return
			}
			elements = append(elements, e.Value)
		}
		d.values[key.Value], d.where[key.Value] = strings.Join(elements, ","), where
	default:
		fail("want a value; write settings with dots, as in log.dirs: ./data")
	}
}
