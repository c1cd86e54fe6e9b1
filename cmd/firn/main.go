// SPDX-License-Identifier: Apache-2.0

// Command firn is the broker and its tools in one binary. Every command is a
// few lines over a package; what they share is where they print, how they
// fail and where settings come from:
//
//	exit code  0 ok               3 unreachable
//	           1 failed           4 not found
//	           2 usage, settings  5 denied
//	                              6 a check found faults
//
// A failure is one line on standard error for each thing at fault.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// The first signal asks for a clean stop; a second one ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Environ()}
	os.Exit(a.main(ctx, os.Args[1:]))
}

// commands are all that stand directly below the root.
func commands(a *app) []*cobra.Command {
	return []*cobra.Command{
		newServeCommand(a, runServe),
		newDemoCommand(a),
		newTopicCommand(a),
		newTierCommand(a),
		newLogCommand(a),
		newStatusCommand(a),
		newDoctorCommand(a),
		newConfigCommand(a),
		newBenchCommand(a),
		newHealthCommand(a),
		newCompletionCommand(a),
		newVersionCommand(a),
	}
}
