// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func newTopicAlter(a *app) *cobra.Command {
	var client *clientFlags
	var set, unset []string
	cmd := &cobra.Command{
		Use:   "alter NAME",
		Short: "Change configs of a topic, at once and without a restart",
		Long: "Change configs of a topic, at once and without a restart. Configs that are not named stay as they are;\n" +
			"a deleted one goes back to its default.",
		Example: "  firn topic alter clicks --config retention.ms=30d --delete-config local.retention.bytes",
		Args:    cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			changes, err := parseAlterations(set, unset)
			if err != nil {
				return exit(exitUsage, err)
			}
			return client.with(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				answers, err := adm.AlterTopicConfigs(ctx, changes, args[0])
				if err != nil {
					return err
				}
				r, err := answers.On(args[0], nil)
				if err = firstError(err, r.Err); err != nil {
					return topicError(args[0], err, r.ErrMessage)
				}
				fmt.Fprintf(a.stdout, "topic %s: %s changed\n", args[0], plural(int64(len(changes)), "config"))
				return nil
			})
		}),
	}
	client = addClient(cmd)
	cmd.Flags().StringArrayVar(&set, "config", nil, "config to set as `key=value`, as often as needed")
	cmd.Flags().StringArrayVar(&unset, "delete-config", nil, "`key` of a config to give back its default, as often as needed")
	return cmd
}

// parseAlterations reads what is to be set and to be taken away, in the order
// of keys.
func parseAlterations(set, unset []string) ([]kadm.AlterConfig, error) {
	configs, err := parseTopicConfigs(set)
	if err != nil {
		return nil, err
	}
	var changes []kadm.AlterConfig
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: configs[key]})
	}
	var faults []error
	for _, key := range slices.Compact(slices.Sorted(slices.Values(unset))) {
		if _, both := configs[key]; both || key == "" {
			faults = append(faults, fmt.Errorf("--delete-config %s: want the key of a config that is not set as well", key))
			continue
		}
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key})
	}
	if len(set)+len(unset) == 0 {
		faults = append(faults, errors.New("nothing to change: add --config or --delete-config"))
	}
	return changes, errors.Join(faults...)
}

func newTopicAddPartitions(a *app) *cobra.Command {
	var client *clientFlags
	var total int
	cmd := &cobra.Command{
		Use:   "add-partitions NAME",
		Short: "Give a topic more partitions",
		Long: "Give a topic more partitions. None can be taken away again. Records that are there stay in their partitions,\n" +
			"but producers that choose a partition by the key choose another one for most keys from then on.",
		Example: "  firn topic add-partitions clicks --total 24",
		Args:    cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			if total < 1 {
				return exitf(exitUsage, "--total %d: want the number of partitions that the topic shall have in all", total)
			}
			return client.with(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				answers, err := adm.UpdatePartitions(ctx, total, args[0])
				if err != nil {
					return err
				}
				r, err := answers.On(args[0], nil)
				if err = firstError(err, r.Err); err != nil {
					return topicError(args[0], err, r.ErrMessage)
				}
				fmt.Fprintf(a.stdout, "topic %s has %s\n", args[0], plural(int64(total), "partition"))
				return nil
			})
		}),
	}
	client = addClient(cmd)
	cmd.Flags().IntVar(&total, "total", 0, "`number` of partitions in all, more than there are")
	return cmd
}

// trimmed is the outcome of firn topic trim-prefix.
type trimmed struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Start     int64  `json:"start"` // the first offset that is left
}

func newTopicTrimPrefix(a *app) *cobra.Command {
	var f *format
	var client *clientFlags
	var partition int32
	var before string
	var yes bool
	cmd := &cobra.Command{
		Use:     "trim-prefix NAME",
		Short:   "Delete the oldest records of a partition, in the object store as well",
		Example: "  firn topic trim-prefix clicks --partition 3 --before-offset 1000000 --yes",
		Args:    cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			offset, err := parseBefore(before)
			switch {
			case err != nil:
				return exit(exitUsage, err)
			case partition < 0:
				return exitf(exitUsage, "--partition: want the number of a partition")
			case !yes:
				return exitf(exitUsage, "deleting records of %s-%d cannot be undone: add --yes", args[0], partition)
			}
			line := trimmed{Topic: args[0], Partition: partition}
			err = client.with(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				offsets := make(kadm.Offsets)
				offsets.AddOffset(args[0], partition, offset, -1)
				answers, err := adm.DeleteRecords(ctx, offsets)
				if err != nil {
					return topicError(args[0], err, "")
				}
				r, ok := answers.Lookup(args[0], partition)
				if !ok {
					return fmt.Errorf("topic %s: the broker does not answer for partition %d", args[0], partition)
				}
				line.Start = r.LowWatermark
				if r.Err != nil {
					return topicError(fmt.Sprintf("%s, partition %d", args[0], partition), r.Err, "")
				}
				return nil
			})
			if err != nil {
				return err
			}
			return f.print(a.stdout, line, func(t *tabwriter.Writer) {
				fmt.Fprintf(t, "partition %d of topic %s begins at offset %d\n", line.Partition, line.Topic, line.Start)
			})
		}),
	}
	f = addFormat(cmd)
	client = addClient(cmd)
	cmd.Flags().Int32VarP(&partition, "partition", "p", -1, "`number` of the partition")
	cmd.Flags().StringVar(&before, "before-offset", "", "first `offset` to keep, or end for none of the records that are there")
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm the deletion")
	return cmd
}

// parseBefore reads an offset, or the word for the high watermark.
func parseBefore(s string) (int64, error) {
	if s == "end" {
		return -1, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("--before-offset %s: want a number from 0 up, or end", s)
	}
	return n, nil
}
