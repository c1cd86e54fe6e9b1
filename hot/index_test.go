// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

// indexedLog is a closed log with indexes of several pages.
func indexedLog(t testing.TB) (*vfs.Mem, []stored) {
	t.Helper()
	mem := vfs.NewMem()
	s := openStore(t, mem)
	l := createLog(t, s, hot.LogOptions{IndexInterval: 1})
	for i := range 2000 {
		appendBatch(t, l, 1, recordtest.Timestamp(int64(i)))
	}
	if err := l.Roll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		appendBatch(t, l, 1, recordtest.Timestamp(int64(5000+i)))
	}
	want := readAll(t, l, 1<<20)
	closeStore(t, s)
	return mem, want
}

func TestIndexFilesHoldWhatKafkaExpects(t *testing.T) {
	mem, want := indexedLog(t)
	log := readFile(t, mem, inPartition(segmentName(0, ".log")))
	index := readFile(t, mem, inPartition(segmentName(0, ".index")))
	times := readFile(t, mem, inPartition(segmentName(0, ".timeindex")))
	if err := errors.Join(record.CheckIndex(index, 0, int64(len(log))), record.CheckTimeIndex(times, 0, 2000)); err != nil {
		t.Fatal(err)
	}
	if n := len(index) / record.IndexEntrySize; n != 1999 { // the first batch has none
		t.Fatalf("%d entries", n)
	}
	for at := 0; at < len(index); at += record.IndexEntrySize {
		e := record.ParseIndexEntry(index[at:], 0)
		h, err := record.ParseHeader(log[e.Position:])
		if err != nil || h.LastOffset() != e.Offset {
			t.Fatalf("entry %+v points to %+v, %v", e, h, err)
		}
	}
	last := record.ParseTimeIndexEntry(times[len(times)-record.TimeIndexEntrySize:], 0)
	if last.Timestamp != 1999 || last.Offset != 1999 || len(want) != 2003 {
		t.Fatalf("last time entry %+v of %d batches", last, len(want))
	}
}

func TestReadsOfASealedSegmentGoThroughTheIndexFile(t *testing.T) {
	mem, want := indexedLog(t)
	for _, cache := range []int64{1, 8 << 20} { // nothing fits, everything does
		l := openLog(t, openStore(t, mem.Kill(), func(o *hot.Options) { o.IndexCacheBytes = cache }), hot.LogOptions{IndexInterval: 1})
		for _, at := range []record.Offset{0, 1, 2, 511, 512, 513, 514, 1023, 1024, 1025, 1998, 1999, 2000, 2002} {
			for _, n := range []int{1, 3, 700} {
				limit := min(at+record.Offset(n), l.EndOffset())
				r, err := l.Read(at, limit, 1<<20, true)
				if err != nil {
					t.Fatal(err)
				}
				got := regionBatches(t, r)
				r.Release()
				if !slices.Equal(got, want[at:int(at)+len(got)]) || r.Next() != limit && r.Next() != 2000 {
					t.Fatalf("read at %d to %d: %d to %d", at, limit, r.First(), r.Next())
				}
			}
		}
	}
}

func TestDamagedIndexesOfSyncedSegmentsAreRebuilt(t *testing.T) {
	damage := map[string]func(b []byte) []byte{
		"cut":                func(b []byte) []byte { return b[:len(b)-3] },
		"zeros at the end":   func(b []byte) []byte { return append(b, make([]byte, 24)...) },
		"a bad page":         func(b []byte) []byte { clear(b[6000:6060]); return b },
		"pointing elsewhere": func(b []byte) []byte { b[len(b)-4] = 0x7f; b[len(b)-3] = 0xff; return b },
		"gone":               nil,
	}
	for name, change := range damage {
		for _, suffix := range []string{".index", ".timeindex"} {
			t.Run(name+suffix, func(t *testing.T) {
				mem, want := indexedLog(t)
				path := inPartition(segmentName(0, suffix))
				good := readFile(t, mem, path)
				if change == nil {
					if err := mem.Remove(path); err != nil {
						t.Fatal(err)
					}
				} else {
					writeFile(t, mem, path, change(slices.Clone(good)))
				}
				l := openLog(t, openStore(t, mem), hot.LogOptions{IndexInterval: 1})
				for at := record.Offset(0); at < l.EndOffset(); at += 97 {
					r, err := l.Read(at, l.EndOffset(), 500, true)
					if err != nil {
						t.Fatal(err)
					}
					if got := regionBatches(t, r); !slices.Equal(got, want[at:int(at)+len(got)]) {
						t.Fatalf("wrong batches at %d", at)
					}
					r.Release()
					found, ok, err := l.OffsetForTimestamp(int64(min(at, 1999)), l.EndOffset(), nil)
					if err != nil || !ok || found.Offset != min(at, 1999) {
						t.Fatalf("timestamp %d: %+v, %v, %v", at, found, ok, err)
					}
				}
				if !bytes.Equal(readFile(t, mem, path), good) {
					t.Fatal("the index was not rebuilt as it was")
				}
			})
		}
	}
}

func TestDamagedBatchIsAnErrorOfItsPlace(t *testing.T) {
	mem, _ := indexedLog(t)
	path := inPartition(segmentName(0, ".log"))
	b := readFile(t, mem, path)
	batch := len(recordtest.Batch(0))
	b[1000*batch+16] = 9 // magic
	writeFile(t, mem, path, b)
	l := openLog(t, openStore(t, mem), hot.LogOptions{IndexInterval: 1})
	var damage *record.CorruptionError
	if _, err := l.Read(1000, l.EndOffset(), 100, true); !errors.As(err, &damage) || damage.Position != int64(1000*batch) {
		t.Fatalf("read of a damaged batch: %v", err)
	}
	for _, at := range []record.Offset{0, 990, 1010} {
		r, err := l.Read(at, at+5, 1<<20, true)
		if err != nil {
			t.Fatalf("read at %d: %v", at, err)
		}
		r.Release()
	}
}

func TestActiveSegmentGoesOnAfterARestart(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	l := createLog(t, s, hot.LogOptions{IndexInterval: 300})
	for i := range 50 {
		appendBatch(t, l, 1, recordtest.Timestamp(int64(i)))
		if i%10 == 9 {
			closeStore(t, s)
			s = openStore(t, mem)
			l = openLog(t, s, hot.LogOptions{IndexInterval: 300})
			if i%20 == 9 { // looked at before it is written to again
				readAll(t, l, 200)
			}
		}
	}
	if err := l.Roll(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	log := readFile(t, mem, inPartition(segmentName(0, ".log")))
	index := readFile(t, mem, inPartition(segmentName(0, ".index")))
	if err := record.CheckIndex(index, 0, int64(len(log))); err != nil {
		t.Fatal(err)
	}
	if n := len(index) / record.IndexEntrySize; n < 50/6 {
		t.Fatalf("%d entries", n)
	}
}
