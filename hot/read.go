// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"io"

	"firn/internal/vfs"
	"firn/record"
)

// errNothingAbove says that a segment has no batch at or above an offset that
// it covers: its last records were compacted away.
var errNothingAbove = errors.New("no batch at or above the offset")

// Read pins whole batches of one segment: from the one that holds from (or the
// first above it, where records were compacted away), to the last that ends at
// or below limit and fits in maxBytes. With minOne the first batch is there
// however large it is. The caller releases the Region.
//
// Nil without an error means that there is nothing to read: from is at limit
// or at the end, the batch that holds it reaches past limit, or it is too
// large without minOne. The error wraps record.ErrOffsetOutOfRange below
// StartOffset and above EndOffset, record.ErrClosed after the log was closed
// or deleted, and record.ErrStorage or a *record.CorruptionError otherwise.
//
// It looks at the index and at a few batch headers and does not check CRCs.
func (l *Log) Read(from, limit record.Offset, maxBytes int, minOne bool) (*Region, error) {
	return l.read(wanted{from: from, limit: limit, maxBytes: maxBytes, minOne: minOne})
}

// ReadUncached is Read for what is not in the page cache: it looks at the
// batch headers beside it, so that a replay leaves no trace there.
func (l *Log) ReadUncached(from, limit record.Offset, maxBytes int, minOne bool) (*Region, error) {
	return l.read(wanted{from: from, limit: limit, maxBytes: maxBytes, minOne: minOne, uncached: true})
}

// wanted is what a read asks for.
type wanted struct {
	from, limit record.Offset
	maxBytes    int
	minOne      bool
	uncached    bool // look at batch headers beside the page cache
}

func (l *Log) read(w wanted) (*Region, error) {
	for {
		r, err := l.readOnce(w)
		if !errors.Is(err, record.ErrClosed) {
			return r, err
		}
		from := w.from
		if l.closed.Load() {
			return nil, fmt.Errorf("read %s: %w", l.tp, record.ErrClosed)
		}
		// A segment was dropped between finding and opening it. The log start
		// rose past it, unless a reset is under way.
		if start := l.StartOffset(); from >= start && l.isDropped(from) {
			return nil, fmt.Errorf("read %s at %d: %w: the log is being begun anew", l.tp, from, record.ErrStorage)
		}
	}
}

func (l *Log) readOnce(w wanted) (*Region, error) {
	end := l.EndOffset()
	list := l.list()
	from := w.from
	if from < list[0].base || from > end {
		return nil, fmt.Errorf("read %s at %d: %w: the local log has %d to %d", l.tp, from, record.ErrOffsetOutOfRange, list[0].base, end)
	}
	w.limit = min(w.limit, end)
	for i := segmentOf(list, from); from < w.limit && i < len(list); i++ {
		w.from = max(from, list[i].base)
		r, err := list[i].read(w)
		if errors.Is(err, errNothingAbove) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s at %d: %w", l.tp, from, asStorage(err))
		}
		return r, nil
	}
	return nil, nil
}

// isDropped says whether the segment that holds o is listed and dropped.
func (l *Log) isDropped(o record.Offset) bool {
	list := l.list()
	i := segmentOf(list, o)
	return i >= 0 && l.store.files.isDropped(&list[i].handle)
}

// asStorage makes an I/O error one of record's kinds; corruption and a dropped
// segment are kinds of their own.
func asStorage(err error) error {
	if errors.Is(err, record.ErrCorruptBatch) || errors.Is(err, record.ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", record.ErrStorage, err)
}

// read is Read within one segment, for an offset that the segment covers.
func (s *Segment) read(w wanted) (*Region, error) {
	f, err := s.acquire()
	if err != nil {
		return nil, err
	}
	r, err := s.region(f, w)
	if r == nil {
		s.release()
	}
	return r, err
}

func (s *Segment) region(f vfs.File, w wanted) (*Region, error) {
	v := s.view()
	var headers io.ReaderAt = f
	if w.uncached {
		headers = s.uncached(f)
	}
	h, at, err := s.seek(headers, v, w.from)
	if err != nil {
		return nil, err
	}
	budget := int64(max(w.maxBytes, 0))
	if first := int64(h.Size()); first > budget {
		if !w.minOne {
			return nil, nil
		}
		budget = first
	}
	if h.NextOffset() > w.limit {
		// Nothing, again and again, is what a consumer would never notice.
		if err := confirm(headers, h, at); err != nil {
			return nil, fmt.Errorf("read %s: %w", s.path, err)
		}
		return nil, nil
	}
	r := &Region{segment: s, file: f, off: at, first: h.BaseOffset}
	if w.limit >= v.next && v.size-at <= budget {
		r.n, r.next = v.size-at, v.next
		return r, nil
	}
	end, next := s.fit(headers, v, at+int64(h.Size()), h.NextOffset(), w.limit, at+budget)
	r.n, r.next = end-at, next
	return r, nil
}

// seek finds the first batch that ends above from.
func (s *Segment) seek(f io.ReaderAt, v segmentView, from record.Offset) (record.Header, int64, error) {
	var c cursor
	if err := s.walkTo(&c, f, from, v.size); err != nil {
		return record.Header{}, 0, err
	}
	defer c.done()
	for {
		h, at, err := c.header()
		if errors.Is(err, io.EOF) {
			return h, at, errNothingAbove
		}
		if err != nil || h.NextOffset() > from {
			return h, at, err
		}
	}
}

// fit extends a region whose first batch ends at position pos and offset next:
// by the index to the last entry that is wholly inside limit and end, then
// batch by batch. It ends before what cannot be read: the batches up to there
// are good, and who asks for the next one hears what is wrong with it.
func (s *Segment) fit(f io.ReaderAt, v segmentView, pos int64, next, limit record.Offset, end int64) (int64, record.Offset) {
	end = min(end, v.size)
	var c cursor
	if err := s.walkIndexed(&c, f, v.size, func(b []byte) bool {
		e := record.ParseIndexEntry(b, s.base)
		return int64(e.Position) <= end && e.Offset < limit
	}); err != nil {
		return pos, next
	}
	defer c.done()
	if c.pos <= pos {
		c.rewind(pos, next, -1)
	}
	for {
		next := c.next
		h, at, err := c.header()
		switch {
		case errors.Is(err, io.EOF):
			return at, v.next
		case err != nil || h.NextOffset() > limit || c.pos > end:
			return at, next
		}
	}
}
