// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strconv"
	"strings"
	"time"

	"firn/cluster"
)

// value is a setting's value in plain numbers and where it came from.
type value struct {
	text   string
	source string
}

func (v value) set() bool { return v.source != sourceDefault }

// build judges every value by its row, then what concerns several of them.
func (l *loader) build() *Config {
	c := &Config{values: make(map[string]value, len(l.table.names))}
	for _, name := range l.table.names {
		c.values[name] = l.read(l.table.byName[name])
	}
	if c.values["broker.id"].text == "-1" {
		c.values["broker.id"] = value{"-1", sourceDefault} // Kafka's "give me one"
	}
	l.fill(c)
	l.checkTogether(c)
	return c
}

// read takes one value through its unit and its check. A value at fault gives
// way to the default, so that the rest can still be judged.
func (l *loader) read(s *setting) value {
	source, ok := l.where[s.name]
	if !ok {
		return value{s.def, sourceDefault}
	}
	raw := l.viper.GetString(s.name)
	text, err := Canonical(s.unit, raw)
	if err == nil && s.check != nil {
		err = s.check(text)
	}
	if err != nil {
		l.fault(s.name, raw, source, err.Error())
		return value{s.def, sourceDefault}
	}
	if s.typ == cluster.TypeBoolean {
		text = strings.ToLower(text)
	}
	return value{text, source}
}

// fault notes a fault and masks a value that is secret, or a URL that has a
// secret in it.
func (l *loader) fault(name, shown, source, want string) {
	s := l.table.byName[name]
	if s != nil && s.sensitive && shown != "" || strings.Contains(shown, "://") && strings.Contains(shown, "@") {
		shown = mask
	}
	l.faults = append(l.faults, Fault{Key: name, Value: shown, Source: source, Want: want})
}

// resolve finds the value of a setting, or of the weaker ones that may give
// it, and the name of the one that does.
func (c *Config) resolve(name string) (string, value) {
	v := c.values[name]
	if v.set() && v.text != "" {
		return name, v
	}
	for _, weaker := range settings().byName[name].instead {
		if w := c.values[weaker]; w.set() && w.text != "" {
			return weaker, w
		}
	}
	return name, v
}

func (c *Config) text(name string) string {
	_, v := c.resolve(name)
	return v.text
}

func (c *Config) list(name string) []string { return splitList(c.text(name)) }

func (c *Config) flag(name string) bool { return c.text(name) == "true" }

// num reads a number whose row has checked it.
func (c *Config) num(name string) int64 {
	n, _ := strconv.ParseInt(c.text(name), 10, 64)
	return n
}

func (c *Config) int(name string) int { return int(c.num(name)) }

func (c *Config) millis(name string) time.Duration { return cluster.Millis(c.num(name)) }
