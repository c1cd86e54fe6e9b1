// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"errors"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

// What a client had in flight when the broker ended is answered as it was,
// however often the log rolled meanwhile and whatever the snapshots keep.
func TestWhatWasInFlightIsKnownAfterARestart(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *hot.Store, *vfs.Mem) *vfs.Mem{
		"clean": func(t *testing.T, s *hot.Store, mem *vfs.Mem) *vfs.Mem { closeStore(t, s); return mem },
		"kill":  func(_ *testing.T, _ *hot.Store, mem *vfs.Mem) *vfs.Mem { return mem.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			s := openStore(t, mem)
			l := createLog(t, s, smallSegments())
			batch := func(i int) []byte {
				return recordtest.Batch(0, recordtest.Count(2), recordtest.Producer(7, 3, int32(2*i)))
			}
			const batches = 9
			var first [batches]record.Offset
			for i := range batches {
				done, err := l.Append(batch(i), 0)
				if err != nil {
					t.Fatal(err)
				}
				first[i] = done.FirstOffset
				appendBatch(t, l, 5) // somebody else's
				if i >= batches-3 {
					if err := l.Roll(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := l.WaitDurable(t.Context(), l.EndOffset()); err != nil {
				t.Fatal(err)
			}
			l = openLog(t, openStore(t, end(t, s, mem)), smallSegments())
			at := l.EndOffset()
			if _, err := l.Append(recordtest.Batch(0, recordtest.Producer(7, 3, 2*batches+2)), 1); !errors.Is(err, record.ErrOutOfOrderSequence) {
				t.Errorf("a gap: %v", err)
			}
			for i := batches - 5; i < batches; i++ {
				done, err := l.Append(batch(i), 1)
				if err != nil || !done.Duplicate || done.FirstOffset != first[i] {
					t.Errorf("batch %d again: %+v, %v, want offset %d", i, done, err, first[i])
				}
			}
			if _, err := l.Append(batch(batches-6), 1); !errors.Is(err, record.ErrOutOfOrderSequence) && !errors.Is(err, record.ErrDuplicateSequence) {
				t.Errorf("one more than a client has in flight: %v", err)
			}
			if done, err := l.Append(batch(batches), 1); err != nil || done.FirstOffset != at {
				t.Errorf("the next one: %+v, %v, want offset %d", done, err, at)
			}
		})
	}
}
