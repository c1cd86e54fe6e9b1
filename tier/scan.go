// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"

	"firn/record"
)

// logScan checks a log that is given to it in pieces of any size, batch by
// batch: header, CRC-32C, record count, that each batch begins at the offset at
// which the one before it ended, from base up to next without a hole, and that
// the leader epochs do not fall (the batch's own CRC covers neither of the two).
// It keeps one header, never a batch, so that its memory does not depend on
// max.message.bytes. Not safe for concurrent use.
//
// A hole in the offsets is refused although Kafka's readers would skip it: the
// logs that are tiered are not compacted, so that a hole is a batch lost.
type logScan struct {
	path       string // for errors
	base, next record.Offset
	// visit is told of each whole, good batch and the byte at which it starts.
	visit func(position int64, h record.Header)

	position int64 // bytes taken in
	start    int64 // of the batch under way
	head     [record.HeaderSize]byte
	headLen  int
	h        record.Header
	left     int // bytes of the batch still to come, once its header is whole
	crc      uint32
	expect   record.Offset // the base offset of the next batch
	epoch    record.Epoch  // the leader epoch of the last batch
}

// newLogScan makes a scan of the log of a segment that holds the offsets from
// base up to, and without, next.
func newLogScan(path string, base, next record.Offset, visit func(int64, record.Header)) *logScan {
	return &logScan{path: path, base: base, next: next, expect: base, epoch: record.NoEpoch, visit: visit}
}

// feed takes the next bytes of the log. The error is a *record.CorruptionError
// at the start of the batch that is wrong.
func (s *logScan) feed(p []byte) error {
	for len(p) > 0 {
		if s.headLen < len(s.head) {
			n := copy(s.head[s.headLen:], p)
			s.headLen += n
			s.position += int64(n)
			p = p[n:]
			if s.headLen < len(s.head) {
				return nil
			}
			if err := s.begin(); err != nil {
				return err
			}
		}
		n := min(s.left, len(p))
		s.crc = record.UpdateCRC32C(s.crc, p[:n])
		s.left -= n
		s.position += int64(n)
		p = p[n:]
		if s.left > 0 {
			return nil
		}
		if err := s.end(); err != nil {
			return err
		}
	}
	return nil
}

// finish says whether the log ended where it should.
func (s *logScan) finish() error {
	if s.headLen > 0 {
		return s.corrupt("log ends %d bytes into a batch", s.position-s.start)
	}
	if s.expect != s.next {
		return s.corrupt("log ends before offset %d, want %d", s.expect, s.next)
	}
	return nil
}

// begin checks the header that has just become whole.
func (s *logScan) begin() error {
	h, err := record.ParseHeader(s.head[:])
	if err != nil {
		return s.corrupt("%v", err)
	}
	switch {
	case h.BaseOffset != s.expect:
		return s.corrupt("batch at offset %d, want %d", h.BaseOffset, s.expect)
	case h.NextOffset() > s.next:
		return s.corrupt("batch up to offset %d in a segment that ends before %d", h.LastOffset(), s.next)
	case h.LeaderEpoch < s.epoch:
		return s.corrupt("batch at offset %d has the leader epoch %d, the one before it %d", h.BaseOffset, h.LeaderEpoch, s.epoch)
	case int64(h.Count) > int64(h.LastOffsetDelta)+1:
		return s.corrupt("%d records in a batch of %d offsets", h.Count, int64(h.LastOffsetDelta)+1)
	}
	s.h = h
	s.left = h.Size() - record.HeaderSize
	s.crc = record.CRC32C(s.head[crcStart:])
	return nil
}

// crcStart is the byte of a batch from which its CRC counts.
const crcStart = 21

// end checks the batch that has just become whole and hands it on.
func (s *logScan) end() error {
	if s.crc != s.h.CRC {
		return s.corrupt("CRC-32C of the batch at offset %d is %08x, its header says %08x", s.h.BaseOffset, s.crc, s.h.CRC)
	}
	s.visit(s.start, s.h)
	s.expect, s.epoch = s.h.NextOffset(), s.h.LeaderEpoch
	s.start = s.position
	s.headLen = 0
	return nil
}

func (s *logScan) corrupt(format string, args ...any) error {
	return &record.CorruptionError{Path: s.path, Position: s.start, Reason: fmt.Sprintf(format, args...)}
}
