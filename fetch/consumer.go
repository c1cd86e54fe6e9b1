// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"firn/record"
)

// Consumer is what a Fetcher keeps for one connection: the reads that outlived
// the fetch that started them. Fetch is called by one goroutine at a time;
// Close may come at any time.
type Consumer struct {
	fetcher *Fetcher
	ctx     context.Context
	cancel  context.CancelFunc

	mu       sync.Mutex
	closed   bool
	reads    map[partitionKey]*read
	reserved int64 // of the fetcher's memory, by reads
	calls    uint64
	turn     int // where the next fetch begins to start reads
	wake     chan struct{}
}

// partitionKey names a partition of one life of its topic.
type partitionKey struct {
	topic     record.TopicID
	partition int32
}

func keyOf(p Partition) partitionKey { return partitionKey{p.TopicID(), p.TopicPartition().Partition} }

// NewConsumer makes the state of a connection. Close it when the connection
// goes.
func (f *Fetcher) NewConsumer() *Consumer {
	ctx, cancel := context.WithCancel(f.ctx)
	return &Consumer{
		fetcher: f,
		ctx:     ctx,
		cancel:  cancel,
		reads:   make(map[partitionKey]*read),
		wake:    make(chan struct{}, 1),
	}
}

// Close cancels the reads under way and gives back what they hold.
func (c *Consumer) Close() {
	c.cancel()
	c.fetcher.memory.leave(c.wake)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for key, r := range c.reads {
		c.dropLocked(key, r)
	}
}

// take looks for the read of a partition at an offset. It returns the read and
// hands it over when it is ready, returns pending when it is under way, and
// drops a read of another offset: the consumer has gone elsewhere. A result
// over maxBytes stays for a fetch with more room.
func (c *Consumer) take(key partitionKey, from record.Offset, maxBytes int) (r *read, pending bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.reads[key]
	if !ok {
		return nil, false
	}
	r.call = c.calls
	switch {
	case r.from != from:
		c.dropLocked(key, r)
		return nil, false
	case !r.ready:
		return nil, true
	case r.err == nil && len(r.bytes) > maxBytes:
		return nil, true
	}
	delete(c.reads, key)
	c.reserved -= r.reserved
	return r, false
}

// start is a read to be started for a partition of a fetch.
type start struct {
	partition Partition
	from, at  record.Offset
	limit     record.Offset
	maxBytes  int
	class     Class // warm or cold
	nearEnd   bool  // warm, within TailBytes of the log's end
}

// begin starts as many reads as this connection may have memory for, from a
// rotating position, and returns how many of them are under way or wait for
// memory.
func (c *Consumer) begin(starts []start) (pending int) {
	if len(starts) == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0
	}
	c.makeRoomLocked()
	room := int64(c.fetcher.options.FetchMemoryBytes) - c.reserved
	c.turn++
	var chosen []start
	var total int64
	for i := range starts {
		s := starts[(i+c.turn)%len(starts)]
		s.maxBytes = int(min(int64(s.maxBytes), room-total))
		if s.maxBytes <= 0 {
			break
		}
		total += int64(s.maxBytes)
		chosen = append(chosen, s)
	}
	if total == 0 {
		return 0
	}
	if !c.fetcher.memory.reserve(total, c.wake) {
		return len(chosen)
	}
	for _, s := range chosen {
		if c.startLocked(s) {
			pending++
		} else {
			c.fetcher.memory.adjust(-int64(s.maxBytes))
		}
	}
	return pending
}

// makeRoomLocked drops results that the fetch under way did not ask for, when
// they keep it from starting reads of its own.
func (c *Consumer) makeRoomLocked() {
	for key, r := range c.reads {
		if c.reserved < int64(c.fetcher.options.FetchMemoryBytes) {
			return
		}
		if r.call != c.calls {
			c.dropLocked(key, r)
		}
	}
}

// startLocked queues the read whose memory was reserved; false means that the
// pool's queue is full.
func (c *Consumer) startLocked(s start) bool {
	f := c.fetcher
	ctx, cancel := context.WithCancel(c.ctx)
	pool, work := f.cold, f.readCold
	if s.class == ClassWarm {
		pool, work = f.warm, f.readWarm
		if s.nearEnd {
			pool = f.tail
		}
	}
	r := &read{from: s.from, class: s.class, cancel: cancel, reserved: int64(s.maxBytes), call: c.calls}
	if !pool.submit(func() {
		bytes, release, err := work(ctx, s)
		cancel()
		c.finish(r, bytes, release, err)
	}) {
		cancel()
		return false
	}
	c.reads[keyOf(s.partition)] = r
	c.reserved += r.reserved
	return true
}

// finish takes a read's result from its worker and wakes the fetch.
func (c *Consumer) finish(r *read, bytes []byte, release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Hold what the result takes: a first batch over the limit overdraws.
	held := int64(cap(bytes))
	c.fetcher.memory.adjust(held - r.reserved)
	if !r.dropped {
		c.reserved += held - r.reserved
	}
	r.bytes, r.release, r.err, r.reserved = bytes, release, err, held
	r.ready, r.since = true, time.Now()
	if r.dropped {
		c.fetcher.giveBack(r)
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// newCall numbers a fetch and drops results that no fetch came for.
func (c *Consumer) newCall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	for key, r := range c.reads {
		if r.ready && time.Since(r.since) > c.fetcher.options.KeepReady {
			c.dropLocked(key, r)
		}
	}
}

// dropLocked abandons a read. What it holds goes back now if it is ready,
// else when its worker is done with it.
func (c *Consumer) dropLocked(key partitionKey, r *read) {
	delete(c.reads, key)
	c.reserved -= r.reserved
	r.dropped = true
	r.cancel()
	if r.ready {
		c.fetcher.giveBack(r)
	}
}

// giveBack returns a finished read's bytes and its reservation.
func (f *Fetcher) giveBack(r *read) {
	if r.release != nil {
		r.release()
	}
	f.memory.adjust(-r.reserved)
}

// closedError tells a parked fetch why it must end, nil when it need not.
func (c *Consumer) closedError() error {
	if c.ctx.Err() != nil {
		return fmt.Errorf("fetch: %w", record.ErrClosed)
	}
	return nil
}
