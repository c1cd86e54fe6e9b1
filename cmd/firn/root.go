// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"firn/config"
)

// app is what all commands share: the outside world, which tests replace.
type app struct {
	stdin  io.Reader // nil is empty
	stdout io.Writer
	stderr io.Writer
	env    []string // as os.Environ
}

// main runs one command line and returns the exit code.
func (a *app) main(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	return a.exit(root.ExecuteContext(ctx))
}

// exit prints an error, a line for each thing at fault, and returns the exit
// code that it stands for.
func (a *app) exit(err error) int {
	if err == nil {
		return exitOK
	}
	// What no command has classified comes from cobra: wrong flags or
	// arguments.
	code := exitUsage
	if e, ok := asExit(err); ok {
		code = e.code
	}
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		fmt.Fprintln(a.stderr, "firn: "+line)
	}
	return code
}

func (a *app) root() *cobra.Command {
	root := group("firn", "A Kafka-protocol broker with tiered storage")
	root.Long = "Firn is a Kafka-protocol broker: new records on local disk, history in an object store.\n\nfirn serve runs it; the other commands look at it and work with it."
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(commands(a)...)
	return root
}

// group is a command that only has others below it.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q for %q, see %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	c.AddCommand(below...)
	return c
}

// runE makes a command's function of f, with every error classified.
func runE(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return classify(f(cmd, args)) }
}

// settingsFlags are the flags of commands that need the broker's settings.
type settingsFlags struct {
	set  []string
	file string
}

func (s *settingsFlags) add(cmd *cobra.Command) {
	// StringArray, since a value may hold commas.
	cmd.Flags().StringArrayVar(&s.set, "set", nil, "set a `key=value`, as often as needed")
	cmd.Flags().StringVar(&s.file, "config", "", "settings `file`: YAML or server.properties (default $FIRN_CONFIG)")
}

// load gathers the settings and prints the warnings about them. Faults come
// back as one error with a line each.
func (s *settingsFlags) load(a *app) (*config.Config, error) {
	c, warnings, err := config.Load(config.LoadOptions{Flags: s.set, Env: a.env, File: s.file})
	for _, w := range warnings {
		fmt.Fprintln(a.stderr, "firn: warning: "+w.String())
	}
	if err != nil {
		return nil, exit(exitUsage, err)
	}
	return c, nil
}

// newServeCommand is firn serve over run, which serves until ctx ends, then
// stops clean, and writes its log and banner to out.
func newServeCommand(a *app, run func(ctx context.Context, c *config.Config, newCluster bool, out io.Writer) error) *cobra.Command {
	var settings settingsFlags
	var newCluster bool
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run a broker",
		Long:    "Run a broker. Without settings it keeps its data in ./firn-data and listens on 127.0.0.1:9092.\n\ndocs/CONFIGURATION.md lists all settings.",
		Example: "  firn serve\n  firn serve --set tier.store=dir --set tier.dir.path=/mnt/cold\n  firn serve --config /etc/kafka/server.properties",
		Args:    cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			c, err := settings.load(a)
			if err != nil {
				return err
			}
			return run(cmd.Context(), c, newCluster, a.stderr)
		}),
	}
	settings.add(cmd)
	cmd.Flags().BoolVar(&newCluster, "new-cluster", false, "begin a new cluster although the store holds one")
	return cmd
}
