// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"firn/console"
)

func newStatusCommand(a *app) *cobra.Command {
	var f *format
	var admin *adminClient
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how a broker is, and what a dead disk would lose",
		Long: "Show how a broker is, from its admin port: what an acknowledgement means, disk, store, and how old the oldest record is\n" +
			"that a dead disk would lose. Exit code 6 when a partition needs attention.",
		Example: "  firn status\n  firn status --admin 10.0.0.5:9190 -o json",
		Args:    cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			var s console.Status
			if err := admin.get(cmd.Context(), "/v1/status", nil, &s); err != nil {
				return err
			}
			if err := f.print(a.stdout, s, func(t *tabwriter.Writer) { statusTable(t, s) }); err != nil {
				return err
			}
			for _, d := range s.LogDirs {
				if d.Offline != "" {
					return exitf(exitFaulty, "log directory %s is offline, %s attention", d.Dir, needs(len(s.Attention)))
				}
			}
			if n := len(s.Attention); n > 0 {
				return exitf(exitFaulty, "%s attention", needs(n))
			}
			return nil
		}),
	}
	f = addFormat(cmd)
	admin = addAdmin(cmd)
	return cmd
}

func statusTable(t *tabwriter.Writer, s console.Status) {
	state := "ready"
	if !s.Ready {
		state = "not ready: " + s.Reason
	}
	row(t, "broker", s.NodeID, "firn "+s.Version)
	row(t, "cluster", s.ClusterID)
	row(t, "state", state)
	row(t, "started", humanTime(s.StartedMs)+" UTC")
	row(t, "listeners", strings.Join(s.Listeners, ", "))
	for _, d := range s.LogDirs {
		if d.Offline != "" {
			row(t, "data", d.Dir, "offline: "+d.Offline)
			continue
		}
		row(t, "data", d.Dir, humanBytes(d.Logs)+" in logs", plural(int64(d.Partitions), "partition"))
		row(t, "disk", humanBytes(d.Free)+" free of "+humanBytes(d.Total), "reserve "+humanBytes(d.Reserve))
	}
	row(t, "topics", s.Topics, plural(int64(s.Partitions), "partition"))
	row(t, "durability", s.Durability)
	row(t, "reads", "uncached "+s.IO.UncachedRead, "residency "+s.IO.Residency, "send "+s.IO.Send)
	if s.Store.Kind == "none" {
		row(t, "store", "none", "history lives on the local disk alone")
	} else {
		where := s.Store.Kind + " " + strings.TrimPrefix(s.Store.Where, s.Store.Kind+" ")
		row(t, "store", where, s.Store.State)
		row(t, "", plural(s.Store.Segments, "segment"), humanBytes(s.Store.Bytes))
		if s.Store.LastError != "" {
			row(t, "", "last error", s.Store.LastError)
		}
		row(t, "at risk", atRisk(s.Store))
	}
	for _, p := range s.Attention {
		row(t, "attention", p.Topic, p.Partition, p.State, p.Reason)
	}
}

func needs(partitions int) string {
	if partitions == 1 {
		return "1 partition needs"
	}
	return fmt.Sprintf("%d partitions need", partitions)
}

// atRisk says what of the tiered topics a dead disk would lose.
func atRisk(s console.StoreStatus) string {
	if s.OldestLocalOnlyMs < 0 {
		return "nothing: all records of tiered topics are in the store"
	}
	return humanBytes(s.LocalOnlyBytes) + " not in the store yet, the oldest " + humanAge(s.OldestLocalOnlyMs) + " old"
}
