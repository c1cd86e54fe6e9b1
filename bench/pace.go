// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"time"
)

// pace is the clock of an open loop: event n is due at start + n/rate.
type pace struct {
	start time.Time
	rate  float64 // per second
}

// due is when event n is due.
func (p pace) due(n int64) time.Time {
	return p.start.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
}

// dueBy is how many events are due by now.
func (p pace) dueBy(now time.Time) int64 {
	if now.Before(p.start) {
		return 0
	}
	return int64(now.Sub(p.start).Seconds()*p.rate) + 1
}

// sleepCheck bounds one sleep, so that the end of a context is seen.
const sleepCheck = 50 * time.Millisecond

// sleepUntil returns at t, or at the end of ctx and then false.
func sleepUntil(ctx context.Context, t time.Time) bool {
	for ctx.Err() == nil {
		left := time.Until(t)
		if left <= 0 {
			return true
		}
		sleep(min(left, sleepCheck))
	}
	return false
}
