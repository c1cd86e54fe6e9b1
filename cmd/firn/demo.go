// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"firn/bench"
	"firn/config"
	"firn/internal/vfs"
)

const (
	demoTopic     = "history"
	demoTailTopic = "tail"
	// demoRecordBytes is the size of one record's value.
	demoRecordBytes = 1 << 10
	// demoBatchBytes is the size of a batch of the history: no fetch of
	// anything within it is answered with less.
	demoBatchBytes = 64 << 10
	// demoSegments is about how many segments the history makes, and
	// demoHotShare the part of it that stays on the local disk.
	demoSegments = 32
	demoHotShare = 4
	// demoPoll is how often the demo looks at the broker.
	demoPoll = 100 * time.Millisecond
	// demoDefaultBytes is the history where the disk has room for it, which
	// is demoDiskPart times as much: what the demo itself takes is less than
	// half as much again.
	demoDefaultBytes = 2 << 30
	demoLeastBytes   = 16 << 20
	demoMostBytes    = 2300 << 20
	demoDiskPart     = 3
	// demoGroupSlack is what the broker's memory is bounded to beyond the hot
	// set, and demoGroupLeast the smallest history with which that shows.
	demoGroupSlack = 512 << 20
	demoGroupLeast = 512 << 20
)

// demoFlags are the choices that firn demo offers.
type demoFlags struct {
	bytes   string
	replays int
	rate    float64
	alone   time.Duration
	limit   time.Duration
	report  string
	group   bool
	ratio   float64
}

func newDemoCommand(a *app) *cobra.Command {
	f := demoFlags{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show on this machine that replays leave the tail alone",
		Long: "Run a broker with an object store in a temporary directory, load a history and watch it move into the store. Then measure a\n" +
			"tail alone, under replays of everything from offset 0, and under the same replays served as a broker without tiers does:\n" +
			"from local files, through the page cache. Every replayed record is verified. Ends with exit code 6 if a record was wrong\n" +
			"or a bound was broken.",
		Example: "  firn demo\n  firn demo --bytes 512MiB --replays 8 --report ./report",
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.bytes, "bytes", "", "how much history to write, as a `size` (default 2GiB, or what the disk has room for)")
	flags.IntVar(&f.replays, "replays", 4, "replays at once")
	flags.Float64Var(&f.rate, "rate", 5000, "records a second of the tail")
	flags.DurationVar(&f.alone, "alone", 10*time.Second, "how long to watch the tail alone")
	flags.DurationVar(&f.limit, "timeout", 2*time.Minute, "give up after this `time`")
	flags.StringVar(&f.report, "report", "", "`directory` for the report (default a new temporary one)")
	flags.BoolVar(&f.group, "memory-cgroup", true, "bound the memory of the broker by a cgroup where this machine has too much for eviction to show")
	flags.Float64Var(&f.ratio, "max-ratio", 3, "how much slower the tail's p99 may be under replays before the exit code is 6; 0 is no bound")
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		records, err := f.records()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), f.limit)
		defer cancel()
		d := &demo{demoFlags: f, out: a.stdout, bars: newBars(a.stdout), records: records, started: time.Now()}
		err = d.run(ctx)
		if err != nil && cmd.Context().Err() != nil {
			return exitf(exitFailed, "interrupted") // what broke off where says nothing
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return exitf(exitFaulty, "the demo was not over within %v (--timeout): %w", f.limit, err)
		}
		return wrongRecords(err)
	})
	return cmd
}

// records is how many make the history.
func (f *demoFlags) records() (int64, error) {
	if f.replays < 1 || f.rate <= 0 || f.alone < time.Second || f.limit <= 0 || f.ratio < 0 {
		return 0, exitf(exitUsage, "want at least one replay, a positive rate and timeout, --alone of a second or more, and no negative ratio")
	}
	if f.bytes != "" {
		n, err := config.ParseBytes(f.bytes)
		if err != nil || n < demoLeastBytes || n > demoMostBytes {
			return 0, exitf(exitUsage, "--bytes %q: want a size from %s to %s", f.bytes, humanBytes(demoLeastBytes), humanBytes(demoMostBytes))
		}
		return n / demoRecordBytes, nil
	}
	usage, err := vfs.Disk().Usage(os.TempDir())
	if err != nil {
		return 0, fmt.Errorf("ask for the free space of the temporary directory: %w", err)
	}
	n := min(int64(usage.Free)/demoDiskPart, demoDefaultBytes)
	if n < demoLeastBytes {
		return 0, exitf(exitFailed, "%s has %s free, which is too little: set TMPDIR to another directory", os.TempDir(), humanBytes(int64(usage.Free)))
	}
	return n / demoRecordBytes, nil
}

// demo is one run.
type demo struct {
	demoFlags
	out     io.Writer
	bars    *bars
	records int64
	started time.Time

	dir     string
	io      *vfs.IO
	values  *bench.Values
	group   *bench.MemoryGroup // nil when there is none
	why     string             // there is none
	broker  *child
	address string
	admin   *adminClient
	closers []func() error

	// The timeline begins when the tail does.
	began  time.Time
	tail   *bench.EndToEnd
	window *bench.WindowReads
	strip  stripRecorder
	phases []demoPhase
	diskAt int64 // most bytes on disk that were seen
}

// run is the whole demo. Whatever happens, it ends with no process and no file
// left, apart from the report.
func (d *demo) run(ctx context.Context) (err error) {
	defer func() {
		for _, c := range backward(d.closers) {
			err = errors.Join(err, c())
		}
	}()
	for _, step := range []func(context.Context) error{
		d.prepare, d.startBroker, d.createTopics, d.load, d.awaitOffload, d.watch,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return d.conclude()
}

func backward[T any](all []T) []T {
	out := make([]T, 0, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		out = append(out, all[i])
	}
	return out
}

func (d *demo) onClose(c func() error) { d.closers = append(d.closers, c) }

func (d *demo) bytes64() int64 { return d.records * demoRecordBytes }

// hotBytes is what stays local.
func (d *demo) hotBytes() int64 { return d.bytes64() / demoHotShare }

func (d *demo) segmentBytes() int64 { return max(1<<20, d.bytes64()/demoSegments) }

func (d *demo) dataDir() string  { return filepath.Join(d.dir, "data") }
func (d *demo) storeDir() string { return filepath.Join(d.dir, "store") }

// hotDir is where the local segments of the history are.
func (d *demo) hotDir() string { return filepath.Join(d.dataDir(), demoTopic+"-0") }

func (d *demo) say(what, format string, args ...any) {
	fmt.Fprintf(d.out, "  %-13s %s\n", what, fmt.Sprintf(format, args...))
}

func (d *demo) prepare(context.Context) error {
	var err error
	if d.dir, err = os.MkdirTemp("", "firn-demo-"); err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	d.onClose(func() error { return os.RemoveAll(d.dir) })
	if d.report == "" {
		if d.report, err = os.MkdirTemp("", "firn-report-"); err != nil {
			return fmt.Errorf("make a directory for the report: %w", err)
		}
		// It goes with a demo that ended before there was one.
		d.onClose(func() error { _ = os.Remove(d.report); return nil })
	} else if err = os.MkdirAll(d.report, 0o755); err != nil {
		return fmt.Errorf("make a directory for the report: %w", err)
	}
	if d.io, err = vfs.ProbeIO(d.dir, ""); err != nil {
		return fmt.Errorf("probe the I/O methods of %s: %w", d.dir, err)
	}
	if d.values, err = bench.NewValues(demoRecordBytes); err != nil {
		return err
	}
	d.makeGroup()
	return nil
}
