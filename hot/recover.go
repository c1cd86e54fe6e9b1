// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"firn/internal/vfs"
	"firn/record"
)

// recovery brings one log back to a state that is known to be on disk: it
// checks every batch from the recovery point on, cuts the log at the first bad
// one, and rebuilds what can be told from the batches. Whatever it changes it
// syncs before the log is used.
type recovery struct {
	log   *Log
	inv   *inventory
	point record.Offset // everything below was synced
	epoch record.Epochs
	buf   []byte
}

// recover is the whole of it, for a log whose segments are listed but not yet
// trusted.
func (l *Log) recover(ctx context.Context, inv *inventory) error {
	select {
	case l.store.scanning <- struct{}{}:
		defer func() { <-l.store.scanning }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := l.store.beginWriting(); err != nil {
		return err
	}
	list := l.list()
	point := l.store.recoveryPoints.get(l.tp)
	first := max(segmentOf(list, max(point, list[0].base)), 0)
	if l.store.pointsLost && point == 0 {
		point = inv.sealedBelow() // and everything is scanned
	}
	started := l.store.now()
	r := &recovery{
		log: l, inv: inv, point: point, buf: make([]byte, scanWindow),
		epoch: l.epochs.TruncateFrom(list[first].base),
	}
	if err := l.removeAll(inv.leftovers); err != nil {
		return err
	}
	producers, err := l.rebuildProducers(inv, list[first].base)
	if err != nil {
		return err
	}
	l.producers = producers
	for i := first; i < len(list); i++ {
		last, err := r.segment(ctx, list, i)
		if err != nil {
			return fmt.Errorf("recover %s: %w", list[i].path, err)
		}
		if last {
			list = list[:i+1]
		}
	}
	if err := r.settle(list); err != nil {
		return err
	}
	l.store.metrics.recovered.Inc()
	l.logger.Info("log recovered", "event", "log_recovered", "recovery_point", int64(point),
		"from", int64(list[first].base), "end", int64(list[len(list)-1].next), "took", l.store.now().Sub(started))
	return nil
}

// segment recovers the i-th segment of list; last says that the log ends with
// it, whatever follows having been moved aside.
func (r *recovery) segment(ctx context.Context, list []*Segment, i int) (last bool, err error) {
	l, s := r.log, list[i]
	f, err := s.hold()
	if err != nil {
		return false, err
	}
	// A failed sync leaves pages in the cache that are clean and not on disk:
	// what is read from here on must come from the disk.
	if err := f.Sync(); err != nil {
		return false, err
	}
	vfs.DropClean(f)

	limit := maxOffset
	if i+1 < len(list) {
		limit = list[i+1].base
	}
	l.store.metrics.scanned.Add(float64(s.size))
	mem, valid, next, damage, err := r.scan(ctx, s, f, limit)
	if err != nil {
		return false, err
	}
	if damage == nil && i+1 < len(list) && next != limit {
		damage = &record.CorruptionError{Path: s.path, Position: valid,
			Reason: fmt.Sprintf("the segment ends at offset %d, the next begins at %d", next, limit)}
	}
	if damage == nil && i+1 == len(list) && next < r.point {
		l.logger.Error("the log ends below its recovery point: the disk lost what was synced",
			"event", "log_lost_tail", "end", int64(next), "recovery_point", int64(r.point))
	}
	if damage != nil {
		if next < r.point {
			// What was synced and is damaged now is not ours to cut.
			return false, fmt.Errorf("below the recovery point %d: %w", r.point, damage)
		}
		if err := r.cut(list[i:], f, valid, damage); err != nil {
			return false, err
		}
	}
	s.mu.Lock()
	s.size, s.synced, s.next, s.mem = valid, valid, next, mem
	s.max, s.maxKnown = mem.max, true
	if len(mem.aborted) > 0 {
		l.aborts.Store(true)
	}
	s.sealed = damage == nil && i+1 < len(list)
	s.complete = false
	sealed := s.sealed
	if sealed {
		s.mem.finish()
		s.snapshot = l.producers.Marshal(next)
	}
	s.mu.Unlock()
	return !sealed, nil
}

// scan checks the batches of a segment from its start. It answers the index of
// those that are good, their size, the offset after them, and what is wrong
// with the first bad one, if there is one. An error is one of reading.
func (r *recovery) scan(ctx context.Context, s *Segment, f vfs.File, limit record.Offset) (*memIndex, int64, record.Offset, error, error) {
	mem, interval := newMemIndex(s.base), r.log.options().IndexInterval
	c := &cursor{file: f, path: s.path, end: s.size, next: s.base, last: -1, buf: r.buf}
	valid, next := int64(0), s.base
	for {
		if err := ctx.Err(); err != nil {
			return nil, 0, 0, nil, err
		}
		h, at, err := r.batch(c, f, next, offsetRange{s.base, limit})
		if errors.Is(err, io.EOF) {
			return mem, valid, next, nil, nil
		}
		if err != nil {
			if damage := (*record.CorruptionError)(nil); errors.As(err, &damage) {
				return mem, valid, next, damage, nil
			}
			return nil, 0, 0, nil, err
		}
		mem.add(h, at, interval)
		took, err := c.apply(r.log.producers, h, at)
		if err != nil {
			return nil, 0, 0, nil, err
		}
		mem.end(took.ended)
		if h.LeaderEpoch >= 0 {
			if last, ok := r.epoch.Last(); !ok || last.Epoch < h.LeaderEpoch {
				r.epoch = r.epoch.Append(record.EpochEntry{Epoch: h.LeaderEpoch, StartOffset: h.BaseOffset})
			}
		}
		valid, next = c.pos, c.next
	}
}

// maxReadings is how often recovery reads a batch until two readings agree.
const maxReadings = 5

// batch reads the batch at the cursor, which should start at offset next, and
// checks it. What would have a consequence and may be no more than a bit that
// flipped on its way from the disk is read again, until two readings agree:
// damage, which cuts the log; a gap; and a new leader epoch, which like the base
// offset is not covered by the CRC.
func (r *recovery) batch(c *cursor, f vfs.File, next record.Offset, within offsetRange) (record.Header, int64, error) {
	at, last := c.pos, c.last
	var before record.Header
	var errBefore error
	for reading := 1; ; reading++ {
		h, _, err := c.header()
		if err == nil {
			err = r.check(c, h, at, next, within)
		}
		damaged := errors.Is(err, record.ErrCorruptBatch)
		newest, _ := r.epoch.Last()
		switch {
		case err != nil && !damaged && !errors.Is(err, errUnsteady):
			return h, at, err
		case err == nil && h.BaseOffset == next && h.LeaderEpoch <= newest.Epoch && reading == 1:
			return h, at, nil
		case reading > 1 && h == before && damaged == errors.Is(errBefore, record.ErrCorruptBatch):
			return h, at, err
		case reading == maxReadings:
			return h, at, fmt.Errorf("%w %d times: %s at byte %d: %w", errUnsteady, reading, c.path, at, err)
		}
		before, errBefore = h, err
		vfs.DropClean(f)
		c.rewind(at, next, last)
	}
}

// check applies the rules that go beyond the header itself to a batch that
// should start at offset next. Below the recovery point compaction may have
// left gaps; above it there are none, and a damaged base offset, which the CRC
// does not cover, would look like one.
func (r *recovery) check(c *cursor, h record.Header, at int64, next record.Offset, within offsetRange) error {
	bad := func(format string, args ...any) error {
		return &record.CorruptionError{Path: c.path, Position: at, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case h.BaseOffset != next && next >= r.point:
		return bad("the batch starts at offset %d, the one before it ends at %d", h.BaseOffset, next)
	case next < r.point && h.NextOffset() > r.point:
		return bad("the batch ends at offset %d, beyond the recovery point %d", h.NextOffset(), r.point)
	case h.NextOffset() > within.to:
		return bad("the batch ends at offset %d, the next segment begins at %d", h.NextOffset(), within.to)
	case c.pos > maxSegmentBytes:
		return bad("the segment goes on beyond %d bytes", maxSegmentBytes)
	case h.LastOffset()-within.from > record.MaxRelativeOffset:
		return bad("offset %d is too far from the segment's base", h.LastOffset())
	}
	return c.checkCRC(h, at)
}

// settle makes the recovered state durable: everything about sealed segments,
// the active segment's bytes, the epochs, and the directory without what lies
// beyond the end.
func (r *recovery) settle(list []*Segment) error {
	l := r.log
	active := list[len(list)-1]
	l.mu.Lock()
	l.setSegmentsLocked(list)
	if !slices.Equal(l.epochs, r.epoch) {
		l.epochs = r.epoch
		l.epochsChanged++
	}
	l.mu.Unlock()
	// On a full disk what the batches tell anyway is left to the sealer, which
	// tries again when it may have room; the recovery point waits for it.
	err := l.writeEpochs()
	late := vfs.IsFull(err)
	if err != nil && !late {
		return err
	}
	keep := func(o record.Offset) bool {
		return o <= active.base && r.inv.segments[o] != nil
	}
	if err := l.removeSnapshots(r.inv.snapshots, keep); err != nil {
		return err
	}
	for _, s := range list[:len(list)-1] {
		v := s.view()
		if v.complete || late {
			continue
		}
		if _, err = l.completeSegment(s, v.next); err == nil {
			continue
		}
		if late = vfs.IsFull(err); !late {
			return err
		}
	}
	if err := l.store.fs.SyncDir(l.dir); err != nil {
		return err
	}
	l.setProducers(l.producers)
	if late {
		l.logger.Warn("the disk is full: the recovery goes on when there is room", "event", "recovery_late", "error", err)
		return nil
	}
	l.store.recoveryPoints.set(l.tp, active.base)
	return nil
}
