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
	wake    chan struct{}

	mu       sync.Mutex
	closed   bool
	fetching bool
	rest     time.Time // when the last fetch ended
	seen     time.Time // when the consumer last had everything, zero when its last answer left something
	round    uint64    // counts the passes of fetches over their partitions
	reads    map[partitionKey]*read
	lanes    [lanes]lane
}

// partitionKey names a partition of one life of its topic.
type partitionKey struct {
	topic     record.TopicID
	partition int32
}

func keyOf(p Partition) partitionKey { return partitionKey{p.TopicID(), p.TopicPartition().Partition} }

// The lanes keep warm and cold reads apart down to their memory: neither a dead
// store nor a slow disk may hold up the other's reads.
const (
	laneWarm = iota
	laneCold
	lanes
)

func laneOf(c Class) int {
	if c == ClassWarm {
		return laneWarm
	}
	return laneCold
}

// lane is what a consumer holds of one kind of read.
type lane struct {
	memory   *budget
	claim    claim
	claimed  bool  // the claim is in use
	reserved int64 // of memory, by reads
	next     int   // the place in the request at which the next starts begin
}

// NewConsumer makes the state of a connection. Close it when the connection
// goes.
func (f *Fetcher) NewConsumer() *Consumer {
	ctx, cancel := context.WithCancel(f.ctx)
	c := &Consumer{
		fetcher: f,
		ctx:     ctx,
		cancel:  cancel,
		wake:    make(chan struct{}, 1),
		rest:    time.Now(),
		reads:   make(map[partitionKey]*read),
	}
	for i := range c.lanes {
		c.lanes[i] = lane{memory: f.memory[i], claim: claim{wake: c.wake}}
	}
	f.mu.Lock()
	f.consumers[c] = struct{}{}
	f.mu.Unlock()
	return c
}

// Close cancels the reads under way and gives back what they hold.
func (c *Consumer) Close() {
	c.cancel()
	c.fetcher.mu.Lock()
	delete(c.fetcher.consumers, c)
	c.fetcher.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for key, r := range c.reads {
		c.dropLocked(key, r)
	}
	c.withdrawLocked()
}

// begin and end frame a fetch. They keep when the consumer last had everything,
// zero when it had not.
func (c *Consumer) begin() (seen time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetching = true
	return c.seen
}

func (c *Consumer) end(seen time.Time) {
	c.mu.Lock()
	c.fetching, c.rest, c.seen = false, time.Now(), seen
	c.mu.Unlock()
}

// nextRound begins a pass over the partitions. It returns those whose results
// found no room in an earlier answer: they go first now, or partitions that
// always have data before them would keep them waiting for ever.
func (c *Consumer) nextRound() (first map[partitionKey]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
	for key, r := range c.reads {
		if r.passed {
			if first == nil {
				first = make(map[partitionKey]bool)
			}
			first[key] = true
		}
	}
	return first
}

// standing is what has become of the read of a partition.
type standing int8

const (
	absent  standing = iota // none; the read, if any, says what the next one needs
	pending                 // under way
	full                    // ready, but over the room in the answer
	done                    // handed over
)

// take looks for the read of a partition at an offset and hands it over when
// it is ready. It drops a read of another offset, or of what another isolation
// level may see: the consumer has gone elsewhere. A result over room stays for an answer with more.
func (c *Consumer) take(key partitionKey, from record.Offset, committed bool, room int) (*read, standing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.reads[key]
	switch {
	case !ok:
		return nil, absent
	case r.from != from && r.asked == c.round:
		return nil, pending // the request names the partition twice
	case r.from != from || r.committed != committed:
		c.dropLocked(key, r)
		return nil, absent
	}
	r.asked = c.round
	switch {
	case !r.ready:
		return nil, pending
	case r.need > 0:
		return r, absent
	case r.err == nil && len(r.bytes) > room:
		r.passed = true
		return nil, full
	}
	delete(c.reads, key)
	return r, done
}

// settle gives back what a read held that was handed over: its answer was sent
// or given up. Until then it counts among what the connection may have, or one
// that pipelines fetches and takes no answers would hold the memory of all.
func (c *Consumer) settle(r *read) {
	c.mu.Lock()
	c.laneOf(r).reserved -= r.reserved
	c.mu.Unlock()
	c.fetcher.giveBack(r)
	select {
	case c.wake <- struct{}{}: // a fetch may wait for just this
	default:
	}
}

func (c *Consumer) laneOf(r *read) *lane { return &c.lanes[laneOf(r.class)] }

// sweep gives back what no fetch has come for: results that are older than
// KeepReady, and the claims of a consumer that does not fetch any more.
func (c *Consumer) sweep(now time.Time) {
	keep := c.fetcher.options.KeepReady
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, r := range c.reads {
		if r.ready && now.Sub(r.since) >= keep {
			c.dropLocked(key, r)
		}
	}
	if !c.fetching && now.Sub(c.rest) >= keep {
		c.withdrawLocked()
	}
}

// dropLocked abandons a read. What it holds goes back now, unless a worker is
// at it: then when the worker is done.
func (c *Consumer) dropLocked(key partitionKey, r *read) {
	delete(c.reads, key)
	c.laneOf(r).reserved -= r.reserved
	r.dropped = true
	r.cancel()
	if r.ready || !r.running {
		c.fetcher.giveBack(r)
	}
}

func (c *Consumer) withdrawLocked() {
	for i := range c.lanes {
		c.lanes[i].withdraw()
	}
}

func (l *lane) withdraw() {
	if l.claimed {
		l.memory.withdraw(&l.claim)
		l.claimed = false
	}
}

// giveBack returns a read's bytes and its reservation.
func (f *Fetcher) giveBack(r *read) {
	if r.release != nil {
		r.release()
	}
	f.memory[laneOf(r.class)].give(r.reserved)
}

// closedError tells a parked fetch why it must end, nil when it need not.
func (c *Consumer) closedError() error {
	if c.ctx.Err() != nil {
		return fmt.Errorf("fetch: %w", record.ErrClosed)
	}
	return nil
}
