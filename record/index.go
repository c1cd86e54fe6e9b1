// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"math"
	"sort"
)

// IndexEntrySize is the size of an entry of the offset index in bytes.
const IndexEntrySize = 8

// MaxRelativeOffset is the largest distance of an offset from its segment's
// base offset that the indexes can express; a segment rolls before it.
const MaxRelativeOffset = math.MaxInt32

// IndexEntry is one entry of a segment's offset index: the batch that starts
// at Position has Offset as its last offset.
type IndexEntry struct {
	Offset   Offset
	Position int32 // bytes from the start of the .log file
}

// AppendIndexEntry appends e, relative to the segment's base offset, to dst.
// e.Offset must be between base and base+MaxRelativeOffset.
func AppendIndexEntry(dst []byte, base Offset, e IndexEntry) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.Offset-base))
	return binary.BigEndian.AppendUint32(dst, uint32(e.Position))
}

// ParseIndexEntry reads the entry at the start of b, which holds at least
// IndexEntrySize bytes. It checks nothing: CheckIndex does, once for the whole
// index.
func ParseIndexEntry(b []byte, base Offset) IndexEntry {
	_ = b[IndexEntrySize-1]
	return IndexEntry{
		Offset:   base + Offset(binary.BigEndian.Uint32(b)),
		Position: int32(binary.BigEndian.Uint32(b[4:])),
	}
}

// CheckIndex says whether b is the whole offset index of a segment that starts
// at base and whose log has logSize bytes: whole entries, offsets and
// positions strictly rising, every position inside the log. The error is a
// *CorruptionError. An index that Kafka left preallocated ends in zeros and is
// refused; it is rebuilt from the log.
func CheckIndex(b []byte, base Offset, logSize int64) error {
	if len(b)%IndexEntrySize != 0 {
		return corrupt(len(b)-len(b)%IndexEntrySize, "offset index has %d bytes, not a multiple of %d", len(b), IndexEntrySize)
	}
	last := IndexEntry{Offset: base - 1, Position: -1}
	for at := 0; at < len(b); at += IndexEntrySize {
		e := ParseIndexEntry(b[at:], base)
		switch {
		case e.Offset < base || e.Offset-base > MaxRelativeOffset:
			return corrupt(at, "offset %d is not expressible from base offset %d", e.Offset, base)
		case e.Offset <= last.Offset:
			return corrupt(at, "offset %d does not rise above %d", e.Offset, last.Offset)
		case e.Position <= last.Position:
			return corrupt(at, "position %d does not rise above %d", e.Position, last.Position)
		case int64(e.Position) >= logSize:
			return corrupt(at, "position %d lies outside the log of %d bytes", e.Position, logSize)
		}
		last = e
	}
	return nil
}

// LookupIndex finds in the checked index b the last entry whose offset is at
// most target: the batch that holds target starts at its position or after it.
// Below the first entry it answers the segment's start, {base, 0}.
func LookupIndex(b []byte, base Offset, target Offset) IndexEntry {
	n := len(b) / IndexEntrySize
	i := sort.Search(n, func(i int) bool {
		return ParseIndexEntry(b[i*IndexEntrySize:], base).Offset > target
	})
	if i == 0 {
		return IndexEntry{Offset: base}
	}
	return ParseIndexEntry(b[(i-1)*IndexEntrySize:], base)
}
