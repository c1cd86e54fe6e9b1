// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"io"
	"slices"

	"firn/record"
)

// recallBytes is how far back in the log the batches of a producer are looked
// for that its snapshot did not keep. A client that sends again after a restart
// sends what it had in flight, which is near the end.
const recallBytes = 16 << 20

// recall gives a producer whose state came from a snapshot the batches back that
// the snapshot does not hold, and says whether it is worth to check a batch of it
// again. Without it a client that had several batches in flight when the broker
// ended would hear, on sending them again, that they are out of order, and take
// them for lost. It happens once for each producer and start: reading them all
// at the start would make that depend on the bytes stored. What cannot be read is
// not recalled. The caller holds appendMu.
func (l *Log) recall(h record.Header) bool {
	before, missing, ok := l.producers.Recall(h)
	if !ok {
		return false
	}
	var found []record.Header
	list, budget := l.list(), int64(recallBytes)
	for i := segmentOf(list, before); i >= 0 && budget > 0 && len(found) < missing; i-- {
		older, read, err := list[i].batchesOf(h, before, budget, missing-len(found))
		if err != nil {
			l.logger.Warn("the last batches of a producer cannot be read", "event", "recall_failed", "segment", list[i].path, "error", err)
			break
		}
		found, budget = append(older, found...), budget-read
	}
	l.producers.Refill(h.ProducerID, found)
	return len(found) > 0
}

// batchesOf are the last n data batches of the producer and epoch of like among
// the last bytes of the segment below before, and how many bytes were looked at.
func (s *Segment) batchesOf(like record.Header, before record.Offset, bytes int64, n int) (found []record.Header, read int64, err error) {
	f, err := s.acquire()
	if err != nil {
		return nil, 0, err
	}
	defer s.release()
	end, err := s.floor(before) // the batch that starts at before lies at it or after it
	if err != nil {
		return nil, 0, err
	}
	size := s.Size()
	if before >= s.NextOffset() {
		end = size
	}
	var c cursor
	if err := s.walkIndexed(&c, f, size, func(b []byte) bool {
		return int64(record.ParseIndexEntry(b, s.base).Position) <= end-bytes
	}); err != nil {
		return nil, 0, err
	}
	defer c.done()
	start := c.pos
	for {
		h, at, err := c.header()
		if errors.Is(err, io.EOF) || err == nil && h.BaseOffset >= before {
			return found, c.pos - start, nil
		}
		if err != nil {
			return nil, 0, err
		}
		if h.ProducerID == like.ProducerID && h.ProducerEpoch == like.ProducerEpoch && !h.IsControl() {
			// A wrong sequence number would take a new batch for an old one.
			if err := c.checkCRC(h, at); err != nil {
				return nil, 0, err
			}
			if len(found) == n {
				found = slices.Delete(found, 0, 1)
			}
			found = append(found, h)
		}
	}
}
