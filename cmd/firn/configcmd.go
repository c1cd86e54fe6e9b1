// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"firn/cluster"
	"firn/config"
)

func newConfigCommand(a *app) *cobra.Command {
	return group("config", "Show and check the settings of a broker", newConfigPrint(a), newConfigValidate(a), newConfigReference(a))
}

// settingLine is a setting in firn config print.
type settingLine struct {
	Name string `json:"name"`
	// Value is in plain numbers, **** for a secret that is set, and null for a
	// number or secret that is not.
	Value *string `json:"value"`
	// Source is --set, an environment variable, a file with its line, or
	// default. From is the setting that gave the value, when it is another.
	Source string `json:"source"`
	From   string `json:"from,omitempty"`
}

// secretMask stands for a secret that is set.
const secretMask = "****"

func newConfigPrint(a *app) *cobra.Command {
	var f *format
	var settings settingsFlags
	var changed bool
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print every setting with its value and where that comes from",
		Long: "Print what firn serve would run with, from the same flags, environment and file: every setting, its value in plain numbers\n" +
			"(bytes, milliseconds) and its source. Secrets are printed as ****.",
		Example: "  firn config print --changed\n  firn config print --config server.properties -o json",
		Args:    cobra.NoArgs,
		RunE: runE(func(*cobra.Command, []string) error {
			c, err := settings.load(a)
			if err != nil {
				return err
			}
			lines := settingLines(c, changed)
			return f.print(a.stdout, lines, func(t *tabwriter.Writer) {
				row(t, "SETTING", "VALUE", "SOURCE")
				for _, l := range lines {
					value, source := "-", l.Source
					if l.Value != nil {
						value = *l.Value
					}
					if l.From != "" {
						source += ", by " + l.From
					}
					row(t, l.Name, value, source)
				}
			})
		}),
	}
	f = addFormat(cmd)
	settings.add(cmd)
	cmd.Flags().BoolVar(&changed, "changed", false, "leave out what is at its default")
	return cmd
}

// settingLines lists the settings by name.
func settingLines(c *config.Config, changed bool) []settingLine {
	sources := c.Sources()
	lines := []settingLine{}
	for _, e := range c.Describe() {
		// The first synonym is the one that gives the value.
		giver := e.Synonyms[0]
		l := settingLine{Name: e.Name, Value: e.Value, Source: "default"}
		if giver.Source != cluster.SourceDefault {
			l.Source = sources[giver.Name]
			if giver.Name != e.Name {
				l.From = giver.Name
			}
			if e.Sensitive {
				masked := secretMask
				l.Value = &masked
			}
		}
		if !changed || l.Source != "default" {
			lines = append(lines, l)
		}
	}
	return lines
}

func newConfigValidate(a *app) *cobra.Command {
	var settings settingsFlags
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the settings and say all that is wrong with them",
		Long: "Check the settings of flags, environment and file as firn serve does at its start, without starting anything.\n" +
			"Exit code 2 when something is wrong: a line for each fault, with the key, the value, its source and what is allowed.",
		Example: "  firn config validate --config /etc/kafka/server.properties",
		Args:    cobra.NoArgs,
		RunE: runE(func(*cobra.Command, []string) error {
			c, err := settings.load(a)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "the settings are right: %s set, the others at their defaults\n", plural(int64(len(c.Sources())), "setting"))
			return nil
		}),
	}
	settings.add(cmd)
	return cmd
}

func newConfigReference(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "reference",
		Short:   "Print every setting and topic config with its default and meaning",
		Long:    "Print docs/CONFIGURATION.md of this very version: every setting and every topic config with its type, default and meaning, in Markdown.",
		Example: "  firn config reference | less\n  firn config reference | grep tier.s3",
		Args:    cobra.NoArgs,
		RunE: runE(func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.stdout, config.Reference())
			return err
		}),
	}
}
