// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
	"firn/record/recordtest"
)

// held is a kind of operation that waits, as on a disk that takes its time.
type held struct {
	entered chan string
	release func()
}

// hold makes the operations that match wait until release is called, at the
// latest at the end of the test; entered hears the path of each.
func hold(t *testing.T, f *faultfs.FS, match func(faultfs.Call) bool) held {
	t.Helper()
	gate := make(chan struct{})
	h := held{entered: make(chan string, 100), release: func() { close(gate) }}
	f.Hook(func(c faultfs.Call) *faultfs.Fault {
		if match(c) {
			h.entered <- c.Path
			<-gate
		}
		return nil
	})
	return h
}

func syncOf(suffix string) func(faultfs.Call) bool {
	return func(c faultfs.Call) bool { return c.Op == faultfs.OpSync && strings.HasSuffix(c.Path, suffix) }
}

// reopen opens what a crash left, and fails the test unless everything up to
// the given offset is there.
func reopen(t *testing.T, mem *vfs.Mem, want []stored, durable record.Offset) *hot.Log {
	t.Helper()
	l := openLog(t, openStore(t, mem), smallSegments())
	got := readAll(t, l, 300)
	if l.EndOffset() < durable || len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
		t.Fatalf("%d batches up to %d, want those appended and at least up to %d", len(got), l.EndOffset(), durable)
	}
	return l
}

// A batch that is sent again is answered with its original's offsets, and not
// before the original is safe: else the cut would take back what the second
// answer promised (I2).
func TestPowerCutUnderADuplicate(t *testing.T) {
	mem := vfs.NewMem()
	f := faultfs.New(mem)
	l := createLog(t, openStore(t, f), smallSegments())
	sent := func() []byte { return recordtest.Batch(0, recordtest.Count(5), recordtest.Producer(7, 0, 0)) }
	again := func(l *hot.Log) hot.Appended {
		t.Helper()
		done, err := l.Append(sent(), 1)
		if err != nil || done.FirstOffset != 0 || done.NextOffset != 5 {
			t.Fatalf("%+v, %v", done, err)
		}
		return done
	}
	h := hold(t, f, syncOf(".log"))
	first := again(l)
	want := readAll(t, l, 300)
	second := again(l)
	if first.Duplicate || !second.Duplicate {
		t.Fatalf("the original is %+v, the duplicate %+v", first, second)
	}
	answered := make(chan error, 1)
	go func() { answered <- l.WaitDurable(context.WithoutCancel(t.Context()), second.NextOffset) }()
	<-h.entered
	if len(answered) > 0 || l.DurableOffset() != 0 {
		t.Fatal("a duplicate was answered while its original was not synced")
	}
	// The cut takes both; what is sent a third time is new.
	lost := reopen(t, mem.Crash(), want, 0)
	if done := again(lost); done.Duplicate {
		t.Fatal("a producer is remembered without its records")
	}
	h.release()
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	kept := reopen(t, mem.Crash(), want, 5)
	if done := again(kept); !done.Duplicate {
		t.Fatal("the records are there twice")
	}
}

// After a failed sync the page cache shows what is not on the disk. The next
// process must not believe it, sync nothing and so make it durable by decree
// (I2): what it opens to survives the power cut that follows.
func TestPowerCutBehindAFailedSync(t *testing.T) {
	for name, segments := range map[string]int{"the active segment": 1, "a rolled segment": 2, "two rolled segments": 3} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			f := faultfs.New(mem)
			l := createLog(t, openStore(t, f), smallSegments())
			appendBatch(t, l, 10)
			appendBatch(t, l, 10)
			if err := l.WaitDurable(t.Context(), 20); err != nil {
				t.Fatal(err)
			}
			h := hold(t, f, syncOf(".log")) // the sealer comes when it likes
			f.Inject(faultfs.Rule{Match: syncOf(".log"), Times: -1, Fault: faultfs.IOError()})
			fill(t, l, segments)
			appendBatch(t, l, 10)
			want, end := readAll(t, l, 300), l.EndOffset()
			h.release()
			if err := l.WaitDurable(t.Context(), end); !errors.Is(err, record.ErrStorage) {
				t.Fatalf("the failed sync was acknowledged: %v", err)
			}
			killed := mem.Kill()
			l = reopen(t, killed, want, 20)
			opened := l.EndOffset()
			if opened == end {
				t.Fatal("the test lost nothing: it shows nothing")
			}
			if d := l.DurableOffset(); d != opened {
				t.Fatalf("durable to %d of %d", d, opened)
			}
			reopen(t, killed.Crash(), want, opened)
		})
	}
}

// The index files are written when the log has long been synced and answered
// for. A cut in the midst of it, and after it with the directory not synced,
// leaves indexes of any length and content: the log is whole, and every offset
// is found (I3, I5).
func TestPowerCutOverTheIndexes(t *testing.T) {
	for _, suffix := range []string{".index", ".timeindex", ".snapshot"} {
		for seed := range uint64(30) {
			t.Run(fmt.Sprintf("%s %d", suffix, seed), func(t *testing.T) {
				mem := vfs.NewMem()
				f := faultfs.New(mem)
				l := createLog(t, openStore(t, f), smallSegments())
				h := hold(t, f, syncOf(suffix))
				fill(t, l, 3)
				<-h.entered // the first segment's file is written and not synced
				want, end := readAll(t, l, 300), l.EndOffset()
				if err := l.WaitDurable(t.Context(), end); err != nil {
					t.Fatal(err)
				}
				torn := mem.CrashKeeping(seed)
				h.release()
				l = reopen(t, torn, want, end)
				for o := range end {
					r, err := l.Read(o, end, 1, true)
					if err != nil || r.First() > o || r.Next() <= o {
						t.Fatalf("read at %d: %v, %v", o, r, err)
					}
					r.Release()
				}
				for i, s := range want {
					if ts := record.Batch(s.bytes).Header().MaxTimestamp; i > 0 {
						at, ok, err := l.OffsetForTimestamp(ts, end, nil)
						if err != nil || !ok || at.Timestamp < ts {
							t.Fatalf("look up time %d: %+v, %v, %v", ts, at, ok, err)
						}
					}
				}
			})
		}
	}
}

// The bytes of a new segment are synced before its name is: without its
// directory they are lost, so that nothing in them is durable until that is
// synced too (I2).
func TestPowerCutOverADirectoryEntry(t *testing.T) {
	mem := vfs.NewMem()
	f := faultfs.New(mem)
	l := createLog(t, openStore(t, f), smallSegments())
	fill(t, l, 1)
	if err := l.WaitDurable(t.Context(), l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	before := l.EndOffset()
	h := hold(t, f, func(c faultfs.Call) bool { return c.Op == faultfs.OpSyncDir })
	fill(t, l, 2)
	appendBatch(t, l, 10)
	want, end := readAll(t, l, 300), l.EndOffset()
	answered := make(chan error, 1)
	go func() { answered <- l.WaitDurable(context.WithoutCancel(t.Context()), end) }()
	<-h.entered
	if len(answered) > 0 || l.DurableOffset() >= end {
		t.Fatalf("durable to %d without the directory entry", l.DurableOffset())
	}
	lost := reopen(t, mem.Crash(), want, before)
	if lost.EndOffset() >= end {
		t.Fatal("the test lost nothing: it shows nothing")
	}
	h.release()
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	reopen(t, mem.Crash(), readAll(t, l, 300), end)
}

// A partition that was made is there, with its topic id, and takes records
// that survive: every entry on the way to it was synced.
func TestPowerCutAfterCreate(t *testing.T) {
	for seed := range uint64(20) {
		mem := vfs.NewMem()
		l := createLog(t, openStore(t, mem), smallSegments())
		s := openStore(t, mem.CrashKeeping(seed))
		if found := s.Found(); len(found) != 1 || found[0].TopicID != topicID || found[0].TopicPartition != tp {
			t.Fatalf("found %+v", found)
		}
		done := appendBatch(t, l, 3)
		if err := l.WaitDurable(t.Context(), done.NextOffset); err != nil {
			t.Fatal(err)
		}
		reopen(t, mem.CrashKeeping(seed), readAll(t, l, 300), 3)
	}
}
