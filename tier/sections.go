// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"firn/record"
)

// sections is what the reader keeps of everything behind an object's log: the
// footer and the indexes, checked once. It is immutable.
type sections struct {
	footer  *Footer
	offsets []byte // offset index
	times   []byte // time index
	aborted []record.AbortedTxn
}

// parseSections checks everything behind the log of the object: that the footer
// is the one that e and the key name, that each section has its digest, and that
// the indexes can be searched. tail is the object from its LogSize on; it is
// not kept. The error is a *record.CorruptionError or wraps
// record.ErrUnsupportedVersion.
func parseSections(key string, e Entry, tail []byte) (*sections, error) {
	if want := e.ObjectSize - e.LogSize; int64(len(tail)) != want {
		return nil, &record.CorruptionError{Path: key, Position: e.LogSize, Reason: fmt.Sprintf("%d bytes behind the log, want %d", len(tail), want)}
	}
	f, err := checkFooter(key, tail, e)
	if err != nil {
		return nil, err
	}
	content := make(map[SectionKind][]byte, sectionCount)
	for _, s := range f.Sections[1:] {
		b := tail[s.Position-e.LogSize:][:s.Length]
		if err := s.verify(key, b); err != nil {
			return nil, err
		}
		content[s.Kind] = b
	}
	s := &sections{footer: f}
	// One small copy, so that the producer state does not stay in memory with
	// the indexes.
	offsets, times := content[SectionOffsetIndex], content[SectionTimeIndex]
	kept := make([]byte, 0, len(offsets)+len(times))
	kept = append(append(kept, offsets...), times...)
	s.offsets, s.times = kept[:len(offsets):len(offsets)], kept[len(offsets):]
	if err := record.CheckIndex(s.offsets, f.BaseOffset, f.LogSize()); err != nil {
		return nil, sectionError(key, f.Section(SectionOffsetIndex), err)
	}
	if err := record.CheckTimeIndex(s.times, f.BaseOffset, f.NextOffset); err != nil {
		return nil, sectionError(key, f.Section(SectionTimeIndex), err)
	}
	if s.aborted, err = record.ParseTxnIndex(content[SectionAbortedTxns], 0); err != nil {
		return nil, sectionError(key, f.Section(SectionAbortedTxns), err)
	}
	return s, nil
}

// sectionError names the object and the byte in it for an error of a codec that
// knows its own section only.
func sectionError(key string, s Section, err error) error {
	var bad *record.CorruptionError
	if errors.As(err, &bad) {
		err = &record.CorruptionError{Path: key, Position: s.Position + bad.Position, Reason: bad.Reason}
	}
	return fmt.Errorf("parse %v: %w", s.Kind, err)
}

// cost is what the sections hold in memory, in bytes.
func (s *sections) cost() int64 {
	const entry = 32 // an AbortedTxn in memory
	return int64(cap(s.offsets)+cap(s.times)) + entry*int64(cap(s.aborted)) + s.footer.Size()
}

// seek is a byte of the log at or before the batch that holds o, on a batch's
// start.
func (s *sections) seek(o record.Offset) int64 {
	return int64(record.LookupIndex(s.offsets, s.footer.BaseOffset, o).Position)
}

// seekTime is a byte of the log, on a batch's start, before which no batch has
// a timestamp of ts or more.
func (s *sections) seekTime(ts int64) int64 {
	// The entry's own batch is the first with its timestamp, so that the
	// search starts on it and not behind it.
	return s.seek(record.LookupTimeIndex(s.times, s.footer.BaseOffset, ts).Offset)
}

// abortedIn lists the aborted transactions that overlap the offsets from first
// up to, and without, next.
func (s *sections) abortedIn(first, next record.Offset) []record.AbortedTxn {
	var out []record.AbortedTxn
	at, _ := slices.BinarySearchFunc(s.aborted, first, func(t record.AbortedTxn, o record.Offset) int {
		return cmp.Compare(t.LastOffset, o)
	})
	for _, t := range s.aborted[at:] {
		if t.FirstOffset < next {
			out = append(out, t)
		}
		if t.LastStableOffset >= next {
			break // whatever began below next has ended
		}
	}
	return out
}
