// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"firn/internal/testutil"
)

// composeFile is docker-compose.yml as far as it uses the format: a key that is
// not here is a fault, in the file or in this type.
type composeFile struct {
	Services   map[string]composeService
	Volumes    map[string]any
	Extensions map[string]any `yaml:",inline"`
}

type composeService struct {
	Image           string
	Build           string
	PullPolicy      string `yaml:"pull_policy"`
	Command         composeCommand
	Environment     map[string]string
	Ports           []string
	Volumes         []string
	MemLimit        string                 `yaml:"mem_limit"`
	HealthCheck     *composeHealth         `yaml:"healthcheck"`
	DependsOn       map[string]composeNeed `yaml:"depends_on"`
	Profiles        []string
	Restart         string
	StopGracePeriod string   `yaml:"stop_grace_period"`
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	SecurityOpt     []string `yaml:"security_opt"`
}

type composeHealth struct {
	Test        []string
	Interval    string
	Timeout     string
	StartPeriod string `yaml:"start_period"`
	Retries     int
}

type composeNeed struct{ Condition string }

// composeCommand is a list, or a line that is split at blanks. Ours has no
// quotes.
type composeCommand []string

func (c *composeCommand) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*c = strings.Fields(n.Value)
		return nil
	}
	return n.Decode((*[]string)(c))
}

// readCompose reads docker-compose.yml with the variables at their defaults,
// apart from those in set.
func readCompose(t *testing.T, set map[string]string) composeFile {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(readFile(t, filepath.Join(testutil.RepoRoot(t), "docker-compose.yml")), &doc); err != nil {
		t.Fatalf("parse docker-compose.yml: %v", err)
	}
	if err := interpolate(&doc, set); err != nil {
		t.Fatalf("docker-compose.yml: %v", err)
	}
	text, err := yaml.Marshal(&doc)
	if err != nil {
		t.Fatal(err)
	}
	var f composeFile
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		t.Fatalf("read docker-compose.yml: %v", err)
	}
	for key := range f.Extensions {
		if !strings.HasPrefix(key, "x-") {
			t.Errorf("docker-compose.yml has %q at its top", key)
		}
	}
	return f
}

var composeVariable = regexp.MustCompile(`\$\{([A-Z_]+):-([^}]*)\}`)

// interpolate puts variables into the values, as Compose does. Every one has
// to have a default, so that the file works without any preparation.
func interpolate(n *yaml.Node, set map[string]string) error {
	if n.Kind == yaml.ScalarNode {
		n.Value = composeVariable.ReplaceAllStringFunc(n.Value, func(v string) string {
			m := composeVariable.FindStringSubmatch(v)
			if value := set[m[1]]; value != "" {
				return value
			}
			return m[2]
		})
		if strings.Contains(n.Value, "$") {
			return fmt.Errorf("line %d: %q has a variable without a default", n.Line, n.Value)
		}
	}
	for _, child := range n.Content {
		if err := interpolate(child, set); err != nil {
			return err
		}
	}
	return nil
}

// order is the services without a profile, each behind those that it depends
// on.
func (f composeFile) order(t *testing.T) []string {
	t.Helper()
	var order []string
	var visit func(name string, from []string)
	visit = func(name string, from []string) {
		if slices.Contains(from, name) {
			t.Fatalf("services depend on one another: %v", from)
		}
		if slices.Contains(order, name) {
			return
		}
		s, ok := f.Services[name]
		if !ok {
			t.Fatalf("%v needs the service %s, which is not there", from, name)
		}
		for _, need := range slices.Sorted(maps.Keys(s.DependsOn)) {
			visit(need, append(from, name))
		}
		order = append(order, name)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Services)) {
		if len(f.Services[name].Profiles) == 0 {
			visit(name, nil)
		}
	}
	return order
}

// dockerfile is what the tests look at of our Dockerfile.
type dockerfile struct {
	args   map[string]string // before and in the build stage, with their defaults
	stages []dockerStage
}

type dockerStage struct {
	from, name   string
	instructions []dockerLine
}

type dockerLine struct{ op, rest string }

func readDockerfile(t *testing.T) dockerfile {
	t.Helper()
	text := string(readFile(t, filepath.Join(testutil.RepoRoot(t), "Dockerfile")))
	text = regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "\\\n", " ")
	d := dockerfile{args: map[string]string{}}
	for line := range strings.Lines(text) {
		op, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		switch op {
		case "":
		case "FROM":
			words := slices.DeleteFunc(strings.Fields(rest), func(w string) bool { return strings.HasPrefix(w, "--") })
			s := dockerStage{from: d.expand(words[0])}
			if len(words) == 3 && words[1] == "AS" {
				s.name = words[2]
			}
			d.stages = append(d.stages, s)
		case "ARG":
			name, value, _ := strings.Cut(rest, "=")
			d.args[name] = value
		default:
			last := &d.stages[len(d.stages)-1]
			last.instructions = append(last.instructions, dockerLine{op, rest})
		}
	}
	if len(d.stages) != 2 || d.stages[0].name != "build" {
		t.Fatalf("the Dockerfile has the stages %+v, want one that builds and one that runs", d.stages)
	}
	return d
}

// expand puts the arguments' defaults into a text.
func (d dockerfile) expand(text string) string {
	for name, value := range d.args {
		text = strings.ReplaceAll(text, "${"+name+"}", value)
	}
	return text
}

// all are the rests of the lines of a stage with the given instruction.
func (s dockerStage) all(op string) []string {
	var rests []string
	for _, l := range s.instructions {
		if l.op == op {
			rests = append(rests, l.rest)
		}
	}
	return rests
}

// one is the only line of the image's own stage with the given instruction.
func (d dockerfile) one(t *testing.T, op string) string {
	t.Helper()
	all := d.stages[1].all(op)
	if len(all) != 1 {
		t.Fatalf("the Dockerfile's last stage has %d lines of %s, want 1", len(all), op)
	}
	return all[0]
}

// list is one line in the form of a JSON array, as it has to be where there is
// no shell.
func (d dockerfile) list(t *testing.T, op string) []string {
	t.Helper()
	text := d.one(t, op)
	var list []string
	if err := json.Unmarshal([]byte(text[max(0, strings.IndexByte(text, '[')):]), &list); err != nil {
		t.Fatalf("the Dockerfile's %s %s is no list: %v", op, text, err)
	}
	return list
}

// env is what the image sets.
func (d dockerfile) env() []string { return d.stages[1].all("ENV") }
