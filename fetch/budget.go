// SPDX-License-Identifier: Apache-2.0

package fetch

import "sync"

// budget is the memory that warm and cold reads may hold together. Whoever
// finds too little left queues up, first come, first served, so that small
// requests cannot starve a large one.
type budget struct {
	mu    sync.Mutex
	limit int64
	used  int64
	queue []chan<- struct{} // who waits, each at most once
}

func newBudget(limit int64) *budget { return &budget{limit: limit} }

// reserve takes n bytes if nobody waits who came earlier. Otherwise it queues
// wake, which is signalled when it is worth another try, and returns false;
// the caller must later reserve again with the same wake, or call leave.
func (b *budget) reserve(n int64, wake chan<- struct{}) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := len(b.queue) == 0 || b.queue[0] == wake
	// A request over the whole limit passes alone, or it would wait for ever.
	if first && (b.used+n <= b.limit || b.used == 0) {
		b.used += n
		b.removeLocked(wake)
		return true
	}
	for _, waiting := range b.queue {
		if waiting == wake {
			return false
		}
	}
	b.queue = append(b.queue, wake)
	return false
}

// adjust changes what is held by n bytes either way: a first batch over the
// limit overdraws, a short read gives back. It never waits.
func (b *budget) adjust(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
	if n < 0 {
		b.wakeFirstLocked()
	}
}

// leave takes wake out of the queue.
func (b *budget) leave(wake chan<- struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeLocked(wake)
}

func (b *budget) removeLocked(wake chan<- struct{}) {
	for i, waiting := range b.queue {
		if waiting == wake {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			b.wakeFirstLocked()
			return
		}
	}
}

func (b *budget) wakeFirstLocked() {
	if len(b.queue) == 0 {
		return
	}
	select {
	case b.queue[0] <- struct{}{}:
	default: // being woken already
	}
}
