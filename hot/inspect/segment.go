// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"path/filepath"

	"firn/record"
)

// segment is what the walk through one .log file knows so far.
type segment struct {
	p      *partition
	path   string
	base   record.Offset
	active bool // no other follows

	w       *walk
	index   *indexFile
	times   *timeFile
	txns    *txnFile
	last    record.Offset // first offset that the file cannot hold; the next segment's base
	highest record.TimeIndexEntry
	broken  bool // a stretch was lost, so that what refers to it is not looked at
}

// segment verifies the i-th segment.
func (p *partition) segment(ctx context.Context, i int, base record.Offset) error {
	v := p.v
	v.sum.Segments++
	s := &segment{
		p: p, path: fileOf(p.dir, base, ".log"), base: base, active: i+1 == len(p.bases), last: everything,
		highest: record.TimeIndexEntry{Timestamp: record.NoTimestamp, Offset: base},
	}
	if !s.active {
		s.last = p.bases[i+1]
	}
	if p.next != record.NoOffset && p.next != base && (p.next > base || base > p.gaps) {
		if err := v.fault(s.path, 0, "the segment begins at offset %d, the one before it ends at %d", base, p.next); err != nil {
			return err
		}
	}
	p.next = base
	starts, err := v.o.starts(s.path, base)
	if err != nil {
		return err
	}
	if s.w, err = openWalk(&v.o, s.path, starts); err != nil {
		return err
	}
	v.sum.Bytes += s.w.size
	err = s.verify(ctx)
	return errors.Join(v.bad(s.path, err), s.w.close())
}

func (s *segment) verify(ctx context.Context) error {
	if s.w.size > math.MaxInt32 {
		if err := s.p.v.fault(s.path, math.MaxInt32, "the segment has %d bytes, at most %d can be indexed", s.w.size, math.MaxInt32); err != nil {
			return err
		}
	}
	if err := s.openIndexes(); err != nil {
		return err
	}
	if err := s.w.each(ctx, s.batch, s.damaged); err != nil {
		return err
	}
	if !s.active && s.p.next < s.last && s.last <= s.p.gaps {
		s.p.next = s.last // its last records were compacted away
	}
	return s.closeIndexes()
}

// damaged reports a stretch without batches.
func (s *segment) damaged(l lost) error {
	s.broken, s.p.broken = true, true
	if l.to < s.w.size {
		// How many offsets were there cannot be told; the next batch says.
		s.p.next = record.NoOffset
	}
	if l.unfinished && s.active && s.p.loose && s.p.next >= s.p.point {
		what := "the next start cuts them off"
		if s.p.v.o.InUse {
			what = "an append may be under way"
		}
		return s.p.v.note(s.path, l.from, "%s: %s", l.describe(), what)
	}
	return s.p.v.fault(s.path, l.from, "%s", l.describe())
}

// batch verifies one batch.
func (s *segment) batch(at int64, h record.Header) error {
	p := s.p
	p.v.sum.Batches++
	p.v.sum.Records += int64(h.Count)
	if err := s.offsets(at, h); err != nil {
		return err
	}
	if err := p.snapshotsUpTo(h.BaseOffset); err != nil {
		return err
	}
	p.next = h.NextOffset()
	crc, err := s.w.crc(at, h)
	if err != nil {
		return err
	}
	if crc != h.CRC {
		s.broken, p.broken = true, true
		return p.v.fault(s.path, at, "%s", crcReason(h, crc))
	}
	if h.MaxTimestamp > s.highest.Timestamp {
		s.highest = record.TimeIndexEntry{Timestamp: h.MaxTimestamp, Offset: h.LastOffset()}
	}
	if err := s.leaderEpoch(at, h); err != nil {
		return err
	}
	if err := s.index.batch(at, h); err != nil {
		return err
	}
	if err := s.times.batch(h, s.highest); err != nil {
		return err
	}
	marker, err := s.records(at, h)
	if err != nil {
		return err
	}
	return s.producer(at, h, marker)
}

// offsets checks that a batch begins where the one before it ended and lies
// inside its segment.
func (s *segment) offsets(at int64, h record.Header) error {
	p := s.p
	var err error
	switch {
	case h.BaseOffset < s.base:
		err = p.v.fault(s.path, at, "the batch starts at offset %d, below its segment's %d", h.BaseOffset, s.base)
	case p.next == record.NoOffset:
	case h.BaseOffset < p.next:
		err = p.v.fault(s.path, at, "the batch starts at offset %d, the one before it ends at %d", h.BaseOffset, p.next)
	case h.BaseOffset > p.next && h.BaseOffset > p.gaps:
		err = p.v.fault(s.path, at, "the batch starts at offset %d, the one before it ends at %d: %d offsets are missing", h.BaseOffset, p.next, h.BaseOffset-p.next)
	}
	if err != nil {
		return err
	}
	switch {
	case h.NextOffset() > s.last:
		return p.v.fault(s.path, at, "the batch ends at offset %d, the next segment begins at %d", h.LastOffset(), s.last)
	case h.LastOffset()-s.base > record.MaxRelativeOffset:
		return p.v.fault(s.path, at, "offset %d is too far from the segment's base to be indexed", h.LastOffset())
	case h.Count != h.LastOffsetDelta+1 && h.BaseOffset >= p.gaps:
		return p.v.fault(s.path, at, "the batch at offset %d says %d records for %d offsets", h.BaseOffset, h.Count, int64(h.LastOffsetDelta)+1)
	}
	return nil
}

// leaderEpoch checks that epochs do not fall, and that the checkpoint has them.
func (s *segment) leaderEpoch(at int64, h record.Header) error {
	p := s.p
	if h.LeaderEpoch < 0 {
		return nil
	}
	if h.LeaderEpoch < p.epoch {
		return p.v.fault(s.path, at, "the batch at offset %d has leader epoch %d, the one before it %d", h.BaseOffset, h.LeaderEpoch, p.epoch)
	}
	p.epoch = h.LeaderEpoch
	known := p.epochs.For(h.LastOffset())
	below := len(p.epochs) > 0 && h.LastOffset() < p.epochs[0].StartOffset // trimmed at the log start
	if !p.epochsRead || below || known == h.LeaderEpoch || p.epochSaid == h.LeaderEpoch {
		return nil
	}
	p.epochSaid = h.LeaderEpoch
	path := filepath.Join(p.dir, epochsName)
	if known == record.NoEpoch {
		return p.late(h.BaseOffset, path, 0, "it does not have epoch %d, under which offset %d was written", h.LeaderEpoch, h.BaseOffset)
	}
	return p.late(h.BaseOffset, path, 0, "it says epoch %d for offset %d, the batch says %d", known, h.LastOffset(), h.LeaderEpoch)
}

// records unpacks the records of a batch and goes through them. Of a control
// batch it answers the marker.
func (s *segment) records(at int64, h record.Header) (*Marker, error) {
	v := s.p.v
	if h.Codec() > record.CodecZstd {
		return nil, v.fault(s.path, at, "the batch at offset %d has codec %d, which is not known", h.BaseOffset, h.Codec())
	}
	section, err := s.w.section(at, h)
	if err != nil {
		return nil, err
	}
	section, err = v.o.Decompress(h.Codec(), section)
	if errors.Is(err, ErrNotUnpacked) {
		return nil, v.note(s.path, at, "the records of the batch at offset %d were not looked at: %v", h.BaseOffset, err)
	}
	if err != nil {
		return nil, v.fault(s.path, at, "the records of the batch at offset %d: %v", h.BaseOffset, err)
	}
	var marker *Marker
	highest := int64(math.MinInt64)
	for r, err := range h.Records(section) {
		if err != nil {
			return nil, v.fault(s.path, at, "%v", err)
		}
		highest = max(highest, h.RecordTimestamp(r))
		if h.IsControl() && h.HasProducer() {
			m, err := parseMarker(r)
			if err != nil {
				return nil, v.fault(s.path, at, "the control batch at offset %d: %v", h.BaseOffset, err)
			}
			marker = &m
		}
	}
	if h.Count > 0 && highest != h.MaxTimestamp && h.BaseOffset >= s.p.gaps {
		return marker, v.note(s.path, at, "the highest timestamp of the batch at offset %d is %d, its header says %d", h.BaseOffset, highest, h.MaxTimestamp)
	}
	return marker, nil
}

// openIndexes reads the index files of the segment. One that a log which is
// whole would have and that is not there is reported.
func (s *segment) openIndexes() (err error) {
	if s.index, err = openIndex(s); err != nil {
		return err
	}
	if s.times, err = openTimes(s); err != nil {
		return err
	}
	s.txns, err = openTxns(s)
	return err
}

func (s *segment) closeIndexes() error {
	if err := s.index.end(); err != nil {
		return err
	}
	if err := s.times.end(); err != nil {
		return err
	}
	return s.txns.end()
}

// readIndex reads an index file of the segment. Of one that is not there, or
// that the walk cannot use, ok is false.
func (s *segment) readIndex(suffix string, size int) (path string, b []byte, ok bool, err error) {
	path = fileOf(s.p.dir, s.base, suffix)
	b, err = s.p.v.o.readSmall(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil, false, s.noIndex(path)
	case err != nil:
		return path, nil, false, s.p.v.bad(path, err)
	}
	// Kafka gives the index of the active segment its full size in advance.
	if zeros := trailingZeros(b, size); zeros > 0 {
		b = b[:len(b)-zeros]
		report := s.p.v.fault
		if s.active && s.p.loose {
			report = s.p.v.note
		}
		err = report(path, int64(len(b)), "%d bytes of zeros: the index was given its size in advance and not cut to its entries", zeros)
	}
	return path, b, err == nil, err
}

// noIndex reports an index that is not there, if there should be one.
func (s *segment) noIndex(path string) error {
	unfinished := s.p.loose && (s.active || s.last > s.p.point)
	if s.w.size == 0 || unfinished {
		return nil
	}
	return s.p.v.fault(path, 0, "there is no such file, though the segment has %d bytes", s.w.size)
}
