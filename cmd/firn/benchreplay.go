// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"firn/bench"
	"firn/record"
)

// replayReport is the output of bench replay.
type replayReport struct {
	Bench        string               `json:"bench"`
	Client       string               `json:"client"`
	MiBPerSecond float64              `json:"mib_per_second"`
	Bytes        int64                `json:"bytes"`
	Replays      []bench.ReplayResult `json:"replays"`
	Broker       *bench.Spent         `json:"broker,omitempty"`
}

// replayLine is one line of bench replay --progress: how far it is, or at last
// what came of it.
type replayLine struct {
	Progress *bench.ReplayProgress `json:"progress,omitempty"`
	Result   *bench.ReplayResult   `json:"result,omitempty"`
	Error    string                `json:"error,omitempty"`
	// Wrong says that the error is about the records.
	Wrong bool `json:"wrong,omitempty"`
}

type replayFlags struct {
	*benchFlags
	clients   int
	partition int32
	from, to  int64
	verify    bool
	nice      bool
	progress  bool
}

func newBenchReplay(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Read a partition from an offset to its end, and check what comes",
		Long: "Read a partition from an offset to its end, as fast as it comes. Offsets must have no gaps, and with --raw the checksum of\n" +
			"every batch must be right; --verify also compares each record with what firn demo wrote.",
		Example: "  firn bench replay --topic clicks --raw --clients 4",
		Args:    cobra.NoArgs,
	}
	f := &replayFlags{benchFlags: addBench(cmd, "firn-bench").addFetch()}
	flags := cmd.Flags()
	flags.IntVar(&f.clients, "clients", 1, "replays at once, each of everything")
	flags.Int32Var(&f.partition, "partition", 0, "partition to read")
	flags.Int64Var(&f.from, "from", 0, "first `offset`")
	flags.Int64Var(&f.to, "to", 0, "`offset` to stop at, with the answer that reaches it; 0 is where the partition ends now")
	flags.BoolVar(&f.verify, "verify", false, "compare each record with what firn demo wrote")
	flags.StringVar(&f.record, "size", f.record, "with --verify, `size` of a record's value")
	flags.BoolVar(&f.nice, "nice", false, "run at the lowest priority, as if on another machine")
	flags.BoolVar(&f.progress, "progress", false, "print a line of JSON now and then")
	out := addFormat(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		if err := f.parse(); err != nil {
			return err
		}
		if f.nice {
			lowerPriority()
		}
		if f.progress {
			return f.runLines(cmd.Context(), a.stdout)
		}
		r, err := f.run(cmd.Context(), cmd.Name())
		if err != nil {
			return wrongRecords(err)
		}
		return out.print(a.stdout, r, func(t *tabwriter.Writer) { replayTable(t, r) })
	})
	return cmd
}

func (f *replayFlags) replayOptions() (bench.ReplayOptions, error) {
	o := bench.ReplayOptions{
		Broker: f.options.Broker, Topic: f.options.Topic, Partition: f.partition, Raw: f.options.Raw,
		FetchBytes: f.options.FetchBytes, From: record.Offset(f.from), To: record.Offset(f.to),
	}
	if !f.verify {
		return o, nil
	}
	var err error
	if o.Values, err = bench.NewValues(f.options.RecordBytes); err != nil {
		return o, exit(exitUsage, err)
	}
	return o, nil
}

// run replays with all clients.
func (f *replayFlags) run(ctx context.Context, name string) (replayReport, error) {
	r := replayReport{Bench: name, Client: clientName(f.options.Raw), Replays: make([]bench.ReplayResult, max(f.clients, 1))}
	o, err := f.replayOptions()
	if err != nil {
		return r, err
	}
	before, err := f.usage()
	if err != nil {
		return r, err
	}
	started := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range r.Replays {
		group.Go(func() error {
			result, err := bench.Replay(ctx, o)
			r.Replays[i] = result
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return r, err
	}
	took := time.Since(started).Seconds()
	for _, one := range r.Replays {
		r.Bytes += one.Bytes
	}
	r.MiBPerSecond = float64(r.Bytes) / (1 << 20) / took
	r.Broker, err = f.spent(before, r.Bytes)
	return r, err
}

func replayTable(t *tabwriter.Writer, r replayReport) {
	row(t, r.Bench, "by "+r.Client)
	row(t, "moved", fmt.Sprintf("%s in all, %.1f MiB/s", humanBytes(r.Bytes), r.MiBPerSecond))
	for i, one := range r.Replays {
		row(t, fmt.Sprintf("replay %d", i+1), fmt.Sprintf("%d records, first after %.1f ms, %.1f MiB/s", one.Records, one.FirstMs, one.MiBPerSecond))
	}
	spentRows(t, r.Broker)
}

// progressPause is the time between two lines of progress.
const progressPause = 100 * time.Millisecond

// runLines replays once and tells how far it is, for a parent process.
func (f *replayFlags) runLines(ctx context.Context, out io.Writer) error {
	o, err := f.replayOptions()
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	var last time.Time
	var broken error // nobody reads
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.Progress = func(p bench.ReplayProgress) {
		if now := time.Now(); now.Sub(last) >= progressPause && broken == nil {
			last = now
			if broken = enc.Encode(replayLine{Progress: &p}); broken != nil {
				cancel()
			}
		}
	}
	result, err := bench.Replay(ctx, o)
	if err != nil {
		return wrongRecords(errors.Join(err, enc.Encode(replayLine{Error: err.Error(), Wrong: errors.Is(err, bench.ErrRecords)})))
	}
	return enc.Encode(replayLine{Result: &result})
}

// newBenchControl is what firn demo compares a broker with. It reads its
// segments as JSON from standard input, prints its address, and serves until
// its input ends.
func newBenchControl(a *app) *cobra.Command {
	var topic string
	cmd := &cobra.Command{
		Use:    "control",
		Short:  "Serve replays as a broker without tiers does",
		Hidden: true,
		Args:   cobra.NoArgs,
	}
	cmd.Flags().StringVar(&topic, "topic", demoTopic, "`name` of the topic")
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		in := json.NewDecoder(cmd.InOrStdin())
		var segments []bench.Segment
		if err := in.Decode(&segments); err != nil {
			return exitf(exitUsage, "read the segments: %w", err)
		}
		control, err := bench.NewControl(topic, segments)
		if err != nil {
			return exit(exitUsage, err)
		}
		fmt.Fprintln(a.stdout, control.Address())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // its end is what counts, however it comes
		}()
		select {
		case <-ended:
		case <-cmd.Context().Done():
		}
		return control.Close()
	})
	return cmd
}
