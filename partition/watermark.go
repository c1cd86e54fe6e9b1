// SPDX-License-Identifier: Apache-2.0

package partition

import "firn/record"

// watermark is the high watermark of a partition with a single replica, as a
// pure state machine. Records of acks 0 and 1 are visible at once, those of
// acks=all when they are synced, and nothing is visible above something that
// is not.
type watermark struct {
	high    record.Offset
	end     record.Offset
	durable record.Offset
	// unsynced holds the runs of acks=all batches past the durable offset,
	// ascending and disjoint; neighbours are joined, so that its length is
	// bounded by how often acks alternate within one sync.
	unsynced []offsetRange
}

// offsetRange is [from, to).
type offsetRange struct{ from, to record.Offset }

// newWatermark starts at the end of a log that was recovered and synced.
func newWatermark(end record.Offset) watermark {
	return watermark{high: end, end: end, durable: end}
}

// append notes a batch [from, to) and reports whether the high watermark rose.
// Batches must be noted in the order of their offsets.
func (w *watermark) append(batch offsetRange, needsSync bool) bool {
	w.end = batch.to
	if needsSync && batch.to > w.durable {
		if n := len(w.unsynced); n > 0 && w.unsynced[n-1].to == batch.from {
			w.unsynced[n-1].to = batch.to
		} else {
			w.unsynced = append(w.unsynced, batch)
		}
	}
	return w.advance()
}

// synced notes that everything below durable is on disk and reports whether
// the high watermark rose.
func (w *watermark) synced(durable record.Offset) bool {
	if durable <= w.durable {
		return false
	}
	w.durable = durable
	gone := 0
	for gone < len(w.unsynced) && w.unsynced[gone].to <= durable {
		gone++
	}
	w.unsynced = append(w.unsynced[:0], w.unsynced[gone:]...)
	return w.advance()
}

func (w *watermark) advance() bool {
	high := w.end
	if len(w.unsynced) > 0 {
		// Batches of the first run that lie below the durable offset are
		// synced, whatever the rest of the run is.
		high = max(w.unsynced[0].from, min(w.durable, w.unsynced[0].to))
	}
	if high <= w.high {
		return false
	}
	w.high = high
	return true
}
