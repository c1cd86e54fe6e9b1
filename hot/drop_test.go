// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
	"firn/record/recordtest"
)

func TestDropBefore(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	l := createLog(t, s, smallSegments())
	fill(t, l, 5)
	list, end, size := l.Segments(), l.EndOffset(), l.Size()
	if n, err := l.DropBefore(t.Context(), list[2].BaseOffset()+1); n != 2 || err != nil {
		t.Fatalf("%d dropped, %v", n, err)
	}
	if l.StartOffset() != list[2].BaseOffset() || l.EndOffset() != end || l.Size() != size-list[0].Size()-list[1].Size() {
		t.Fatalf("start %d, end %d, %d bytes", l.StartOffset(), l.EndOffset(), l.Size())
	}
	if _, err := l.Read(list[1].BaseOffset(), end, 100, true); !errors.Is(err, record.ErrOffsetOutOfRange) {
		t.Fatalf("read what was dropped: %v", err)
	}
	if l.LogStartOffset() != 0 {
		t.Fatal("the log start moved")
	}
	for _, dropped := range list[:2] {
		for _, suffix := range []string{".log", ".index", ".timeindex", ".snapshot"} {
			if has(t, mem, segmentName(dropped.BaseOffset(), suffix)) {
				t.Fatalf("%s is still there", segmentName(dropped.BaseOffset(), suffix))
			}
		}
	}
	if n, err := l.DropBefore(t.Context(), end+1000); n != 2 || err != nil {
		t.Fatalf("%d dropped, %v: the active segment stays", n, err)
	}
	want := readAll(t, l, 1<<20)
	if err := l.WaitDurable(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	l = openLog(t, openStore(t, mem.Crash()), smallSegments())
	if got := readAll(t, l, 1<<20); !slices.Equal(got, want) || l.StartOffset() != list[4].BaseOffset() {
		t.Fatalf("after a power cut: start %d", l.StartOffset())
	}
}

func TestDropThatFailsLeavesNoHole(t *testing.T) {
	mem := vfs.NewMem()
	f := faultfs.New(mem)
	l := createLog(t, openStore(t, f), smallSegments())
	fill(t, l, 5)
	list := l.Segments()
	fault := f.FailFrom(2, faultfs.IOError(), faultfs.OpRemove)
	if _, err := l.DropBefore(t.Context(), l.EndOffset()); !errors.Is(err, record.ErrStorage) {
		t.Fatalf("drop: %v", err)
	}
	start := l.StartOffset()
	if start != list[1].BaseOffset() {
		t.Fatalf("start %d, want %d: nothing is dropped after a failure", start, list[1].BaseOffset())
	}
	if _, err := l.DropBefore(t.Context(), l.EndOffset()); !errors.Is(err, record.ErrStorage) || l.StartOffset() != start {
		t.Fatalf("drop again: %v, start %d", err, l.StartOffset())
	}
	fault.Stop()
	if n, err := l.DropBefore(t.Context(), l.EndOffset()); n != 3 || err != nil {
		t.Fatalf("%d dropped, %v", n, err)
	}
	readAll(t, l, 1<<20)
}

// A directory that could not be synced is not synced again, as if that made
// good what was lost: segments would come back with others missing between
// them.
func TestDropWhoseSyncFailsPoisons(t *testing.T) {
	mem := vfs.NewMem()
	f := faultfs.New(mem)
	l := createLog(t, openStore(t, f), smallSegments())
	fill(t, l, 5)
	for len(l.Sealed(0)) < 4 {
		if err := l.WaitDurable(t.Context(), l.EndOffset()); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.WaitDurable(t.Context(), l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	want := readAll(t, l, 1<<20)
	f.FailNth(1, faultfs.IOError(), faultfs.OpSyncDir)
	for range 2 {
		if _, err := l.DropBefore(t.Context(), l.EndOffset()); !errors.Is(err, record.ErrStorage) {
			t.Fatalf("drop: %v", err)
		}
	}
	if l.Poisoned() == nil {
		t.Fatal("not poisoned")
	}
	for seed := range uint64(20) {
		again := openLog(t, openStore(t, mem.CrashKeeping(seed)), smallSegments())
		got := readAll(t, again, 1<<20)
		if !slices.Equal(got, want[len(want)-len(got):]) || again.EndOffset() != l.EndOffset() {
			t.Fatalf("%d batches, not the last of %d", len(got), len(want))
		}
	}
}

func TestResetTo(t *testing.T) {
	for name, start := range map[string]record.Offset{"above the end": 5000, "inside": 15, "to the start": 0} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			s := openStore(t, mem)
			l := createLog(t, s, smallSegments())
			fill(t, l, 4)
			waiting, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := l.WaitDurable(waiting, l.EndOffset()); err != nil {
				t.Fatal(err)
			}
			p := record.NewProducers()
			p.Apply(record.Header{ProducerID: 8, BaseSequence: 0, LastOffsetDelta: 0, Count: 1, BaseOffset: max(start-1, 0)})
			epochs := record.Epochs{{Epoch: 2, StartOffset: 0}}.TruncateFrom(start)
			if err := l.ResetTo(t.Context(), start, epochs, []byte("no snapshot")); err == nil || l.EndOffset() == start {
				t.Fatalf("a bad snapshot: %v", err)
			}
			if err := l.ResetTo(t.Context(), start, epochs, p.Marshal(start)); err != nil {
				t.Fatal(err)
			}
			check := func(l *hot.Log) {
				t.Helper()
				if l.StartOffset() != start || l.EndOffset() != start || l.DurableOffset() != start || l.Size() != 0 {
					t.Fatalf("log from %d to %d, durable %d", l.StartOffset(), l.EndOffset(), l.DurableOffset())
				}
				if !slices.Equal(l.Epochs(), epochs) || start > 0 && l.MaxProducerID() != 8 {
					t.Fatalf("epochs %v, largest producer %d", l.Epochs(), l.MaxProducerID())
				}
			}
			check(l)
			check(openLog(t, openStore(t, mem.Crash()), smallSegments()))

			done, err := l.Append(recordtest.Batch(0, recordtest.Count(10)), 3)
			if err != nil || done.FirstOffset != start {
				t.Fatalf("append: %+v, %v", done, err)
			}
			if err := l.WaitDurable(t.Context(), done.NextOffset); err != nil {
				t.Fatal(err)
			}
			again := openLog(t, openStore(t, mem.Crash()), smallSegments())
			if got := readAll(t, again, 1<<20); len(got) != 1 || got[0].base != start {
				t.Fatalf("after a power cut: %d batches from %d", len(got), again.StartOffset())
			}
		})
	}
}

func TestResetWakesWhoWaits(t *testing.T) {
	f := faultfs.New(vfs.NewMem())
	l := createLog(t, openStore(t, f), hot.LogOptions{})
	appendBatch(t, l, 10)
	entered, release := blockSyncs(f)
	waited := make(chan error)
	go func() { waited <- l.WaitDurable(context.WithoutCancel(t.Context()), 10) }()
	<-entered
	if err := l.ResetTo(t.Context(), 3, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, record.ErrStorage) {
		t.Fatalf("a wait for what was dropped: %v", err)
	}
	close(release)
	if l.DurableOffset() != 3 {
		t.Fatalf("durable to %d", l.DurableOffset())
	}
}

func TestSetLogStartOffset(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	l := createLog(t, s, hot.LogOptions{})
	for i := range 3 {
		if _, err := l.Append(recordtest.Batch(0, recordtest.Count(10)), record.Epoch(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.SetLogStartOffset(t.Context(), 31); !errors.Is(err, record.ErrOffsetOutOfRange) {
		t.Fatalf("beyond the end: %v", err)
	}
	for _, o := range []record.Offset{15, 7, 15} {
		if err := l.SetLogStartOffset(t.Context(), o); err != nil || l.LogStartOffset() != 15 {
			t.Fatalf("set to %d: %v, is %d", o, err, l.LogStartOffset())
		}
	}
	want := record.Epochs{{Epoch: 1, StartOffset: 15}, {Epoch: 2, StartOffset: 20}}
	if !slices.Equal(l.Epochs(), want) {
		t.Fatalf("epochs %v, want %v", l.Epochs(), want)
	}
	if err := l.WaitDurable(t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	l = openLog(t, openStore(t, mem.Crash()), hot.LogOptions{})
	if l.LogStartOffset() != 15 || l.EndOffset() != 30 || l.StartOffset() != 0 {
		t.Fatalf("after a power cut: log start %d, end %d", l.LogStartOffset(), l.EndOffset())
	}
}

func TestOffsetsBelowTheLogStartAreNotGivenOutAgain(t *testing.T) {
	mem := vfs.NewMem()
	l := createLog(t, openStore(t, mem), hot.LogOptions{})
	appendBatch(t, l, 10)
	if err := l.WaitDurable(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	appendBatch(t, l, 20)
	if err := l.SetLogStartOffset(t.Context(), 25); err != nil {
		t.Fatal(err)
	}
	mem = mem.Crash() // takes the records from 10 on
	l = openLog(t, openStore(t, mem), hot.LogOptions{})
	if l.StartOffset() != 25 || l.EndOffset() != 25 || l.LogStartOffset() != 25 {
		t.Fatalf("log %d to %d from %d", l.StartOffset(), l.EndOffset(), l.LogStartOffset())
	}
	if done := appendBatch(t, l, 1); done.FirstOffset != 25 {
		t.Fatalf("appended at %d", done.FirstOffset)
	}
	if err := l.ResetTo(t.Context(), 24, nil, nil); !errors.Is(err, record.ErrOffsetOutOfRange) {
		t.Fatalf("reset below the log start: %v", err)
	}
}
