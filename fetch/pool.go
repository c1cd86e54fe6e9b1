// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"fmt"
	"sync"

	"firn/record"
)

// pool runs tasks on a fixed number of goroutines behind a bounded queue.
// Every task that it accepted runs, even while it closes.
type pool struct {
	queue   chan func()
	stop    chan struct{}
	workers sync.WaitGroup

	mu      sync.Mutex // never held over a wait
	closed  bool
	waiting sync.WaitGroup // who is in enqueue
}

func newPool(workers, queueLength int) *pool {
	p := &pool{queue: make(chan func(), queueLength), stop: make(chan struct{})}
	for range workers {
		p.workers.Go(p.work)
	}
	return p
}

func (p *pool) work() {
	for {
		select {
		case task := <-p.queue:
			task()
		case <-p.stop:
			return
		}
	}
}

// submit queues the task; false means that the queue is full or the pool
// closed. It does not block.
func (p *pool) submit(task func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	select {
	case p.queue <- task:
		return true
	default:
		return false
	}
}

// enqueue waits for room in the queue. The error wraps ctx's or
// record.ErrClosed, and then the task does not run.
func (p *pool) enqueue(ctx context.Context, task func()) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return fmt.Errorf("wait for a reader: %w", record.ErrClosed)
	}
	p.waiting.Add(1)
	p.mu.Unlock()
	defer p.waiting.Done()
	select {
	case p.queue <- task:
		return nil
	case <-p.stop:
		return fmt.Errorf("wait for a reader: %w", record.ErrClosed)
	case <-ctx.Done():
		return fmt.Errorf("wait for a reader: %w", ctx.Err())
	}
}

// close ends the workers after the tasks they are at, then runs what is left
// in the queue. Its callers cancel the tasks' contexts first, so that this is
// short.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	close(p.stop)
	p.waiting.Wait()
	p.workers.Wait()
	for {
		select {
		case task := <-p.queue:
			task()
		default:
			return
		}
	}
}
