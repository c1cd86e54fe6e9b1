// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"errors"
	"math"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"firn/record"
)

// requireCorruption fails unless err is a CorruptionError at the position.
func requireCorruption(t *testing.T, err error, position int64) {
	t.Helper()
	var c *record.CorruptionError
	if !errors.As(err, &c) || c.Position != position {
		t.Errorf("got %v, want a corruption at byte %d", err, position)
	}
}

func index(base record.Offset, entries ...record.IndexEntry) []byte {
	var b []byte
	for _, e := range entries {
		b = record.AppendIndexEntry(b, base, e)
	}
	return b
}

func TestCheckIndex(t *testing.T) {
	const base, logSize = 1000, 500
	good := index(base, record.IndexEntry{Offset: 1000, Position: 0}, record.IndexEntry{Offset: 1009, Position: 100}, record.IndexEntry{Offset: 1010, Position: 499})
	if err := record.CheckIndex(good, base, logSize); err != nil {
		t.Error(err)
	}
	if err := record.CheckIndex(nil, base, 0); err != nil {
		t.Error(err)
	}
	tests := []struct {
		name string
		b    []byte
		at   int64
	}{
		{"half an entry", good[:12], 8},
		{"zeros after the end", append(good[:24:24], make([]byte, 16)...), 24},
		{"an offset twice", index(base, record.IndexEntry{Offset: 1001, Position: 1}, record.IndexEntry{Offset: 1001, Position: 2}), 8},
		{"a falling offset", index(base, record.IndexEntry{Offset: 1005, Position: 1}, record.IndexEntry{Offset: 1001, Position: 2}), 8},
		{"a position twice", index(base, record.IndexEntry{Offset: 1001, Position: 2}, record.IndexEntry{Offset: 1002, Position: 2}), 8},
		{"a negative position", index(base, record.IndexEntry{Offset: 1001, Position: -2}), 0},
		{"a position outside the log", index(base, record.IndexEntry{Offset: 1001, Position: logSize}), 0},
		{"an offset too far", index(base, record.IndexEntry{Offset: base + math.MaxInt32 + 1, Position: 1}), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { requireCorruption(t, record.CheckIndex(tt.b, base, logSize), tt.at) })
	}
}

func TestLookupIndexAgreesWithAScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := record.Offset(rapid.Int64Range(0, 1<<40).Draw(t, "base"))
		var entries []record.IndexEntry
		last := record.IndexEntry{Offset: base - 1, Position: -1}
		for range rapid.IntRange(0, 20).Draw(t, "entries") {
			last.Offset += record.Offset(rapid.IntRange(1, 50).Draw(t, "offset step"))
			last.Position += int32(rapid.IntRange(1, 5000).Draw(t, "position step"))
			entries = append(entries, last)
		}
		b := index(base, entries...)
		if err := record.CheckIndex(b, base, int64(last.Position)+1); err != nil {
			t.Fatal(err)
		}
		target := base + record.Offset(rapid.IntRange(0, 1200).Draw(t, "target"))
		want := record.IndexEntry{Offset: base}
		for _, e := range entries {
			if e.Offset <= target {
				want = e
			}
		}
		if got := record.LookupIndex(b, base, target); got != want {
			t.Fatalf("got %+v, want %+v among %+v", got, want, entries)
		}
	})
}

func timeIndex(base record.Offset, entries ...record.TimeIndexEntry) []byte {
	var b []byte
	for _, e := range entries {
		b = record.AppendTimeIndexEntry(b, base, e)
	}
	return b
}

func TestCheckTimeIndex(t *testing.T) {
	const base, next = 1000, 2000
	good := timeIndex(base, record.TimeIndexEntry{Timestamp: 0, Offset: 1000}, record.TimeIndexEntry{Timestamp: 7, Offset: 1000}, record.TimeIndexEntry{Timestamp: 8, Offset: 1999})
	if err := record.CheckTimeIndex(good, base, next); err != nil {
		t.Error(err)
	}
	if err := record.CheckTimeIndex(nil, base, base); err != nil {
		t.Error(err)
	}
	tests := []struct {
		name string
		b    []byte
		at   int64
	}{
		{"half an entry", good[:20], 12},
		{"zeros after the end", append(good[:36:36], make([]byte, 12)...), 36},
		{"a timestamp twice", timeIndex(base, record.TimeIndexEntry{Timestamp: 5, Offset: 1000}, record.TimeIndexEntry{Timestamp: 5, Offset: 1001}), 12},
		{"a falling offset", timeIndex(base, record.TimeIndexEntry{Timestamp: 5, Offset: 1002}, record.TimeIndexEntry{Timestamp: 6, Offset: 1001}), 12},
		{"no timestamp", timeIndex(base, record.TimeIndexEntry{Timestamp: record.NoTimestamp, Offset: 1000}), 0},
		{"an offset outside the segment", timeIndex(base, record.TimeIndexEntry{Timestamp: 5, Offset: next}), 0},
		{"an offset too far", timeIndex(base, record.TimeIndexEntry{Timestamp: 5, Offset: base + math.MaxInt32 + 1}), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { requireCorruption(t, record.CheckTimeIndex(tt.b, base, next), tt.at) })
	}
}

func TestLookupTimeIndex(t *testing.T) {
	entries := []record.TimeIndexEntry{{Timestamp: 10, Offset: 105}, {Timestamp: 20, Offset: 110}, {Timestamp: 30, Offset: 120}}
	b := timeIndex(100, entries...)
	for target, want := range map[int64]record.TimeIndexEntry{
		-1: {Timestamp: record.NoTimestamp, Offset: 100}, 9: {Timestamp: record.NoTimestamp, Offset: 100},
		10: entries[0], 19: entries[0], 20: entries[1], 30: entries[2], math.MaxInt64: entries[2],
	} {
		if got := record.LookupTimeIndex(b, 100, target); got != want {
			t.Errorf("at %d got %+v, want %+v", target, got, want)
		}
	}
}

func TestParseTxnIndex(t *testing.T) {
	txns := []record.AbortedTxn{
		{ProducerID: 1, FirstOffset: 5, LastOffset: 100, LastStableOffset: 90},
		{ProducerID: 2, FirstOffset: 101, LastOffset: 104, LastStableOffset: 105},
	}
	var b []byte
	for _, txn := range txns {
		b = record.AppendAbortedTxn(b, txn)
	}
	got, err := record.ParseTxnIndex(b, 100)
	if err != nil || len(got) != 2 || got[0] != txns[0] || got[1] != txns[1] {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got, err := record.ParseTxnIndex(nil, 0); err != nil || len(got) != 0 {
		t.Errorf("an empty index: %v, %v", got, err)
	}
	_, err = record.ParseTxnIndex(b[:len(b)-1], 100)
	requireCorruption(t, err, record.AbortedTxnSize)
	_, err = record.ParseTxnIndex(b, 101)
	requireCorruption(t, err, 18)
	_, err = record.ParseTxnIndex(append(b[record.AbortedTxnSize:len(b):len(b)], b...), 100)
	requireCorruption(t, err, record.AbortedTxnSize+18)
	_, err = record.ParseTxnIndex(put(b, 34+2, uint64(1<<63)), 100)
	requireCorruption(t, err, 34+2)
	_, err = record.ParseTxnIndex(put(b, 10, uint64(101)), 100)
	requireCorruption(t, err, 10)
	_, err = record.ParseTxnIndex(put(b, 26, uint64(1<<63)), 100)
	requireCorruption(t, err, 26)
	_, err = record.ParseAbortedTxn(b[:33])
	requireCorruption(t, err, 0)
	if _, err := record.ParseTxnIndex(put(b, 0, uint16(1)), 100); !errors.Is(err, record.ErrUnsupportedVersion) {
		t.Errorf("version 1: %v", err)
	}
}

// FuzzIndexes: what the checks pass is found again by look-up, in order, and
// stays inside the segment.
func FuzzIndexes(f *testing.F) {
	f.Add(index(0, record.IndexEntry{Offset: 4, Position: 9}, record.IndexEntry{Offset: 5, Position: 90}), int64(0), int64(100))
	f.Add(timeIndex(7, record.TimeIndexEntry{Timestamp: 4, Offset: 9}), int64(7), int64(100))
	f.Add(record.AppendAbortedTxn(nil, record.AbortedTxn{ProducerID: 1, LastOffset: 9}), int64(9), int64(10))
	f.Fuzz(func(t *testing.T, b []byte, start, size int64) {
		if start < 0 || size < 0 {
			return
		}
		base := record.Offset(start)
		if record.CheckIndex(b, base, size) == nil {
			n := len(b) / record.IndexEntrySize
			for i := range n {
				e := record.ParseIndexEntry(b[i*record.IndexEntrySize:], base)
				if e.Offset < base || e.Position < 0 || int64(e.Position) >= size || record.LookupIndex(b, base, e.Offset) != e {
					t.Fatalf("entry %+v of %x", e, b)
				}
			}
		}
		next := base + record.Offset(size)
		if record.CheckTimeIndex(b, base, next) == nil {
			n := len(b) / record.TimeIndexEntrySize
			sorted := sort.SliceIsSorted(make([]struct{}, n), func(i, j int) bool {
				at := func(i int) int64 {
					return record.ParseTimeIndexEntry(b[i*record.TimeIndexEntrySize:], base).Timestamp
				}
				return at(i) < at(j)
			})
			if !sorted {
				t.Fatalf("out of order: %x", b)
			}
		}
		txns, err := record.ParseTxnIndex(b, base)
		if err == nil && len(txns)*record.AbortedTxnSize != len(b) {
			t.Fatalf("%d transactions from %d bytes", len(txns), len(b))
		}
	})
}
