// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"sync"
	"sync/atomic"
)

// maxParallelSyncs bounds the logs that a round of the group commit syncs at
// once. Each blocks an OS thread; beyond this many a journal has long been
// batching them.
const maxParallelSyncs = 64

// queue collects logs for a goroutine that works on them in rounds: what is
// asked for during a round is done in the next. A log is in it at most once,
// so that it is bounded by the number of logs.
type queue struct {
	wanted func(*Log) *atomic.Bool
	kick   chan struct{} // room for one

	mu   sync.Mutex
	logs []*Log
}

func newQueue(wanted func(*Log) *atomic.Bool) *queue {
	return &queue{wanted: wanted, kick: make(chan struct{}, 1)}
}

// request puts l into the next round.
func (q *queue) request(l *Log) {
	if q.wanted(l).Swap(true) {
		return
	}
	q.mu.Lock()
	q.logs = append(q.logs, l)
	q.mu.Unlock()
	select {
	case q.kick <- struct{}{}:
	default:
	}
}

// take empties the queue. What is requested from here on is in the next round,
// even for a log that was just taken.
func (q *queue) take() []*Log {
	q.mu.Lock()
	defer q.mu.Unlock()
	logs := q.logs
	q.logs = nil
	for _, l := range logs {
		q.wanted(l).Store(false)
	}
	return logs
}

// serve runs rounds of work, width logs at a time, until stop is closed. A
// round ends before the next begins.
func (q *queue) serve(stop <-chan struct{}, width int, work func(*Log)) {
	for {
		select {
		case <-stop:
			return
		case <-q.kick:
		}
		forEach(q.take(), width, work)
	}
}

// forEach calls work for every item, at most width at a time, and waits.
func forEach[T any](items []T, width int, work func(T)) {
	if len(items) == 1 {
		work(items[0])
		return
	}
	var wg sync.WaitGroup
	turns := make(chan struct{}, width)
	for _, item := range items {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			work(item)
		})
	}
	wg.Wait()
}
