// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"sync"
	"sync/atomic"

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
	memory  *budget
	tail    *pool // local, not in the page cache, near the log's end
	warm    *pool // local, not in the page cache
	cold    *pool // below the local start
	buffers sync.Pool

	bytes [ClassCold + 1]atomic.Int64

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
		options: o,
		memory:  newBudget(o.MemoryBytes),
		tail:    newPool(1, o.QueueLength),
		warm:    newPool(o.WarmWorkers, o.QueueLength),
		cold:    newPool(o.ColdWorkers, o.QueueLength),
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.draining, f.drain = context.WithCancel(f.ctx)
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

func (f *Fetcher) buffer(size int) []byte {
	if b, ok := f.buffers.Get().(*[]byte); ok && cap(*b) >= size {
		return (*b)[:size]
	}
	return make([]byte, size)
}

func (f *Fetcher) recycle(b []byte) { f.buffers.Put(&b) }
