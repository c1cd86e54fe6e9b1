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
	queue chan func()
	stop  chan struct{}
	done  sync.WaitGroup

	mu     sync.RWMutex // held shared while a task is put into the queue
	closed bool
}

func newPool(workers, queueLength int) *pool {
	p := &pool{queue: make(chan func(), queueLength), stop: make(chan struct{})}
	for range workers {
		p.done.Go(p.work)
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
// closed.
func (p *pool) submit(task func()) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
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
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return fmt.Errorf("wait for a reader: %w", record.ErrClosed)
	}
	select {
	case p.queue <- task:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a reader: %w", ctx.Err())
	}
}

// close ends the workers after the tasks they are at, then runs what is left
// in the queue. Its callers cancel the tasks' contexts first, so that this is
// short.
func (p *pool) close() {
	p.mu.Lock() // the workers are still there to make room for who waits
	p.closed = true
	p.mu.Unlock()
	close(p.stop)
	p.done.Wait()
	for {
		select {
		case task := <-p.queue:
			task()
		default:
			return
		}
	}
}
