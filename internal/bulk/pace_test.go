// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Over any stretch of time no more is done than the rate allows, beside one
// piece for each worker and the catch-up; and no less, however many work.
func TestPaceHoldsTheRate(t *testing.T) {
	const rate, piece = 100 << 20, 64 << 10
	for _, workers := range []int{1, 7} {
		synctest.Test(t, func(t *testing.T) {
			p := NewPace(rate)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var done atomic.Int64
			var all sync.WaitGroup
			for range workers {
				all.Go(func() {
					for p.Wait(ctx) == nil {
						p.Did(piece)
						done.Add(piece)
					}
				})
			}
			all.Wait()
			least, most := int64(10*rate-2*piece), int64(10*rate)+int64(workers+1)*piece+rate/int64(time.Second/catchUp)
			if n := done.Load(); n < least || n > most {
				t.Errorf("%d workers did %d bytes in 10 s, want %d to %d", workers, n, least, most)
			}
		})
	}
}

// Idle time is not saved up for a burst.
func TestPaceForgetsIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPace(1 << 20)
		time.Sleep(time.Hour)
		p.Did(1 << 20)
		started := time.Now()
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); took != time.Second-catchUp {
			t.Errorf("waited %v for a debt of a second", took)
		}
	})
}

// Who gives up gets the reason, and those behind it go on.
func TestPaceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPace(1 << 20)
		p.Did(10 << 20)
		gone := errors.New("the client is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- p.Wait(ctx) }()
		}
		behind := make(chan error, 1)
		synctest.Wait()
		go func() { behind <- p.Wait(t.Context()) }()
		cancel(gone)
		for range 2 {
			if err := <-ended; !errors.Is(err, gone) {
				t.Errorf("got %v", err)
			}
		}
		if err := <-behind; err != nil {
			t.Error(err)
		}
	})
}

func TestNoPaceNeverWaits(t *testing.T) {
	var p *Pace
	p.Did(1 << 40)
	if err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
