// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"
	"strings"

	"firn/cluster"
)

// referenceHead opens the reference. It says what holds for all settings.
const referenceHead = `# Configuration

<!-- Written by the config package's test from the table of settings. Change the table, then run: go test ./config -run TestReference -update -->

Firn needs no configuration: ` + "`firn serve`" + ` keeps its data in ` + "`./firn-data`" + ` and listens on 127.0.0.1:9092. What can be set is listed here.

## Where settings come from

The strongest source that sets a key wins:

1. ` + "`firn serve --set log.segment.bytes=64MiB`" + `, as often as needed;
2. the environment, ` + "`FIRN_LOG_SEGMENT_BYTES`" + `: the name in capitals, with dots as underscores. Keys under ` + "`firn.`" + ` lose that word: ` + "`FIRN_DISK_RESERVE_BYTES`" + `;
3. the environment as Kafka's images have it, ` + "`KAFKA_LOG_SEGMENT_BYTES`" + `;
4. a file, named by ` + "`--config`" + ` or ` + "`FIRN_CONFIG`" + `: YAML with dotted keys (` + "`log.segment.bytes: 64MiB`" + `), or Kafka's ` + "`server.properties`" + ` as it is;
5. the default.

An empty environment variable counts as not set.

Sizes take a unit: ` + "`KiB MiB GiB TiB`" + ` in steps of 1,024, ` + "`kB MB GB TB`" + ` in steps of 1,000. Times take one of ` + "`ms s m h d w`" + `. A plain number is bytes or milliseconds. Tools that ask the broker are answered in plain numbers.

A setting that does not exist is an error in a file or flag, and a warning in the environment. Kafka's settings that mean nothing here are accepted with one warning, so that a Kafka configuration can be used as it is. ` + "`authorizer.class.name`" + ` is refused, because whoever sets it relies on it. All errors are reported at once, and ` + "`firn serve`" + ` exits with code 2.

Secrets are shown as ` + "`****`" + ` wherever settings are printed.

`

const referenceTopics = `## Topic configs

What a topic can be told, with ` + "`firn topic create NAME --config key=value`" + ` or any Kafka tool, and later with ` + "`firn topic alter`" + `: a change holds at once and needs no restart. The settings of the broker itself are read at its start and cannot be changed while it runs. A topic that does not set a config takes the broker setting beside it, and without that the default.

| name | type | default | broker setting | meaning |
|---|---|---|---|---|
`

// Reference is docs/CONFIGURATION.md: every setting and every topic config
// with its type, default and meaning, in Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	t := settings()
	for a, title := range areaTitles {
		fmt.Fprintf(&b, "## %s\n\n| name | type | default | meaning |\n|---|---|---|---|\n", title)
		for _, name := range t.names {
			s := t.byName[name]
			if s.area == area(a) {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, typeOf(s.typ, s.unit), shown(s.def, s.unit), escape(s.doc))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString(referenceTopics)
	for _, k := range cluster.TopicKeys() {
		var from []string
		for _, s := range k.Synonyms {
			from = append(from, "`"+s.Name+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, typeOf(k.Type, k.Unit), shown(k.Default, k.Unit), strings.Join(from, ", "), escape(k.Doc))
	}
	return b.String()
}

func typeOf(t cluster.ConfigType, u cluster.Unit) string {
	switch u {
	case cluster.UnitBytes:
		return "size"
	case cluster.UnitMs:
		return "time"
	}
	return t.String()
}

// shown is a default as a person would write it.
func shown(def string, u cluster.Unit) string {
	if def == "" {
		return ""
	}
	n, err := strconv.ParseInt(def, 10, 64)
	if err != nil || n <= 0 || u == cluster.UnitNone {
		return "`" + def + "`"
	}
	units := byteSuffixes[:4]
	names := []string{"KiB", "MiB", "GiB", "TiB"}
	if u == cluster.UnitMs {
		units, names = timeSuffixes[1:5], []string{"s", "m", "h", "d"}
	}
	best := def
	for i, f := range units {
		if n%f.factor == 0 {
			best = strconv.FormatInt(n/f.factor, 10) + names[i]
		}
	}
	return "`" + best + "`"
}

func escape(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
