// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"firn/bench"
	"firn/config"
)

func newBenchCommand(a *app) *cobra.Command {
	cmd := group("bench", "Measure a broker",
		newBenchProduce(a), newBenchConsume(a), newBenchEndToEnd(a), newBenchReplay(a), newBenchIsolation(a), newBenchGet(a), newBenchControl(a), newBenchSink(a))
	cmd.Long = "Measure a broker, by a full client or, with --raw, by frames that are encoded beforehand and pipelined over plain\nsockets. docs/BENCHMARKS.md says how to read the figures."
	return cmd
}

// benchFlags are those that the benches share; each adds what it has a use for.
type benchFlags struct {
	cmd        *cobra.Command
	options    bench.Options
	acks       string
	record     string
	batch      string
	fetch      string
	pid        int
	replicable bool // the topic is made when it is missing
	existing   bool // the topic is there
}

func addBench(cmd *cobra.Command, topic string) *benchFlags {
	f := &benchFlags{cmd: cmd, acks: "all", record: "1KiB", batch: "64KiB", fetch: "1MiB"}
	flags := cmd.Flags()
	flags.StringVarP(&f.options.Broker, "brokers", "b", "127.0.0.1:9092", "`address` of the broker")
	flags.StringVar(&f.options.Topic, "topic", topic, "`name` of the topic")
	flags.BoolVar(&f.options.Raw, "raw", false, "send frames encoded beforehand in place of a full client")
	flags.IntVar(&f.pid, "pid", 0, "measure the CPU, memory and threads of the process with this `id`, the broker's")
	return f
}

func (f *benchFlags) addTime() *benchFlags {
	f.cmd.Flags().DurationVar(&f.options.Duration, "duration", 10*time.Second, "how long to run")
	return f
}

func (f *benchFlags) addClients() *benchFlags {
	f.cmd.Flags().IntVar(&f.options.Clients, "clients", 1, "connections that work at once")
	f.cmd.Flags().IntVar(&f.options.Partitions, "partitions", 1, "partitions of the topic that are used")
	return f
}

func (f *benchFlags) addRecords(rate float64, rateUsage string) *benchFlags {
	flags := f.cmd.Flags()
	flags.Float64Var(&f.options.Rate, "rate", rate, rateUsage)
	flags.StringVar(&f.record, "size", f.record, "`size` of a record's value")
	flags.StringVar(&f.batch, "batch", f.batch, "largest `size` of a batch")
	flags.StringVar(&f.acks, "acks", f.acks, "acknowledgements to wait for: 0, 1 or all")
	flags.StringVar(&f.options.Codec, "codec", "none", "compression: "+strings.Join(bench.Codecs(), ", "))
	flags.IntVar(&f.options.InFlight, "in-flight", 5, "requests that a connection has on its way")
	f.replicable = true
	return f
}

func (f *benchFlags) addFetch() *benchFlags {
	f.cmd.Flags().StringVar(&f.fetch, "fetch", f.fetch, "`size` that a fetch asks for")
	return f
}

// parse completes the options. Faults are usage errors.
func (f *benchFlags) parse() error {
	var faults []error
	size := func(name, text string) int {
		n, err := config.ParseBytes(text)
		if err != nil || n < 1 || n > 1<<30 {
			faults = append(faults, fmt.Errorf("--%s %q: want a size of at most 1GiB, such as 64KiB", name, text))
			return 1
		}
		return int(n)
	}
	f.options.RecordBytes = size("size", f.record)
	f.options.BatchBytes = size("batch", f.batch)
	f.options.FetchBytes = size("fetch", f.fetch)
	switch f.acks {
	case "0":
		f.options.Acks = 0
	case "1":
		f.options.Acks = 1
	case "all", "-1":
		f.options.Acks = -1
	default:
		faults = append(faults, fmt.Errorf("--acks %q: want 0, 1 or all", f.acks))
	}
	flags := f.cmd.Flags()
	if flags.Changed("duration") && f.options.Duration <= 0 {
		faults = append(faults, fmt.Errorf("--duration %v: want a positive one", f.options.Duration))
	}
	for _, name := range []string{"clients", "partitions", "in-flight"} {
		if n, err := flags.GetInt(name); err == nil && flags.Changed(name) && n < 1 {
			faults = append(faults, fmt.Errorf("--%s %d: want 1 or more", name, n))
		}
	}
	if len(faults) == 0 {
		o := f.options
		o.EnsureDefaults()
		faults = append(faults, o.Validate())
	}
	if err := errors.Join(faults...); err != nil {
		return exit(exitUsage, err)
	}
	return nil
}

// prepare parses the flags and makes the topic where records are to be written
// and there is none.
func (f *benchFlags) prepare(ctx context.Context) error {
	if err := f.parse(); err != nil {
		return err
	}
	if !f.replicable || f.existing {
		return nil
	}
	client := &clientFlags{brokers: []string{f.options.Broker}, timeout: 30 * time.Second}
	return client.with(ctx, func(ctx context.Context, adm *kadm.Client) error {
		_, err := adm.CreateTopic(ctx, int32(max(f.options.Partitions, 1)), 1, nil, f.options.Topic)
		if errors.Is(err, kerr.TopicAlreadyExists) {
			return nil
		}
		return err
	})
}

// usage is what the process with --pid uses, or nothing without.
func (f *benchFlags) usage() (bench.Usage, error) {
	if f.pid == 0 {
		return bench.Usage{}, nil
	}
	u, err := bench.ReadUsage(f.pid)
	if err != nil {
		return u, exitf(exitUsage, "--pid: %w", err)
	}
	return u, nil
}

// spent is what it used since before; nil without --pid.
func (f *benchFlags) spent(before bench.Usage, moved int64) (*bench.Spent, error) {
	if f.pid == 0 {
		return nil, nil
	}
	after, err := f.usage()
	if err != nil {
		return nil, err
	}
	spent := after.Since(before, moved)
	return &spent, nil
}

// wrongRecords gives an error of a workload its exit code: records that are
// wrong are a fault that was found.
func wrongRecords(err error) error {
	if errors.Is(err, bench.ErrRecords) {
		return exit(exitFaulty, err)
	}
	return err
}

// throughputReport is the output of bench produce and consume.
type throughputReport struct {
	Bench  string `json:"bench"`
	Client string `json:"client"`
	bench.Throughput
	Broker *bench.Spent `json:"broker,omitempty"`
}

func clientName(raw bool) string {
	if raw {
		return "raw frames"
	}
	return "franz-go"
}

// newThroughput is a bench that moves records.
func newThroughput(a *app, cmd *cobra.Command, f *benchFlags, run func(context.Context, bench.Options) (bench.Throughput, error)) *cobra.Command {
	out := addFormat(cmd)
	cmd.Args = cobra.NoArgs
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		if err := f.prepare(cmd.Context()); err != nil {
			return err
		}
		before, err := f.usage()
		if err != nil {
			return err
		}
		r := throughputReport{Bench: cmd.Name(), Client: clientName(f.options.Raw)}
		if r.Throughput, err = run(cmd.Context(), f.options); err != nil {
			return wrongRecords(err)
		}
		if r.Broker, err = f.spent(before, r.Bytes); err != nil {
			return err
		}
		return out.print(a.stdout, r, func(t *tabwriter.Writer) { throughputTable(t, r) })
	})
	return cmd
}

func throughputTable(t *tabwriter.Writer, r throughputReport) {
	row(t, r.Bench, "by "+r.Client)
	row(t, "moved", fmt.Sprintf("%d records, %s in %.2f s", r.Records, humanBytes(r.Bytes), r.Seconds))
	row(t, "rate", fmt.Sprintf("%.1f MiB/s", r.MiBPerSecond), fmt.Sprintf("%.0f records/s", r.RecordsPerSecond))
	if r.Latency.Count > 0 {
		row(t, "latency", latencyText(r.Latency))
	}
	spentRows(t, r.Broker)
}

func latencyText(l bench.Latency) string {
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, max %.2f ms", l.P50, l.P99, l.P999, l.Max)
}

func spentRows(t *tabwriter.Writer, s *bench.Spent) {
	if s == nil {
		return
	}
	text := fmt.Sprintf("%.2f s", s.CPUSeconds)
	if s.CPUPerGiB > 0 {
		text += fmt.Sprintf(", %.2f s/GiB", s.CPUPerGiB)
	}
	row(t, "broker CPU", text)
	row(t, "broker memory", fmt.Sprintf("%s resident, %s anonymous, %d threads", humanBytes(s.RSS), humanBytes(s.Anonymous), s.Threads))
}

func newBenchProduce(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "produce",
		Short:   "Write records as fast as they are taken, or at a rate",
		Example: "  firn bench produce --raw --acks 1 --batch 1MiB\n  firn bench produce --rate 5000 --clients 4 --partitions 8 -o json --pid $(pidof firn)",
	}
	f := addBench(cmd, "firn-bench").addTime().addClients().addRecords(0, "records a second over all clients; 0 is as fast as they are taken")
	cmd.Flags().BoolVar(&f.existing, "existing", false, "the topic is there: do not try to make it")
	return newThroughput(a, cmd, f, bench.Produce)
}

func newBenchConsume(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "consume",
		Short:   "Read a topic from its beginning to its end, over and over",
		Example: "  firn bench consume --raw --clients 4 --pid $(pidof firn)",
	}
	f := addBench(cmd, "firn-bench").addTime().addClients().addFetch()
	return newThroughput(a, cmd, f, bench.Consume)
}

// endToEndReport is the output of bench e2e.
type endToEndReport struct {
	Bench  string `json:"bench"`
	Client string `json:"client"`
	bench.EndToEndResult
	Broker *bench.Spent `json:"broker,omitempty"`
}

func newBenchEndToEnd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "e2e",
		Short:   "Measure from when a record is due to when a consumer has it",
		Example: "  firn bench e2e --raw --rate 5000 --acks 1 --duration 30s",
		Args:    cobra.NoArgs,
	}
	f := addBench(cmd, "firn-bench-tail").addTime().addRecords(5000, "records a second")
	out := addFormat(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		if err := f.prepare(cmd.Context()); err != nil {
			return err
		}
		before, err := f.usage()
		if err != nil {
			return err
		}
		tail, err := bench.NewEndToEnd(f.options)
		if err != nil {
			return exit(exitUsage, err)
		}
		r := endToEndReport{Bench: cmd.Name(), Client: clientName(f.options.Raw)}
		if r.EndToEndResult, err = tail.Run(cmd.Context()); err != nil {
			return wrongRecords(err)
		}
		if r.Broker, err = f.spent(before, 0); err != nil {
			return err
		}
		return out.print(a.stdout, r, func(t *tabwriter.Writer) {
			row(t, r.Bench, "by "+r.Client)
			row(t, "records", r.Records)
			row(t, "latency", latencyText(r.Latency))
			spentRows(t, r.Broker)
		})
	})
	return cmd
}
