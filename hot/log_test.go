// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"testing"

	"firn/hot"
	"firn/internal/vfs"
)

func TestAppendedBatchesAreReadBackInPieces(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	l := createLog(t, s, smallSegments())
	fill(t, l, 4)
	want := readAll(t, l, 1<<20)
	for _, size := range []int{1, 150, 199, 200, 400, 1000} {
		got := readAll(t, l, size)
		if len(got) != len(want) {
			t.Fatalf("%d batches in pieces of %d bytes, want %d", len(got), size, len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("batch %d differs in pieces of %d bytes", i, size)
			}
		}
	}
}

func TestCleanStopNeedsNoRecovery(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	l := createLog(t, s, smallSegments())
	fill(t, l, 3)
	want, end := readAll(t, l, 1<<20), l.EndOffset()
	closeStore(t, s)

	crashed := mem.Crash()
	s = openStore(t, crashed)
	if !s.Clean() {
		t.Fatal("the store was closed and is not clean")
	}
	l = openLog(t, s, hot.LogOptions{})
	if l.EndOffset() != end || l.DurableOffset() != end {
		t.Fatalf("log ends at %d, durable to %d, want %d", l.EndOffset(), l.DurableOffset(), end)
	}
	if got := readAll(t, l, 1<<20); len(got) != len(want) {
		t.Fatalf("%d batches, want %d", len(got), len(want))
	}
}
