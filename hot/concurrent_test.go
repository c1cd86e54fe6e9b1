// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

// onDisk opens a store in a new directory of the real disk, with the best I/O
// methods there are.
func onDisk(t testing.TB, dir string) *hot.Store {
	t.Helper()
	io, err := vfs.ProbeIO(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return openStore(t, vfs.Disk(), func(o *hot.Options) { o.Dir, o.IO = dir, io })
}

// TestEverybodyAtOnce has writers, readers, a retention and a lookup work on
// one log together (I1, I7, and the race detector).
func TestEverybodyAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := onDisk(t, dir)
	o := hot.LogOptions{SegmentBytes: 20_000, IndexInterval: 500}
	l := createLog(t, s, o)
	ctx := context.WithoutCancel(t.Context())
	const writers, batches = 4, 150
	var writing, rest sync.WaitGroup
	var done atomic.Bool
	for w := range writers {
		writing.Go(func() {
			for i := range batches {
				b := recordtest.Batch(0, recordtest.Count(5), recordtest.Producer(int64(w), 0, int32(i*5)), recordtest.Timestamp(int64(i)))
				a, err := l.Append(b, 0)
				if err == nil && i%20 == 0 {
					err = l.WaitDurable(ctx, a.NextOffset)
				}
				if err == nil && i%50 == 0 {
					err = l.Roll(ctx)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 3 {
		rest.Go(func() { tail(t, l, &done, writers*batches*5) })
	}
	rest.Go(func() {
		for !done.Load() {
			if sealed := l.Sealed(0); len(sealed) > 3 {
				if _, err := l.DropBefore(ctx, sealed[len(sealed)-3].BaseOffset()); err != nil {
					t.Error(err)
				}
			}
			if _, _, err := l.OffsetForTimestamp(50, l.EndOffset(), decode); err != nil {
				t.Error(err)
			}
			if _, _, err := l.MaxTimestamp(l.EndOffset(), decode); err != nil {
				t.Error(err)
			}
		}
	})
	writing.Wait()
	done.Store(true)
	rest.Wait()
	if l.EndOffset() != writers*batches*5 {
		t.Fatalf("the log ends at %d", l.EndOffset())
	}
	closeStore(t, s)
	s = onDisk(t, dir)
	if l = openLog(t, s, o); l.EndOffset() != writers*batches*5 || !s.Clean() {
		t.Fatalf("after a restart the log ends at %d", l.EndOffset())
	}
}

// tail reads behind the writers until it has seen all offsets that were not
// dropped under it.
func tail(t *testing.T, l *hot.Log, done *atomic.Bool, end record.Offset) {
	for at := record.Offset(0); at < end; {
		last := done.Load()
		r, err := l.Read(at, l.EndOffset(), 3000, true)
		if errors.Is(err, record.ErrOffsetOutOfRange) {
			at = l.StartOffset()
			continue
		}
		if err != nil {
			t.Error(err)
			return
		}
		if r == nil {
			if last {
				t.Errorf("nothing at %d, the log ends at %d", at, l.EndOffset())
				return
			}
			continue
		}
		got := regionBatches(t, r)
		if got[0].base > at || got[len(got)-1].next != r.Next() {
			t.Errorf("read at %d: %d to %d", at, got[0].base, r.Next())
		}
		at = r.Next()
		r.Release()
	}
}

func TestRecoveryOnDisk(t *testing.T) {
	dir := t.TempDir()
	s := onDisk(t, dir)
	l := createLog(t, s, smallSegments())
	fill(t, l, 4)
	want := readAll(t, l, 1<<20)
	closeStore(t, s)
	if err := vfs.Disk().Remove(dir + "/.kafka_cleanshutdown"); err != nil {
		t.Fatal(err)
	}
	// The recovery point of a process that was killed lies lower.
	writeFile(t, vfs.Disk(), dir+"/recovery-point-offset-checkpoint", nil)
	l = openLog(t, onDisk(t, dir), smallSegments())
	got := readAll(t, l, 1<<20)
	if len(got) != len(want) || got[len(got)-1] != want[len(want)-1] {
		t.Fatalf("%d batches, want %d", len(got), len(want))
	}
}
