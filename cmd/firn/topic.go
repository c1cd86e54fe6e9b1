// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"firn/cluster"
	"firn/config"
)

func newTopicCommand(a *app) *cobra.Command {
	return group("topic", "List, describe, create, change and delete topics, write and read them",
		newTopicList(a), newTopicDescribe(a), newTopicCreate(a), newTopicAlter(a), newTopicAddPartitions(a),
		newTopicTrimPrefix(a), newTopicDelete(a), newTopicProduce(a), newTopicConsume(a))
}

// clientFlags are those of commands that speak Kafka's protocol, and so work
// with any Kafka broker.
type clientFlags struct {
	brokers []string
	timeout time.Duration
	tls     tlsFlags
}

func addClient(cmd *cobra.Command) *clientFlags {
	c := &clientFlags{}
	cmd.Flags().StringSliceVarP(&c.brokers, "brokers", "b", []string{"127.0.0.1:9092"}, "`addresses` of brokers to begin with")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 30*time.Second, "give up after this `time`")
	c.tls.add(cmd)
	return c
}

// client makes a client with what every one has, and more.
func (c *clientFlags) client(more ...kgo.Opt) (*kgo.Client, error) {
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(c.brokers...), kgo.ClientID("firn"), kgo.DialTimeout(5 * time.Second), kgo.RequestRetries(2),
	}, more...)
	secure, err := c.tls.config()
	if err != nil {
		return nil, exit(exitUsage, err)
	}
	if secure != nil {
		opts = append(opts, kgo.DialTLSConfig(secure))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, exitf(exitUsage, "brokers %s: %w", strings.Join(c.brokers, ","), err)
	}
	return cl, nil
}

// with runs f with a client for at most the timeout. An error about the
// connection names the brokers.
func (c *clientFlags) with(ctx context.Context, f func(ctx context.Context, adm *kadm.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	cl, err := c.client()
	if err != nil {
		return err
	}
	adm := kadm.NewClient(cl)
	defer adm.Close()
	err = f(ctx, adm)
	if _, classified := asExit(err); err != nil && !classified && codeOf(err) == exitUnreachable {
		return exitf(exitUnreachable, "brokers %s cannot be reached: %w", strings.Join(c.brokers, ","), err)
	}
	return err
}

// topicLine is a topic in firn topic list.
type topicLine struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions int    `json:"partitions"`
	Internal   bool   `json:"internal"`
}

func newTopicList(a *app) *cobra.Command {
	var f *format
	var client *clientFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all topics",
		Args:  cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			lines := []topicLine{}
			err := client.with(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				topics, err := adm.ListTopicsWithInternal(ctx)
				if err != nil {
					return err
				}
				for _, t := range topics.Sorted() {
					lines = append(lines, topicLine{t.Topic, topicID(t.ID), len(t.Partitions), t.IsInternal})
				}
				return nil
			})
			if err != nil {
				return err
			}
			return f.print(a.stdout, lines, func(t *tabwriter.Writer) {
				row(t, "NAME", "PARTITIONS", "ID")
				for _, l := range lines {
					row(t, l.Name, l.Partitions, l.ID)
				}
			})
		}),
	}
	f = addFormat(cmd)
	client = addClient(cmd)
	return cmd
}

func newTopicCreate(a *app) *cobra.Command {
	var f *format
	var client *clientFlags
	var partitions int32
	var replication int16
	var configs []string
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create a topic",
		Example: "  firn topic create clicks --partitions 12 --config retention.ms=30d --config local.retention.bytes=10GiB",
		Args:    cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			if partitions == 0 || partitions < -1 {
				return exitf(exitUsage, "--partitions %d: want 1 or more, or -1 for the broker's default", partitions)
			}
			set, err := parseTopicConfigs(configs)
			if err != nil {
				return exit(exitUsage, err)
			}
			var line topicLine
			err = client.with(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				r, err := adm.CreateTopic(ctx, partitions, replication, set, args[0])
				if err != nil {
					return topicError(args[0], err, r.ErrMessage)
				}
				line = topicLine{Name: args[0], ID: topicID(r.ID), Partitions: int(r.NumPartitions)}
				return nil
			})
			if err != nil {
				return err
			}
			return f.print(a.stdout, line, func(t *tabwriter.Writer) {
				with := ""
				if line.Partitions > 0 { // old brokers do not say
					with = " with " + plural(int64(line.Partitions), "partition")
				}
				fmt.Fprintf(t, "topic %s created%s\n", line.Name, with)
			})
		}),
	}
	f = addFormat(cmd)
	client = addClient(cmd)
	cmd.Flags().Int32Var(&partitions, "partitions", -1, "`number` of partitions; -1 takes the broker's default")
	cmd.Flags().Int16Var(&replication, "replication-factor", -1, "`number` of replicas; -1 takes the broker's default")
	cmd.Flags().StringArrayVar(&configs, "config", nil, "topic config as `key=value`, as often as needed")
	return cmd
}

// parseTopicConfigs reads key=value pairs. Units are taken off here, since
// the protocol knows plain numbers only; whether a config exists is the
// broker's to say.
func parseTopicConfigs(pairs []string) (map[string]*string, error) {
	units := make(map[string]cluster.Unit)
	for _, k := range cluster.TopicKeys() {
		units[k.Name] = k.Unit
	}
	out := make(map[string]*string)
	var faults []error
	for _, p := range pairs {
		key, value, ok := strings.Cut(p, "=")
		if !ok || key == "" {
			faults = append(faults, fmt.Errorf("--config %s: want key=value", p))
			continue
		}
		plain, err := config.Canonical(units[key], value)
		if err != nil {
			faults = append(faults, fmt.Errorf("--config %s: %w", p, err))
			continue
		}
		out[key] = &plain
	}
	return out, errors.Join(faults...)
}

func newTopicDelete(a *app) *cobra.Command {
	var client *clientFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete topics with all their records, in the object store as well",
		Args:  cobra.MinimumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			if !yes {
				return exitf(exitUsage, "deleting %s cannot be undone: add --yes", strings.Join(args, ", "))
			}
			return client.with(cmd.Context(), func(ctx context.Context, adm *kadm.Client) error {
				answers, err := adm.DeleteTopics(ctx, args...)
				if err != nil {
					return err
				}
				var faults []error
				for _, r := range answers.Sorted() {
					if r.Err != nil {
						faults = append(faults, topicError(r.Topic, r.Err, r.ErrMessage))
						continue
					}
					fmt.Fprintf(a.stdout, "topic %s deleted\n", r.Topic)
				}
				return errors.Join(faults...)
			})
		}),
	}
	client = addClient(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm the deletion")
	return cmd
}

// topicError names the topic and gives the broker's own words, which say more
// than the code does. It still matches the code.
func topicError(topic string, err error, message string) error {
	text := message
	if ke := kerr.TypedErrorForCode(kerr.UnknownServerError.Code); errors.As(err, &ke) && text == "" {
		text = strings.ToLower(strings.ReplaceAll(ke.Message, "_", " "))
	}
	if text == "" {
		text = err.Error()
	}
	return &saidError{fmt.Sprintf("topic %s: %s", topic, text), err}
}

// saidError is an error in other words.
type saidError struct {
	text string
	err  error
}

func (e *saidError) Error() string { return e.text }
func (e *saidError) Unwrap() error { return e.err }

func topicID(id kadm.TopicID) string {
	if id == (kadm.TopicID{}) {
		return "-"
	}
	return strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(id.String()), "=")
}

// plural is a count with its noun.
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// sortedKeys are the partitions of a topic in order.
func sortedKeys[V any](m map[int32]V) []int32 {
	keys := make([]int32, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
