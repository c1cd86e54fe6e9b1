// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"sort"
	"time"

	"firn/record"
)

// minShare is the least memory with which a read is worth its start, unless it
// asks for less: a read of a few bytes costs a request to the store all the
// same.
const minShare = 64 << 10

// start is a read to be started for a partition of a fetch.
type start struct {
	index     int // of the partition in the request
	partition Partition
	from, at  record.Offset
	limit     record.Offset
	committed bool // limit is the last stable offset
	maxBytes  int
	class     Class // warm or cold
	tail      bool  // warm, within TailBytes of the log's end
	exact     bool  // maxBytes is the size of its first batch; less is of no use
}

// least is the memory without which the read is not worth its start.
func (s *start) least() int64 {
	if s.exact {
		return int64(s.maxBytes)
	}
	return int64(min(s.maxBytes, minShare))
}

// start starts as many of the reads, which are in the order of the request and
// of one lane, as this connection may have memory for, from a rotating
// position. It returns how many are under way or wait for memory.
func (c *Consumer) start(in int, starts []start) (pending int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &c.lanes[in]
	if c.closed || len(starts) == 0 {
		l.withdraw()
		return 0
	}
	c.makeRoomLocked(l, starts)
	chosen, total := c.chooseLocked(l, starts)
	if total == 0 {
		l.withdraw()
		return 0
	}
	granted := l.memory.take(&l.claim, total)
	if 0 < granted && granted < chosen[0].least() {
		// It was asked for by a fetch that wanted less.
		l.memory.give(granted)
		granted = l.memory.take(&l.claim, total)
	}
	l.claimed = granted == 0
	if granted == 0 {
		return len(chosen)
	}
	for _, s := range chosen {
		if granted < s.least() {
			break // the next fetch starts it
		}
		s.maxBytes = int(min(int64(s.maxBytes), granted))
		if c.startLocked(l, s) {
			granted -= int64(s.maxBytes)
			l.next = s.index + 1
			pending++
		}
	}
	if granted > 0 {
		l.memory.give(granted)
	}
	return pending
}

// chooseLocked picks the reads to start, and what they take together.
func (c *Consumer) chooseLocked(l *lane, starts []start) (chosen []start, total int64) {
	most := int64(c.fetcher.options.FetchMemoryBytes)
	first := sort.Search(len(starts), func(i int) bool { return starts[i].index >= l.next })
	for i := range starts {
		s := starts[(first+i)%len(starts)]
		if r := c.reads[keyOf(s.partition)]; r != nil && r.need == 0 {
			continue // the request names the partition twice
		}
		left := most - l.reserved - total
		alone := l.reserved+total == 0
		switch {
		case int64(s.maxBytes) <= left, s.exact && alone:
			// A batch over all that a connection may have is read alone.
		case !s.exact && left >= min(minShare, most):
			s.maxBytes = int(left)
		default:
			// It is the first of the next turn. To pass it over would starve
			// the large ones.
			return chosen, total
		}
		chosen = append(chosen, s)
		total += int64(s.maxBytes)
	}
	return chosen, total
}

// makeRoomLocked drops reads that the round under way did not ask for, as long
// as they keep it from starting its own.
func (c *Consumer) makeRoomLocked(l *lane, starts []start) {
	var want int64
	for _, s := range starts {
		want += int64(s.maxBytes)
	}
	most := int64(c.fetcher.options.FetchMemoryBytes)
	want = min(want, most)
	for key, r := range c.reads {
		if l.reserved+want <= most {
			return
		}
		if r.asked != c.round && c.laneOf(r) == l {
			c.dropLocked(key, r)
		}
	}
}

// startLocked queues the read, which takes s.maxBytes of what the caller has
// reserved; false means that it was not started.
func (c *Consumer) startLocked(l *lane, s start) bool {
	key := keyOf(s.partition)
	if r := c.reads[key]; r != nil && r.need == 0 {
		return false // the request names the partition twice
	}
	f := c.fetcher
	pool, work := f.cold, f.readCold
	if s.class == ClassWarm {
		pool, work = f.warm, f.readWarm
		if s.tail {
			pool = f.tail
		}
	}
	ctx, cancel := context.WithCancel(c.ctx)
	r := &read{from: s.from, committed: s.committed, class: s.class, tail: s.tail, cancel: cancel, reserved: int64(s.maxBytes), asked: c.round}
	if !pool.submit(func() {
		defer cancel()
		if c.run(r) {
			c.finish(r, work(ctx, s, func(n int64) bool { return c.extend(r, n) }))
		}
	}) {
		cancel()
		return false
	}
	c.reads[key] = r
	l.reserved += r.reserved
	return true
}

// run marks a read as under way, unless it was dropped, and what it had
// reserved given back, while it was queued.
func (c *Consumer) run(r *read) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.running = !r.dropped
	return r.running
}

// extend takes n more bytes for a read under way whose first batch is larger
// than was thought.
func (c *Consumer) extend(r *read, n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.laneOf(r)
	alone := l.reserved == r.reserved
	if r.dropped || !alone && l.reserved+n > int64(c.fetcher.options.FetchMemoryBytes) || !l.memory.extend(n) {
		return false
	}
	r.reserved += n
	l.reserved += n
	return true
}

// finish takes a read's outcome from its worker and wakes the fetch.
func (c *Consumer) finish(r *read, out outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.outcome = out
	if r.dropped {
		c.fetcher.giveBack(r)
		return
	}
	r.ready, r.since = true, time.Now()
	l := c.laneOf(r)
	if spare := r.reserved - out.held; spare > 0 {
		r.reserved -= spare
		l.reserved -= spare
		l.memory.give(spare)
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
