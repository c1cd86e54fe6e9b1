// SPDX-License-Identifier: Apache-2.0

package record

import "encoding/binary"

// SnapshotEntry is what a .snapshot file says of one producer, for those who
// look at the file rather than go on from it.
type SnapshotEntry struct {
	ProducerID       int64
	ProducerEpoch    int16
	LastSequence     int32  // NoSequence when only a marker is known
	LastOffset       Offset // of its last record; NoOffset likewise
	OffsetDelta      int32  // last offset less first offset of its last batch
	Timestamp        int64  // of its last batch, in ms since the Unix epoch
	CoordinatorEpoch int32  // of its last marker, -1 for none
	TxnFirstOffset   Offset // of its open transaction, NoOffset for none
}

// FirstSequence is the first sequence number of the producer's last batch, or
// NoSequence when there is none.
func (e SnapshotEntry) FirstSequence() int32 {
	return appended{lastSequence: e.LastSequence, delta: e.OffsetDelta}.firstSequence()
}

// ParseSnapshot reads a .snapshot file in the order of the file. The error is
// ParseProducers'.
func ParseSnapshot(b []byte) ([]SnapshotEntry, error) {
	if _, err := ParseProducers(b); err != nil {
		return nil, err
	}
	entries := make([]SnapshotEntry, 0, (len(b)-snapshotHeadSize)/snapshotEntrySize)
	for at := snapshotHeadSize; at < len(b); at += snapshotEntrySize {
		e := b[at : at+snapshotEntrySize]
		entries = append(entries, SnapshotEntry{
			ProducerID:       int64(binary.BigEndian.Uint64(e)),
			ProducerEpoch:    int16(binary.BigEndian.Uint16(e[8:])),
			LastSequence:     int32(binary.BigEndian.Uint32(e[10:])),
			LastOffset:       Offset(binary.BigEndian.Uint64(e[14:])),
			OffsetDelta:      int32(binary.BigEndian.Uint32(e[22:])),
			Timestamp:        int64(binary.BigEndian.Uint64(e[26:])),
			CoordinatorEpoch: int32(binary.BigEndian.Uint32(e[34:])),
			TxnFirstOffset:   max(Offset(binary.BigEndian.Uint64(e[38:])), NoOffset),
		})
	}
	return entries, nil
}
