// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"firn/bench"
)

// isolationReport is the output of bench isolation.
type isolationReport struct {
	Bench   string           `json:"bench"`
	Replays int              `json:"replays"`
	Rounds  []isolationRound `json:"rounds"`
	// P99 is the ratio of the tail's p99 under replays to that alone, over the
	// rounds that count: the quiet ones, or all where none was or Gate says
	// that this could not be told.
	P99          bench.Ratio  `json:"p99_ratio"`
	Gate         string       `json:"gate"`
	MiBPerSecond float64      `json:"replay_mib_per_second"` // median over the rounds
	Broker       *bench.Spent `json:"broker,omitempty"`
}

// isolationRound is one pair: the tail alone, and under replays.
type isolationRound struct {
	Alone        bench.Latency `json:"alone"`
	Replayed     bench.Latency `json:"replayed"`
	Ratio        float64       `json:"ratio"`
	MiBPerSecond float64       `json:"replay_mib_per_second"`
	// Late is how late a real-time sleeper was in the round; it counts as
	// noisy from bench.GateLimit on.
	Late  float64 `json:"sleeper_late_ms"`
	Noisy bool    `json:"noisy"`
}

type isolationFlags struct {
	*benchFlags
	history string
	replays int
	rounds  int
	phase   time.Duration
}

func newBenchIsolation(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "isolation",
		Short: "Measure what replays do to the tail",
		Long: "Run a tail, and beside it in every second phase replays of a history, over and over, each a process of its own at the lowest\n" +
			"priority. Each round has both phases, every second round in the other order. The figure is the median over the rounds of\n" +
			"the ratio of the tail's p99, with its 80 % bootstrap interval; see docs/BENCHMARKS.md.",
		Example: "  firn bench isolation --history clicks --replays 4 --rounds 15 --raw",
		Args:    cobra.NoArgs,
	}
	f := &isolationFlags{benchFlags: addBench(cmd, "firn-bench-tail").addRecords(5000, "records a second of the tail")}
	flags := cmd.Flags()
	flags.StringVar(&f.history, "history", "firn-bench", "`topic` whose partition 0 is replayed")
	flags.IntVar(&f.replays, "replays", 4, "replays at once")
	flags.IntVar(&f.rounds, "rounds", 5, "rounds of two phases")
	flags.DurationVar(&f.phase, "phase", 5*time.Second, "how long a phase is")
	out := addFormat(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		if f.rounds < 1 || f.replays < 1 || f.phase <= 0 {
			return exitf(exitUsage, "--rounds, --replays and --phase: want positive ones")
		}
		f.options.Duration = time.Duration(f.rounds)*2*f.phase + time.Minute
		if err := f.prepare(cmd.Context()); err != nil {
			return err
		}
		r, err := f.run(cmd.Context(), cmd.Name())
		if err != nil {
			return wrongRecords(err)
		}
		return out.print(a.stdout, r, func(t *tabwriter.Writer) { isolationTable(t, r) })
	})
	return cmd
}

// run keeps the tail going over all rounds.
func (f *isolationFlags) run(ctx context.Context, name string) (isolationReport, error) {
	r := isolationReport{Bench: name, Replays: f.replays}
	before, err := f.usage()
	if err != nil {
		return r, err
	}
	tail, err := bench.NewEndToEnd(f.options)
	if err != nil {
		return r, exit(exitUsage, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := tail.Run(running)
		if err != nil {
			cancel(err)
		}
		ended <- err
	}()
	gate, refused := bench.NewGate()
	for i := range f.rounds {
		var round isolationRound
		if round, err = f.round(ctx, tail, i%2 == 1); err != nil {
			break
		}
		if refused == nil {
			late := gate.Worst()
			round.Late, round.Noisy = float64(late)/float64(time.Millisecond), late > bench.GateLimit
		}
		r.Rounds = append(r.Rounds, round)
	}
	if refused == nil {
		gate.Close()
	}
	stop()
	if err := errors.Join(<-ended, err); err != nil {
		return r, err
	}
	r.sumUp(refused)
	r.Broker, err = f.spent(before, 0)
	return r, err
}

// sumUp takes the quiet rounds, if there are any.
func (r *isolationReport) sumUp(refused error) {
	var quiet, all, rates []float64
	for _, round := range r.Rounds {
		all, rates = append(all, round.Ratio), append(rates, round.MiBPerSecond)
		if !round.Noisy {
			quiet = append(quiet, round.Ratio)
		}
	}
	r.MiBPerSecond = bench.Median(rates)
	switch {
	case refused != nil:
		r.Gate = fmt.Sprintf("none, all rounds count: %v", refused)
	case len(quiet) == 0:
		r.Gate = "no round was quiet: all count, and say little"
	default:
		r.Gate = fmt.Sprintf("%d of %d rounds were quiet and count", len(quiet), len(all))
		all = quiet
	}
	r.P99 = bench.NewRatio(all)
}

func (f *isolationFlags) round(ctx context.Context, tail *bench.EndToEnd, replayFirst bool) (isolationRound, error) {
	var r isolationRound
	for _, replayed := range []bool{replayFirst, !replayFirst} {
		latency, rate, err := f.phaseOf(ctx, tail, replayed)
		if err != nil {
			return r, err
		}
		if replayed {
			r.Replayed, r.MiBPerSecond = latency, rate
		} else {
			r.Alone = latency
		}
	}
	if r.Alone.P99 > 0 {
		r.Ratio = r.Replayed.P99 / r.Alone.P99
	}
	return r, nil
}

// phaseOf watches the tail for one phase, in which replays may run.
func (f *isolationFlags) phaseOf(ctx context.Context, tail *bench.EndToEnd, replayed bool) (bench.Latency, float64, error) {
	from := time.Now()
	over, cancel := context.WithTimeout(ctx, f.phase)
	defer cancel()
	moved := make(chan int64)
	failed := make(chan error, f.replays)
	running := 0
	if replayed {
		running = f.replays
		for range f.replays {
			go func() {
				n, err := f.replayOver(over)
				failed <- err
				moved <- n
			}()
		}
	}
	<-over.Done()
	to := time.Now()
	var bytes int64
	var errs []error
	for range running {
		errs = append(errs, <-failed)
		bytes += <-moved
	}
	if err := errors.Join(append(errs, context.Cause(ctx))...); err != nil {
		return bench.Latency{}, 0, err
	}
	rate := float64(bytes) / (1 << 20) / to.Sub(from).Seconds()
	return tail.Latencies().Window(from, to).Summary(), rate, nil
}

// replayOver replays the history over and over until ctx ends, and says how
// many bytes it has read.
func (f *isolationFlags) replayOver(ctx context.Context) (int64, error) {
	var bytes int64
	for ctx.Err() == nil {
		child, err := startReplay(f.options.Broker, f.history)
		if err != nil {
			return bytes, err
		}
		result, err := child.finish(ctx)
		if ctx.Err() != nil {
			return bytes + child.progress().Bytes, nil // cut short
		}
		if err != nil {
			return bytes, err
		}
		bytes += result.Bytes
	}
	return bytes, nil
}

func isolationTable(t *tabwriter.Writer, r isolationReport) {
	row(t, "round", "alone p50", "p99", fmt.Sprintf("under %d replays p50", r.Replays), "p99", "ratio", "replay MiB/s", "")
	for i, round := range r.Rounds {
		row(t, i+1, ms(round.Alone.P50), ms(round.Alone.P99), ms(round.Replayed.P50), ms(round.Replayed.P99),
			fmt.Sprintf("%.2f", round.Ratio), fmt.Sprintf("%.0f", round.MiBPerSecond), map[bool]string{true: "noisy"}[round.Noisy])
	}
	row(t, "median", "", "", "", "", fmt.Sprintf("%.2f (%.2f to %.2f)", r.P99.Median, r.P99.Low, r.P99.High), fmt.Sprintf("%.0f", r.MiBPerSecond), "")
	row(t, "gate", r.Gate)
	spentRows(t, r.Broker)
}

func ms(v float64) string { return fmt.Sprintf("%.2f ms", v) }
