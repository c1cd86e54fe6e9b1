// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"firn/console"
	"firn/tier"
)

// tierReport is what firn tier status prints.
type tierReport struct {
	Store  console.StoreStatus    `json:"store"`
	Topics []console.TopicTiering `json:"topics"`
}

func newTierStatus(a *app) *cobra.Command {
	var f *format
	var admin *adminClient
	cmd := &cobra.Command{
		Use:   "status [TOPIC...]",
		Short: "Show how far each topic is in the object store, and what a dead disk would lose",
		Long: "Show for every topic, or for those named, what waits for its upload (LAG: closed segments), what is on the local disk\n" +
			"alone (AT-RISK: the open segments as well) and the recovery point: the age of the oldest record that a dead disk would lose.\n\n" +
			"STATE is active when all goes well, copy-lag while closed segments wait, excluded for a topic that stays on the local disk, or\n" +
			"why nothing goes up: " + strings.Join([]string{tier.ReasonStoreDown, tier.ReasonOpenTransaction, tier.ReasonCopyDisabled, wordPoisoned}, ", ") +
			" and the words for what needs an operator, which end the command with exit code 6.",
		Example: "  firn tier status\n  firn tier status clicks -o json",
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			var s console.Status
			if err := admin.get(cmd.Context(), "/v1/status", nil, &s); err != nil {
				return err
			}
			report := tierReport{Store: s.Store, Topics: []console.TopicTiering{}}
			byName := map[string]console.TopicTiering{}
			for _, t := range s.Tiering {
				byName[t.Topic] = t
				if len(args) == 0 {
					report.Topics = append(report.Topics, t)
				}
			}
			for _, name := range args {
				t, ok := byName[name]
				if !ok {
					return exitf(exitNotFound, "topic %s is not there", name)
				}
				report.Topics = append(report.Topics, t)
			}
			if err := f.print(a.stdout, report, func(t *tabwriter.Writer) { tierStatusTable(t, report) }); err != nil {
				return err
			}
			return tierFaults(report)
		}),
	}
	f = addFormat(cmd)
	admin = addAdmin(cmd)
	return cmd
}

// tierFaults is the error for topics that will not get better by themselves.
func tierFaults(r tierReport) error {
	var bad []string
	for _, t := range r.Topics {
		if badness(t.State) > badness(tier.ReasonStoreDown) && t.State != wordExcluded && t.State != r.Store.Kind {
			bad = append(bad, t.Topic+" is "+t.State)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return exitf(exitFaulty, "%s", strings.Join(bad, "\n"))
}

func tierStatusTable(t *tabwriter.Writer, r tierReport) {
	if r.Store.Kind == "none" {
		row(t, "store", "none: history lives on the local disk alone")
	} else {
		row(t, "store", r.Store.Where, r.Store.State)
		if r.Store.LastError != "" {
			row(t, "last error", r.Store.LastError)
		}
	}
	row(t)
	row(t, "TOPIC", "STATE", "LAG", "LAG-SEGMENTS", "AT-RISK", "RECOVERY-POINT", "IN-STORE", "LOCAL")
	for _, one := range r.Topics {
		lag, segments, risk, age := humanBytes(one.LagBytes), strconv.Itoa(one.LagSegments), humanBytes(one.UnprotectedBytes), "everything is in the store"
		switch {
		case one.State == wordExcluded || one.State == r.Store.Kind:
			lag, segments, risk, age = "-", "-", humanBytes(one.LocalBytes), "none"
		case one.UnprotectedMs >= 0:
			age = humanAge(one.UnprotectedMs) + " ago"
		}
		row(t, one.Topic, one.State, lag, segments, risk, age, humanBytes(one.Bytes), humanBytes(one.LocalBytes))
	}
}

func newTierList(a *app) *cobra.Command {
	var f *format
	var admin *adminClient
	var partition int32
	var keys bool
	cmd := &cobra.Command{
		Use:   "ls TOPIC",
		Short: "List a topic's segments in both tiers",
		Long: "List where every segment of a topic is: local, store, both, or gap for offsets that are in neither tier.\n\n" +
			"STATE says of a local segment why it is not in the store: active (it is being written), rolls-in TIME (it is closed then\n" +
			"at the latest), copy-lag (it waits for its upload), store-down, open-transaction, copy-disabled, excluded (the topic is not\n" +
			"tiered), poisoned, or why its partition is read-only; of one in the store why it is not deleted: retention; of a gap why.",
		Example: "  firn tier ls clicks\n  firn tier ls clicks -p 3 --keys\n  firn tier ls clicks -o json | jq -r '.[].key'",
		Args:    cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			query := url.Values{"topic": {args[0]}}
			if partition >= 0 {
				query.Set("partition", strconv.Itoa(int(partition)))
			}
			segments := []console.Segment{}
			if err := admin.get(cmd.Context(), "/v1/segments", query, &segments); err != nil {
				return err
			}
			return f.print(a.stdout, segments, func(t *tabwriter.Writer) { segmentTable(t, segments, keys) })
		}),
	}
	f = addFormat(cmd)
	admin = addAdmin(cmd)
	cmd.Flags().Int32VarP(&partition, "partition", "p", -1, "only this `partition`")
	cmd.Flags().BoolVar(&keys, "keys", false, "show the keys of the objects")
	return cmd
}

func segmentTable(t *tabwriter.Writer, segments []console.Segment, keys bool) {
	head := []any{"PARTITION", "FROM", "TO", "TIER", "SIZE", "LAST-RECORD", "UPLOADED", "STATE"}
	if keys {
		head = append(head, "KEY")
	}
	row(t, head...)
	for _, s := range segments {
		state := s.State
		switch {
		case state == "":
			state = "-"
		case s.RollsInMs > 0:
			state += " " + humanAge(s.RollsInMs)
		}
		cells := []any{s.Partition, s.From, s.To, s.Tier, humanBytes(s.Bytes), humanTime(s.MaxTimestampMs), humanTime(s.UploadedMs), state}
		if keys {
			cells = append(cells, s.Key)
		}
		row(t, cells...)
	}
}

func newTierExplain(a *app) *cobra.Command {
	var f *format
	var admin *adminClient
	cmd := &cobra.Command{
		Use:   "explain TOPIC/PARTITION@OFFSET|TIME",
		Short: "Say where one record is read from, and why",
		Long: "Say which tier a read of one offset would come from at this moment, the object or file, the bytes of its batch in it, its\n" +
			"leader epoch, and why. A time stands for the first record of that time or later: RFC 3339, or how long ago (-15m).",
		Example: "  firn tier explain clicks/3@1200\n  firn tier explain clicks/3@2026-01-31T12:00:00Z\n  firn tier explain clicks/3@-2h -o json",
		Args:    cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			query, err := parsePlace(args[0], time.Now())
			if err != nil {
				return exitf(exitUsage, "%s: %w", args[0], err)
			}
			var x console.Explanation
			if err := admin.get(cmd.Context(), "/v1/explain", query, &x); err != nil {
				return err
			}
			return f.print(a.stdout, x, func(t *tabwriter.Writer) { explainTable(t, x) })
		}),
	}
	f = addFormat(cmd)
	admin = addAdmin(cmd)
	return cmd
}

// parsePlace reads TOPIC/PARTITION@OFFSET or TOPIC/PARTITION@TIME.
func parsePlace(s string, now time.Time) (url.Values, error) {
	// A topic's name has neither of the two signs in it.
	where, at, ok := strings.Cut(s, "@")
	topic, partition, ok2 := strings.Cut(where, "/")
	if !ok || !ok2 || topic == "" {
		return nil, fmt.Errorf("want TOPIC/PARTITION@OFFSET or TOPIC/PARTITION@TIME")
	}
	if n, err := strconv.ParseInt(partition, 10, 32); err != nil || n < 0 {
		return nil, fmt.Errorf("partition %q: want a number from 0 up", partition)
	}
	query := url.Values{"topic": {topic}, "partition": {partition}}
	if n, err := strconv.ParseInt(at, 10, 64); err == nil && n >= 0 {
		query.Set("offset", at)
		return query, nil
	}
	ms, err := parseTime(at, now)
	if err != nil {
		return nil, fmt.Errorf("want an offset, a time such as 2026-01-31T12:00:00Z, or -15m (ago)")
	}
	query.Set("time", strconv.FormatInt(ms, 10))
	return query, nil
}

func explainTable(t *tabwriter.Writer, x console.Explanation) {
	row(t, "record", fmt.Sprintf("%s/%d@%d", x.Topic, x.Partition, x.Offset))
	if x.Offset != x.Asked {
		row(t, "", fmt.Sprintf("offset %d is in no tier: a read goes on at %d", x.Asked, x.Offset))
	}
	row(t, "tier", x.Tier)
	row(t, "why", x.Why)
	if x.File != "" {
		row(t, "file", x.File)
	}
	if x.Key != "" {
		row(t, "object", x.Key)
	}
	row(t, "bytes", fmt.Sprintf("%d to %d (%s)", x.Position, x.Position+x.Bytes-1, humanBytes(x.Bytes)))
	row(t, "batch", fmt.Sprintf("offsets %d to %d, leader epoch %d", x.From, x.To-1, x.Epoch))
	if !x.Visible {
		row(t, "visible", "no: not synced yet")
	}
}
