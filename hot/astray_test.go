// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
	"firn/record/recordtest"
)

// sparseLog is a closed log of batches of 10 records, of which every third or
// so has an index entry.
func sparseLog(t testing.TB) (*vfs.Mem, []stored) {
	t.Helper()
	mem := vfs.NewMem()
	s := openStore(t, mem)
	l := createLog(t, s, hot.LogOptions{IndexInterval: 2 * len(recordtest.Batch(0, recordtest.Count(10)))})
	for i := range 60 {
		appendBatch(t, l, 10, recordtest.Timestamp(int64(i)))
	}
	if err := l.Roll(t.Context()); err != nil {
		t.Fatal(err)
	}
	appendBatch(t, l, 10)
	want := readAll(t, l, 1<<20)
	closeStore(t, s)
	return mem, want
}

// readEach reads at every offset, and expects the batch that holds it.
func readEach(t *testing.T, l *hot.Log, want []stored) {
	t.Helper()
	for o := range l.EndOffset() {
		r, err := l.Read(o, l.EndOffset(), 700, true)
		if err != nil || r == nil {
			t.Fatalf("read at %d: %v, %v", o, r, err)
		}
		got := regionBatches(t, r)
		r.Release()
		i := int(o) / 10
		if i+len(got) > len(want) || !slices.Equal(got, want[i:i+len(got)]) || r.Next() != got[len(got)-1].next {
			t.Fatalf("read at %d: from %d to %d, next %d", o, got[0].base, got[len(got)-1].next, r.Next())
		}
	}
}

// An index has no checksum, and one whose entries rise may still lead past
// records. That is noticed at the batch that an entry leads to: the index is
// rebuilt and nothing is passed over.
func TestAnIndexThatLeadsAstrayIsRebuilt(t *testing.T) {
	changes := map[string]func(offset, position, next uint32) (uint32, uint32){
		"offsets too low":            func(o, p, _ uint32) (uint32, uint32) { return o - 12, p },
		"positions of later batches": func(o, p, next uint32) (uint32, uint32) { return o, next },
		"positions within batches":   func(o, p, _ uint32) (uint32, uint32) { return o, p + 33 },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			mem, want := sparseLog(t)
			batch := uint32(len(want[0].bytes))
			path := inPartition(segmentName(0, ".index"))
			good := readFile(t, mem, path)
			bad := slices.Clone(good)
			for at := 0; at < len(bad); at += record.IndexEntrySize {
				offset, position := binary.BigEndian.Uint32(bad[at:]), binary.BigEndian.Uint32(bad[at+4:])
				offset, position = change(offset, position, position+batch)
				binary.BigEndian.PutUint32(bad[at:], offset)
				binary.BigEndian.PutUint32(bad[at+4:], position)
			}
			if err := record.CheckIndex(bad, 0, 60*int64(batch)); err != nil {
				t.Fatalf("the index shows its damage: %v", err)
			}
			writeFile(t, mem, path, bad)
			l := openLog(t, openStore(t, mem), hot.LogOptions{IndexInterval: 2 * int(batch)})
			readEach(t, l, want)
			if !bytes.Equal(readFile(t, mem, path), good) {
				t.Fatal("the index was not rebuilt as it was")
			}
		})
	}
}

// Where it is the log that is damaged, no index helps: the error names the
// place, each time, and everything else is read.
func TestAnIndexIsNotBlamedForTheLog(t *testing.T) {
	mem, want := sparseLog(t)
	path := inPartition(segmentName(0, ".log"))
	b := readFile(t, mem, path)
	index := readFile(t, mem, inPartition(segmentName(0, ".index")))
	position := int(binary.BigEndian.Uint32(index[4*record.IndexEntrySize+4:]))
	b[position+16] = 9 // magic
	writeFile(t, mem, path, b)
	bad := position / len(want[0].bytes)
	f := faultfs.New(mem)
	l := openLog(t, openStore(t, f), hot.LogOptions{})
	for range 3 {
		if _, err := l.Read(want[bad].base, l.EndOffset(), 1, true); err == nil || !strings.Contains(err.Error(), "magic") {
			t.Fatalf("read of a damaged batch: %v", err)
		}
	}
	for _, i := range []int{0, bad - 1, bad + 6, 59, 60} {
		r, err := l.Read(want[i].base, l.EndOffset(), 1, true)
		if err != nil {
			t.Fatalf("read at %d: %v", want[i].base, err)
		}
		if got := regionBatches(t, r); got[0] != want[i] {
			t.Fatalf("read at %d: another batch", want[i].base)
		}
		r.Release()
	}
	if n := f.Count(faultfs.OpCreate); n > 8 {
		t.Fatalf("%d files were made: the index is rebuilt again and again", n)
	}
}
