// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
	"firn/record/recordtest"
)

// holdSyncs holds every sync of a log file up until it is let go.
func (n *node) holdSyncs() (letGo func()) {
	gate := make(chan struct{})
	n.disk.Hook(func(c faultfs.Call) *faultfs.Fault {
		if c.Op == faultfs.OpSync && strings.HasSuffix(c.Path, ".log") {
			<-gate
		}
		return nil
	})
	n.letGo = sync.OnceFunc(func() { close(gate) })
	return n.letGo
}

func untiered(n *node) { n.untiered = true }

// I1, by each acks.
func TestVisibility(t *testing.T) {
	bubble(t, untiered, func(t *testing.T, n *node) {
		letGo := n.holdSyncs()
		wake := make(chan struct{}, 1)
		defer n.Watch(wake)()
		woken := func(want bool) {
			t.Helper()
			select {
			case <-wake:
				if !want {
					t.Fatal("woken for nothing")
				}
			default:
				if want {
					t.Fatal("not woken")
				}
			}
		}
		for i, acks := range []Acks{AcksNone, AcksLeader} {
			ticket := n.put(batch(2, 0), acks)
			if err := ticket.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			n.wantHigh(record.Offset(2 * (i + 1)))
			woken(true)
		}
		first := n.put(batch(3, 0), AcksAll)
		n.wantHigh(4)
		woken(false)
		// What follows is hidden with it, whatever it asks for.
		n.put(batch(1, 0), AcksLeader)
		second := n.put(batch(1, 0), AcksAll)
		n.put(batch(1, 0), AcksNone)
		n.wantHigh(4)
		woken(false)
		waited := make(chan error, 2)
		for _, ticket := range []Ticket{first, second} {
			go func() { waited <- ticket.Wait(t.Context()) }()
		}
		synctest.Wait()
		if len(waited) > 0 {
			t.Fatal("an acks=all append was acknowledged before its sync")
		}
		letGo()
		for range 2 {
			if err := <-waited; err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		n.wantHigh(10)
		woken(true)
	})
}

// Who was told that a record is safe finds it, at once.
func TestAcknowledgedIsVisible(t *testing.T) {
	bubble(t, untiered, func(t *testing.T, n *node) {
		n.opened.Store(false) // the hook that says the same comes late
		for range 200 {
			ticket := n.put(batch(1, 0), AcksAll)
			if err := ticket.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if high := n.HighWatermark(); high < ticket.NextOffset {
				t.Fatalf("the high watermark is %d after the acknowledgement of %d", high, ticket.NextOffset)
			}
		}
	})
}

func TestDuplicateWaitsForItsOriginal(t *testing.T) {
	for _, original := range []Acks{AcksLeader, AcksAll} {
		bubble(t, untiered, func(t *testing.T, n *node) {
			letGo := n.holdSyncs()
			idempotent := func() []byte { return recordtest.Batch(0, recordtest.Count(3), recordtest.Producer(5, 0, 0)) }
			first := n.put(idempotent(), original)
			again := n.put(idempotent(), AcksAll)
			if !again.Duplicate || again.FirstOffset != first.FirstOffset || again.NextOffset != first.NextOffset {
				t.Fatalf("the duplicate is %+v, the original %+v", again, first)
			}
			waited := make(chan error, 1)
			go func() { waited <- again.Wait(t.Context()) }()
			synctest.Wait()
			if len(waited) > 0 {
				t.Fatal("a duplicate was acknowledged before the sync of its original")
			}
			letGo()
			if err := <-waited; err != nil {
				t.Fatal(err)
			}
			if d := n.Log().DurableOffset(); d != 3 {
				t.Errorf("durable up to %d, want 3", d)
			}
			n.wantHigh(3)
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	bubble(t, untiered, func(t *testing.T, n *node) {
		letGo := n.holdSyncs()
		ticket := n.put(batch(1, 0), AcksAll)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ticket.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		letGo()
	})
}

func TestPoisonedLog(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *node) {
		n.segment()
		n.uploaded()
		n.put(batch(2, 0), AcksLeader)
		if err := n.put(batch(2, 0), AcksAll).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.wantHigh(14)
		n.disk.FailFrom(1, faultfs.IOError(), faultfs.OpSync)
		// The log may be poisoned before put has returned.
		shown := make(chan struct{}, 1)
		defer n.Watch(shown)()
		lost := n.put(batch(2, 0), AcksAll)
		if err := lost.Wait(t.Context()); !errors.Is(err, record.ErrStorage) {
			t.Fatalf("the failed sync was acknowledged: %v", err)
		}
		synctest.Wait()
		if len(shown) == 0 {
			t.Error("nobody was woken")
		}
		n.wantHigh(14)
		for _, acks := range []Acks{AcksNone, AcksLeader, AcksAll} {
			if _, err := n.Append(batch(1, 0), acks); !errors.Is(err, record.ErrStorage) {
				t.Errorf("append with acks %d: %v", acks, err)
			}
		}
		n.wantHigh(14)
		// Reads go on, nothing more goes up, and nothing is given up.
		if first, err := n.ReadLocal(10, 14, 1<<20, true, false); err != nil {
			t.Error(err)
		} else {
			first.Release()
		}
		n.dropTiered()
		n.settle(time.Hour)
		if end := n.Tier().End(); end != 10 {
			t.Errorf("the chain ends at %d, want 10", end)
		}
		n.wantStarts(0, 10)
		n.wantHigh(14)
		n.crash((*vfs.Mem).Crash)
		n.open()
		n.wantHigh(14)
	})
}

// TestCrashLosesNothingAcknowledged attacks DESIGN's promise with random
// appends and power cuts that keep some of what nobody synced.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			bubble(t, func(n *node) { n.untiered = seed%2 == 0; n.log.SegmentBytes = 2000 }, func(t *testing.T, n *node) {
				var safe []byte // the log up to the last acknowledged acks=all batch
				for range 4 {
					epoch, before := n.LeaderEpoch(), n.EndOffset()
					safe = n.liveUntilCrash(rng, safe)
					n.open()
					if n.LeaderEpoch() <= epoch {
						t.Fatalf("epoch %d after %d", n.LeaderEpoch(), epoch)
					}
					all := n.readAll()
					if !bytes.HasPrefix(all, safe) {
						t.Fatalf("%d bytes are left, %d were acknowledged, or they differ", len(all), len(safe))
					}
					n.wantHigh(n.EndOffset())
					// A consumer of the last life hears where it went on.
					at, end := n.EpochEnd(epoch)
					if n.EndOffset() > before && at == epoch && end != n.EndOffset() {
						t.Errorf("epoch %d ends at %d, the log at %d", at, end, n.EndOffset())
					}
					ticket := n.put(batch(1, 0), AcksAll)
					if err := ticket.Wait(t.Context()); err != nil {
						t.Fatal(err)
					}
					if got := n.At(ticket.FirstOffset).Epoch; got != n.LeaderEpoch() {
						t.Errorf("the first record of epoch %d has epoch %d", n.LeaderEpoch(), got)
					}
					if at, end := n.EpochEnd(epoch); at > epoch || end > ticket.FirstOffset {
						t.Errorf("epoch %d ends at %d of epoch %d, but %d has epoch %d", epoch, end, at, ticket.FirstOffset, n.LeaderEpoch())
					}
					safe = n.readAll()
				}
			})
		})
	}
}

// liveUntilCrash appends at random, crashes, and returns the log up to the
// last batch that was acknowledged with acks=all.
func (n *node) liveUntilCrash(rng *rand.Rand, safe []byte) []byte {
	n.t.Helper()
	var durable record.Offset
	for range rng.IntN(30) {
		acks := []Acks{AcksNone, AcksLeader, AcksAll}[rng.IntN(3)]
		ticket := n.put(batch(1+rng.IntN(4), 0), acks)
		if acks == AcksAll && rng.IntN(2) == 0 {
			if err := ticket.Wait(n.t.Context()); err != nil {
				n.t.Fatal(err)
			}
			durable = ticket.NextOffset
		}
		if rng.IntN(10) == 0 {
			n.seal()
		}
	}
	if durable > 0 {
		safe = nil
		for rest := n.readAll(); len(rest) > 0; {
			b, after, err := record.SplitBatch(rest)
			if err != nil {
				n.t.Fatal(err)
			}
			if b.Header().NextOffset() <= durable {
				safe = append(safe, b...)
			}
			rest = after
		}
	}
	keep := (*vfs.Mem).Crash
	if rng.IntN(2) == 0 {
		seed := rng.Uint64()
		keep = func(m *vfs.Mem) *vfs.Mem { return m.CrashKeeping(seed) }
	}
	n.crash(keep)
	return safe
}
