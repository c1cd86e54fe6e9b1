// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"sync"
	"time"
)

// catchUp is how far behind the clock a Pace may fall and still make up for it:
// long enough for the lateness of a Go timer, too short for a burst that others
// would feel.
const catchUp = 2 * time.Millisecond

// Pace bounds the rate of bulk work in bytes a second, over everybody who waits
// for it: who has done work owes it, and the next one waits until the debt is
// paid by time. One waiter sleeps at a time, the others queue up behind it in
// order. Safe for concurrent use; a nil *Pace never waits.
type Pace struct {
	perSecond float64
	one       chan struct{}

	mu   sync.Mutex
	next time.Time // when the debt is paid
}

// NewPace makes a Pace of so many bytes a second, at least 1.
func NewPace(bytesPerSecond int64) *Pace {
	return &Pace{perSecond: float64(max(1, bytesPerSecond)), one: make(chan struct{}, 1)}
}

// Wait waits until nothing is owed, or for ctx, whose cause it then returns.
func (p *Pace) Wait(ctx context.Context) error {
	if p == nil {
		return nil
	}
	select {
	case p.one <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.one }()
	wait := p.owed()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// owed is how long it takes until the debt is paid.
func (p *Pace) owed() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.next)
}

// Did owes n bytes.
func (p *Pace) Did(n int) {
	if p == nil || n <= 0 {
		return
	}
	cost := time.Duration(float64(n) / p.perSecond * float64(time.Second))
	earliest := time.Now().Add(-catchUp)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(cost)
}
