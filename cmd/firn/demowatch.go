// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"firn/bench"
	"firn/record"
)

const (
	// demoWindowRate and demoWindowBytes are the consumer that is a little
	// behind.
	demoWindowRate  = 100
	demoWindowBytes = 64 << 10
	// demoSettle lies between two phases.
	demoSettle = 2 * time.Second
	// stripPause is the time between two looks at what is in memory.
	stripPause = 250 * time.Millisecond
)

// demoPhase is one band of the run. Times are in seconds since the tail began.
type demoPhase struct {
	Name   string        `json:"name"`
	From   float64       `json:"from_second"`
	To     float64       `json:"to_second"`
	Tail   bench.Latency `json:"tail"`
	Window bench.Latency `json:"window"`
	// The ratios are those of the p99 to that of the first phase.
	TailRatio   float64              `json:"tail_p99_ratio"`
	WindowRatio float64              `json:"window_p99_ratio"`
	Rate        float64              `json:"replay_mib_per_second"`
	Replays     []bench.ReplayResult `json:"replays"`
	Fetched     fetchedBytes         `json:"fetched_bytes"`
	// Resident is the least share of the hot set that was in memory.
	Resident float64 `json:"hot_resident_least"`
	// Noisy says that a real-time sleeper was late: the machine, or the one
	// beneath it, was busy with other things.
	Noisy  bool        `json:"noisy"`
	Broker bench.Spent `json:"broker"`
}

// stripRecorder notes how much of the hot set is in memory.
type stripRecorder struct {
	mu     sync.Mutex
	levels []bench.Level
}

func (s *stripRecorder) add(l bench.Level) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.levels = append(s.levels, l)
}

func (s *stripRecorder) all() []bench.Level {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]bench.Level{}, s.levels...)
}

// least is the lowest level between two seconds; 1 when there is none.
func (s *stripRecorder) least(from, to float64) float64 {
	least := 1.0
	for _, l := range s.all() {
		if l.Second >= from && l.Second <= to {
			least = min(least, l.Share)
		}
	}
	return least
}

func (d *demo) second() float64 { return time.Since(d.began).Seconds() }

// watch keeps the tail and the window reads going while the phases pass.
func (d *demo) watch(ctx context.Context) error {
	all, err := d.segments(ctx)
	if err != nil {
		return err
	}
	hot := int64(0)
	for _, s := range all {
		if s.Tier == "store" {
			hot = s.To
		}
	}
	d.tail, err = bench.NewEndToEnd(bench.Options{
		Broker: d.address, Topic: demoTailTopic, Raw: true, Acks: 1, Rate: d.rate,
		RecordBytes: demoRecordBytes, Duration: d.limit,
	})
	if err != nil {
		return err
	}
	d.window, err = bench.NewWindowReads(bench.WindowReads{
		Broker: d.address, Topic: demoTopic, From: record.Offset(hot), To: record.Offset(d.records),
		Rate: demoWindowRate, FetchBytes: demoWindowBytes,
	})
	if err != nil {
		return err
	}
	d.began = time.Now()
	group, failed := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(failed)
	group.Go(func() error { _, err := d.tail.Run(running); return err })
	group.Go(func() error { return d.window.Run(running) })
	group.Go(func() error { return d.recordStrip(running) })
	group.Go(func() error {
		defer stop()
		return d.runPhases(failed)
	})
	return group.Wait()
}

func (d *demo) recordStrip(ctx context.Context) error {
	ticker := time.NewTicker(stripPause)
	defer ticker.Stop()
	for {
		r, err := bench.MeasureResidency(d.io, d.hotDir())
		if err != nil {
			return fmt.Errorf("look at what is in memory: %w", err)
		}
		d.strip.add(bench.Level{Second: d.second(), Share: r.Share()})
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (d *demo) runPhases(ctx context.Context) error {
	fmt.Fprintf(d.out, "\n  The tail: %.0f records/s, from when a record is due to when the consumer has it; and %d random reads/s of the hot set.\n", d.rate, demoWindowRate)
	if err := d.settle(ctx); err != nil {
		return err
	}
	if err := d.phase(ctx, "alone", d.watchAlone); err != nil {
		return err
	}
	err := d.phase(ctx, "replay", func(ctx context.Context, p *demoPhase) error { return d.replayAll(ctx, p, d.address) })
	if err != nil {
		return err
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	return d.control(ctx)
}

func (d *demo) settle(ctx context.Context) error {
	d.noteDisk()
	select {
	case <-time.After(demoSettle):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// phase runs one band and sums up what was seen in it.
func (d *demo) phase(ctx context.Context, name string, run func(context.Context, *demoPhase) error) error {
	p := demoPhase{Name: name, From: d.second(), Replays: []bench.ReplayResult{}}
	before, err := d.fetchedBytes(ctx)
	if err != nil {
		return err
	}
	used, usageErr := bench.ReadUsage(d.broker.pid())
	// Without the right to a real-time priority no phase counts as noisy.
	gate, refused := bench.NewGate()
	from := time.Now()
	err = run(ctx, &p)
	to := time.Now()
	if refused == nil {
		p.Noisy = gate.Worst() > bench.GateLimit
		gate.Close()
	}
	if err != nil {
		return err
	}
	after, err := d.fetchedBytes(ctx)
	if err != nil {
		return err
	}
	p.To, p.Fetched = d.second(), after.since(before)
	// Where there is no /proc, the broker's use is left out.
	if now, err := bench.ReadUsage(d.broker.pid()); err == nil && usageErr == nil {
		p.Broker = now.Since(used, p.Fetched.Hot+p.Fetched.Warm+p.Fetched.Cold)
	}
	p.Tail, p.Window = d.tail.Latencies().Window(from, to).Summary(), d.window.Latencies().Window(from, to).Summary()
	p.Resident = d.strip.least(p.From, p.To)
	var moved int64
	for _, r := range p.Replays {
		moved += r.Bytes
	}
	p.Rate = float64(moved) / (1 << 20) / to.Sub(from).Seconds()
	if len(d.phases) > 0 && d.phases[0].Tail.P99 > 0 && d.phases[0].Window.P99 > 0 {
		p.TailRatio, p.WindowRatio = p.Tail.P99/d.phases[0].Tail.P99, p.Window.P99/d.phases[0].Window.P99
	}
	d.phases = append(d.phases, p)
	return nil
}

func (d *demo) watchAlone(ctx context.Context, _ *demoPhase) error {
	started := time.Now()
	ticker := time.NewTicker(drawPause)
	defer ticker.Stop()
	for {
		took := time.Since(started)
		full := int(min(took.Seconds()/d.alone.Seconds(), 1) * barWidth)
		line := fmt.Sprintf("  %-13s [%s%s] %s", "alone", strings.Repeat("#", full), strings.Repeat(".", barWidth-full),
			latencyText(d.tail.Latencies().Window(started, time.Now()).Summary()))
		if took >= d.alone {
			d.bars.done(line)
			return nil
		}
		d.bars.draw(line)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// replayAll reads the whole history with all replays at once, from a broker or
// a control, and wants every record.
func (d *demo) replayAll(ctx context.Context, p *demoPhase, address string) (err error) {
	started := time.Now()
	var running []*replayChild
	defer func() {
		for _, r := range running { // after a failure: those that did not fail
			if err != nil {
				_ = r.stop() // they end as a stopped command does
			}
		}
	}()
	for range d.replays {
		r, err := startReplay(address, demoTopic, "--verify", "--size", fmt.Sprint(demoRecordBytes), "--to", fmt.Sprint(d.records))
		if err != nil {
			return err
		}
		running = append(running, r)
	}
	ended := make(chan error, 1)
	p.Replays = make([]bench.ReplayResult, len(running))
	group, waiting := errgroup.WithContext(ctx)
	for i, r := range running {
		group.Go(func() error {
			var err error
			p.Replays[i], err = r.finish(waiting)
			return err
		})
	}
	go func() { ended <- group.Wait() }()
	ticker := time.NewTicker(drawPause)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
			d.bars.done(d.replayBars(p.Name, running, p.Replays, started)...)
			return d.checkReplays(p.Replays)
		case <-ticker.C:
			d.bars.draw(d.replayBars(p.Name, running, nil, started)...)
		}
	}
}

// replayBars is a bar for each replay, with its result once there is one.
func (d *demo) replayBars(name string, running []*replayChild, results []bench.ReplayResult, started time.Time) []string {
	lines := make([]string, len(running))
	for i, r := range running {
		at := r.progress()
		done, took := int64(at.Next)*demoRecordBytes, time.Since(started)
		if results != nil {
			done, took = results[i].Records*demoRecordBytes, time.Duration(results[i].Seconds*float64(time.Second))
		}
		lines[i] = bar(fmt.Sprintf("%s %d", name, i+1), done, d.bytes64(), took)
		if results != nil {
			lines[i] += fmt.Sprintf(", %d records verified, CRC-32 %s", results[i].Records, results[i].CRC32)
		}
	}
	return lines
}

// checkReplays wants from every replay all records and the same checksum.
// Each record's offset and bytes were compared by the replay itself.
func (d *demo) checkReplays(results []bench.ReplayResult) error {
	for i, r := range results {
		if r.Records != d.records || r.CRC32 != results[0].CRC32 {
			return exitf(exitFaulty, "replay %d has %d records with CRC-32 %s, want %d with %s", i+1, r.Records, r.CRC32, d.records, results[0].CRC32)
		}
	}
	return nil
}

// control replays the same history as a broker without tiers would serve it.
func (d *demo) control(ctx context.Context) (err error) {
	segments, objects, err := d.controlSegments(ctx)
	if err != nil {
		return err
	}
	if err := bench.DropFiles(d.io, objects); err != nil {
		return fmt.Errorf("take the objects out of memory: %w", err)
	}
	in, out := io.Pipe()
	read, write := io.Pipe()
	c, err := startChild([]string{"bench", "control", "--topic", demoTopic}, in, write)
	if err != nil {
		return err
	}
	defer func() {
		_ = out.Close() // pipes in memory: they cannot fail
		err = errors.Join(err, c.stop())
		_ = read.Close()
	}()
	if d.group != nil {
		if err := d.group.Add(c.pid()); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(out).Encode(segments); err != nil {
		return fmt.Errorf("tell the control its segments: %w", err)
	}
	address, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		return fmt.Errorf("start the control: %w\n%s", err, c.stderr)
	}
	return d.phase(ctx, "control", func(ctx context.Context, p *demoPhase) error {
		return d.replayAll(ctx, p, strings.TrimSpace(address))
	})
}
