// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"testing"
	"time"

	"firn/record"
)

func TestArchiveAndReplay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		for range 11 {
			w.produce(3)
			w.pass(time.Second)
			w.retain()
		}
		w.checkHistory()
		w.checkBucket()
		s := w.state()
		if s.End != 66 || s.Segments != 11 || s.Bytes != int64(len(w.model)) {
			t.Fatalf("state %+v, want 11 segments up to 66 with %d bytes", s, len(w.model))
		}
		if m := w.log.manifest.Load(); len(m.Pages) != 3 {
			t.Fatalf("%d pages, want 3", len(m.Pages))
		}
		if w.local.StartOffset() != 66 {
			t.Fatalf("local log starts at %d, want everything tiered and dropped", w.local.StartOffset())
		}
	})
}

func TestLogStartMovesAndObjectsGo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		for range 10 {
			w.produce(2)
		}
		w.pass(time.Second)
		w.retain()
		before := w.history()
		w.setLogStart(21) // inside the sixth segment
		w.pass(time.Second)
		s := w.state()
		if s.LogStart != 21 || s.Tombstones < testShape.tombstones || s.Tombstones > testShape.tombstones+1 {
			t.Fatalf("state %+v, want log start 21 and a full list of tombstones", s)
		}
		if exact := int64(len(w.modelBetween(21, s.End))); s.Bytes > exact {
			t.Fatalf("state counts %d bytes, %d are above the log start", s.Bytes, exact)
		}
		if _, err := w.log.Read(t.Context(), 20, s.End, 1<<20, true); err == nil {
			t.Fatal("an offset below the log start could be read")
		}
		if len(before) == 0 {
			t.Fatal("no history")
		}
		w.pass(10 * testGrace)
		s = w.state()
		if s.Tombstones != 0 || s.Segments != 5 || s.Start != 21 || s.Bytes != int64(len(w.modelBetween(20, 40))) {
			t.Fatalf("state %+v, want 5 segments and no tombstone", s)
		}
		w.checkHistory()
		w.checkBucket()
	})
}

// Objects stay for the grace, also over restarts, which do not begin it anew.
func TestGraceIsKeptOverRestarts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.produce(2)
		w.pass(time.Second)
		w.setLogStart(4)
		w.pass(time.Second)
		keys := len(w.bucket.keys())
		for range 5 {
			w.pass(testGrace / 6)
			w.crash()
			w.open()
			w.pass(time.Second)
			if s := w.state(); s.Tombstones != 1 {
				t.Fatalf("%d tombstones before the grace is over, want 1", s.Tombstones)
			}
		}
		w.pass(testGrace / 6)
		if s := w.state(); s.Tombstones != 0 {
			t.Fatalf("state %+v after the grace, want no tombstone: %d objects", s, keys)
		}
		w.checkBucket()
	})
}

func TestWholeTopicExpires(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		for range 8 {
			w.produce(1)
		}
		w.pass(time.Second)
		w.retain()
		w.setLogStart(w.local.EndOffset())
		w.pass(20 * testGrace)
		if s := w.state(); s.Segments != 0 || s.Start != s.End || s.End != 16 {
			t.Fatalf("state %+v, want an empty chain that ends at 16", s)
		}
		w.checkBucket()
		w.produce(1)
		w.pass(time.Second)
		w.checkHistory()
		w.crash()
		w.open()
		w.pass(time.Second)
		w.checkHistory()
		w.checkBucket()
	})
}

func TestUploadWaitsForTheStableOffset(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.local.stable = 3
		w.open()
		w.produce(2)
		w.pass(10 * time.Second)
		w.wantState(Ready, ReasonOpenTransaction)
		if w.log.End() != 0 {
			t.Fatalf("the chain ends at %d above the stable offset", w.log.End())
		}
		w.local.locked(func() record.Offset { w.local.stable = 4; return 0 })
		w.pass(2 * time.Second) // nothing wakes the log
		w.checkHistory()
	})
}

func TestGapsAndTheirReasons(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(w *world)
		gap     Entry
	}{
		"copy disabled while records age out": {func(w *world) {
			w.open()
			w.produce(2)
			w.pass(time.Second)
			w.log.SetCopyDisabled(true)
			w.produce(2)
			w.pass(time.Second)
			w.wantState(Ready, ReasonCopyDisabled)
			w.local.dropBefore(8)
			w.log.SetCopyDisabled(false)
		}, Gap(4, 8, GapCopyDisabled)},
		"tiering begins late": {func(w *world) {
			w.produce(2)
			w.local.dropBefore(4)
			w.open()
		}, Gap(0, 4, GapLateEnabling)},
		"tiering began again": {func(w *world) {
			w.open()
			w.produce(2)
			w.pass(time.Second)
			w.close()
			w.log = nil
			w.produce(2)
			w.local.dropBefore(8)
			w.open()
		}, Gap(4, 8, GapLateEnabling)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				test.prepare(w)
				w.produce(2)
				w.pass(2 * time.Minute)
				entries, err := w.log.Entries(t.Context(), test.gap.From, 2)
				if err != nil || len(entries) != 2 || entries[0] != test.gap || entries[1].From != test.gap.To {
					t.Fatalf("entries %v, %v, want the gap %v and a segment", entries, err, test.gap)
				}
				d, err := w.log.Read(t.Context(), test.gap.From, w.log.End(), 1<<20, true)
				if err != nil || d.Next != w.log.End() || len(d.Bytes) == 0 {
					t.Fatalf("read in the gap goes on at %d with %d bytes, %v", d.Next, len(d.Bytes), err)
				}
				w.crash()
				w.open()
				w.pass(time.Second)
				w.wantState(Ready, "")
				w.checkBucket()
			})
		})
	}
}

// A chain that has no past begins where the local log does.
func TestLateStartWithoutOlderRecords(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.produce(2)
		w.produce(2)
		w.local.dropBefore(4)
		w.local.setLogStart(4)
		w.open()
		w.pass(time.Second)
		entries, err := w.log.Entries(t.Context(), 0, 10)
		if err != nil || len(entries) != 1 || entries[0].From != 4 || entries[0].Kind != KindSegment {
			t.Fatalf("entries %v, %v, want one segment from 4", entries, err)
		}
		w.checkHistory()
	})
}

func TestExpiredBeforeUpload(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.faults.Inject(unavailable)
		w.open()
		w.produce(2)
		w.produce(2)
		w.pass(time.Minute)
		w.wantState(Loading, ReasonStoreDown)
		w.setLogStart(4)
		w.faults.Clear()
		w.produce(2)
		w.pass(5 * time.Minute)
		w.checkHistory()
		w.checkBucket()
		if s := w.state(); s.Segments != 2 || s.Start != 4 {
			t.Fatalf("state %+v, want the two segments that did not expire", s)
		}
	})
}

// An upload that may have arrived, of a segment that expired meanwhile, leaves
// nothing behind.
func TestAbandonedUploadIsBuried(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.pass(time.Second)
		w.faults.Inject(appliedButFailed(ofKind(KeySegment)))
		w.produce(2)
		w.pass(time.Second)
		w.wantState(Ready, ReasonStoreDown)
		w.setLogStart(4)
		w.local.dropBefore(4)
		w.faults.Clear()
		w.produce(2)
		w.pass(10 * testGrace)
		w.checkHistory()
		w.checkBucket()
	})
}

func TestCorruptSegmentStaysLocal(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		w.produce(2)
		w.local.mu.Lock()
		bad := w.local.segments[1]
		bad.log[100] ^= 1
		w.local.mu.Unlock()
		w.log.Wake()
		w.pass(2 * time.Minute)
		w.wantState(Ready, ReasonCorrupt)
		if w.log.End() != 4 {
			t.Fatalf("chain ends at %d, want 4: a corrupt segment went up", w.log.End())
		}
		w.checkBucket()
		w.local.mu.Lock()
		bad.log[100] ^= 1
		w.local.mu.Unlock()
		w.pass(30 * time.Minute)
		w.checkHistory()
	})
}

func TestMisalignedSegmentIsNotPassedOver(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		w.retain()
		// A log whose segment lies across the chain's end.
		w.local.mu.Lock()
		s := newMemSegment(testLog(2, 2, 100))
		w.local.segments, w.local.start, w.local.end = []*memSegment{s, newMemSegment(testLog(6, 1, 100))}, 2, 8
		w.local.mu.Unlock()
		w.log.Wake()
		w.pass(2 * time.Minute)
		w.wantState(Ready, ReasonMisaligned)
		if w.log.End() != 4 {
			t.Fatalf("chain ends at %d, want 4", w.log.End())
		}
	})
}
