// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
)

func TestRegionTellsWhenItWasAppended(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	defer closeStore(t, s)
	l := createLog(t, s, hot.LogOptions{})
	before := time.Now()
	appendBatch(t, l, 3)
	between := time.Now()
	appendBatch(t, l, 2)
	after := time.Now()
	for _, c := range []struct {
		from     int64
		low, top time.Time
	}{{0, before, between}, {2, before, between}, {3, between, after}} {
		r, err := l.Read(record.Offset(c.from), 5, 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		at, ok := r.AppendedAt()
		r.Release()
		if !ok || at.Before(c.low) || at.After(c.top) {
			t.Errorf("offset %d: appended at %v, %v, want %v to %v", c.from, at, ok, c.low, c.top)
		}
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := openStore(t, vfs.NewMem(), func(o *hot.Options) { o.Registerer = reg })
	defer closeStore(t, s)
	l := createLog(t, s, hot.LogOptions{})
	done := appendBatch(t, l, 3)
	if err := l.WaitDurable(context.Background(), done.NextOffset); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.Metric[0]
		switch {
		case m.Gauge != nil:
			got[f.GetName()] = m.Gauge.GetValue()
		case m.Histogram != nil:
			got[f.GetName()] = float64(m.Histogram.GetSampleCount())
		}
	}
	// Files in memory have no descriptor, so that nothing is known of the page cache.
	for name, want := range map[string]float64{"firn_hot_resident_ratio": 1, "firn_log_flush_seconds": 1, "firn_local_log_bytes": float64(l.Size())} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if got["firn_disk_free_bytes"] <= 0 || got["firn_disk_total_bytes"] < got["firn_disk_free_bytes"] {
		t.Errorf("disk: %v", got)
	}
}

// TestResidentRatioOnDisk asks the kernel about pages that were just written.
func TestResidentRatioOnDisk(t *testing.T) {
	dir := t.TempDir()
	io, err := vfs.ProbeIO(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, vfs.Disk(), func(o *hot.Options) { o.Dir, o.IO = dir, io })
	defer closeStore(t, s)
	l := createLog(t, s, hot.LogOptions{})
	for range 50 {
		appendBatch(t, l, 10)
	}
	if got := s.ResidentRatio(); got != 1 {
		t.Errorf("%v of what was just written is resident", got)
	}
}
