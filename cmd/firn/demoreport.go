// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"firn/bench"
)

const (
	// demoFloor is a p99 in ms that breaks no bound, whatever the ratio: on a
	// machine with other work, a ratio of small figures says nothing.
	demoFloor = 10.0
	// demoKept is the share of what was in memory of the hot set that must
	// stay there under replays.
	demoKept = 0.95
	// demoDisk bounds what the demo may have on disk.
	demoDisk = 3 << 30
	// demoChart is the width of the chart.
	demoChart = 100
)

// demoReport is report.json.
type demoReport struct {
	Version    string         `json:"version"`
	Time       time.Time      `json:"time"`
	CPUs       int            `json:"cpus"`
	Bytes      int64          `json:"history_bytes"`
	HotBytes   int64          `json:"hot_bytes"`
	Records    int64          `json:"records"`
	Replays    int            `json:"replays"`
	Rate       float64        `json:"tail_records_per_second"`
	Memory     string         `json:"memory"`
	MemoryMax  int64          `json:"memory_cgroup_bytes,omitempty"`
	Seconds    float64        `json:"seconds"`
	DiskBytes  int64          `json:"disk_bytes_most"`
	Phases     []demoPhase    `json:"phases"`
	Tail       []bench.Second `json:"tail_per_second"`
	Window     []bench.Second `json:"window_per_second"`
	Residency  []bench.Level  `json:"hot_resident"`
	Faults     []string       `json:"bounds_broken"`
	PictureSVG string         `json:"picture"`
}

// conclude prints what was seen, writes the report and holds it against the
// bounds.
func (d *demo) conclude() error {
	picture := d.picture()
	if err := d.table(); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\n  the tail's p99 by second; below, how much of the hot set is in memory (0 none, 9 nine tenths, * all)\n\n%s\n", picture.Chart(demoChart))
	faults := d.brokenBounds()
	if err := d.writeReport(picture, faults); err != nil {
		return err
	}
	d.say("verified", "%d records in %d replays: none missing, doubled, out of order or changed", d.records*int64(2*d.replays), 2*d.replays)
	if d.noisy() {
		d.say("noise", "this machine was busy with other things: the tail's latencies are shown, and not held against a bound")
	}
	d.say("report", "%s, %s", filepath.Join(d.report, "report.svg"), filepath.Join(d.report, "report.json"))
	if len(faults) > 0 {
		return exitf(exitFaulty, "%s", strings.Join(faults, "\n"))
	}
	return nil
}

func (d *demo) picture() *bench.Picture {
	p := &bench.Picture{
		Title: fmt.Sprintf("Tail latency under %d replays of %s", d.replays, humanBytes(d.bytes64())),
		Strip: d.strip.all(),
		Note:  fmt.Sprintf("%.0f records/s of %s, from when a record is due; p99 of each second; %d CPUs; memory: %s", d.rate, humanBytes(demoRecordBytes), runtime.NumCPU(), d.memoryText()),
	}
	names := map[string]string{"replay": "replays from Firn", "control": "same replays, no tiers", "alone": "tail alone"}
	for _, phase := range d.phases {
		p.Bands = append(p.Bands, bench.Band{Name: names[phase.Name], From: phase.From, To: phase.To})
	}
	shift := func(s *bench.Series) float64 { return s.Start().Sub(d.began).Seconds() }
	p.Lines = []bench.Line{
		bench.LineOf("tail, due to received", d.tail.Latencies(), shift(d.tail.Latencies())),
		bench.LineOf("random reads of the hot set", d.window.Latencies(), shift(d.window.Latencies())),
	}
	return p
}

func (d *demo) memoryText() string {
	if d.group != nil {
		return "bounded to " + humanBytes(d.group.Limit())
	}
	return "no cgroup: " + d.why
}

func (d *demo) table() error {
	fmt.Fprintln(d.out)
	t := tabwriter.NewWriter(d.out, 0, 8, 2, ' ', tabwriter.AlignRight)
	row(t, "", "tail p50", "p99", "p99.9", "p99 ratio", "hot reads p99", "ratio", "replay MiB/s", "hot", "warm", "cold", "hot set in RAM", "broker CPU", "")
	for _, p := range d.phases {
		ratio, windowRatio, rate := "1.0", "1.0", "-"
		if len(p.Replays) > 0 {
			ratio, windowRatio, rate = fmt.Sprintf("%.1f", p.TailRatio), fmt.Sprintf("%.1f", p.WindowRatio), fmt.Sprintf("%.0f", p.Rate)
		}
		row(t, p.Name, ms(p.Tail.P50), ms(p.Tail.P99), ms(p.Tail.P999), ratio, ms(p.Window.P99), windowRatio, rate,
			humanBytes(p.Fetched.Hot), humanBytes(p.Fetched.Warm), humanBytes(p.Fetched.Cold),
			fmt.Sprintf("%.1f%%", p.Resident*100), fmt.Sprintf("%.1f s", p.Broker.CPUSeconds), "")
	}
	return t.Flush()
}

// noisy tells that the machine was too busy with other things for the tail to
// be judged.
func (d *demo) noisy() bool { return d.phases[0].Noisy || d.phases[1].Noisy }

// brokenBounds says what is not as Firn promises, or the demo itself.
func (d *demo) brokenBounds() []string {
	faults := []string{}
	alone, replayed := d.phases[0], d.phases[1]
	if d.ratio > 0 && !d.noisy() && replayed.Tail.P99 > max(d.ratio*alone.Tail.P99, demoFloor) {
		faults = append(faults, fmt.Sprintf("the tail's p99 was %.2f ms under replays and %.2f ms alone: more than %v times (--max-ratio)", replayed.Tail.P99, alone.Tail.P99, d.ratio))
	}
	if replayed.Resident < demoKept*alone.Resident {
		faults = append(faults, fmt.Sprintf("replays left %.1f%% of the hot set in memory, of %.1f%% before", replayed.Resident*100, alone.Resident*100))
	}
	if d.diskAt > demoDisk {
		faults = append(faults, fmt.Sprintf("%s were on disk at once, more than %s", humanBytes(d.diskAt), humanBytes(demoDisk)))
	}
	return faults
}

func (d *demo) writeReport(picture *bench.Picture, faults []string) error {
	r := demoReport{
		Version: buildVersion().Version, Time: d.started.UTC(), CPUs: runtime.NumCPU(),
		Bytes: d.bytes64(), HotBytes: d.hotBytes(), Records: d.records, Replays: d.replays, Rate: d.rate,
		Memory: d.memoryText(), Seconds: time.Since(d.started).Seconds(), DiskBytes: d.diskAt,
		Phases: d.phases, Tail: d.tail.Latencies().Seconds(), Window: d.window.Latencies().Seconds(),
		Residency: d.strip.all(), Faults: faults, PictureSVG: "report.svg",
	}
	if d.group != nil {
		r.MemoryMax = d.group.Limit()
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	for name, content := range map[string][]byte{"report.json": append(text, '\n'), "report.svg": picture.SVG()} {
		if err := os.WriteFile(filepath.Join(d.report, name), content, 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}
