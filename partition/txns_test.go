// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
	"firn/tier"
)

// inTxn is a transactional batch of three records.
func inTxn(producer int64, sequence int32) []byte {
	return recordtest.Batch(0, recordtest.Count(3), recordtest.Producer(producer, 0, sequence), recordtest.Transactional())
}

// endTxn is the marker that ends a producer's transaction.
func endTxn(producer int64, abort bool) []byte {
	return recordtest.Marker(0, producer, 0, record.Marker{Abort: abort})
}

// putFrom appends to a partition and fails the test if that does.
func putFrom(t *testing.T, p *Partition, origin hot.Origin, b []byte, acks Acks) Ticket {
	t.Helper()
	ticket, err := p.AppendFrom(origin, bytes.Clone(b), acks)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func (n *node) wantStable(want record.Offset) {
	n.t.Helper()
	if got := n.LastStableOffset(); got != want {
		n.t.Fatalf("the last stable offset is %d, want %d (the high watermark is %d)", got, want, n.HighWatermark())
	}
}

// I5: a marker ends a transaction when it is visible, not when it is written.
func TestLastStableOffset(t *testing.T) {
	bubble(t, untiered, func(t *testing.T, n *node) {
		n.put(batch(2, 0), AcksLeader)
		n.wantStable(2)
		putFrom(t, n.Partition, hot.VerifiedClient, inTxn(1, 0), AcksLeader) // 2 to 4
		putFrom(t, n.Partition, hot.VerifiedClient, inTxn(2, 0), AcksLeader) // 5 to 7
		n.put(batch(2, 0), AcksLeader)                                       // 8, 9
		n.wantStable(2)
		letGo := n.holdSyncs()
		marker := putFrom(t, n.Partition, hot.Coordinator, endTxn(1, true), AcksAll) // 10
		if n.HighWatermark() != 10 {
			t.Fatalf("the high watermark is %d before the sync", n.HighWatermark())
		}
		n.wantStable(2)
		letGo()
		if err := marker.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.wantStable(5)
		for level, want := range map[Isolation]record.Offset{ReadCommitted: 5, ReadUncommitted: 11} {
			if got := n.VisibleEnd(level); got != want {
				t.Errorf("level %d sees up to %d, want %d", level, got, want)
			}
		}
		txns, err := n.AbortedTxns(2, 5)
		want := []record.AbortedTxn{{ProducerID: 1, FirstOffset: 2, LastOffset: 10, LastStableOffset: 5}}
		if err != nil || !slices.Equal(txns, want) {
			t.Fatalf("aborted are %v, %v, want %v", txns, err, want)
		}
		if _, err := n.DeleteRecords(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		n.wantStable(7) // inside the transaction of producer 2, which is open
		putFrom(t, n.Partition, hot.Coordinator, endTxn(2, false), AcksLeader)
		n.wantStable(12)
	})
}

// A record of an open transaction is not found by who must not see it.
func TestTimeSearchStopsAtTheLastStableOffset(t *testing.T) {
	bubble(t, untiered, func(t *testing.T, n *node) {
		at := func(ms int64, opts ...recordtest.Option) []byte {
			return recordtest.Batch(0, append(opts, recordtest.Timestamp(ms))...)
		}
		n.put(at(1000), AcksLeader)
		putFrom(t, n.Partition, hot.VerifiedClient, at(2000, recordtest.Producer(1, 0, 0), recordtest.Transactional()), AcksLeader)
		for level, want := range map[Isolation]record.Offset{ReadCommitted: record.NoOffset, ReadUncommitted: 1} {
			if got, err := n.OffsetForTimestamp(t.Context(), 1500, level, nil); err != nil || got.Offset != want {
				t.Errorf("level %d finds %+v, %v, want %d", level, got, err, want)
			}
		}
		for level, want := range map[Isolation]record.Offset{ReadCommitted: 0, ReadUncommitted: 1} {
			if got, err := n.MaxTimestamp(t.Context(), level, nil); err != nil || got.Offset != want {
				t.Errorf("level %d finds the largest at %+v, %v, want %d", level, got, err, want)
			}
		}
	})
}

// TestColdReadCommittedIsTheHotOne compares the answers of both tiers over any
// interleaving of transactions and rolls.
func TestColdReadCommittedIsTheHotOne(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, n *node) {
				rng, twin := rand.New(rand.NewPCG(seed, 5)), n.twin()
				sequences, open := map[int64]int32{}, map[int64]bool{}
				for range 60 {
					id := 1 + rng.Int64N(4)
					origin, b := hot.Client, batch(1+rng.IntN(3), 0)
					switch rng.IntN(6) {
					case 0, 1, 2:
						origin, b, open[id] = hot.VerifiedClient, inTxn(id, sequences[id]), true
						sequences[id] += 3
					case 3, 4:
						origin, b, open[id] = hot.Coordinator, endTxn(id, rng.IntN(2) == 0), false
					}
					putFrom(t, n.Partition, origin, b, AcksLeader)
					putFrom(t, twin, origin, b, AcksLeader)
					if rng.IntN(4) == 0 {
						n.seal()
						n.settle(2 * time.Second)
						if end, stable := n.Tier().End(), n.LastStableOffset(); end > stable {
							t.Fatalf("the chain ends at %d, above the last stable offset %d", end, stable)
						}
					}
				}
				n.seal()
				n.settle(5 * time.Second)
				state := n.Tier().State()
				if behind := n.Log().Sealed(n.Tier().End()); (len(behind) > 0) != (state.Reason == tier.ReasonOpenTransaction) {
					t.Fatalf("%d segments are behind, the reason is %q", len(behind), state.Reason)
				}
				if n.LastStableOffset() != twin.LastStableOffset() {
					t.Fatalf("stable to %d, the twin to %d", n.LastStableOffset(), twin.LastStableOffset())
				}
				n.dropTiered()
				n.sameCommitted(twin, rng)
			})
		})
	}
}

// sameCommitted reads everything that the store has and compares each answer
// with what the twin has in the same place.
func (n *node) sameCommitted(twin *Partition, rng *rand.Rand) {
	n.t.Helper()
	for at, end := n.LogStartOffset(), n.LocalStartOffset(); at < end; {
		d, err := n.ReadCold(n.t.Context(), at, n.LastStableOffset(), 1+rng.IntN(2000), true)
		if err != nil || len(d.Bytes) == 0 {
			n.t.Fatalf("cold read at %d: %d bytes, %v", at, len(d.Bytes), err)
		}
		first := record.Batch(d.Bytes).Header().BaseOffset
		r, err := twin.ReadLocal(at, d.Next, 1<<20, true, false)
		if err != nil || r == nil {
			n.t.Fatalf("hot read at %d: %v", at, err)
		}
		b := make([]byte, r.Len())
		if k, err := r.ReadAt(b, 0); k < len(b) {
			n.t.Fatal(err)
		}
		r.Release()
		if r.Next() != d.Next || !bytes.Equal(b, d.Bytes) {
			n.t.Fatalf("offsets %d to %d differ from the hot ones to %d", first, d.Next, r.Next())
		}
		want, err := twin.AbortedTxns(first, d.Next)
		if err != nil || !slices.Equal(d.Aborted, want) {
			n.t.Fatalf("aborted from %d to %d: cold %v, hot %v, %v", first, d.Next, d.Aborted, want, err)
		}
		d.Release()
		at = d.Next
	}
}

// A directory that was set back begins anew where the chain ends: what is in the
// chain is decided there, whatever marker comes again.
func TestWhatTheChainHasStaysDecided(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *node) {
		n.segment()
		n.uploaded()
		old := n.mem.Crash()
		putFrom(t, n.Partition, hot.VerifiedClient, inTxn(1, 0), AcksAll) // 10 to 12
		putFrom(t, n.Partition, hot.VerifiedClient, inTxn(2, 0), AcksAll) // 13 to 15
		n.seal()
		putFrom(t, n.Partition, hot.Coordinator, endTxn(1, true), AcksAll)
		putFrom(t, n.Partition, hot.Coordinator, endTxn(2, false), AcksAll)
		n.settle(5 * time.Second)
		if n.Tier().End() != 16 {
			t.Fatalf("the chain ends at %d, want 16", n.Tier().End())
		}
		n.crash(func(*vfs.Mem) *vfs.Mem { return old })
		n.open()
		n.settle(time.Minute)
		if n.EndOffset() != 16 || n.LocalStartOffset() != 16 {
			t.Fatalf("the local log has %d to %d, want it to begin anew at 16", n.LocalStartOffset(), n.EndOffset())
		}
		n.wantStable(16)
		for _, id := range []int64{1, 2} { // the other way round
			putFrom(t, n.Partition, hot.Coordinator, endTxn(id, id == 2), AcksAll)
		}
		n.put(inTxnOf(t, n, 1, 3), AcksAll)
		synctest.Wait()
		n.wantStable(18)
		txns, err := n.AbortedTxns(16, 18)
		if err != nil || len(txns) > 0 {
			t.Fatalf("aborted behind the chain: %v, %v", txns, err)
		}
		d, err := n.ReadCold(t.Context(), 10, 16, 1<<20, true)
		want := []record.AbortedTxn{{ProducerID: 1, FirstOffset: 10, LastOffset: 16, LastStableOffset: 13}}
		if err != nil || !slices.Equal(d.Aborted, want) {
			t.Fatalf("aborted in the chain: %v, %v, want %v", d.Aborted, err, want)
		}
		d.Release()
	})
}

// inTxnOf begins a transaction with a batch of which the state must know the
// sequence, and answers it again: the duplicate is found.
func inTxnOf(t *testing.T, n *node, id int64, sequence int32) []byte {
	t.Helper()
	b := inTxn(id, sequence)
	putFrom(t, n.Partition, hot.VerifiedClient, b, AcksAll)
	return b
}
