// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"sort"
)

// TimeIndexEntrySize is the size of an entry of the time index in bytes.
const TimeIndexEntrySize = 12

// NoTimestamp stands for a timestamp that is not known. It is the -1 of
// Kafka's protocol.
const NoTimestamp int64 = -1

// TimeIndexEntry is one entry of a segment's time index: no batch that ends at
// or below Offset has a timestamp above Timestamp, and the batch that ends at
// Offset has it.
type TimeIndexEntry struct {
	Timestamp int64 // ms since the Unix epoch
	Offset    Offset
}

// AppendTimeIndexEntry appends e, relative to the segment's base offset, to
// dst. e.Offset must be between base and base+MaxRelativeOffset.
func AppendTimeIndexEntry(dst []byte, base Offset, e TimeIndexEntry) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.Timestamp))
	return binary.BigEndian.AppendUint32(dst, uint32(e.Offset-base))
}

// ParseTimeIndexEntry reads the entry at the start of b, which holds at least
// TimeIndexEntrySize bytes. It checks nothing: CheckTimeIndex does.
func ParseTimeIndexEntry(b []byte, base Offset) TimeIndexEntry {
	_ = b[TimeIndexEntrySize-1]
	return TimeIndexEntry{
		Timestamp: int64(binary.BigEndian.Uint64(b)),
		Offset:    base + Offset(binary.BigEndian.Uint32(b[8:])),
	}
}

// CheckTimeIndex says whether b is the whole time index of a segment that
// holds the offsets from base up to, and without, next: whole entries,
// timestamps from 0 up and strictly rising, offsets inside the segment and
// never falling. The error is a *CorruptionError.
func CheckTimeIndex(b []byte, base, next Offset) error {
	if len(b)%TimeIndexEntrySize != 0 {
		return corrupt(len(b)-len(b)%TimeIndexEntrySize, "time index has %d bytes, not a multiple of %d", len(b), TimeIndexEntrySize)
	}
	last := TimeIndexEntry{Timestamp: NoTimestamp, Offset: base}
	for at := 0; at < len(b); at += TimeIndexEntrySize {
		e := ParseTimeIndexEntry(b[at:], base)
		switch {
		case e.Offset < base || e.Offset-base > MaxRelativeOffset:
			return corrupt(at, "offset %d is not expressible from base offset %d", e.Offset, base)
		case e.Offset >= next:
			return corrupt(at, "offset %d lies outside the segment, which ends before %d", e.Offset, next)
		case e.Offset < last.Offset:
			return corrupt(at, "offset %d falls below %d", e.Offset, last.Offset)
		case e.Timestamp <= last.Timestamp:
			return corrupt(at, "timestamp %d does not rise above %d", e.Timestamp, last.Timestamp)
		}
		last = e
	}
	return nil
}

// LookupTimeIndex finds in the checked index b the last entry whose timestamp
// is at most target: the first record with a timestamp above it comes after
// its offset. Below the first entry it answers the segment's start,
// {NoTimestamp, base}.
func LookupTimeIndex(b []byte, base Offset, target int64) TimeIndexEntry {
	n := len(b) / TimeIndexEntrySize
	i := sort.Search(n, func(i int) bool {
		return ParseTimeIndexEntry(b[i*TimeIndexEntrySize:], base).Timestamp > target
	})
	if i == 0 {
		return TimeIndexEntry{Timestamp: NoTimestamp, Offset: base}
	}
	return ParseTimeIndexEntry(b[(i-1)*TimeIndexEntrySize:], base)
}
