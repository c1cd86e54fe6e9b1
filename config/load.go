// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/viper"
)

// LoadOptions says where settings come from.
type LoadOptions struct {
	// Flags are key=value, as given to --set. Of two with one key the later
	// wins.
	Flags []string
	// Env is the environment, as os.Environ returns it.
	Env []string
	// File is the settings file; empty takes FIRN_CONFIG from Env, and
	// without that there is no file.
	File string
	// Hostname names this machine, for advertised listeners with an empty
	// host; nil means os.Hostname.
	Hostname func() (string, error)
}

// sourceFlag and sourceDefault stand in Fault.Source and in descriptions; the
// other sources are the variable's name and the file with its line.
const (
	sourceFlag    = "--set"
	sourceDefault = "default"
)

// Load gathers the settings from all sources and judges them. The error is
// Faults when the settings are at fault. Warnings are there in either case.
func Load(o LoadOptions) (*Config, []Warning, error) {
	if o.Hostname == nil {
		o.Hostname = os.Hostname
	}
	l := &loader{
		o:     o,
		table: settings(),
		where: make(map[string]string),
	}
	l.readFile()
	l.readEnv()
	l.readFlags()
	if l.viper == nil {
		l.viper = newViper(nil)
	}
	l.layer()
	c := l.build()
	l.warnIgnored()
	if len(l.faults) > 0 {
		return nil, l.warnings, l.faults
	}
	return c, l.warnings, nil
}

// loader is the state of one Load.
type loader struct {
	o        LoadOptions
	table    *table
	viper    *viper.Viper
	env      map[string]any    // by setting
	flags    map[string]string // by setting
	where    map[string]string // setting to the source that won
	ignored  []string          // settings of Kafka that mean nothing here
	warnings []Warning
	faults   Faults
}

// newViper makes a viper in which a dot is a letter like any other: Kafka's
// names clash as prefixes of one another (log.dir and
// log.dir.failure.timeout.ms).
func newViper(d *fileDecoder) *viper.Viper {
	opts := []viper.Option{viper.KeyDelimiter("\x00")}
	if d != nil {
		opts = append(opts, viper.WithDecoderRegistry(d))
	}
	return viper.NewWithOptions(opts...)
}

// readFile is the weakest source but the defaults.
func (l *loader) readFile() {
	path, from := l.o.File, "--config"
	if path == "" {
		from = "FIRN_CONFIG"
		for _, kv := range l.o.Env {
			if v, ok := strings.CutPrefix(kv, "FIRN_CONFIG="); ok {
				path = v
			}
		}
	}
	if path == "" {
		return
	}
	fail := func(err error) {
		l.faults = append(l.faults, Fault{Key: "settings file", Value: path, Source: from, Want: "cannot be read: " + err.Error()})
	}
	d, err := newFileDecoder(path)
	if err != nil {
		fail(err)
		return
	}
	b, err := readBounded(path)
	if err != nil {
		fail(err)
		return
	}
	l.viper = newViper(d)
	l.viper.SetConfigType(d.format)
	if err := l.viper.ReadConfig(bytes.NewReader(b)); err != nil {
		fail(err)
		return
	}
	l.faults = append(l.faults, d.faults...)
	for _, k := range slices.Sorted(maps.Keys(d.values)) {
		l.accept(k, d.values[k], d.where[k])
	}
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFileBytes {
		return nil, fmt.Errorf("it is larger than %d bytes", maxFileBytes)
	}
	return b, nil
}

// accept notes where a key of a file or flag stands and says whether it is a
// setting that means something.
func (l *loader) accept(key, value, source string) bool {
	if _, ok := l.table.byName[key]; ok {
		l.where[key] = source
		return true
	}
	if want, refused := refusedKey(key, value); refused {
		l.faults = append(l.faults, Fault{Key: key, Value: value, Source: source, Want: want})
		return false
	}
	if kafkaOnly(key) {
		l.ignored = append(l.ignored, key)
		return false
	}
	want := "unknown setting"
	if n, ok := nearest(key, l.table.names); ok {
		want += ", did you mean " + n + "?"
	}
	// The value may be a secret under a mistyped name.
	l.faults = append(l.faults, Fault{Key: key, Value: mask, Source: source, Want: want})
	return false
}

// readEnv takes FIRN_X and KAFKA_X, the former first. Empty variables count
// as not set, as compose files leave them.
func (l *loader) readEnv() {
	l.env = make(map[string]any)
	found := make(map[string]string)
	for _, kv := range l.o.Env {
		if k, v, ok := strings.Cut(kv, "="); ok && v != "" {
			found[k] = v
		}
	}
	var unknown []string
	for _, prefix := range []string{"KAFKA_", "FIRN_"} {
		for _, variable := range slices.Sorted(maps.Keys(found)) {
			rest, ok := strings.CutPrefix(variable, prefix)
			if !ok || variable == "FIRN_CONFIG" {
				continue
			}
			if name, ok := l.table.byEnv[rest]; ok {
				l.env[name] = found[variable]
				l.where[name] = variable
				continue
			}
			dotted := strings.ToLower(strings.ReplaceAll(rest, "_", "."))
			want, refused := refusedKey(dotted, found[variable])
			switch {
			case refused:
				l.faults = append(l.faults, Fault{Key: dotted, Value: found[variable], Source: variable, Want: want})
			case kafkaOnly(dotted):
				l.ignored = append(l.ignored, variable)
			default:
				unknown = append(unknown, variable)
			}
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		l.warnings = append(l.warnings, Warning{Keys: unknown, Text: "environment variables that are no settings"})
	}
}

func (l *loader) readFlags() {
	l.flags = make(map[string]string)
	for _, kv := range l.o.Flags {
		k, v, ok := strings.Cut(kv, "=")
		k = strings.TrimSpace(k)
		if !ok || k == "" {
			l.faults = append(l.faults, Fault{Key: k, Value: mask, Source: sourceFlag, Want: "want key=value"})
			continue
		}
		if l.accept(k, v, sourceFlag) {
			l.flags[k] = v
		}
	}
}

// layer lays the sources over one another: viper's override, config and
// default levels, the environment merged over the file.
func (l *loader) layer() {
	for name, s := range l.table.byName {
		l.viper.SetDefault(name, s.def)
	}
	// Merging strings into a flat map cannot fail.
	_ = l.viper.MergeConfigMap(l.env)
	for name, v := range l.flags {
		l.viper.Set(name, v)
	}
}

func (l *loader) warnIgnored() {
	if len(l.ignored) == 0 {
		return
	}
	slices.Sort(l.ignored)
	l.warnings = append(l.warnings, Warning{Keys: slices.Compact(l.ignored), Text: "settings of Kafka that mean nothing here"})
}
