// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"
	"testing"
	"time"

	"firn/internal/vfs/faultfs"
)

// diskKind is a way in which the disk with the local copy fails.
type diskKind struct {
	name  string
	ops   []faultfs.Op
	times int // 0 for once
	fault func(n int) faultfs.Fault
}

func diskKinds() []diskKind {
	io := func(int) faultfs.Fault { return faultfs.IOError() }
	short := func(n int) faultfs.Fault { return faultfs.ShortWrite(n * 31 % 200) }
	full := func(n int) faultfs.Fault { return faultfs.NoSpace(n * 31 % 200) }
	syncs := []faultfs.Op{faultfs.OpSync, faultfs.OpSyncDir}
	kinds := []diskKind{
		{"a write fails", faultfs.Writes(), 0, io},
		{"five writes fail", faultfs.Writes(), 5, io},
		{"a write is short", []faultfs.Op{faultfs.OpWrite}, 0, short},
		{"the disk is full for a while", []faultfs.Op{faultfs.OpWrite, faultfs.OpCreate}, 9, full},
		{"a sync fails", syncs, 0, io},
		{"syncs fail for a while", syncs, 9, io},
		{"a read fails", faultfs.Reads(), 0, io},
		{"a close fails", []faultfs.Op{faultfs.OpClose}, 0, io},
	}
	for bit := range 40 {
		kinds = append(kinds, diskKind{fmt.Sprintf("a bit flips, %d", bit), []faultfs.Op{faultfs.OpRead}, 0,
			func(n int) faultfs.Fault { return faultfs.FlipBit(bit*83 + n) }})
	}
	return kinds
}

// The disk fails at the n-th operation on the local copy, in each of the ways
// there are: a head is not visible before the copy is durable, and everything
// is made good afterwards.
func TestLocalCopyFailsAtEveryOperation(t *testing.T) {
	for _, kind := range diskKinds() {
		t.Run(kind.name, func(t *testing.T) {
			fired := true
			for n := 1; fired; n++ {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					bubble(t, func(t *testing.T, w *world) {
						w.diskFaults = faultfs.New(w.fs)
						fault := w.diskFaults.Inject(faultfs.Rule{Ops: kind.ops, Skip: n - 1, Times: kind.times, Fault: kind.fault(n)})
						w.life()
						w.pass(20 * testGrace)
						w.wantState(Ready, "")
						w.checkHistory()
						w.checkBucket()
						fired = fault.Fired() > 0
						// What a crash leaves is enough to go on from.
						w.diskFaults = nil
						w.crash()
						w.open()
						w.pass(time.Second)
						w.wantState(Ready, "")
						w.checkHistory()
						w.checkBucket()
					})
				})
			}
		})
	}
}
