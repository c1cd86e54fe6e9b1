// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"io"

	"firn/internal/vfs"
	"firn/record"
)

// TimestampOffset is a record found by its timestamp.
type TimestampOffset struct {
	Timestamp int64 // ms since the Unix epoch
	Offset    record.Offset
	Epoch     record.Epoch
}

// Decode finds in one whole batch the first record whose timestamp is at least
// ts. ok is false when there is none. It is called with no lock held.
type Decode func(b record.Batch, ts int64) (offset record.Offset, timestamp int64, ok bool, err error)

// OffsetForTimestamp finds the first record, in the order of offsets, whose
// timestamp is at least ts, among those on local disk from the log start up
// to, and without, limit. Without decode it is exact to the batch: the answer
// is then the batch's base offset and largest timestamp.
func (l *Log) OffsetForTimestamp(ts int64, limit record.Offset, decode Decode) (TimestampOffset, bool, error) {
	limit = min(limit, l.EndOffset())
	start := l.LogStartOffset()
	for _, s := range l.list() {
		v := s.view()
		if v.next <= start || v.size == 0 {
			continue
		}
		if s.base >= limit {
			break
		}
		e, err := s.maxEntry()
		if err == nil && e.Timestamp < ts {
			continue
		}
		var found TimestampOffset
		var ok bool
		if err == nil {
			found, ok, err = s.findTimestamp(ts, offsetRange{start, limit}, decode)
		}
		if errors.Is(err, record.ErrClosed) && !l.closed.Load() {
			continue // dropped meanwhile: its records are gone
		}
		if err != nil {
			return TimestampOffset{}, false, fmt.Errorf("find timestamp %d in %s: %w", ts, l.tp, asStorage(err))
		}
		if ok {
			return found, true, nil
		}
	}
	return TimestampOffset{}, false, nil
}

// MaxTimestamp finds the first record with the largest timestamp among those
// on local disk from the log start up to, and without, limit. decode is as in
// OffsetForTimestamp.
func (l *Log) MaxTimestamp(limit record.Offset, decode Decode) (TimestampOffset, bool, error) {
	limit = min(limit, l.EndOffset())
	start := l.LogStartOffset()
	best, in := noMax(0), (*Segment)(nil)
	for _, s := range l.list() {
		if s.NextOffset() <= start || s.base >= limit {
			continue
		}
		e, err := s.maxWithin(offsetRange{start, limit})
		if errors.Is(err, record.ErrClosed) && !l.closed.Load() {
			continue
		}
		if err != nil {
			return TimestampOffset{}, false, fmt.Errorf("find the largest timestamp of %s: %w", l.tp, asStorage(err))
		}
		if e.Timestamp > best.Timestamp {
			best, in = e, s
		}
	}
	if in == nil {
		return TimestampOffset{}, false, nil
	}
	found, ok, err := in.findTimestamp(best.Timestamp, offsetRange{start, limit}, decode)
	if err != nil {
		return TimestampOffset{}, false, fmt.Errorf("find the largest timestamp of %s: %w", l.tp, asStorage(err))
	}
	return found, ok, nil
}

// offsetRange is [from, to).
type offsetRange struct{ from, to record.Offset }

// findTimestamp finds the first record in range with a timestamp of at least
// ts: from the place that the time index gives, batch by batch.
func (s *Segment) findTimestamp(ts int64, within offsetRange, decode Decode) (TimestampOffset, bool, error) {
	f, err := s.acquire()
	if err != nil {
		return TimestampOffset{}, false, err
	}
	defer s.release()
	from := within.from
	e, err := s.lastWhere(timeIndex, func(b []byte) bool {
		return record.ParseTimeIndexEntry(b, s.base).Timestamp <= ts
	})
	if err != nil {
		return TimestampOffset{}, false, err
	}
	if e != nil {
		from = max(from, record.ParseTimeIndexEntry(e, s.base).Offset)
	}
	var c cursor
	if err := s.walkTo(&c, s.uncached(f), from, s.view().size); err != nil {
		return TimestampOffset{}, false, err
	}
	defer c.done()
	for {
		h, at, err := c.header()
		if errors.Is(err, io.EOF) || err == nil && h.NextOffset() > within.to {
			return TimestampOffset{}, false, nil
		}
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if h.MaxTimestamp < ts || h.NextOffset() <= within.from {
			continue
		}
		found, ok, err := s.inBatch(f, h, at, ts, decode)
		if ok || err != nil {
			found.Offset = max(found.Offset, within.from)
			return found, ok, err
		}
	}
}

// inBatch finds the record within a batch whose largest timestamp is at least
// ts.
func (s *Segment) inBatch(f vfs.File, h record.Header, at int64, ts int64, decode Decode) (TimestampOffset, bool, error) {
	found := TimestampOffset{Timestamp: h.MaxTimestamp, Offset: h.BaseOffset, Epoch: h.LeaderEpoch}
	if decode == nil || h.IsLogAppendTime() {
		return found, true, nil // stamped by the broker: every record has the maximum
	}
	b := make([]byte, h.Size())
	if n, err := s.uncached(f).ReadAt(b, at); n < len(b) {
		return found, false, fmt.Errorf("read batch at offset %d: %w", h.BaseOffset, err)
	}
	if err := record.Batch(b).CheckCRC(); err != nil {
		return found, false, &record.CorruptionError{Path: s.path, Position: at, Reason: err.Error()}
	}
	var ok bool
	var err error
	found.Offset, found.Timestamp, ok, err = decode(b, ts)
	return found, ok, err
}

// maxWithin is the largest timestamp among the batches in range, and the last
// offset of the first batch that has it.
func (s *Segment) maxWithin(within offsetRange) (record.TimeIndexEntry, error) {
	e, err := s.maxEntry()
	if err != nil || e.Timestamp < 0 || e.Offset < within.to && e.Offset >= within.from {
		return e, err
	}
	// The largest of all lies outside: the best of what is inside has to be
	// looked for.
	f, err := s.acquire()
	if err != nil {
		return e, err
	}
	defer s.release()
	best, from := noMax(s.base), within.from
	b, err := s.lastWhere(timeIndex, func(b []byte) bool {
		return record.ParseTimeIndexEntry(b, s.base).Offset < within.to
	})
	if err != nil {
		return best, err
	}
	if b != nil {
		if e := record.ParseTimeIndexEntry(b, s.base); e.Offset >= within.from {
			best, from = e, e.Offset+1
		}
	}
	var c cursor
	if err := s.walkTo(&c, s.uncached(f), from, s.view().size); err != nil {
		return best, err
	}
	defer c.done()
	for {
		h, _, err := c.header()
		if errors.Is(err, io.EOF) || err == nil && h.NextOffset() > within.to {
			return best, nil
		}
		if err != nil {
			return best, err
		}
		if h.NextOffset() > from && h.MaxTimestamp > best.Timestamp {
			best = record.TimeIndexEntry{Timestamp: h.MaxTimestamp, Offset: h.LastOffset()}
		}
	}
}
