// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strconv"
)

// DescribeTopic lists every config of a topic as DescribeConfigs shows them,
// in the order of names: the value in force, where it comes from, and the
// settings it would come from otherwise. set is what the topic was told.
func DescribeTopic(topic string, set map[string]string, d Defaults) []ConfigEntry {
	keys := TopicKeys()
	out := make([]ConfigEntry, 0, len(keys))
	for _, k := range keys {
		e := ConfigEntry{Name: k.Name, Type: k.Type, Doc: k.Doc}
		if v, ok := set[k.Name]; ok {
			e.Synonyms = append(e.Synonyms, ConfigSynonym{k.Name, &v, SourceTopic})
		}
		for _, s := range k.Synonyms {
			if v, ok := d.Settings[s.Name]; ok {
				e.Synonyms = append(e.Synonyms, ConfigSynonym{s.Name, &v, SourceStaticBroker})
			}
		}
		e.Synonyms = append(e.Synonyms, defaultSynonym(topic, k, d))
		e.Source = e.Synonyms[0].Source
		value := d.fallback(topic, k)
		if v, ok := set[k.Name]; ok {
			value = v
		}
		e.Value = &value
		out = append(out, e)
	}
	return out
}

// defaultSynonym is the last word on a config: the default of its weakest
// broker setting, in that setting's unit, or its own where the broker has
// none.
func defaultSynonym(topic string, k TopicKey, d Defaults) ConfigSynonym {
	if len(k.Synonyms) == 0 {
		v := d.fallback(topic, k)
		return ConfigSynonym{k.Name, &v, SourceDefault}
	}
	last := k.Synonyms[len(k.Synonyms)-1]
	v := k.Default
	if n, err := strconv.ParseInt(v, 10, 64); err == nil && last.Factor > 1 {
		v = strconv.FormatInt(n/last.Factor, 10)
	}
	return ConfigSynonym{last.Name, &v, SourceDefault}
}
