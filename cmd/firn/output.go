// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// format is the value of -o. It is a pflag.Value.
type format string

// addFormat gives a command the flag -o.
func addFormat(cmd *cobra.Command) *format {
	f := format("table")
	cmd.Flags().VarP(&f, "output", "o", "output as table, json or yaml")
	return &f
}

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "format" }

// Set takes table, json or yaml.
func (f *format) Set(s string) error {
	switch s {
	case "table", "json", "yaml":
		*f = format(s)
		return nil
	}
	return fmt.Errorf("want table, json or yaml")
}

// print writes v as JSON or YAML, or calls table for people. Both machine
// forms have the names and the order of v's JSON.
func (f *format) print(w io.Writer, v any, table func(t *tabwriter.Writer)) error {
	switch *f {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	case "yaml":
		return printYAML(w, v)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	table(t)
	return t.Flush()
}

// printYAML goes through JSON, which is YAML, so that a type needs one set of
// names only.
func printYAML(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	plain(&doc)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	_, err = w.Write(out.Bytes())
	return err
}

// plain takes JSON's quotes and brackets off; quotes that YAML needs come
// back when it is written, and empty lists keep their brackets.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		plain(c)
	}
}

// row writes one line of a table.
func row(t *tabwriter.Writer, cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
	}
	fmt.Fprintln(t, strings.Join(text, "\t"))
}

// humanBytes is a size as people read it, in steps of 1,024.
func humanBytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), -1
	for v >= 1024 && unit < 4 {
		v /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTP"[unit])
}

// humanTime is a time in ms since the Unix epoch, or a dash for none.
func humanTime(ms int64) string {
	if ms <= 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format(time.DateTime)
}

// humanAge is a duration in ms in its two largest units.
func humanAge(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", ms)
	case d < time.Hour:
		return d.Truncate(time.Second).String()
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}
