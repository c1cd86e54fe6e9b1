// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

const (
	snapshotVersion   = 1
	snapshotHeadSize  = 10 // version, CRC, number of entries
	snapshotEntrySize = 46
	posSnapshotCRC    = 2
	posSnapshotCount  = 6 // the CRC covers everything from here
)

// Marshal is the content of a .snapshot file at end: the state of the
// producers after every batch below it, ordered by producer id. end is in the
// file's name, not in its content. A producer whose newest batch does not lie
// below end is written as of the newest remembered one that does, and left out
// when there is none.
//
// Like Kafka's, a snapshot holds one batch of each producer: what a producer sent
// before it is found by Recall and Refill.
func (p *Producers) Marshal(end Offset) []byte {
	b := make([]byte, snapshotHeadSize, snapshotHeadSize+snapshotEntrySize*len(p.byID))
	count := uint32(0)
	for _, id := range slices.Sorted(maps.Keys(p.byID)) {
		s := p.byID[id]
		last, ok := s.lastBelow(end)
		if !ok {
			continue
		}
		b = appendSnapshotEntry(b, id, s, last)
		count++
	}
	binary.BigEndian.PutUint16(b, snapshotVersion)
	binary.BigEndian.PutUint32(b[posSnapshotCount:], count)
	binary.BigEndian.PutUint32(b[posSnapshotCRC:], CRC32C(b[posSnapshotCount:]))
	return b
}

// lastBelow is the newest remembered batch below end. A producer without any
// batch, known from a marker alone, is Kafka's entry with the offset -1.
func (s *producer) lastBelow(end Offset) (appended, bool) {
	for _, b := range slices.Backward(s.batches) {
		if b.lastOffset < end {
			return b, true
		}
	}
	none := appended{lastSequence: NoSequence, lastOffset: NoOffset, timestamp: s.lastTimestamp}
	return none, len(s.batches) == 0 && s.reached < end
}

func appendSnapshotEntry(b []byte, id int64, s *producer, last appended) []byte {
	timestamp := last.timestamp
	if n := len(s.batches); n > 0 && s.batches[n-1] == last {
		timestamp = s.lastTimestamp // a marker may have come after the batch
	}
	txnFirst := s.txnFirst
	if txnFirst > last.lastOffset {
		txnFirst = NoOffset
	}
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	b = binary.BigEndian.AppendUint16(b, uint16(s.epoch))
	b = binary.BigEndian.AppendUint32(b, uint32(last.lastSequence))
	b = binary.BigEndian.AppendUint64(b, uint64(last.lastOffset))
	b = binary.BigEndian.AppendUint32(b, uint32(last.delta))
	b = binary.BigEndian.AppendUint64(b, uint64(timestamp))
	b = binary.BigEndian.AppendUint32(b, uint32(s.coordinatorEpoch))
	return binary.BigEndian.AppendUint64(b, uint64(txnFirst))
}

// ParseProducers reads a .snapshot file of Kafka's or ours. The error wraps
// ErrUnsupportedVersion or is a *CorruptionError. Either way the state can be
// rebuilt by applying the log from an older snapshot on.
func ParseProducers(b []byte) (*Producers, error) {
	if len(b) < snapshotHeadSize {
		return nil, corrupt(0, "producer snapshot of %d bytes, want at least %d", len(b), snapshotHeadSize)
	}
	if v := int16(binary.BigEndian.Uint16(b)); v != snapshotVersion {
		return nil, fmt.Errorf("%w: producer snapshot of version %d, only %d is known", ErrUnsupportedVersion, v, snapshotVersion)
	}
	want := binary.BigEndian.Uint32(b[posSnapshotCRC:])
	if got := CRC32C(b[posSnapshotCount:]); got != want {
		return nil, corrupt(posSnapshotCRC, "CRC-32C is %08x, the file says %08x", got, want)
	}
	count := int64(int32(binary.BigEndian.Uint32(b[posSnapshotCount:])))
	if count < 0 || count*snapshotEntrySize != int64(len(b)-snapshotHeadSize) {
		return nil, corrupt(posSnapshotCount, "%d producers of %d bytes each do not fill %d bytes", count, snapshotEntrySize, len(b)-snapshotHeadSize)
	}
	p := NewProducers()
	for at := snapshotHeadSize; at < len(b); at += snapshotEntrySize {
		if err := p.parseSnapshotEntry(b[at : at+snapshotEntrySize]); err != nil {
			return nil, atPosition(err, at)
		}
	}
	p.sortOpen()
	return p, nil
}

func (p *Producers) parseSnapshotEntry(b []byte) error {
	id := int64(binary.BigEndian.Uint64(b))
	last := appended{
		lastSequence: int32(binary.BigEndian.Uint32(b[10:])),
		lastOffset:   Offset(binary.BigEndian.Uint64(b[14:])),
		delta:        int32(binary.BigEndian.Uint32(b[22:])),
		timestamp:    int64(binary.BigEndian.Uint64(b[26:])),
	}
	s := &producer{
		epoch:            int16(binary.BigEndian.Uint16(b[8:])),
		lastTimestamp:    last.timestamp,
		coordinatorEpoch: int32(binary.BigEndian.Uint32(b[34:])),
		reached:          last.lastOffset,
		txnFirst:         max(Offset(binary.BigEndian.Uint64(b[38:])), NoOffset),
	}
	switch {
	case id < 0:
		return corrupt(0, "producer id %d is negative", id)
	case p.byID[id] != nil:
		return corrupt(0, "producer %d appears twice", id)
	case last.lastSequence < NoSequence:
		return corrupt(10, "last sequence %d of producer %d", last.lastSequence, id)
	case last.lastOffset < NoOffset:
		return corrupt(14, "last offset %d of producer %d", last.lastOffset, id)
	case last.delta < 0 || last.lastOffset >= 0 && Offset(last.delta) > last.lastOffset:
		return corrupt(22, "offset delta %d of producer %d, whose last offset is %d", last.delta, id, last.lastOffset)
	}
	if last.lastOffset >= 0 {
		s.batches, s.short = append(s.batches, last), true
		if last.lastSequence >= 0 {
			s.run = min(int64(last.delta)+1, maxRun)
		}
	}
	p.byID[id] = s
	if s.txnFirst != NoOffset {
		p.open = append(p.open, OpenTxn{ProducerID: id, FirstOffset: s.txnFirst})
	}
	p.maxID = max(p.maxID, id)
	return nil
}
