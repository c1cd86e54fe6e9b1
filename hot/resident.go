// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"

	"firn/record"
)

// Resident says whether the log from the given offset on, about maxBytes of
// it, is in the page cache, and how many bytes of log there are from there to
// the end. It looks at the index and at nothing of the log itself, so that it
// may be asked before a read that must not touch the disk. Like Read it stays
// within one segment, and its errors are those of Read.
func (l *Log) Resident(from record.Offset, maxBytes int) (resident bool, bytesToEnd int64, err error) {
	list := l.list()
	end := l.EndOffset()
	if from < list[0].base || from > end {
		return false, 0, fmt.Errorf("locate offset %d of %s: %w: the local log has %d to %d", from, l.tp, record.ErrOffsetOutOfRange, list[0].base, end)
	}
	i := segmentOf(list, from)
	resident, bytesToEnd, err = list[i].resident(from, int64(max(maxBytes, 1)))
	if errors.Is(err, record.ErrClosed) && !l.closed.Load() {
		return false, 0, fmt.Errorf("locate offset %d of %s: %w: its segment was dropped", from, l.tp, record.ErrOffsetOutOfRange)
	}
	if err != nil {
		return false, 0, fmt.Errorf("locate offset %d of %s: %w", from, l.tp, asStorage(err))
	}
	for _, s := range list[i+1:] {
		bytesToEnd += s.Size()
	}
	return resident, bytesToEnd, nil
}

// resident is Resident within one segment.
func (s *Segment) resident(from record.Offset, maxBytes int64) (resident bool, bytesToEnd int64, err error) {
	pos, err := s.floor(from)
	if err != nil {
		return false, 0, err
	}
	f, err := s.acquire()
	if err != nil {
		return false, 0, err
	}
	defer s.release()
	bytesToEnd = max(s.Size()-pos, 0)
	return s.log.store.io.Resident(f, pos, min(maxBytes, bytesToEnd)), bytesToEnd, nil
}

// ResidentRatio is the part of the hot set, the last Options.HotBytes of every
// open log, that is in the page cache, from 0 to 1. It is 1 when there is
// nothing to be cached, or no way to tell. It asks the kernel about every log
// and is meant for the metrics.
func (s *Store) ResidentRatio() float64 {
	var found, want int64
	for _, l := range s.openLogs() {
		list, left := l.list(), s.hotBytes
		for i := len(list) - 1; i >= 0 && left > 0; i-- {
			size := list[i].Size()
			part := min(size, left)
			left -= part
			f, w := list[i].residentPages(size-part, part)
			found, want = found+f, want+w
		}
	}
	if want == 0 {
		return 1
	}
	return float64(found) / float64(want)
}

// residentPages counts the pages of [off, off+n) and those in the page cache;
// none of a segment that is gone.
func (s *Segment) residentPages(off, n int64) (found, want int64) {
	if n == 0 {
		return 0, 0
	}
	f, err := s.acquire()
	if err != nil {
		return 0, 0
	}
	defer s.release()
	found, want, known := s.log.store.io.ResidentPages(f, off, n)
	if !known {
		return 0, 0
	}
	return found, want
}
