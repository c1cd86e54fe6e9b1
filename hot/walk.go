// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"io"

	"firn/record"
)

// walk sets c over the batches in [from, to) of the open file f, with a window
// lent by the store that c.done gives back. c is the caller's so that it may
// lie on the stack.
func (s *Segment) walk(c *cursor, f io.ReaderAt, from, to int64) {
	lent := s.log.store.windows.get()
	*c = cursor{file: f, path: s.path, pos: from, end: to, next: s.base, last: -1, buf: *lent, lent: lent, windows: &s.log.store.windows}
}

// done ends a walk.
func (c *cursor) done() { c.windows.put(c.lent) }

// walkFrom is walk from where an entry of the offset index says, nil for the
// segment's start. The error is a *record.CorruptionError when there is no batch
// that the entry can mean, or one of reading; there is no walk then.
func (s *Segment) walkFrom(c *cursor, f io.ReaderAt, entry []byte, to int64) error {
	if entry == nil {
		s.walk(c, f, 0, to)
		return nil
	}
	e := record.ParseIndexEntry(entry, s.base)
	s.walk(c, f, min(int64(e.Position), to), to)
	if err := c.meet(e); err != nil {
		c.done()
		return err
	}
	return nil
}

// meet compares the batch at the cursor with the index entry that led to it.
// The entry's offset is that batch's last one; Kafka's may be a later one, of
// the last batch that it appended with it. An index has no checksum: this is
// what shows that an entry points elsewhere.
func (c *cursor) meet(e record.IndexEntry) error {
	at := c.pos
	c.next = 0 // any
	h, _, err := c.header()
	if errors.Is(err, errUnsteady) || err == nil && h.LastOffset() > e.Offset {
		err = c.corruptAt(at, fmt.Sprintf("the index has offset %d here, the batch ends at %d", e.Offset, h.LastOffset()))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	c.pos, c.next, c.last = at, h.BaseOffset, -1
	return nil
}

// floor is a position at or before the start of the batch that holds o, by the
// index alone.
func (s *Segment) floor(o record.Offset) (int64, error) {
	if o <= s.base {
		return 0, nil
	}
	e, err := s.lastWhere(offsetIndex, func(b []byte) bool { return record.ParseIndexEntry(b, s.base).Offset <= o })
	if e == nil || err != nil {
		return 0, err
	}
	return int64(record.ParseIndexEntry(e, s.base).Position), nil
}

// walkTo is walk from a place at or before the batch that holds o.
func (s *Segment) walkTo(c *cursor, f io.ReaderAt, o record.Offset, to int64) error {
	if o <= s.base {
		s.walk(c, f, 0, to)
		return nil
	}
	return s.walkIndexed(c, f, to, func(b []byte) bool { return record.ParseIndexEntry(b, s.base).Offset <= o })
}

// walkIndexed is walk from the last entry of the offset index that keep holds
// for. An entry that cannot be true is looked up again, past the cache, and
// then in an index made anew.
func (s *Segment) walkIndexed(c *cursor, f io.ReaderAt, to int64, keep func(entry []byte) bool) error {
	for try := 0; ; try++ {
		entry, err := s.lastWhere(offsetIndex, keep)
		if err != nil {
			return err
		}
		if err = s.walkFrom(c, f, entry, to); err == nil {
			return nil
		}
		if !errors.Is(err, record.ErrCorruptBatch) || try == 2 || !s.doubtIndex(try, err) {
			return err
		}
	}
}

// doubtIndex does something about an index that led astray, and says whether
// to look again: an index that was read wrong is read anew, one that is wrong
// is rebuilt, once. If it leads to the same place after that, it is the log
// that is damaged there.
func (s *Segment) doubtIndex(try int, cause error) bool {
	s.mu.Lock()
	inMemory := s.mem != nil
	s.mu.Unlock()
	if inMemory {
		return false
	}
	if try == 0 {
		s.log.store.indexes.forget(s)
		return true
	}
	s.rebuilding.Lock()
	defer s.rebuilding.Unlock()
	if s.reindexed {
		return true // by somebody else, just now or long ago
	}
	s.reindexed = true
	if err := s.reindex(offsetIndex, cause); err != nil {
		s.log.logger.Warn("indexes not rebuilt", "event", "index_rebuild_failed", "segment", s.path, "error", err)
		return false
	}
	return true
}
