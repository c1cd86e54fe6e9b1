// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"firn/bench"
	"firn/console"
	"firn/record"
)

// makeGroup bounds the memory of what is to serve, where the machine has more
// than eviction could show in, and may.
func (d *demo) makeGroup() {
	free, known := freeMemory()
	switch {
	case known && free < d.bytes64():
		d.why = fmt.Sprintf("%s of free memory are less than the history", humanBytes(free))
	case !d.demoFlags.group:
		d.why = "--memory-cgroup=false; this machine has memory for everything, so that the control cannot push the hot set out"
	case d.bytes64() < demoGroupLeast:
		d.why = fmt.Sprintf("a history of less than %s is too small to push anything out", humanBytes(demoGroupLeast))
	default:
		group, err := bench.NewMemoryGroup(filepath.Base(d.dir), d.hotBytes()+demoGroupSlack)
		if err != nil {
			d.why = fmt.Sprintf("it is not allowed here (%v); this machine has memory for everything, so that the control cannot push the hot set out", err)
			return
		}
		d.group = group
		d.onClose(group.Remove)
	}
}

// freeMemory is what the system could give to programs.
func freeMemory() (free int64, known bool) {
	file, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(file)) {
		if value, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}

// startBroker runs the broker as a process of its own, so that its CPU and
// memory are its own.
func (d *demo) startBroker(ctx context.Context) error {
	var admin string
	var err error
	d.broker, d.address, admin, err = startBroker(ctx, []string{
		"log.dirs=" + d.dataDir(),
		"listeners=PLAINTEXT://127.0.0.1:0",
		"admin.listeners=http://127.0.0.1:0",
		"tier.store=dir",
		"tier.dir.path=" + d.storeDir(),
		"tier.roll.ms=1s",
		"log.retention.check.interval.ms=500ms",
		"log.segment.delete.delay.ms=0",
	})
	if err != nil {
		return err
	}
	d.onClose(d.broker.stop)
	d.admin = &adminClient{addr: admin, timeout: 10 * time.Second}
	if d.group != nil {
		if err := d.group.Add(d.broker.pid()); err != nil {
			d.why = err.Error()
			d.group = nil // its removal is planned already
		}
	}
	fmt.Fprintf(d.out, "firn demo: do replays hurt the tail?\n")
	d.say("broker", "%s, process %d", d.address, d.broker.pid())
	d.say("store", "dir %s", d.storeDir())
	d.say("history", "%d records of %s: %s, of which the newest %s stay on the local disk", d.records, humanBytes(demoRecordBytes), humanBytes(d.bytes64()), humanBytes(d.hotBytes()))
	if d.group != nil {
		d.say("memory", "the broker and the control are bounded to %s by a cgroup, page cache included", humanBytes(d.group.Limit()))
	} else {
		d.say("memory", "%s", d.memoryText())
	}
	fmt.Fprintln(d.out)
	return nil
}

func (d *demo) createTopics(ctx context.Context) error {
	text := func(n int64) *string {
		s := strconv.FormatInt(n, 10)
		return &s
	}
	never := "false"
	client := &clientFlags{brokers: []string{d.address}, timeout: 30 * time.Second}
	return client.with(ctx, func(ctx context.Context, adm *kadm.Client) error {
		_, err := adm.CreateTopic(ctx, 1, 1, map[string]*string{
			"segment.bytes":         text(d.segmentBytes()),
			"local.retention.bytes": text(d.hotBytes()),
		}, demoTopic)
		if err != nil {
			return fmt.Errorf("create the topic %s: %w", demoTopic, err)
		}
		_, err = adm.CreateTopic(ctx, 1, 1, map[string]*string{
			"remote.storage.enable": &never,
			"segment.bytes":         text(16 << 20),
			"retention.bytes":       text(32 << 20),
		}, demoTailTopic)
		if err != nil {
			return fmt.Errorf("create the topic %s: %w", demoTailTopic, err)
		}
		return nil
	})
}

// segments is where the history is.
func (d *demo) segments(ctx context.Context) ([]console.Segment, error) {
	var all []console.Segment
	err := d.admin.get(ctx, "/v1/segments", url.Values{"topic": {demoTopic}}, &all)
	return all, err
}

// controlSegments are the files of the history as a broker without tiers would
// have them: the local logs, and below them the objects, each of which begins
// with its log.
func (d *demo) controlSegments(ctx context.Context) (all []bench.Segment, objects []string, err error) {
	listed, err := d.segments(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range listed {
		path := filepath.Join(d.hotDir(), fmt.Sprintf("%020d.log", s.From))
		switch s.Tier {
		case console.TierGap:
			return nil, nil, exitf(exitFaulty, "the history has a gap from offset %d to %d", s.From, s.To)
		case console.TierStore:
			path = filepath.Join(d.storeDir(), filepath.FromSlash(s.Key))
			objects = append(objects, path)
		}
		all = append(all, bench.Segment{From: record.Offset(s.From), To: record.Offset(s.To), Path: path, Size: s.Bytes})
	}
	return all, objects, nil
}

// fetched are the bytes that fetches were answered, by class.
type fetchedBytes struct {
	Hot  int64 `json:"hot"`
	Warm int64 `json:"warm"`
	Cold int64 `json:"cold"`
}

func (f fetchedBytes) since(before fetchedBytes) fetchedBytes {
	return fetchedBytes{f.Hot - before.Hot, f.Warm - before.Warm, f.Cold - before.Cold}
}

// fetchedBytes reads the broker's metrics.
func (d *demo) fetchedBytes(ctx context.Context) (fetchedBytes, error) {
	var f fetchedBytes
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.admin.addr+"/metrics", nil)
	if err != nil {
		return f, fmt.Errorf("read the metrics: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return f, fmt.Errorf("read the metrics: %w", err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a comment
		}
		switch name {
		case `firn_fetch_bytes_total{class="hot"}`:
			f.Hot = int64(n)
		case `firn_fetch_bytes_total{class="warm"}`:
			f.Warm = int64(n)
		case `firn_fetch_bytes_total{class="cold"}`:
			f.Cold = int64(n)
		}
	}
	return f, nil
}

// noteDisk remembers the most that the demo had on disk.
func (d *demo) noteDisk() {
	var sum int64
	_ = filepath.WalkDir(d.dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // files come and go meanwhile
		}
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	d.diskAt = max(d.diskAt, sum)
}

// load writes the history.
func (d *demo) load(ctx context.Context) error {
	started, last := time.Now(), time.Time{}
	var done int64
	err := bench.Load(ctx, bench.LoadOptions{
		Broker: d.address, Topic: demoTopic, Values: d.values, Records: d.records, BatchBytes: demoBatchBytes,
		Progress: func(records int64) {
			done = records * demoRecordBytes
			if now := time.Now(); now.Sub(last) >= drawPause {
				last = now
				d.bars.draw(bar("loading", done, d.bytes64(), now.Sub(started)))
			}
		},
	})
	if err != nil {
		return fmt.Errorf("load the history: %w", err)
	}
	d.bars.done(bar("loaded", done, d.bytes64(), time.Since(started)) + ", each batch synced")
	return nil
}

// awaitOffload waits until the store has everything but the open segment, and
// the local disk the newest part alone.
func (d *demo) awaitOffload(ctx context.Context) error {
	started := time.Now()
	ticker := time.NewTicker(demoPoll)
	defer ticker.Stop()
	for {
		all, err := d.segments(ctx)
		if err != nil {
			return err
		}
		var stored, objects, local int64
		for _, s := range all {
			if s.Tier == console.TierStore || s.Tier == console.TierBoth {
				stored, objects = stored+s.Bytes, objects+1
			}
			if s.Tier == console.TierLocal || s.Tier == console.TierBoth {
				local += s.Bytes
			}
		}
		d.noteDisk()
		d.bars.draw(bar("in the store", stored, d.bytes64(), time.Since(started)))
		if stored >= d.bytes64() && local <= d.hotBytes()+d.segmentBytes() {
			d.bars.done(fmt.Sprintf("  %-13s %s in %d objects %.1fs after the load; %s left on the local disk", "offloaded", humanBytes(stored), objects, time.Since(started).Seconds(), humanBytes(local)))
			return nil
		}
		select {
		case <-ticker.C:
		case <-d.broker.done:
			return fmt.Errorf("the broker has ended: %w\n%s", d.broker.err, d.broker.stderr)
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s of %s in the store, %s on the local disk", humanBytes(stored), humanBytes(d.bytes64()), humanBytes(local)), ctx.Err())
		}
	}
}
