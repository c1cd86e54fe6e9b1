// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"testing"

	"pgregory.net/rapid"

	"firn/record"
)

// TestWatermarkNeverShowsAnUnsyncedBatch attacks I1 with random appends and
// syncs, against the definition of the high watermark written out naively.
func TestWatermarkNeverShowsAnUnsyncedBatch(t *testing.T) {
	type batch struct {
		offsetRange
		needsSync bool
	}
	rapid.Check(t, func(t *rapid.T) {
		start := record.Offset(rapid.Int64Range(0, 1000).Draw(t, "start"))
		w := newWatermark(start)
		durable, end := start, start
		var all []batch
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				b := batch{offsetRange{end, end + record.Offset(rapid.Int64Range(1, 5).Draw(t, "n"))}, rapid.Bool().Draw(t, "all")}
				all, end = append(all, b), b.to
				w.append(b.offsetRange, b.needsSync)
			},
			"sync": func(t *rapid.T) {
				// A sync covers whole batches.
				for _, b := range all {
					if b.from >= durable && rapid.Bool().Draw(t, "further") {
						durable = b.to
					} else if b.from >= durable {
						break
					}
				}
				w.synced(durable)
			},
			"": func(t *rapid.T) {
				want := end
				for _, b := range all {
					if b.needsSync && b.to > durable {
						want = b.from
						break
					}
				}
				if w.high != want {
					t.Fatalf("high watermark %d, want %d", w.high, want)
				}
			},
		})
	})
}

func TestWatermarkSyncedBeforeItWasNoted(t *testing.T) {
	w := newWatermark(0)
	w.synced(10)
	if !w.append(offsetRange{0, 10}, true) || w.high != 10 {
		t.Fatalf("high watermark %d after a batch that was synced already, want 10", w.high)
	}
}

func TestWatermarkJoinsNeighbours(t *testing.T) {
	w := newWatermark(0)
	for o := record.Offset(0); o < 1000; o++ {
		w.append(offsetRange{o, o + 1}, true)
	}
	if len(w.unsynced) != 1 {
		t.Fatalf("%d runs for neighbouring batches, want 1", len(w.unsynced))
	}
}
