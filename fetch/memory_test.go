// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firn/record"
)

func TestBudget(t *testing.T) {
	b := newBudget(100)
	var wakes [4]chan struct{}
	var claims [4]claim
	for i := range wakes {
		wakes[i] = make(chan struct{}, 1)
		claims[i].wake = wakes[i]
	}
	take := func(i int, n, want int64) {
		t.Helper()
		if got := b.take(&claims[i], n); got != want {
			t.Fatalf("claim %d of %d got %d, want %d (%d used)", i, n, got, want, b.used)
		}
	}
	woken := func(want ...int) {
		t.Helper()
		var got []int
		for i := range wakes {
			select {
			case <-wakes[i]:
				got = append(got, i)
			default:
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("woken: %v, want %v", got, want)
		}
	}
	take(0, 60, 60)
	take(1, 60, 0) // waits
	take(2, 10, 0) // would fit, but came later
	if b.extend(10) {
		t.Fatal("a read took more while others wait")
	}
	take(1, 50, 0) // keeps its place
	b.give(20)
	woken(1, 2)
	take(1, 70, 50) // what it was granted
	take(3, 1, 0)
	b.withdraw(&claims[3])
	b.withdraw(&claims[2]) // gives back what it was granted
	take(3, 1, 1)
	if !b.extend(9) || b.extend(1) {
		t.Fatal("extend does not end at the limit")
	}
	take(0, 1000, 0) // over the limit: alone
	take(1, 1, 0)
	b.give(99)
	woken()
	b.give(1)
	woken(0)
	take(0, 1000, 1000)
	b.give(1000)
	woken(1)
	b.withdraw(&claims[1])
	if b.used != 0 || len(b.queue) != 0 {
		t.Fatalf("%d used, %d wait at the end", b.used, len(b.queue))
	}
}

// A batch over what was reserved is read once there is room for it, and one
// over all there is when nothing else is held.
func TestLargeFirstBatches(t *testing.T) {
	const limit = 100_000
	for _, size := range []int{5_000, 60_000, 200_000, 500_000} {
		exact := len(batchOf(0, size))
		for _, warm := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d bytes, warm %v", size, warm), func(t *testing.T) {
				bubble(t, Options{MemoryBytes: 2 * limit, FetchMemoryBytes: limit}, func(t *testing.T, w *world) {
					make := func(size int) *fakePartition {
						if !warm {
							return w.cold(batchesOf(0, size)...)
						}
						p := w.partition()
						p.append(t, size)
						p.setPaged(true)
						return p
					}
					large, small, other := make(size), make(1000), make(limit)
					lane := laneCold
					if warm {
						lane = laneWarm
					}
					// Somebody else holds all memory.
					holder := w.fetcher.NewConsumer()
					held, _ := w.fetch(holder, ask(second, 1, at(other, 0)))
					c := w.fetcher.NewConsumer()
					req := ask(second, 1, PartitionRequest{Partition: large, MaxBytes: 1000}, PartitionRequest{Partition: small, MaxBytes: 1000})
					r, took := w.fetch(c, req)
					w.wantTook(took, second)
					w.wantEmpty(r, 0)
					w.wantEmpty(r, 1)
					r.Release()
					held.Release()
					got := 0
					for range 6 {
						synctest.Wait() // a small read must not win by the scheduler's favour
						r, _ := w.fetch(c, req)
						if used, _ := w.used(lane); used > max(limit, int64(exact)) {
							t.Errorf("%d bytes are reserved", used)
						}
						got += len(r.Partitions[0].Bytes) / exact
						r.Release()
					}
					if got < 1 {
						t.Error("the large batch was never answered")
					}
					holder.Close()
					c.Close()
				})
			})
		}
	}
}

// The place in the queue for memory outlives the fetch: hot data that is
// answered at once, time and again, does not send the consumer to its end.
func TestPlaceInTheQueueIsKept(t *testing.T) {
	bubble(t, Options{MemoryBytes: 2000, FetchMemoryBytes: 1000}, func(t *testing.T, w *world) {
		p := func() *fakePartition { return w.cold(batchesOf(0, 1000)...) }
		hotOne, holder, mixed, late := w.partition(), w.fetcher.NewConsumer(), w.fetcher.NewConsumer(), w.fetcher.NewConsumer()
		hotOne.append(t, 100)
		held, _ := w.fetch(holder, ask(second, 1, at(p(), 0)))
		coldOne := p()
		r, took := w.fetch(mixed, ask(second, 1, at(hotOne, 0), at(coldOne, 0)))
		w.wantTook(took, 0)
		r.Release()
		parked := make(chan struct{})
		go func() {
			defer close(parked)
			r, took := w.fetch(late, ask(5*second, 1, at(p(), 0)))
			w.wantTook(took, 3*second)
			w.wantData(r, 0, ClassCold, 0, 1)
			r.Release()
		}()
		<-time.After(second)
		held.Release()
		<-time.After(second)
		r, took = w.fetch(mixed, ask(second, 1, at(coldOne, 0)))
		w.wantTook(took, 0)
		w.wantData(r, 0, ClassCold, 0, 1)
		<-time.After(second)
		r.Release()
		<-parked
		for _, c := range []*Consumer{holder, mixed, late} {
			c.Close()
		}
	})
}

// Who was granted memory and has gone quiet does not keep it.
func TestQuietClaimsAreWithdrawn(t *testing.T) {
	bubble(t, Options{MemoryBytes: 2000, FetchMemoryBytes: 1000, KeepReady: 10 * second}, func(t *testing.T, w *world) {
		p := func() *fakePartition { return w.cold(batchesOf(0, 1000)...) }
		holder, quiet, late := w.fetcher.NewConsumer(), w.fetcher.NewConsumer(), w.fetcher.NewConsumer()
		held, _ := w.fetch(holder, ask(second, 1, at(p(), 0)))
		r, _ := w.fetch(quiet, ask(second, 1, at(p(), 0)))
		r.Release()
		held.Release() // goes to quiet, which never asks again
		r, took := w.fetch(late, ask(time.Minute, 1, at(p(), 0)))
		w.wantData(r, 0, ClassCold, 0, 1)
		if took > 15*second {
			t.Errorf("got memory after %v", took)
		}
		r.Release()
		for _, c := range []*Consumer{holder, quiet, late} {
			c.Close()
		}
	})
}

// A store that hangs holds up no warm read, nor does the memory of cold reads
// that nobody waits for any more.
func TestHangingStoreHoldsUpNoWarmRead(t *testing.T) {
	bubble(t, Options{MemoryBytes: 4000, FetchMemoryBytes: 1000, ColdWorkers: 1}, func(t *testing.T, w *world) {
		hangs := make(gate)
		local := w.partition()
		local.append(t, 500)
		local.setPaged(true)
		var consumers []*Consumer
		for range 5 {
			p := w.cold(batchesOf(0, 500)...)
			p.onCold = hangs.wait
			c := w.fetcher.NewConsumer()
			r, took := w.fetch(c, ask(second, 1, at(p, 0), at(local, 0)))
			w.wantTook(took, 0)
			w.wantData(r, 1, ClassWarm, 0, 1)
			r.Release()
			consumers = append(consumers, c)
		}
		if used, queued := w.used(laneCold); used != 2000 || queued != 3 {
			t.Errorf("%d bytes are used and %d claims wait for cold reads", used, queued)
		}
		// One of the two reads is at the only worker, the other queued behind.
		for _, c := range consumers {
			c.Close()
		}
		synctest.Wait()
		w.wantFree()
	})
}

// Many consumers whose answers are slowly sent replay much more than there is
// memory for: each gets everything, in order, and no two starve one another.
func TestManyConsumersReplay(t *testing.T) {
	const consumers, batches = 20, 30
	bubble(t, Options{MemoryBytes: 20_000, FetchMemoryBytes: 4000, ColdWorkers: 3}, func(t *testing.T, w *world) {
		rng := rand.New(rand.NewPCG(1, 2))
		var sizes []int
		for range batches {
			sizes = append(sizes, 200+rng.IntN(1500))
		}
		sizes[7], sizes[20] = 9_000, 15_000 // over the connection's share, over the limit
		history := batchesOf(0, sizes...)
		partitions := []*fakePartition{w.cold(history...), w.cold(history...), w.partition()}
		for _, size := range sizes {
			partitions[2].append(t, size)
		}
		partitions[2].setPaged(true)
		var wg sync.WaitGroup
		for i := range consumers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(3, uint64(i)))
				c := w.fetcher.NewConsumer()
				defer c.Close()
				next := make([]record.Offset, len(partitions))
				for slices.Min(next) < batches {
					var wants []PartitionRequest
					for p := range partitions {
						wants = append(wants, PartitionRequest{Partition: partitions[p], Offset: next[p], MaxBytes: 2000})
					}
					r, err := c.Fetch(t.Context(), ask(second, 1, wants...))
					if err != nil {
						t.Error(err)
						return
					}
					for p := range partitions {
						if b := r.Partitions[p].Bytes; b != nil {
							first, after := spanOf(t, b)
							if first != next[p] {
								t.Errorf("got %d, want %d", first, next[p])
							}
							next[p] = after
						}
					}
					<-time.After(time.Duration(rng.IntN(50)) * time.Millisecond)
					r.Release()
				}
			})
		}
		started := time.Now()
		wg.Wait()
		if took := time.Since(started); took > 10*time.Minute {
			t.Errorf("the replay took %v", took)
		}
	})
}

// TestMemoryIsGivenBack attacks I2 and I3 with random fetches, ends and
// failures: the limit is never passed but by one batch alone, and in the end
// everything is given back. bubble looks at that.
func TestMemoryIsGivenBack(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			o := Options{
				FetchMemoryBytes: 500 + rng.IntN(4000), ColdWorkers: 1 + rng.IntN(3), QueueLength: 1 + rng.IntN(5),
				KeepReady: time.Duration(1+rng.IntN(3000)) * time.Millisecond, ReadTimeout: second,
			}
			o.MemoryBytes = int64(2*o.FetchMemoryBytes + rng.IntN(8000))
			bubble(t, o, func(t *testing.T, w *world) { liveRandomly(t, w, rng) })
		})
	}
}

func liveRandomly(t *testing.T, w *world, rng *rand.Rand) {
	var largest int64
	var partitions []*fakePartition
	for range 1 + rng.IntN(6) {
		var sizes []int
		for range 1 + rng.IntN(12) {
			size := 100 + rng.IntN(2000)
			if rng.IntN(10) == 0 {
				size += rng.IntN(20_000)
			}
			sizes = append(sizes, size)
			largest = max(largest, int64(len(batchOf(0, size))))
		}
		p := w.randomPartition(rng, sizes)
		partitions = append(partitions, p)
	}
	var wg sync.WaitGroup
	for i := range 1 + rng.IntN(6) {
		rng := rand.New(rand.NewPCG(rng.Uint64(), uint64(i)))
		wg.Go(func() {
			c := w.fetcher.NewConsumer()
			for range 40 {
				if rng.IntN(12) == 0 {
					c.Close()
					c = w.fetcher.NewConsumer()
				}
				w.fetchRandomly(c, rng, partitions)
				for lane, b := range w.fetcher.memory {
					if used, _ := w.used(lane); used > max(b.limit, largest) || used < 0 {
						t.Errorf("lane %d has %d bytes reserved, the limit is %d", lane, used, b.limit)
					}
				}
			}
			c.Close()
			if _, err := c.Fetch(t.Context(), ask(0, 0)); !errors.Is(err, record.ErrClosed) {
				t.Errorf("a fetch after the close: %v", err)
			}
		})
	}
	wg.Wait()
}

// randomPartition has batches of the given sizes, in the cold tier or local,
// and reads that take a while and fail now and then.
func (w *world) randomPartition(rng *rand.Rand, sizes []int) *fakePartition {
	var mu sync.Mutex
	own := rand.New(rand.NewPCG(rng.Uint64(), 0))
	hinder := func(ctx context.Context) error {
		mu.Lock()
		delay, fault := time.Duration(own.IntN(2000))*time.Millisecond, own.IntN(6)
		mu.Unlock()
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", record.ErrNotReady, ctx.Err())
		}
		switch fault {
		case 0:
			return record.ErrStorage
		case 1:
			return record.ErrOffsetOutOfRange
		}
		return nil
	}
	if rng.IntN(2) == 0 {
		p := w.cold(batchesOf(0, sizes...)...)
		p.onCold = func(ctx context.Context, _ record.Offset) error { return hinder(ctx) }
		return p
	}
	p := w.partition()
	for _, size := range sizes {
		p.append(w.t, size)
	}
	p.setPaged(rng.IntN(3) > 0)
	p.onLocal = func(uncached bool) error {
		if !uncached {
			return nil
		}
		return hinder(context.Background())
	}
	return p
}

// fetchRandomly makes one fetch and holds its answer for a while.
func (w *world) fetchRandomly(c *Consumer, rng *rand.Rand, partitions []*fakePartition) {
	var wants []PartitionRequest
	for _, p := range partitions {
		if rng.IntN(3) == 0 {
			continue
		}
		wants = append(wants, PartitionRequest{
			Partition: p, Offset: record.Offset(rng.Int64N(int64(p.log.EndOffset()) + 1)), MaxBytes: 1 + rng.IntN(5000),
		})
		if rng.IntN(8) == 0 {
			wants = append(wants, wants[0])
		}
	}
	req := ask(time.Duration(rng.IntN(1500))*time.Millisecond, rng.IntN(3)*1000, wants...)
	req.MaxBytes = 1 + rng.IntN(8000)
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	switch rng.IntN(6) {
	case 0:
		time.AfterFunc(time.Duration(rng.IntN(1000))*time.Millisecond, cancel)
	case 1:
		time.AfterFunc(time.Duration(rng.IntN(1000))*time.Millisecond, c.Close)
	}
	r, err := c.Fetch(ctx, req)
	if err != nil {
		return
	}
	for i, got := range r.Partitions {
		if got.Err == nil && (got.Region != nil || got.Bytes != nil) {
			if first, next := spanOf(w.t, data(w.t, got)); first > wants[i].Offset || next <= wants[i].Offset {
				w.t.Errorf("asked for %d, got [%d,%d)", wants[i].Offset, first, next)
			}
		}
	}
	<-time.After(time.Duration(rng.IntN(300)) * time.Millisecond)
	r.Release()
}

// A connection that asks on and on and takes no answer keeps what one connection
// may have, and everybody else replays; what it was answered counts until the
// answer is gone, and the next fetch is woken by that.
func TestUnsentAnswersCount(t *testing.T) {
	bubble(t, Options{MemoryBytes: 4000, FetchMemoryBytes: 500}, func(t *testing.T, w *world) {
		greedy := w.fetcher.NewConsumer()
		var unsent []*Result
		for range 10 {
			r, _ := w.fetch(greedy, ask(second, 1, at(w.cold(batchesOf(0, 500)...), 0)))
			unsent = append(unsent, r)
		}
		w.wantData(unsent[0], 0, ClassCold, 0, 1)
		for _, r := range unsent[1:] {
			w.wantEmpty(r, 0)
		}
		other := w.fetcher.NewConsumer()
		r, took := w.fetch(other, ask(time.Minute, 1, at(w.cold(batchesOf(0, 500)...), 0)))
		w.wantTook(took, 0)
		w.wantData(r, 0, ClassCold, 0, 1)
		r.Release()

		time.AfterFunc(2*second, unsent[0].Release)
		r, took = w.fetch(greedy, ask(time.Minute, 1, at(w.cold(batchesOf(0, 500)...), 0)))
		w.wantTook(took, 2*second)
		w.wantData(r, 0, ClassCold, 0, 1)
		r.Release()
		for _, r := range unsent[1:] {
			r.Release()
		}
		greedy.Close()
		other.Close()
	})
}
