// SPDX-License-Identifier: Apache-2.0

package fetch

import "sync"

// budget is memory that reads may hold together. Whoever finds too little left
// queues up, first come, first served, so that small requests cannot starve a
// large one. A place in the queue outlives the fetch that took it: a consumer
// that is answered at once, time and again, by its hot partitions would
// otherwise never come to the front.
//
// Invariant: used is at most limit, but for one claim over the whole limit,
// which passes when nothing else is held.
type budget struct {
	mu    sync.Mutex
	limit int64
	used  int64
	queue []*claim // who waits, oldest first
}

// claim is one consumer's wish for memory. Its budget's lock guards it.
type claim struct {
	wake  chan<- struct{}
	n     int64
	state claimState
}

type claimState int8

const (
	claimNone    claimState = iota
	claimQueued             // waits for n bytes
	claimGranted            // holds n bytes that were not taken yet
)

func newBudget(limit int64) *budget { return &budget{limit: limit} }

// inUse is how much is held at the moment.
func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// take asks for n bytes and returns how many the caller now holds: all of
// them, or what an earlier call waited for, be it more or less than n, or none.
// In the last case the claim waits, and its wake is signalled when it is worth
// another call; a claim that waits already keeps its place and waits for n
// bytes from now on.
func (b *budget) take(c *claim, n int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.state == claimNone {
		b.queue = append(b.queue, c)
		c.state = claimQueued
	}
	if c.state == claimQueued {
		c.n = n
		b.grantLocked(c)
	}
	if c.state != claimGranted {
		return 0
	}
	c.state = claimNone
	return c.n
}

// extend takes n more bytes for a read under way, unless that would pass the
// limit or anybody who waits.
func (b *budget) extend(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) > 0 || b.used+n > b.limit {
		return false
	}
	b.used += n
	return true
}

// give returns n bytes.
func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.grantLocked(nil)
}

// withdraw ends a claim: its place, or what it was granted, goes to the others.
func (b *budget) withdraw(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch c.state {
	case claimQueued:
		for i, waiting := range b.queue {
			if waiting == c {
				b.queue = append(b.queue[:i], b.queue[i+1:]...)
				break
			}
		}
	case claimGranted:
		b.used -= c.n
	}
	c.state = claimNone
	b.grantLocked(nil)
}

// grantLocked gives what is left to those at the front of the queue and wakes
// them, except caller, who sees it without.
func (b *budget) grantLocked(caller *claim) {
	for len(b.queue) > 0 {
		c := b.queue[0]
		// A claim over the whole limit passes alone, or it would wait for ever.
		if b.used+c.n > b.limit && b.used > 0 {
			return
		}
		b.queue[0] = nil
		b.queue = b.queue[1:]
		b.used += c.n
		c.state = claimGranted
		if c == caller {
			continue
		}
		select {
		case c.wake <- struct{}{}:
		default: // being woken already
		}
	}
	b.queue = nil
}
