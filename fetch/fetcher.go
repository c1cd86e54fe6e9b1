// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"firn/hot"
)

// Class says which way the data of a partition took.
type Class int8

// The classes of an answer, as the metrics and the CLI name them.
const (
	ClassNone Class = iota // no data
	ClassHot
	ClassWarm
	ClassCold
)

// String is the class in lower case.
func (c Class) String() string {
	switch c {
	case ClassHot:
		return "hot"
	case ClassWarm:
		return "warm"
	case ClassCold:
		return "cold"
	}
	return "none"
}

// Stats are the bytes that fetches handed out since the start, by class.
type Stats struct {
	HotBytes, WarmBytes, ColdBytes int64
}

// Fetcher owns the pools and budgets that all connections share. All methods
// may be called concurrently.
type Fetcher struct {
	options Options
	memory  [lanes]*budget
	tail    *pool // local, not in the page cache, near the log's end
	warm    *pool // local, not in the page cache
	cold    *pool // below the local start
	buffers buffers
	sweeper sync.WaitGroup

	bytes [ClassCold + 1]atomic.Int64

	mu        sync.Mutex
	consumers map[*Consumer]struct{}

	// draining is done when fetches are to answer with what they have.
	draining context.Context
	drain    context.CancelFunc
	// ctx ends the reads under way when the Fetcher closes.
	ctx    context.Context
	cancel context.CancelFunc
}

// New starts the pools.
func New(o Options) (*Fetcher, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	f := &Fetcher{
		options:   o,
		tail:      newPool(1, o.QueueLength),
		warm:      newPool(o.WarmWorkers, o.QueueLength),
		cold:      newPool(o.ColdWorkers, o.QueueLength),
		consumers: make(map[*Consumer]struct{}),
	}
	for i := range f.memory {
		f.memory[i] = newBudget(o.MemoryBytes / lanes)
	}
	f.register(o.Registerer)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.draining, f.drain = context.WithCancel(f.ctx)
	f.sweeper.Go(f.sweep)
	return f, nil
}

// Drain makes every fetch, parked or new, answer at once with what it has, so
// that a stop does not wait for long polls.
func (f *Fetcher) Drain() { f.drain() }

// Close cancels the reads under way and waits for the workers. Fetches that
// are parked return record.ErrClosed.
func (f *Fetcher) Close() {
	f.cancel()
	f.cold.close()
	f.warm.close()
	f.tail.close()
	f.sweeper.Wait()
}

// sweep gives back, time and again, what consumers hold and do not come for:
// one that has gone quiet must not keep the memory of all.
func (f *Fetcher) sweep() {
	ticker := time.NewTicker(max(f.options.KeepReady/2, 1))
	defer ticker.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case now := <-ticker.C:
			f.mu.Lock()
			consumers := slices.Collect(maps.Keys(f.consumers))
			f.mu.Unlock()
			for _, c := range consumers {
				c.sweep(now)
			}
		}
	}
}

// Stats tells the bytes handed out so far.
func (f *Fetcher) Stats() Stats {
	return Stats{
		HotBytes:  f.bytes[ClassHot].Load(),
		WarmBytes: f.bytes[ClassWarm].Load(),
		ColdBytes: f.bytes[ClassCold].Load(),
	}
}

// ReadChunk fills p from the region at off on the warm pool and waits for it.
// It is how a connection reads a chunk that was in the page cache when its
// answer was promised and is not any more.
func (f *Fetcher) ReadChunk(ctx context.Context, r *hot.Region, p []byte, off int64) (int, error) {
	var n int
	var err error
	done := make(chan struct{})
	task := func() {
		defer close(done)
		if err = f.ctx.Err(); err == nil {
			n, err = r.ReadUncachedAt(p, off)
		}
	}
	// An answer is half sent: it waits for room in the queue instead of
	// giving up.
	if err := f.tail.enqueue(ctx, task); err != nil {
		return 0, err
	}
	// The task writes to p, so that it must be over before p goes back. It is
	// one disk read, and runs even while the pool closes.
	<-done
	return n, err
}
