// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"firn/record"
	"firn/record/recordtest"
	"firn/tier/store"
	"firn/tier/store/faultstore"
)

// inRecords is a FindFunc over uncompressed records.
func inRecords(b record.Batch, from record.Offset, ts int64) (record.Offset, int64, bool) {
	h := b.Header()
	for r, err := range h.Records(b.Section()) {
		if err != nil {
			return 0, 0, false
		}
		if o, at := h.RecordOffset(r), h.RecordTimestamp(r); o >= from && at >= ts {
			return o, at, true
		}
	}
	return 0, 0, false
}

// TestTimesAreThoseOfALogNeverTiered compares a partition that is offloaded
// piece by piece with one that never was, for every timestamp there is and
// those around it, and right at the seam.
func TestTimesAreThoseOfALogNeverTiered(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			bubble(t, func(n *node) { n.log.LogAppendTime = seed%7 == 6 }, func(t *testing.T, n *node) {
				twin := n.twin()
				asked := []int64{-1, 0, 1 << 50}
				for range 3 + rng.IntN(12) {
					for range 1 + rng.IntN(4) {
						b, stamps := randomBatch(rng)
						n.put(slices.Clone(b), AcksLeader)
						if _, err := twin.Append(b, AcksLeader); err != nil {
							t.Fatal(err)
						}
						asked = append(asked, stamps...)
					}
					switch rng.IntN(4) {
					case 0:
						n.seal()
					case 1:
						n.seal()
						n.uploaded()
						n.dropTiered()
					case 2:
						n.seal()
						n.uploaded()
						n.dropFirst(rng)
					}
					if rng.IntN(6) == 0 {
						before := record.Offset(rng.Int64N(int64(n.EndOffset()) + 1))
						for _, p := range []*Partition{n.Partition, twin} {
							if _, err := p.DeleteRecords(t.Context(), before); err != nil {
								t.Fatal(err)
							}
						}
						n.settle(time.Second)
					}
				}
				if n.log.LogAppendTime {
					asked = append(asked, time.Now().UnixMilli(), time.Now().UnixMilli()-1000)
				}
				sameTimes(t, n.Partition, twin, asked)
			})
		})
	}
}

// twin is a partition with the same options and without a tier.
func (n *node) twin() *Partition {
	n.t.Helper()
	o := n.log
	o.SegmentBytes = 1 << 20
	p, err := Open(n.t.Context(), Options{
		TopicPartition: record.TopicPartition{Topic: "twin"}, TopicID: record.TopicID{9}, Store: n.logs, Create: true,
		Log: o, Epoch: n.epoch, Retention: forEver,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return p
}

// dropFirst drops some of what the store has from the local log.
func (n *node) dropFirst(rng *rand.Rand) {
	n.t.Helper()
	segments := n.Log().Segments()
	if _, err := n.Log().DropBefore(n.t.Context(), segments[rng.IntN(len(segments))].BaseOffset()); err != nil {
		n.t.Fatal(err)
	}
}

// randomBatch is a batch whose timestamps go up and down within few values, and
// the timestamps.
func randomBatch(rng *rand.Rand) (b []byte, stamps []int64) {
	opts := []recordtest.Option{recordtest.Count(1 + rng.IntN(4))}
	stamp := 1_000 + rng.Int64N(40)
	if rng.IntN(10) == 0 {
		stamp = record.NoTimestamp
	} else {
		opts = append(opts, recordtest.TimestampStep(rng.Int64N(5)))
	}
	b = recordtest.Batch(0, append(opts, recordtest.Timestamp(stamp))...)
	h := record.Batch(b).Header()
	return b, []int64{h.BaseTimestamp - 1, h.BaseTimestamp, h.MaxTimestamp, h.MaxTimestamp + 1}
}

func sameTimes(t *testing.T, tiered, twin *Partition, asked []int64) {
	t.Helper()
	if a, b := tiered.LogStartOffset(), twin.LogStartOffset(); a != b {
		t.Fatalf("the log starts are %d and %d", a, b)
	}
	slices.Sort(asked)
	for name, find := range map[string]FindFunc{"by records": inRecords, "by batches": nil} {
		for _, ts := range slices.Compact(asked) {
			got, err := tiered.OffsetForTimestamp(t.Context(), ts, ReadUncommitted, find)
			if err != nil {
				t.Fatal(err)
			}
			want, err := twin.OffsetForTimestamp(t.Context(), ts, ReadUncommitted, find)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("%s, time %d: %+v, want %+v (log start %d, local %d)", name, ts, got, want, tiered.LogStartOffset(), tiered.LocalStartOffset())
			}
		}
		got, err := tiered.MaxTimestamp(t.Context(), ReadUncommitted, find)
		if err != nil {
			t.Fatal(err)
		}
		want, err := twin.MaxTimestamp(t.Context(), ReadUncommitted, find)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s, largest time: %+v, want %+v (log start %d, local %d)", name, got, want, tiered.LogStartOffset(), tiered.LocalStartOffset())
		}
	}
}

// The local start rises past the answer between the search of the store and
// that of the local log.
func TestTimeSearchMeetsTheRisingLocalStart(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *node) {
		put := func(ts int64) {
			n.put(recordtest.Batch(0, recordtest.Timestamp(ts)), AcksLeader)
			n.seal()
		}
		put(1000)
		n.uploaded()
		n.dropTiered()
		put(2000)
		put(3000)
		n.uploaded()
		n.wantStarts(0, 1)
		// The search of the store has to read the first object, whose
		// timestamps do not tell; the drop comes then.
		n.faults.Inject(faultstore.Fault{Op: store.OpGet, Times: 1, Before: func(context.Context, faultstore.Call) {
			if _, err := n.Log().DropBefore(context.Background(), 2); err != nil {
				t.Error(err)
			}
		}, Effect: faultstore.Twice})
		calls := 0
		late := func(b record.Batch, from record.Offset, ts int64) (record.Offset, int64, bool) {
			calls++
			if b.Header().BaseOffset == 0 {
				return 0, 0, false // as if the batch's largest timestamp were not a record's
			}
			return inRecords(b, from, ts)
		}
		got, err := n.OffsetForTimestamp(t.Context(), 900, ReadUncommitted, late)
		if err != nil || got.Offset != 1 || got.Timestamp != 2000 {
			t.Errorf("got %+v, %v; want offset 1 (%d batches looked at)", got, err, calls)
		}
		n.wantStarts(0, 2)
	})
}

// A search is bounded by the high watermark.
func TestTimesEndAtTheHighWatermark(t *testing.T) {
	bubble(t, untiered, func(t *testing.T, n *node) {
		n.put(recordtest.Batch(0, recordtest.Timestamp(1000)), AcksLeader)
		letGo := n.holdSyncs()
		n.put(recordtest.Batch(0, recordtest.Timestamp(2000)), AcksAll)
		if got, err := n.OffsetForTimestamp(t.Context(), 1500, ReadUncommitted, inRecords); err != nil || got != notFound {
			t.Errorf("%+v, %v; want none", got, err)
		}
		if got, err := n.MaxTimestamp(t.Context(), ReadUncommitted, inRecords); err != nil || got.Offset != 0 {
			t.Errorf("%+v, %v; want offset 0", got, err)
		}
		letGo()
		synctest.Wait()
		if got, err := n.MaxTimestamp(t.Context(), ReadUncommitted, inRecords); err != nil || got.Offset != 1 {
			t.Errorf("%+v, %v; want offset 1", got, err)
		}
	})
}

func TestTimesOfNothing(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *node) {
		if got, err := n.OffsetForTimestamp(t.Context(), 0, ReadUncommitted, inRecords); err != nil || got != notFound {
			t.Errorf("by time: %+v, %v", got, err)
		}
		if got, err := n.MaxTimestamp(t.Context(), ReadUncommitted, inRecords); err != nil || got != notFound {
			t.Errorf("largest time: %+v, %v", got, err)
		}
		if at := n.At(n.EndOffset()); at.Epoch != n.LeaderEpoch() || at.Timestamp != -1 {
			t.Errorf("latest %+v", at)
		}
	})
}
