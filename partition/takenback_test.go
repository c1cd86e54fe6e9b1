// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"testing"

	"firn/internal/vfs"
	"firn/record"
)

// Records of acks 0 and 1 are seen at once, and a power cut takes them back:
// their offsets return under a higher leader epoch, and the old epoch ends where
// the loss begins, from the first moment on and however far the log grows. What
// acks=all had, below them, is there.
func TestSeenRecordsComeBackUnderAHigherEpoch(t *testing.T) {
	bubble(t, untiered, func(t *testing.T, n *node) {
		if err := n.put(batch(3, 0), AcksAll).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		safe := n.readAll()
		n.put(batch(2, 0), AcksLeader)
		n.put(batch(2, 0), AcksNone)
		n.wantHigh(7) // seen
		seen, old := len(n.readAll()), n.LeaderEpoch()

		// A start in between has an epoch too, under which nothing is written.
		n.crash((*vfs.Mem).Crash)
		n.open()
		between := n.LeaderEpoch()
		n.crash((*vfs.Mem).Crash)
		n.open()
		ends := func(what string, end record.Offset) {
			t.Helper()
			for _, epoch := range []record.Epoch{old, between} {
				if at, got := n.EpochEnd(epoch); at != old || got != 3 {
					t.Errorf("%s: epoch %d ends at %d of epoch %d, want 3 of %d", what, epoch, got, at, old)
				}
			}
			if at, got := n.EpochEnd(n.LeaderEpoch()); at != n.LeaderEpoch() || got != end {
				t.Errorf("%s: the current epoch ends at %d of epoch %d, want %d", what, got, at, end)
			}
		}
		n.wantHigh(3)
		if got := n.readAll(); string(got) != string(safe) {
			t.Fatalf("%d bytes are left of %d that were seen, want %d", len(got), seen, len(safe))
		}
		ends("before an append", 3)
		for i := range 3 { // past what was seen
			ticket := n.put(batch(3, 0), AcksLeader)
			if ticket.FirstOffset != record.Offset(3+3*i) || n.At(ticket.FirstOffset).Epoch <= between {
				t.Fatalf("offset %d under epoch %d", ticket.FirstOffset, n.At(ticket.FirstOffset).Epoch)
			}
			ends("after an append", ticket.NextOffset)
		}
	})
}
