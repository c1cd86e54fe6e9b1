// SPDX-License-Identifier: Apache-2.0

package tier

import "firn/record"

// indexer makes the index sections and the totals of a segment object out of
// the headers of its batches. It is pure: the same batches give the same bytes,
// whatever indexes the broker kept beside the log and with whatever interval,
// so that a damaged local index never reaches the bucket and two uploads of one
// log agree. It follows Kafka's rule: an entry before a batch when more than
// indexInterval bytes have gone by since the last one.
type indexer struct {
	base record.Offset

	offsets, times []byte

	batches, records   int64
	firstEpoch         record.Epoch
	lastEpoch          record.Epoch
	firstTimestamp     int64
	maxTimestamp       int64
	maxTimestampOffset record.Offset
	indexedTimestamp   int64 // of the last entry in times
	sinceEntry         int64 // bytes
}

func newIndexer(base record.Offset) *indexer {
	return &indexer{
		base:               base,
		firstTimestamp:     record.NoTimestamp,
		maxTimestamp:       record.NoTimestamp,
		maxTimestampOffset: record.NoOffset,
		firstEpoch:         record.NoEpoch,
		lastEpoch:          record.NoEpoch,
		indexedTimestamp:   record.NoTimestamp,
	}
}

// add takes the batch that starts at position, in the order of the log.
func (x *indexer) add(position int64, h record.Header) {
	if x.batches == 0 {
		x.firstTimestamp, x.firstEpoch = h.BaseTimestamp, h.LeaderEpoch
		x.maxTimestampOffset = h.LastOffset()
	}
	x.lastEpoch = h.LeaderEpoch
	if h.MaxTimestamp > x.maxTimestamp {
		x.maxTimestamp, x.maxTimestampOffset = h.MaxTimestamp, h.LastOffset()
	}
	if x.sinceEntry > indexInterval {
		x.offsets = record.AppendIndexEntry(x.offsets, x.base, record.IndexEntry{Offset: h.LastOffset(), Position: int32(position)})
		x.addTime()
		x.sinceEntry = 0
	}
	x.sinceEntry += int64(h.Size())
	x.batches++
	x.records += int64(h.Count)
}

// finish closes the time index with the segment's maximum, as Kafka does when
// it seals a segment.
func (x *indexer) finish() { x.addTime() }

func (x *indexer) addTime() {
	if x.maxTimestamp <= x.indexedTimestamp {
		return
	}
	x.times = record.AppendTimeIndexEntry(x.times, x.base, record.TimeIndexEntry{Timestamp: x.maxTimestamp, Offset: x.maxTimestampOffset})
	x.indexedTimestamp = x.maxTimestamp
}
