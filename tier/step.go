// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"firn/record"
	"firn/tier/store"
)

// stableRecheck is how soon a segment that ends above the last stable offset
// is looked at again, since nothing may wake us when that rises.
const stableRecheck = time.Second

// step does a bounded piece of the partition's work.
//
//	        ┌──────────────── control lane ────────────────┐   ┌─ upload lane ─┐
//	wake ─► finish a pending head ─► take over ─► drop below│   │ build, PUT,   │
//	        the log start, bury orphans ─► delete what is due├──►│ verify, write │
//	        ▲ ▲                                             │   │ the head      │
//	        │ └─ after: recheck, next tombstone, backoff ◄──┘   └──────┬────────┘
//	        └──────────────────────────────────────────────────────────┘
func (l *Log) step(ctx context.Context, in lane) verdict {
	v, err := l.tryStep(ctx, in)
	if err == nil {
		if !v.again || v.lane != laneUpload {
			l.work.failures = 0
		}
		return v
	}
	if l.task.ctx.Err() != nil {
		return verdict{} // closed: not a failure
	}
	return l.failed(err)
}

func (l *Log) tryStep(ctx context.Context, in lane) (verdict, error) {
	if l.work.dead {
		return verdict{}, nil
	}
	if l.work.pending != nil {
		if err := l.finishPending(ctx); err != nil {
			return verdict{}, err
		}
	}
	if !l.work.reconciled {
		if err := l.takeOver(ctx); err != nil {
			return verdict{}, err
		}
	}
	if in == laneUpload {
		if err := l.uploadNext(ctx); err != nil {
			return verdict{}, err
		}
		return verdict{again: true, lane: laneControl}, nil
	}
	if err := l.dropBelowStart(ctx); err != nil {
		return verdict{}, err
	}
	if err := l.deleteDue(ctx); err != nil {
		return verdict{}, err
	}
	return l.idle()
}

// idle decides what comes next after a control step without an error.
func (l *Log) idle() (verdict, error) {
	c, err := l.candidate()
	if err != nil {
		return verdict{}, err
	}
	if c.segment != nil {
		// After a failed upload the next one has to show that the fault has
		// ended: that there was nothing else to do does not.
		if l.work.failures == 0 {
			l.update(func() { l.lastError, l.reason = nil, c.reason })
		}
		return verdict{again: true, lane: laneUpload}, nil
	}
	l.update(func() { l.lastError, l.reason = nil, c.reason })
	after := l.t.o.Recheck + rand.N(l.t.o.Recheck/4+1)
	if c.reason == ReasonOpenTransaction {
		after = min(after, stableRecheck)
	}
	if due, ok := l.nextDue(); ok {
		after = min(after, due)
	}
	return verdict{after: max(after, time.Millisecond)}, nil
}

// failed records an error, and decides whether and when to try again.
func (l *Log) failed(err error) verdict {
	var h *halt
	if errors.As(err, &h) {
		l.work.dead = true
		l.t.o.Logger.Error("partition is read-only in the tier", "event", "tier_read_only", "partition", l.name(), "reason", h.reason, "error", err)
		l.update(func() { l.phase, l.reason, l.lastError = ReadOnly, h.reason, err })
		return verdict{}
	}
	l.work.failures++
	wait, reason := l.backoff(), reasonOf(err)
	if reason == ReasonCorrupt {
		wait *= 10 // each try may read a whole segment, and hope is small
	}
	if n := l.work.failures; n&(n-1) == 0 { // the 1st, 2nd, 4th, 8th…: thousands of partitions may fail at once
		l.t.o.Logger.Warn("archiving failed, will be tried again", "event", "tier_retry", "partition", l.name(), "failures", n, "wait", wait, "error", err)
	}
	l.update(func() {
		l.lastError = err
		if l.phase != ReadOnly {
			l.reason = reason
		}
	})
	return verdict{after: wait, hold: true}
}

// reasonOf is the fixed word for an error.
func reasonOf(err error) string {
	var bad *record.CorruptionError
	var misaligned *misalignedError
	switch {
	case errors.As(err, &misaligned):
		return ReasonMisaligned
	case errors.As(err, &bad) && !store.IsRetriable(err):
		return ReasonCorrupt
	}
	return ReasonStoreDown
}

// backoff doubles with each failure, spread over half to one and a half.
func (l *Log) backoff() time.Duration {
	mean := l.t.o.RetryBackoffMax
	if shift := l.work.failures - 1; shift < 30 && l.t.o.RetryBackoffMin < mean>>shift {
		mean = l.t.o.RetryBackoffMin << shift
	}
	return mean/2 + rand.N(mean)
}
