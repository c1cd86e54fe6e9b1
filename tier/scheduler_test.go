// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// job is a stepper whose steps a test decides.
type job struct {
	id   string
	do   func(ctx context.Context, in lane) verdict
	mu   sync.Mutex
	runs []lane
	busy bool
}

func (j *job) step(ctx context.Context, in lane) verdict {
	j.mu.Lock()
	if j.busy {
		panic("two steps at once")
	}
	j.busy = true
	j.runs = append(j.runs, in)
	j.mu.Unlock()
	v := j.do(ctx, in)
	j.mu.Lock()
	j.busy = false
	j.mu.Unlock()
	return v
}

func (j *job) limit(lane) time.Duration { return time.Hour }
func (j *job) name() string             { return j.id }

func (j *job) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.runs)
}

func idleStep(context.Context, lane) verdict { return verdict{} }

func schedulerBubble(t *testing.T, workers [lanes]int, test func(t *testing.T, s *scheduler)) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(slog.New(slog.DiscardHandler), workers)
		defer s.stop()
		test(t, s)
	})
}

func TestWakesAreNotLostAndNotCounted(t *testing.T) {
	schedulerBubble(t, [lanes]int{1, 1}, func(t *testing.T, s *scheduler) {
		started, goOn := make(chan struct{}), make(chan struct{})
		j := &job{do: func(context.Context, lane) verdict {
			started <- struct{}{}
			<-goOn
			return verdict{}
		}}
		task := s.add(t.Context(), j)
		s.wake(task)
		<-started
		for range 10 {
			s.wake(task) // while it runs: once more, not ten times
		}
		goOn <- struct{}{}
		<-started
		goOn <- struct{}{}
		synctest.Wait()
		if n := j.count(); n != 2 {
			t.Fatalf("%d steps, want 2", n)
		}
		if err := s.remove(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	})
}

func TestUploadsDoNotHoldUpControl(t *testing.T) {
	schedulerBubble(t, [lanes]int{1, 1}, func(t *testing.T, s *scheduler) {
		var tasks []*task
		for range 3 { // all want the one upload worker, which hangs
			j := &job{do: func(ctx context.Context, in lane) verdict {
				if in == laneUpload {
					<-ctx.Done()
					return verdict{}
				}
				return verdict{again: true, lane: laneUpload}
			}}
			tasks = append(tasks, s.add(t.Context(), j))
			s.wake(tasks[len(tasks)-1])
		}
		j := &job{do: idleStep}
		tasks = append(tasks, s.add(t.Context(), j))
		s.wake(tasks[3])
		synctest.Wait()
		if j.count() != 1 {
			t.Fatal("a control step waits for uploads")
		}
		for _, task := range tasks {
			if err := s.remove(t.Context(), task); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestTasksTakeTurns(t *testing.T) {
	schedulerBubble(t, [lanes]int{1, 1}, func(t *testing.T, s *scheduler) {
		var order []string
		var tasks []*task
		left := map[string]int{"a": 3, "b": 3, "c": 3}
		queued := make(chan struct{}) // closed when all three wait for the upload lane
		for _, id := range []string{"a", "b", "c"} {
			j := &job{id: id}
			j.do = func(_ context.Context, in lane) verdict {
				if in == laneUpload {
					<-queued
					order = append(order, id)
					left[id]--
				}
				return verdict{again: left[id] > 0, lane: laneUpload}
			}
			tasks = append(tasks, s.add(t.Context(), j))
		}
		for _, task := range tasks {
			s.wake(task)
		}
		synctest.Wait()
		close(queued)
		synctest.Wait()
		if got := strings.Join(order, ""); got != "abcabcabc" {
			t.Fatalf("order %s, want turns", got)
		}
	})
}

// After a failure a wake waits for the backoff; without one it does not wait
// for the timer.
func TestHoldAndTimer(t *testing.T) {
	schedulerBubble(t, [lanes]int{1, 1}, func(t *testing.T, s *scheduler) {
		var at []time.Duration
		begin := time.Now()
		verdicts := []verdict{{after: time.Minute, hold: true}, {after: time.Hour}, {}}
		j := &job{}
		j.do = func(context.Context, lane) verdict {
			at = append(at, time.Since(begin))
			v := verdicts[0]
			verdicts = verdicts[1:]
			return v
		}
		task := s.add(t.Context(), j)
		s.wake(task)
		synctest.Wait()
		s.wake(task) // held
		<-time.After(2 * time.Minute)
		s.wake(task) // not held
		<-time.After(2 * time.Hour)
		synctest.Wait()
		if want := []time.Duration{0, time.Minute, 2 * time.Minute}; !slices.Equal(at, want) {
			t.Fatalf("steps at %v, want %v", at, want)
		}
	})
}

func TestRemoveCancelsAndWaits(t *testing.T) {
	schedulerBubble(t, [lanes]int{1, 1}, func(t *testing.T, s *scheduler) {
		leave := make(chan struct{})
		j := &job{do: func(ctx context.Context, _ lane) verdict {
			<-ctx.Done()
			<-leave
			return verdict{again: true}
		}}
		task := s.add(t.Context(), j)
		s.wake(task)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.remove(ctx, task); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("remove of a step that does not end: %v", err)
		}
		close(leave)
		if err := s.remove(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		s.wake(task)
		synctest.Wait()
		if j.count() != 1 {
			t.Fatalf("%d steps, want none after remove", j.count())
		}
	})
}

func TestWatchdogTellsOfAStepThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := newScheduler(slog.New(slog.NewTextHandler(&out, nil)), [lanes]int{1, 1})
		leave := make(chan struct{})
		j := &job{id: "topic-7", do: func(context.Context, lane) verdict { <-leave; return verdict{} }}
		task := s.add(t.Context(), j)
		s.wake(task)
		<-time.After(time.Hour + watchdogSlack + time.Second)
		synctest.Wait()
		if !strings.Contains(out.String(), "tier_stuck") || !strings.Contains(out.String(), "topic-7") {
			t.Fatalf("the log says %q", out.String())
		}
		close(leave)
		if err := s.remove(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		s.stop()
	})
}
