// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"fmt"
)

// AbortedTxnSize is the size of an entry of the transaction index in bytes.
const AbortedTxnSize = 34

// abortedTxnVersion is the only version of such an entry.
const abortedTxnVersion = 0

// AbortedTxn is one entry of a segment's transaction index: a transaction
// whose abort marker lies in the segment.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      Offset // of the transaction's first record
	LastOffset       Offset // of its marker
	LastStableOffset Offset // of the partition, when the marker was written
}

// AppendAbortedTxn appends t to dst.
func AppendAbortedTxn(dst []byte, t AbortedTxn) []byte {
	dst = binary.BigEndian.AppendUint16(dst, abortedTxnVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.ProducerID))
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.FirstOffset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.LastOffset))
	return binary.BigEndian.AppendUint64(dst, uint64(t.LastStableOffset))
}

// ParseAbortedTxn reads the entry at the start of b. The error wraps
// ErrUnsupportedVersion or is a *CorruptionError.
func ParseAbortedTxn(b []byte) (AbortedTxn, error) {
	if len(b) < AbortedTxnSize {
		return AbortedTxn{}, corrupt(0, "aborted transaction of %d bytes, want %d", len(b), AbortedTxnSize)
	}
	if v := binary.BigEndian.Uint16(b); v != abortedTxnVersion {
		return AbortedTxn{}, fmt.Errorf("%w: aborted transaction of version %d, only %d is known", ErrUnsupportedVersion, v, abortedTxnVersion)
	}
	t := AbortedTxn{
		ProducerID:       int64(binary.BigEndian.Uint64(b[2:])),
		FirstOffset:      Offset(binary.BigEndian.Uint64(b[10:])),
		LastOffset:       Offset(binary.BigEndian.Uint64(b[18:])),
		LastStableOffset: Offset(binary.BigEndian.Uint64(b[26:])),
	}
	switch {
	case t.ProducerID < 0:
		return AbortedTxn{}, corrupt(2, "producer id %d is negative", t.ProducerID)
	case t.FirstOffset < 0 || t.LastOffset < t.FirstOffset:
		return AbortedTxn{}, corrupt(10, "aborted transaction from offset %d to %d", t.FirstOffset, t.LastOffset)
	case t.LastStableOffset < 0:
		return AbortedTxn{}, corrupt(26, "last stable offset %d is negative", t.LastStableOffset)
	}
	return t, nil
}

// ParseTxnIndex reads the whole transaction index of a segment that starts at
// base: whole entries, ordered by the offset of their markers, none of which
// lies below base. The error is ParseAbortedTxn's or a *CorruptionError.
func ParseTxnIndex(b []byte, base Offset) ([]AbortedTxn, error) {
	if len(b)%AbortedTxnSize != 0 {
		return nil, corrupt(len(b)-len(b)%AbortedTxnSize, "transaction index has %d bytes, not a multiple of %d", len(b), AbortedTxnSize)
	}
	var txns []AbortedTxn
	last := base - 1
	for at := 0; at < len(b); at += AbortedTxnSize {
		t, err := ParseAbortedTxn(b[at:])
		if err != nil {
			return nil, atPosition(err, at)
		}
		if t.LastOffset <= last {
			return nil, corrupt(at+18, "marker at offset %d, want one above %d", t.LastOffset, last)
		}
		last = t.LastOffset
		txns = append(txns, t)
	}
	return txns, nil
}
