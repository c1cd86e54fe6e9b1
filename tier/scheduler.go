// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// lane is a kind of work, with workers of its own: small requests never wait
// behind the upload of a large segment.
type lane int

const (
	laneControl lane = iota // take over, manifest, deletion
	laneUpload              // segment objects
	lanes
)

// verdict is what a task wants after a step.
type verdict struct {
	// again puts it into the queue of lane at once.
	again bool
	lane  lane
	// after, if above zero, wakes it no later than that.
	after time.Duration
	// hold makes wake wait for after as well: the last step failed.
	hold bool
}

// stepper is the work of one partition. limit and step are never called at
// once.
type stepper interface {
	// limit is how long the next step in a lane may take; its context ends
	// then. step does a bounded piece of work.
	limit(in lane) time.Duration
	step(ctx context.Context, in lane) verdict
	// name is for the log.
	name() string
}

// task is a stepper's place in the scheduler. Its fields are guarded by the
// scheduler's mu.
type task struct {
	work   stepper
	ctx    context.Context
	cancel context.CancelFunc

	queued, running bool
	again           bool // woken while it ran
	holdUntil       time.Time
	timer           *time.Timer
	closed          bool
	idle            chan struct{} // closed once closed and not running
}

// scheduler runs tasks on a fixed number of workers for each lane. A task is in
// one queue at most, and run by one worker at most, so that the queues are
// bounded by the number of tasks and a partition's work is sequential without a
// lock. Tasks of a lane take turns.
type scheduler struct {
	logger *slog.Logger

	mu      sync.Mutex
	ready   [lanes]*sync.Cond
	queue   [lanes][]*task
	held    bool // nothing begins before release
	stopped bool
	workers sync.WaitGroup
}

// watchdogSlack is how far beyond its limit a step may run before it is
// reported: a store that does not heed its context.
const watchdogSlack = time.Minute

func newScheduler(logger *slog.Logger, workers [lanes]int) *scheduler {
	s := &scheduler{logger: logger}
	for in := range lanes {
		s.ready[in] = sync.NewCond(&s.mu)
		for range workers[in] {
			s.workers.Go(func() { s.run(in) })
		}
	}
	return s
}

// hold keeps the workers from beginning anything until release.
func (s *scheduler) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
}

// release lets the workers begin.
func (s *scheduler) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	for _, c := range s.ready {
		c.Broadcast()
	}
}

// add makes a task for w. It does nothing until it is woken.
func (s *scheduler) add(ctx context.Context, w stepper) *task {
	ctx, cancel := context.WithCancel(ctx)
	return &task{work: w, ctx: ctx, cancel: cancel, idle: make(chan struct{})}
}

// wake makes the task run a control step soon. It never blocks, and is a no-op
// for a task that was removed.
func (s *scheduler) wake(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.running {
		t.again = true
		return
	}
	if time.Now().Before(t.holdUntil) {
		return // its timer will do it
	}
	s.pushLocked(t, laneControl)
}

func (s *scheduler) pushLocked(t *task, in lane) {
	if t.queued || t.closed || s.stopped {
		return
	}
	t.stopTimerLocked()
	t.queued = true
	s.queue[in] = append(s.queue[in], t)
	s.ready[in].Signal()
}

func (t *task) stopTimerLocked() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

// run is one worker.
func (s *scheduler) run(in lane) {
	for {
		t := s.next(in)
		if t == nil {
			return
		}
		limit := t.work.limit(in)
		watchdog := time.AfterFunc(limit+watchdogSlack, func() {
			s.logger.Error("archiver is stuck", "event", "tier_stuck", "partition", t.work.name(), "limit", limit)
		})
		ctx, cancel := context.WithTimeout(t.ctx, limit)
		v := t.work.step(ctx, in)
		cancel()
		watchdog.Stop()
		s.finish(t, v)
	}
}

// next waits for a task, nil once the scheduler stops.
func (s *scheduler) next(in lane) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	for (s.held || len(s.queue[in]) == 0) && !s.stopped {
		s.ready[in].Wait()
	}
	if s.stopped {
		return nil
	}
	t := s.queue[in][0]
	s.queue[in][0] = nil
	s.queue[in] = s.queue[in][1:]
	t.queued, t.running, t.again = false, true, false
	t.holdUntil = time.Time{}
	return t
}

func (s *scheduler) finish(t *task, v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.running = false
	switch {
	case t.closed:
		close(t.idle)
	case v.again:
		s.pushLocked(t, v.lane)
	case t.again && !v.hold:
		s.pushLocked(t, laneControl)
	case v.after > 0 && !s.stopped:
		if v.hold {
			t.holdUntil = time.Now().Add(v.after)
		}
		t.timer = time.AfterFunc(v.after, func() { s.expire(t) })
	}
}

// expire is wake by the task's own timer, whatever holds it.
func (s *scheduler) expire(t *task) {
	s.mu.Lock()
	t.holdUntil = time.Time{}
	s.mu.Unlock()
	s.wake(t)
}

// remove takes the task out, cancels a step under way, and waits for it as
// long as ctx allows. It may be called again.
func (s *scheduler) remove(ctx context.Context, t *task) error {
	s.mu.Lock()
	if !t.closed {
		t.closed = true
		t.cancel()
		t.stopTimerLocked()
		s.unqueueLocked(t)
		if !t.running {
			close(t.idle)
		}
	}
	s.mu.Unlock()
	select {
	case <-t.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *scheduler) unqueueLocked(t *task) {
	if !t.queued {
		return
	}
	t.queued = false
	for in := range s.queue {
		for i, q := range s.queue[in] {
			if q == t {
				s.queue[in] = append(s.queue[in][:i], s.queue[in][i+1:]...)
				break
			}
		}
	}
}

// stop ends the workers and waits for them. All tasks must have been removed.
func (s *scheduler) stop() {
	s.mu.Lock()
	s.stopped = true
	for _, c := range s.ready {
		c.Broadcast()
	}
	s.mu.Unlock()
	s.workers.Wait()
}
