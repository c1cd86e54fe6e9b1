// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"time"

	"firn/internal/vfs"
	"firn/record"
)

// Roll seals the active segment and begins a new one. It does nothing when the
// active segment is empty. The sealed segment is among Sealed, and OnSeal
// called, when it is durable.
func (l *Log) Roll(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	if l.active().Size() == 0 {
		return nil
	}
	if err := l.rollLocked(); err != nil {
		return fmt.Errorf("roll %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	return nil
}

// roomFor is the segment that takes n bytes of batches that end at next: the
// active one, or a new one by Kafka's rules. The caller holds appendMu.
func (l *Log) roomFor(set []incoming, n int64, next record.Offset, o *LogOptions) (*Segment, error) {
	active := l.active()
	stamp := record.NoTimestamp
	for _, in := range set {
		stamp = max(stamp, in.header.MaxTimestamp)
	}
	if !active.shouldRoll(n, next, stamp, o, l.store.now()) {
		return active, nil
	}
	if err := l.rollLocked(); err != nil {
		return nil, err
	}
	return l.active(), nil
}

// shouldRoll says whether a segment must give way to a new one before n bytes
// with the maximum timestamp stamp, ending at next, are appended.
func (s *Segment) shouldRoll(n int64, next record.Offset, stamp int64, o *LogOptions, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size == 0 {
		return false
	}
	if s.size > o.SegmentBytes-n || next-1-s.base > record.MaxRelativeOffset {
		return true
	}
	if s.mem != nil && s.mem.full(o.IndexBytes) {
		return true
	}
	waited := now.Sub(s.firstAppend)
	if s.firstStamp >= 0 && stamp >= 0 {
		waited = time.Duration(0)
		if ms := stamp - s.firstStamp; ms > 0 {
			waited = time.Duration(min(ms, maxMilliseconds)) * time.Millisecond
		}
	}
	return waited > o.SegmentAge-s.jitter(o.SegmentJitter)
}

// maxMilliseconds is the longest time.Duration in ms.
const maxMilliseconds = int64(1<<63-1) / int64(time.Millisecond)

// dueToRoll says whether RollAfter has run out, a little early by jitter so
// that partitions that began together do not roll together.
func (s *Segment) dueToRoll(after time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	early, age := after/10, now.Sub(s.firstAppend)
	return after > 0 && s.size > 0 && !s.sealed && age >= after-early && age >= after-s.jitter(early)
}

// jitter is a part of limit that is the same every time for one segment and
// differs between segments.
func (s *Segment) jitter(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", s.log.tp, s.base)
	return time.Duration(h.Sum64() % uint64(limit))
}

// rollLocked seals the active segment, which is not empty, and begins the next
// one. Only the new .log file is made here; the rest of the seal is the
// sealer's, so that an append waits for no sync. The caller holds appendMu.
func (l *Log) rollLocked() error {
	if err := l.store.beginWriting(); err != nil {
		return err
	}
	old := l.active()
	if err := old.ensureMem(); err != nil {
		return err
	}
	s, err := l.createSegment(l.EndOffset())
	if err != nil {
		l.store.doubt(err)
		return err
	}
	snapshot := l.producers.Marshal(s.base)
	old.mu.Lock()
	old.mem.finish()
	old.sealed, old.snapshot = true, snapshot
	old.mu.Unlock()

	l.mu.Lock()
	l.dirChanged++
	l.setSegmentsLocked(append(l.Segments(), s))
	l.mu.Unlock()
	l.store.sealer.request(l)
	return nil
}

// createSegment makes the empty .log file of a new segment. The directory is
// not synced.
func (l *Log) createSegment(base record.Offset) (*Segment, error) {
	s := newSegment(l, base)
	f, err := l.store.fs.OpenFile(s.path, vfs.CreateNew, 0o644)
	if errors.Is(err, fs.ErrExist) {
		f, err = l.reuseEmpty(s.path)
	}
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	if err := l.store.files.adopt(&s.handle, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s.held = true
	return s, nil
}

// reuseEmpty opens a segment file that an earlier, failed roll has made. Only
// an empty one may be taken: nothing of it was ever served.
func (l *Log) reuseEmpty(path string) (vfs.File, error) {
	f, err := l.store.fs.OpenFile(path, vfs.ReadWrite, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		err = fmt.Errorf("%s is in the way with %d bytes: %w", path, info.Size(), fs.ErrExist)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
