// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"firn/hot"
	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
	"firn/record/recordtest"
)

const stopFile = logDir + "/firn-clean-stop"

// fileCalls counts what goes through fs below partition directories.
type fileCalls struct {
	mu    sync.Mutex
	calls map[faultfs.Op]int
	read  map[string]int64 // bytes by the path's suffix
}

func watchPartition(inner vfs.FS) (*faultfs.FS, *fileCalls) {
	f, w := faultfs.New(inner), &fileCalls{calls: map[faultfs.Op]int{}, read: map[string]int64{}}
	f.Hook(func(c faultfs.Call) *faultfs.Fault {
		w.mu.Lock()
		defer w.mu.Unlock()
		if rel, err := filepath.Rel(logDir, c.Path); err != nil || !strings.Contains(rel, "-") || rel == filepath.Base(rel) && strings.Contains(rel, "checkpoint") || rel == filepath.Base(stopFile) {
			return nil
		}
		w.calls[c.Op]++
		if c.Op == faultfs.OpRead {
			w.read[filepath.Ext(c.Path)] += int64(c.Len)
		}
		return nil
	})
	return f, w
}

// stopClean fills a log of several segments, epochs and producers and stops its
// store clean. It answers the batches.
func stopClean(t testing.TB, mem vfs.FS) []stored {
	t.Helper()
	s := openStore(t, mem)
	l := createLog(t, s, smallSegments())
	for i := range int32(25) {
		b := recordtest.Batch(0, recordtest.Count(10), recordtest.Producer(5, 0, i*10), recordtest.Timestamp(int64(i)))
		if _, err := l.Append(b, record.Epoch(i/8)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.SetLogStartOffset(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	want := readAll(t, l, 1<<20)
	closeStore(t, s)
	return want
}

// repairs are the counts of firn_log_repairs_total and those of the scans.
func repairs(t testing.TB, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			switch {
			case f.GetName() == "firn_log_repairs_total" && m.Counter.GetValue() > 0:
				got[m.Label[0].GetValue()] = m.Counter.GetValue()
			case f.GetName() == "firn_log_recoveries_total", f.GetName() == "firn_log_recovered_bytes_total":
				got[f.GetName()] = m.Counter.GetValue()
			}
		}
	}
	return got
}

// After a clean stop a log opens by what the stop wrote down: two files are
// looked at, and none is opened.
func TestACleanStartOpensNoFile(t *testing.T) {
	mem := vfs.NewMem()
	want := stopClean(t, mem)
	f, w := watchPartition(mem)
	s := openStore(t, f)
	l := openLog(t, s, smallSegments())
	w.mu.Lock()
	for op, n := range w.calls {
		if op != faultfs.OpStat || n > 2 {
			t.Errorf("%d calls of %v", n, op)
		}
	}
	w.mu.Unlock()
	if !s.Clean() || l.EndOffset() != 250 || l.DurableOffset() != 250 || l.LogStartOffset() != 7 || l.MaxProducerID() != 5 {
		t.Errorf("clean %v, end %d, durable %d, log start %d, producer %d", s.Clean(), l.EndOffset(), l.DurableOffset(), l.LogStartOffset(), l.MaxProducerID())
	}
	if got := readAll(t, l, 1<<20); !slices.Equal(got, want) {
		t.Error("the batches are others than before the stop")
	}
	if got := l.Epochs(); len(got) != 4 || got[3] != (record.EpochEntry{Epoch: 3, StartOffset: 240}) {
		t.Errorf("epochs %v", got)
	}
	if n := len(l.Segments()); n < 3 || len(l.Sealed(0)) != n-1 {
		t.Errorf("%d segments, %d of them sealed", n, len(l.Sealed(0)))
	}
	// The producers are those of before: a duplicate, then the next, then a gap.
	again := recordtest.Batch(0, recordtest.Count(10), recordtest.Producer(5, 0, 240), recordtest.Timestamp(1))
	if done, err := l.Append(again, 4); err != nil || !done.Duplicate || done.FirstOffset != 240 {
		t.Errorf("a duplicate: %+v, %v", done, err)
	}
	next := recordtest.Batch(0, recordtest.Count(10), recordtest.Producer(5, 0, 250), recordtest.Timestamp(1))
	if done, err := l.Append(next, 4); err != nil || done.FirstOffset != 250 {
		t.Errorf("the next batch: %+v, %v", done, err)
	}
	gap := recordtest.Batch(0, recordtest.Count(10), recordtest.Producer(5, 0, 270), recordtest.Timestamp(1))
	if _, err := l.Append(gap, 4); !errors.Is(err, record.ErrOutOfOrderSequence) {
		t.Errorf("a gap: %v", err)
	}
	// What the stop wrote down is gone before the first write, durably.
	if exists(t, mem.Crash(), stopFile) || exists(t, mem.Crash(), logDir+"/.kafka_cleanshutdown") {
		t.Error("the record of the clean stop outlives the first write")
	}
	closeStore(t, s)
	s = openStore(t, mem)
	if got := readAll(t, openLog(t, s, smallSegments()), 1<<20); len(got) != len(want)+1 {
		t.Errorf("%d batches after another stop", len(got))
	}
}

// What is not as the clean stop left it is not taken on trust: the log is
// right, or its damage is found.
func TestAChangedDirectoryIsNotTrusted(t *testing.T) {
	edit := func(path string, change func([]byte) []byte) func(*testing.T, vfs.FS) {
		return func(t *testing.T, fs vfs.FS) { writeFile(t, fs, path, change(readFile(t, fs, path))) }
	}
	active := segmentName(240, "")
	cases := map[string]struct {
		change  func(*testing.T, vfs.FS)
		refused bool
		counts  map[string]float64
	}{
		"nothing": {func(*testing.T, vfs.FS) {}, false, nil},
		"no record": {func(t *testing.T, fs vfs.FS) {
			if err := fs.Remove(stopFile); err != nil {
				t.Fatal(err)
			}
		}, false, nil},
		"a damaged record":    {edit(stopFile, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), false, map[string]float64{"clean_stop": 1}},
		"a record cut short":  {edit(stopFile, func(b []byte) []byte { return b[:len(b)-1] }), false, map[string]float64{"clean_stop": 1}},
		"a later version":     {edit(stopFile, func(b []byte) []byte { b[11]++; return b }), false, map[string]float64{"clean_stop": 1}},
		"an empty record":     {edit(stopFile, func([]byte) []byte { return nil }), false, map[string]float64{"clean_stop": 1}},
		"a torn tail":         {edit(inPartition(active+".log"), func(b []byte) []byte { return b[:len(b)-1] }), true, nil},
		"a longer tail":       {edit(inPartition(active+".log"), func(b []byte) []byte { return append(b, 1) }), false, map[string]float64{"tail": 1}},
		"the same size":       {edit(inPartition(active+".log"), func(b []byte) []byte { b[7]++; return b }), true, nil},
		"no recovery point":   {edit(logDir+"/recovery-point-offset-checkpoint", func([]byte) []byte { return []byte("0\n0\n") }), false, nil},
		"bad recovery points": {edit(logDir+"/recovery-point-offset-checkpoint", func([]byte) []byte { return []byte("0\n9\n") }), false, map[string]float64{"checkpoint": 1}},
		"bad log starts":      {edit(logDir+"/log-start-offset-checkpoint", func([]byte) []byte { return []byte("x") }), false, map[string]float64{"checkpoint": 1}},
		"bad epochs":          {edit(inPartition("leader-epoch-checkpoint"), func([]byte) []byte { return []byte("0\nx\n") }), false, map[string]float64{"epochs": 1}},
		"a bad topic id":      {edit(inPartition("partition.metadata"), func([]byte) []byte { return []byte("version: 0\ntopic_id: ?") }), false, map[string]float64{"topic_id": 1}},
		"a bad snapshot":      {edit(inPartition(segmentName(250, ".snapshot")), func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), false, map[string]float64{"snapshot": 1}},
		"another file":        {edit(inPartition("README"), func([]byte) []byte { return nil }), false, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			want := stopClean(t, mem)
			if name == "another file" {
				writeFile(t, mem, inPartition("README"), nil)
			}
			c.change(t, mem)
			reg := prometheus.NewRegistry()
			s := openStore(t, mem, func(o *hot.Options) { o.Registerer = reg })
			l, err := s.OpenLog(t.Context(), tp, topicID, smallSegments())
			if damage := (*record.CorruptionError)(nil); c.refused {
				if !errors.As(err, &damage) {
					t.Errorf("open: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, l, 1<<20); !slices.Equal(got, want) {
				t.Errorf("%d batches, want %d", len(got), len(want))
			}
			if n := len(l.Epochs()); n < 3 || l.LogStartOffset() != 7 || l.ID() != topicID || l.MaxProducerID() != 5 {
				t.Errorf("epochs %v, log start %d, id %s, producer %d", l.Epochs(), l.LogStartOffset(), l.ID(), l.MaxProducerID())
			}
			got := repairs(t, reg)
			for kind, n := range c.counts {
				if got[kind] != n {
					t.Errorf("%s was made good %v times, want %v: %v", kind, got[kind], n, got)
				}
			}
			// Whatever it was is made good once: the next start is a clean one.
			closeStore(t, s)
			f, w := watchPartition(mem)
			reg = prometheus.NewRegistry()
			s = openStore(t, f, func(o *hot.Options) { o.Registerer = reg })
			openLog(t, s, smallSegments())
			w.mu.Lock()
			if n := w.calls[faultfs.OpOpen] + w.calls[faultfs.OpRead] + w.calls[faultfs.OpReadDir]; n > 0 {
				t.Errorf("the start after that opens files: %v", w.calls)
			}
			w.mu.Unlock()
			for kind, n := range repairs(t, reg) {
				if n > 0 {
					t.Errorf("the start after that makes %s good again, %v", kind, n)
				}
			}
		})
	}
}

// A sealed segment is not looked at by a clean start. One that became shorter
// is refused when it is read.
func TestAShorterSealedSegmentIsFound(t *testing.T) {
	mem := vfs.NewMem()
	stopClean(t, mem)
	path := inPartition(segmentName(0, ".log"))
	file, err := mem.OpenFile(path, vfs.ReadWrite, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Truncate(100), file.Close()); err != nil {
		t.Fatal(err)
	}
	l := openLog(t, openStore(t, mem), smallSegments())
	var damage *record.CorruptionError
	if _, err := l.Read(7, l.EndOffset(), 1<<20, true); !errors.As(err, &damage) || damage.Path != path {
		t.Errorf("a read of a segment that lost its end: %v", err)
	}
	r, err := l.Read(l.EndOffset()-1, l.EndOffset(), 1<<20, true)
	if err != nil {
		t.Fatalf("a read of another segment: %v", err)
	}
	r.Release()
}

// A log that was refused for its damage is not believed after a clean stop.
func TestARefusedLogStaysRefused(t *testing.T) {
	mem := vfs.NewMem()
	stopClean(t, mem)
	path := inPartition(segmentName(240, ".log"))
	b := readFile(t, mem, path)
	b[len(b)-3] ^= 1 // the header is well, the records are not
	writeFile(t, mem, path, b)
	if err := mem.Remove(logDir + "/.kafka_cleanshutdown"); err != nil {
		t.Fatal(err)
	}
	for start := range 3 {
		s := openStore(t, mem)
		if s.Clean() != (start > 0) {
			t.Fatalf("start %d is clean: %v", start, s.Clean())
		}
		var damage *record.CorruptionError
		if _, err := s.OpenLog(t.Context(), tp, topicID, smallSegments()); !errors.As(err, &damage) {
			t.Fatalf("open (clean: %v): %v", s.Clean(), err)
		}
		closeStore(t, s)
	}
	if got := readFile(t, mem, path); string(got) != string(b) {
		t.Error("the damaged segment was changed")
	}
}

// After a crash nothing below the recovery point is read, however much there
// is.
func TestACrashReadsOnlyPastTheRecoveryPoint(t *testing.T) {
	mem := vfs.NewMem()
	l := createLog(t, openStore(t, mem), hot.LogOptions{SegmentBytes: 64 << 10})
	batch := recordtest.Batch(0, recordtest.ValueSize(1, 4<<10))
	for len(l.Segments()) < 40 {
		if _, err := l.Append(slices.Clone(batch), 0); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		appendBatch(t, l, 10)
	}
	for len(l.Sealed(0)) < 39 { // each sync gives the sealer its turn
		if err := l.WaitDurable(t.Context(), l.EndOffset()); err != nil {
			t.Fatal(err)
		}
	}
	segments := l.Segments()
	last := segments[len(segments)-1]
	mem = mem.Kill()
	writeFile(t, mem, logDir+"/recovery-point-offset-checkpoint", fmt.Appendf(nil, "0\n1\n%s %d %d\n", tp.Topic, tp.Partition, last.BaseOffset()))

	f, w := watchPartition(mem)
	reg := prometheus.NewRegistry()
	s := openStore(t, f, func(o *hot.Options) { o.Registerer = reg })
	got := openLog(t, s, hot.LogOptions{})
	if got.EndOffset() != l.EndOffset() || len(got.Segments()) != 40 {
		t.Fatalf("recovered to %d of %d, %d segments", got.EndOffset(), l.EndOffset(), len(got.Segments()))
	}
	w.mu.Lock()
	read := w.read[".log"]
	w.mu.Unlock()
	// The scan, and the first header once more.
	if most := last.Size() + 16<<10; read < last.Size() || read > most {
		t.Errorf("%d bytes of segments were read, want %d to %d of %d", read, last.Size(), most, l.Size())
	}
	if counts := repairs(t, reg); counts["firn_log_recoveries_total"] != 1 || counts["firn_log_recovered_bytes_total"] != float64(last.Size()) {
		t.Errorf("counted %v", counts)
	}
}

// With the recovery points lost nothing that was completed is cut: damage in it
// refuses the log, while a bad tail is cut as ever.
func TestLostRecoveryPointsCutNothingThatWasSynced(t *testing.T) {
	for _, bad := range []int{0, -1} {
		mem := vfs.NewMem()
		l := createLog(t, openStore(t, mem), smallSegments())
		fill(t, l, 6)
		appendBatch(t, l, 10)
		for len(l.Sealed(0)) < 5 {
			if err := l.WaitDurable(t.Context(), l.EndOffset()); err != nil {
				t.Fatal(err)
			}
		}
		segments := l.Segments()
		mem = mem.Kill()
		writeFile(t, mem, logDir+"/recovery-point-offset-checkpoint", []byte("damaged"))
		at := segments[(bad+len(segments))%len(segments)].BaseOffset()
		path := inPartition(segmentName(at, ".log"))
		b := readFile(t, mem, path)
		b[len(b)-5] ^= 1
		writeFile(t, mem, path, b)
		before := names(t, mem)
		_, err := openStore(t, mem).OpenLog(t.Context(), tp, topicID, smallSegments())
		var damage *record.CorruptionError
		if bad == 0 && (!errors.As(err, &damage) || damage.Path != path || !slices.Equal(names(t, mem), before)) {
			t.Errorf("damage in the first of 6 segments: %v; files %v", err, names(t, mem))
		}
		if bad != 0 && (err != nil || len(cuts(t, mem)) != 1) {
			t.Errorf("damage in the tail: %v, %v", err, cuts(t, mem))
		}
	}
}

// FuzzCleanStop opens a log beside a record of the clean stop with anything in
// it. The log is as it was, whatever the record says.
func FuzzCleanStop(f *testing.F) {
	mem := vfs.NewMem()
	want := stopClean(f, mem)
	f.Add(readFile(f, mem, stopFile))
	f.Add([]byte("FIRNSTOP"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := mem.Kill()
		writeFile(t, fs, stopFile, b)
		s := openStore(t, fs)
		l := openLog(t, s, smallSegments())
		if got := readAll(t, l, 1<<20); !slices.Equal(got, want) {
			t.Fatalf("%d batches, want %d", len(got), len(want))
		}
		closeStore(t, s)
	})
}
