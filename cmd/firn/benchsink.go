// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"firn/bench"
)

// newBenchSink is what the produce path of a broker is compared with.
func newBenchSink(a *app) *cobra.Command {
	var sink bench.Sink
	var listen string
	cmd := &cobra.Command{
		Use:   "sink",
		Short: "Write produce requests to a file and answer them, to compare a broker with",
		Long: "Read produce requests, write them to a file and answer them: the least that a broker has to do, for a comparison.\n" +
			"Runs until it is interrupted, and takes what firn bench produce --raw --existing sends.",
		Example: "  firn bench sink --listen 127.0.0.1:9999 --dir /var/tmp &\n  firn bench produce --raw --existing --acks 1 --batch 1MiB -b 127.0.0.1:9999",
		Args:    cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			listener, err := net.Listen("tcp", listen)
			if err != nil {
				return exit(exitUsage, fmt.Errorf("--listen: %w", err))
			}
			fmt.Fprintln(a.stdout, "listening on", listener.Addr())
			return sink.Serve(cmd.Context(), listener)
		}),
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "`address` to listen on")
	cmd.Flags().StringVar(&sink.Dir, "dir", "", "`directory` of the file (default $TMPDIR)")
	return cmd
}
