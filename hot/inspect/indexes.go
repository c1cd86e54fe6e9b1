// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"slices"

	"firn/record"
)

// indexFile holds the entries of an offset index against the batches as they
// pass, in the order of their positions.
type indexFile struct {
	s       *segment
	path    string
	entries []placedIndexEntry // those still to come
}

type placedIndexEntry struct {
	record.IndexEntry
	at int64 // byte of the index
}

func openIndex(s *segment) (*indexFile, error) {
	x := &indexFile{s: s}
	path, b, ok, err := s.readIndex(".index", record.IndexEntrySize)
	x.path = path
	if !ok || err != nil {
		return x, err
	}
	for at := 0; at+record.IndexEntrySize <= len(b); at += record.IndexEntrySize {
		x.entries = append(x.entries, placedIndexEntry{record.ParseIndexEntry(b[at:], s.base), int64(at)})
	}
	// Rising or not, each entry is held against the batch at its position.
	slices.SortStableFunc(x.entries, func(a, b placedIndexEntry) int { return cmp.Compare(a.Position, b.Position) })
	return x, s.p.v.bad(path, record.CheckIndex(b, s.base, s.w.size))
}

// batch is called for every batch whose CRC is right.
func (x *indexFile) batch(at int64, h record.Header) error {
	for len(x.entries) > 0 && int64(x.entries[0].Position) <= at {
		e := x.entries[0]
		x.entries = x.entries[1:]
		var err error
		switch {
		case int64(e.Position) < at && !x.s.broken:
			err = x.s.p.v.fault(x.path, e.at, "no batch begins at position %d, where offset %d should be", e.Position, e.Offset)
		case int64(e.Position) == at && e.Offset != h.LastOffset():
			err = x.s.p.v.fault(x.path, e.at, "the batch at position %d ends at offset %d, the entry says %d", at, h.LastOffset(), e.Offset)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// end is called behind the last batch.
func (x *indexFile) end() error {
	for _, e := range x.entries {
		// Beyond the end CheckIndex has told; behind damage nothing is known.
		if x.s.broken || int64(e.Position) >= x.s.w.size || e.Position < 0 {
			continue
		}
		if err := x.s.p.v.fault(x.path, e.at, "no batch begins at position %d, where offset %d should be", e.Position, e.Offset); err != nil {
			return err
		}
	}
	return nil
}

// timeFile holds the entries of a time index against the batches as they pass,
// in the order of their offsets.
type timeFile struct {
	s       *segment
	path    string
	b       []byte
	there   bool
	entries []placedTimeEntry // those still to come
	last    int64             // highest timestamp of an entry
}

type placedTimeEntry struct {
	record.TimeIndexEntry
	at int64
}

func openTimes(s *segment) (*timeFile, error) {
	x := &timeFile{s: s, last: record.NoTimestamp}
	path, b, ok, err := s.readIndex(".timeindex", record.TimeIndexEntrySize)
	x.path = path
	if !ok || err != nil {
		return x, err
	}
	x.b, x.there = b, true
	for at := 0; at+record.TimeIndexEntrySize <= len(b); at += record.TimeIndexEntrySize {
		e := placedTimeEntry{record.ParseTimeIndexEntry(b[at:], s.base), int64(at)}
		x.last = max(x.last, e.Timestamp)
		x.entries = append(x.entries, e)
	}
	slices.SortStableFunc(x.entries, func(a, b placedTimeEntry) int { return cmp.Compare(a.Offset, b.Offset) })
	return x, nil
}

// batch is called for every batch whose CRC is right, with the highest
// timestamp so far.
func (x *timeFile) batch(h record.Header, highest record.TimeIndexEntry) error {
	for len(x.entries) > 0 && x.entries[0].Offset <= h.LastOffset() {
		e := x.entries[0]
		x.entries = x.entries[1:]
		if x.s.broken || e.Offset < h.BaseOffset && h.BaseOffset <= x.s.p.gaps {
			continue
		}
		var err error
		switch {
		case e.Offset < h.BaseOffset:
			err = x.s.p.v.fault(x.path, e.at, "no batch holds offset %d", e.Offset)
		case e.Timestamp != highest.Timestamp:
			err = x.s.p.v.fault(x.path, e.at, "the highest timestamp up to offset %d is %d, the entry says %d", e.Offset, highest.Timestamp, e.Timestamp)
		case h.MaxTimestamp != e.Timestamp:
			err = x.s.p.v.fault(x.path, e.at, "the highest timestamp of the batch that holds offset %d is %d, the entry says %d", e.Offset, h.MaxTimestamp, e.Timestamp)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// end is called behind the last batch: what the file says of itself is checked
// now that the segment's end is known.
func (x *timeFile) end() error {
	s := x.s
	if !x.there || s.broken {
		return nil
	}
	if err := s.p.v.bad(x.path, record.CheckTimeIndex(x.b, s.base, max(s.p.next, s.base+1))); err != nil {
		return err
	}
	if s.active && s.p.loose || x.last >= s.highest.Timestamp {
		return nil
	}
	return s.p.late(s.p.next, x.path, int64(len(x.b)), "the highest timestamp of the segment is %d, the last entry says %d", s.highest.Timestamp, x.last)
}

// txnFile holds the entries of a transaction index against the markers as they
// pass.
type txnFile struct {
	s       *segment
	path    string
	entries []record.AbortedTxn // those still to come, by marker
	known   bool                // the file could be read, or is not there
	at      int64               // byte of the next entry
}

func openTxns(s *segment) (*txnFile, error) {
	x := &txnFile{s: s, path: fileOf(s.p.dir, s.base, ".txnindex"), known: true}
	if !s.p.files[s.base.FileName()+".txnindex"] {
		return x, nil
	}
	b, err := s.p.v.o.readSmall(x.path)
	if err == nil {
		x.entries, err = record.ParseTxnIndex(b, s.base)
	}
	x.known = err == nil
	if s.p.v.gone(err) {
		return x, nil
	}
	return x, s.p.v.bad(x.path, err)
}

// abort is called for every abort marker, with the first offset that was seen
// of its transaction, NoOffset for none; exact says that nothing of it was
// before that.
func (x *txnFile) abort(h record.Header, first record.Offset, exact bool) error {
	if !x.known {
		return nil
	}
	if err := x.skip(h.BaseOffset); err != nil {
		return err
	}
	if len(x.entries) == 0 || x.entries[0].LastOffset != h.LastOffset() {
		if first == record.NoOffset {
			return nil // a transaction without records has no entry
		}
		return x.s.p.late(h.BaseOffset, x.path, x.at, "it does not have the transaction of producer %d that was aborted at offset %d", h.ProducerID, h.LastOffset())
	}
	e := x.entries[0]
	x.next()
	switch {
	case e.ProducerID != h.ProducerID:
		return x.fault("the marker at offset %d is of producer %d, the entry says %d", e.LastOffset, h.ProducerID, e.ProducerID)
	case first != record.NoOffset && (e.FirstOffset > first || exact && e.FirstOffset != first):
		return x.fault("the transaction that was aborted at offset %d begins at %d, the entry says %d", e.LastOffset, first, e.FirstOffset)
	case e.LastStableOffset > e.LastOffset+1:
		return x.fault("the last stable offset %d lies above the marker at %d", e.LastStableOffset, e.LastOffset)
	}
	return nil
}

// skip reports the entries below an offset, which no marker was found for.
func (x *txnFile) skip(below record.Offset) error {
	for len(x.entries) > 0 && x.entries[0].LastOffset < below {
		e := x.entries[0]
		x.next()
		if x.s.broken {
			continue
		}
		if err := x.fault("no abort marker of producer %d is at offset %d", e.ProducerID, e.LastOffset); err != nil {
			return err
		}
	}
	return nil
}

func (x *txnFile) next() {
	x.entries = x.entries[1:]
	x.at += record.AbortedTxnSize
}

// fault reports what is wrong with the entry that next has passed.
func (x *txnFile) fault(format string, args ...any) error {
	return x.s.p.v.fault(x.path, x.at-record.AbortedTxnSize, format, args...)
}

func (x *txnFile) end() error { return x.skip(everything) }
