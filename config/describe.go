// SPDX-License-Identifier: Apache-2.0

package config

import "firn/cluster"

// Describe lists every setting as DescribeConfigs shows those of a broker, in
// the order of names: values in plain numbers, nil for secrets. None can be
// changed while the broker runs.
func (c *Config) Describe() []cluster.ConfigEntry {
	t := settings()
	out := make([]cluster.ConfigEntry, 0, len(t.names))
	for _, name := range t.names {
		s := t.byName[name]
		e := cluster.ConfigEntry{
			Name:      name,
			Type:      s.typ,
			ReadOnly:  true,
			Sensitive: s.sensitive,
			Doc:       s.doc,
			Synonyms:  c.synonyms(s),
		}
		e.Value, e.Source = e.Synonyms[0].Value, e.Synonyms[0].Source
		out = append(out, e)
	}
	return out
}

// synonyms lists what could give the setting's value, the strongest first,
// and its default.
func (c *Config) synonyms(s *setting) []cluster.ConfigSynonym {
	var out []cluster.ConfigSynonym
	add := func(name string, text string, source cluster.ConfigSource) {
		syn := cluster.ConfigSynonym{Name: name, Source: source}
		// A number that is not set has no value, where a text has an empty one.
		noNumber := text == "" && s.typ != cluster.TypeString && s.typ != cluster.TypeList
		if !s.sensitive && !noNumber {
			syn.Value = &text
		}
		out = append(out, syn)
	}
	for _, name := range append([]string{s.name}, s.instead...) {
		if v := c.values[name]; v.set() {
			add(name, v.text, cluster.SourceStaticBroker)
		}
	}
	add(s.name, s.def, cluster.SourceDefault)
	return out
}

// Sources tells where each setting that is not a default comes from, by
// setting, as Fault.Source words it.
func (c *Config) Sources() map[string]string {
	out := make(map[string]string)
	for name, v := range c.values {
		if v.set() {
			out[name] = v.source
		}
	}
	return out
}
