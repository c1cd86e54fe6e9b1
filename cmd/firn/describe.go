// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicDetail is a topic in firn topic describe.
type topicDetail struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Internal   bool              `json:"internal"`
	Partitions []partitionDetail `json:"partitions"`
	Configs    []configDetail    `json:"configs"`
}

// partitionDetail is one partition. An offset that could not be learned is -1.
type partitionDetail struct {
	Partition int32 `json:"partition"`
	Leader    int32 `json:"leader"`
	Epoch     int32 `json:"epoch"`
	// Start is the first offset in either tier, LocalStart the first one on
	// the local disk, End the one after the last.
	Start      int64 `json:"start"`
	LocalStart int64 `json:"local_start"`
	End        int64 `json:"end"`
}

// configDetail is one config of a topic.
type configDetail struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func newTopicDescribe(a *app) *cobra.Command {
	var f *format
	var client *clientFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "describe NAME...",
		Short: "Show the partitions, offsets and configs of topics",
		Args:  cobra.MinimumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			var details []topicDetail
			err := client.with(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				var err error
				details, err = describeTopics(ctx, adm, args, all)
				return err
			})
			if err != nil {
				return err
			}
			return f.print(a.stdout, details, func(t *tabwriter.Writer) {
				for i, d := range details {
					if i > 0 {
						row(t)
					}
					describeTable(t, d)
				}
			})
		}),
	}
	f = addFormat(cmd)
	client = addClient(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "show the configs that are at their defaults, too")
	return cmd
}

func describeTopics(ctx context.Context, adm *kadm.Client, names []string, all bool) ([]topicDetail, error) {
	topics, err := adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if t := topics[n]; t.Err != nil {
			return nil, topicError(n, t.Err, "")
		}
	}
	starts, err := adm.ListStartOffsets(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	locals, err := adm.ListLocalLogStartOffsets(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list local start offsets: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	configs, err := adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describe configs: %w", err)
	}
	var out []topicDetail
	for _, n := range names {
		t := topics[n]
		d := topicDetail{Name: n, ID: topicID(t.ID), Internal: t.IsInternal, Partitions: []partitionDetail{}, Configs: []configDetail{}}
		for _, p := range sortedKeys(t.Partitions) {
			part := t.Partitions[p]
			d.Partitions = append(d.Partitions, partitionDetail{
				Partition: p, Leader: part.Leader, Epoch: part.LeaderEpoch,
				Start: offsetOf(starts, n, p), LocalStart: offsetOf(locals, n, p), End: offsetOf(ends, n, p),
			})
		}
		rc, err := configs.On(n, nil)
		if err != nil || rc.Err != nil {
			return nil, topicError(n, firstError(err, rc.Err), rc.ErrMessage)
		}
		for _, c := range rc.Configs {
			if all || c.Source != kmsg.ConfigSourceDefaultConfig {
				d.Configs = append(d.Configs, configDetail{c.Key, c.MaybeValue(), c.Source.String()})
			}
		}
		out = append(out, d)
	}
	return out, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func offsetOf(l kadm.ListedOffsets, topic string, partition int32) int64 {
	if o, ok := l.Lookup(topic, partition); ok && o.Err == nil {
		return o.Offset
	}
	return -1
}

func describeTable(t *tabwriter.Writer, d topicDetail) {
	row(t, "topic", d.Name)
	row(t, "id", d.ID)
	row(t)
	row(t, "PARTITION", "LEADER", "EPOCH", "START", "LOCAL-START", "END")
	for _, p := range d.Partitions {
		row(t, p.Partition, p.Leader, p.Epoch, p.Start, p.LocalStart, p.End)
	}
	if len(d.Configs) == 0 {
		return
	}
	row(t)
	row(t, "CONFIG", "VALUE", "SOURCE")
	for _, c := range d.Configs {
		row(t, c.Name, c.Value, c.Source)
	}
}
