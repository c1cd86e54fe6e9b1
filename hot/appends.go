// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"sync/atomic"
	"time"

	"firn/record"
)

// recentAppends is how many appends a log remembers the time of. A consumer at
// the tail asks about one of the last few; 128 cover 25 ms at 5,000 appends a
// second.
const recentAppends = 128

// appends remembers when the newest record sets of a log were appended. One
// goroutine writes, under the log's appendMu; any number read, without a lock.
//
// A slot is written time first and first offset last, and a reader that finds
// the offset changed after it read the time looks no further. Offsets only
// grow, but for a reset of the log, after which the same offset may come back
// with a newer time: such a reader gets a delay that is too small, once.
type appends struct {
	count atomic.Uint64 // appends so far
	slots [recentAppends]appendTime
}

// appendTime is one append. offset is one more than the first offset, so that
// zero means none.
type appendTime struct {
	offset atomic.Int64
	nanos  atomic.Int64 // since the store was opened, on the monotonic clock
}

// note remembers the append of a record set that begins at first.
func (a *appends) note(first record.Offset, nanos int64) {
	n := a.count.Load()
	slot := &a.slots[n%recentAppends]
	slot.offset.Store(0)
	slot.nanos.Store(nanos)
	slot.offset.Store(int64(first) + 1)
	a.count.Store(n + 1)
}

// at finds when the record set that holds o was appended. Where that is
// forgotten it answers the oldest time that is known, which is later; ok is
// false when nothing is.
func (a *appends) at(o record.Offset) (nanos int64, ok bool) {
	newest := a.count.Load()
	for i := uint64(1); i <= min(newest, recentAppends); i++ {
		slot := &a.slots[(newest-i)%recentAppends]
		first := slot.offset.Load()
		at := slot.nanos.Load()
		if first == 0 || slot.offset.Load() != first {
			return nanos, ok // the writer has come round
		}
		nanos, ok = at, true
		if first-1 <= int64(o) {
			return nanos, true
		}
	}
	return nanos, ok
}

// AppendedAt is when the region's first batch was appended, with a reading of
// the monotonic clock. It is known of the newest appends of this process only:
// of an older batch, ok is false or the time is a later one, the oldest that
// the log remembers.
func (r *Region) AppendedAt() (at time.Time, ok bool) {
	l := r.segment.log
	recent := l.appends.Load()
	if recent == nil {
		return time.Time{}, false
	}
	nanos, ok := recent.at(r.first)
	return l.store.opened.Add(time.Duration(nanos)), ok
}

// noteAppend remembers the time of an append. The caller holds appendMu.
func (l *Log) noteAppend(first record.Offset) {
	recent := l.appends.Load()
	if recent == nil {
		recent = new(appends)
		l.appends.Store(recent)
	}
	recent.note(first, int64(time.Since(l.store.opened)))
}
