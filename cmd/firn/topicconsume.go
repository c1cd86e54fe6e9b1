// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// consumeOptions are the flags of firn topic consume.
type consumeOptions struct {
	formatFlags
	from       string
	count      int64
	exit       bool
	partitions []int32
	tiers      bool
}

func newTopicConsume(a *app) *cobra.Command {
	var client *clientFlags
	var o consumeOptions
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read and print records",
		Long: "Read the records of a topic, from the end unless told otherwise, and print them until interrupted.\n\n" +
			"The offset to begin at is beginning, end, a number, -N for the last N of each partition, or @TIME for the first\n" +
			"record of that time or later: @2026-01-31T12:00:00Z, @1769860800000 (ms since 1970) or @-15m (ago).\n\n" +
			formatHelp + "\n\n" +
			"With --tiers every batch is marked, on standard error, with the way in which the broker read it for this very answer:\n" +
			"hot from the page cache, warm from its disk, cold from the object store. Only Firn tells.",
		Example: "  firn topic consume clicks -o beginning -e\n" +
			"  firn topic consume clicks -p 3 -o -10 -n 10 -f '%o %T %k=%s\\n'\n" +
			"  firn topic consume clicks -o @-1h -e -J | jq .payload\n" +
			"  firn topic consume clicks -o beginning -e --tiers > /dev/null",
		Args: cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			start, err := parseStart(o.from, time.Now())
			if err != nil {
				return exitf(exitUsage, "-o %s: %w", o.from, err)
			}
			format, err := o.parse()
			if err != nil {
				return err
			}
			if o.count < 0 {
				return exitf(exitUsage, "-n %d: want a number from 1 up, or 0 for all", o.count)
			}
			cl, err := client.client()
			if err != nil {
				return err
			}
			defer cl.Close()
			c := &consumer{o: &o, app: a, cl: cl, adm: kadm.NewClient(cl), topic: args[0], patience: client.timeout, format: format}
			err = c.run(cmd.Context(), start)
			if err != nil && codeOf(err) == exitUnreachable {
				if _, classified := asExit(err); !classified {
					err = exitf(exitUnreachable, "brokers %s cannot be reached: %w", strings.Join(client.brokers, ","), err)
				}
			}
			return err
		}),
	}
	client = addClient(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.from, "offset", "o", "end", "`offset` to begin at")
	f.Int64VarP(&o.count, "count", "n", 0, "stop after this `number` of records; 0 does not")
	f.BoolVarP(&o.exit, "exit", "e", false, "stop at the end of all partitions")
	f.Int32SliceVarP(&o.partitions, "partition", "p", nil, "only these `partitions`")
	f.StringVarP(&o.format, "format", "f", `%s\n`, "`format` of a record")
	f.BoolVarP(&o.json, "json", "J", false, "print records as JSON, one a line")
	f.BoolVar(&o.tiers, "tiers", false, "say of every batch whether it was hot, warm or cold")
	return cmd
}

// start is where consuming begins: at an offset, at one from the end, or at a
// time.
type start struct {
	kind startKind
	n    int64 // the offset, the distance, or ms since 1970
}

type startKind int8

const (
	startBeginning startKind = iota
	startEnd
	startAt
	startBeforeEnd
	startTime
)

// parseStart reads the value of -o.
func parseStart(s string, now time.Time) (start, error) {
	switch s {
	case "beginning":
		return start{kind: startBeginning}, nil
	case "end":
		return start{kind: startEnd}, nil
	}
	if at, ok := strings.CutPrefix(s, "@"); ok {
		ms, err := parseTime(at, now)
		return start{startTime, ms}, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		return start{}, fmt.Errorf("want beginning, end, a number, -N or @TIME")
	case strings.HasPrefix(s, "-"):
		return start{startBeforeEnd, -n}, nil
	}
	return start{startAt, n}, nil
}

// parseTime reads a time: RFC 3339, ms since 1970, or how long ago (-15m).
func parseTime(s string, now time.Time) (int64, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && ms >= 0 {
		return ms, nil
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at.UnixMilli(), nil
	}
	if ago, err := time.ParseDuration(s); err == nil && ago < 0 {
		return now.Add(ago).UnixMilli(), nil
	}
	return 0, fmt.Errorf("want a time such as 2026-01-31T12:00:00Z, 1769860800000 (ms since 1970) or -15m (ago)")
}

// offsets finds where each partition begins. The error of one is the error.
func (s start) offsets(ctx context.Context, adm *kadm.Client, topic string, partitions []int32) (map[int32]int64, error) {
	list := func(f func(context.Context, ...string) (kadm.ListedOffsets, error)) (map[int32]int64, error) {
		listed, err := f(ctx, topic)
		if err != nil {
			return nil, err
		}
		out := make(map[int32]int64, len(partitions))
		for _, p := range partitions {
			o, ok := listed.Lookup(topic, p)
			if !ok {
				return nil, exitf(exitNotFound, "topic %s has no partition %d", topic, p)
			}
			if o.Err != nil {
				return nil, topicError(topic, o.Err, "")
			}
			out[p] = o.Offset
		}
		return out, nil
	}
	switch s.kind {
	case startBeginning:
		return list(adm.ListStartOffsets)
	case startEnd:
		return list(adm.ListEndOffsets)
	case startTime:
		return list(func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
			return adm.ListOffsetsAfterMilli(ctx, s.n, topics...)
		})
	case startAt:
		out := make(map[int32]int64, len(partitions))
		for _, p := range partitions {
			out[p] = s.n
		}
		return out, nil
	}
	starts, err := list(adm.ListStartOffsets)
	if err != nil {
		return nil, err
	}
	ends, err := list(adm.ListEndOffsets)
	if err != nil {
		return nil, err
	}
	for p, end := range ends {
		starts[p] = max(starts[p], end-s.n)
	}
	return starts, nil
}

// isOutOfRange says whether an offset is in no tier.
func isOutOfRange(err error) bool { return isAny(err, kerr.OffsetOutOfRange) }
