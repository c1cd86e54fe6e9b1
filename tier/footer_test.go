// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"firn/record"
	"firn/record/recordtest"
)

var updateGolden = flag.Bool("update-golden", false, "write the golden segment object anew")

// fixFooter writes the CRC that belongs to the footer as it now is.
func fixFooter(b []byte) {
	binary.BigEndian.PutUint32(b[len(b)-12:], record.CRC32C(b[:len(b)-12]))
}

// encodedFooter is the footer of a log of two blocks, and its object's size.
func encodedFooter(t testing.TB) ([]byte, int64) {
	o := mustBuild(t, testLog(5, 30, 50<<10))
	return o.Footer().Marshal(), o.Size()
}

func TestFooterRoundTrip(t *testing.T) {
	b, size := encodedFooter(t)
	f, err := ParseFooter("k", b, size)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(f.Marshal(), b) {
		t.Error("the footer encodes to other bytes")
	}
	if int64(len(b)) != f.Size() || f.ObjectSize() != size {
		t.Errorf("sizes are %d and %d, want %d and %d", f.Size(), f.ObjectSize(), len(b), size)
	}
}

// contradiction changes a footer so that it must be refused: as damaged, or as
// one of a newer version.
type contradiction struct {
	change      func(b []byte)
	unsupported bool
}

// contradictions are changes of the footer good.
func contradictions(good []byte) map[string]contradiction {
	put64 := func(at int, v int64) func(b []byte) {
		return func(b []byte) { binary.BigEndian.PutUint64(b[at:], uint64(v)) }
	}
	put32 := func(at int, v uint32) func(b []byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[at:], v) }
	}
	section := func(i, field int) int { return footerHeaderSize + i*sectionEntrySize + field }
	return map[string]contradiction{
		"magic":               {change: func(b []byte) { b[0] = 'F' }},
		"version":             {func(b []byte) { b[9] = 2 }, true},
		"flags":               {func(b []byte) { b[11] = 1 }, true},
		"section flags":       {func(b []byte) { b[section(2, 3)] = 1 }, true},
		"block size":          {change: put32(12, 4096)},
		"index interval":      {change: put32(16, 1)},
		"section count":       {change: put32(20, 7)},
		"block count":         {change: put32(24, 1)},
		"huge block count":    {change: put32(24, 1<<32-1)},
		"reserved":            {change: put32(28, 1)},
		"epochs fall":         {change: put32(36, 1)},
		"negative base":       {change: put64(40, -1)},
		"no offsets":          {change: put64(48, 5)},
		"too many offsets":    {change: put64(48, 5+1<<31+1)},
		"next below zero":     {change: put64(48, -1<<63)},
		"max timestamp":       {change: put64(64, -2)},
		"max timestamp below": {change: put64(72, 4)},
		"max timestamp above": {change: put64(72, 65)},
		"records":             {change: put64(80, 61)},
		"negative records":    {change: put64(80, -1)},
		"no batches":          {change: put64(88, 0)},
		"too many batches":    {change: put64(88, 1<<40)},
		"section kind":        {change: func(b []byte) { b[section(1, 1)] = 3 }},
		"section position":    {change: put64(section(1, 8), 0)},
		"log length":          {change: put64(section(0, 16), 100)},
		"negative length":     {change: put64(section(3, 16), -1)},
		"length overflow":     {change: put64(section(5, 16), 1<<63-1)},
		"last length":         {change: put64(section(5, 16), 1)},
		"part of an entry": {change: func(b []byte) {
			// One byte from the time index to the offset index.
			put64(section(1, 16), int64(binary.BigEndian.Uint64(b[section(1, 16):]))+1)(b)
			put64(section(2, 8), int64(binary.BigEndian.Uint64(b[section(2, 8):]))+1)(b)
			put64(section(2, 16), int64(binary.BigEndian.Uint64(b[section(2, 16):]))-1)(b)
		}},
		"trailer magic": {change: func(b []byte) { b[len(b)-1]++ }},
		"trailer size":  {change: put32(len(good)-16, 7)},
		"trailer huge":  {change: put32(len(good)-16, 1<<31)},
	}
}

// Every field that contradicts another is refused, although the CRC is right.
func TestParseFooterRefusesContradictions(t *testing.T) {
	good, size := encodedFooter(t)
	for name, tc := range contradictions(good) {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(good)
			tc.change(b)
			fixFooter(b)
			_, err := ParseFooter("the-key", b, size)
			var bad *record.CorruptionError
			switch {
			case tc.unsupported:
				if !errors.Is(err, record.ErrUnsupportedVersion) || errors.As(err, &bad) {
					t.Errorf("error is %v, want ErrUnsupportedVersion", err)
				}
			case !errors.As(err, &bad) || bad.Path != "the-key" || bad.Position < 0 || bad.Position >= size:
				t.Errorf("error is %v, want a CorruptionError of the-key", err)
			}
		})
	}
	for name, b := range map[string][]byte{"empty": nil, "cut in front": good[1:], "cut behind": good[:len(good)-1]} {
		if _, err := ParseFooter("k", b, size); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := ParseFooter("k", good, size+1); err == nil {
		t.Error("accepted for an object of another size")
	}
}

// FuzzParseFooter: whatever the bytes, no panic; and a footer that is accepted
// holds F1 to F4 and encodes to the bytes it came from.
func FuzzParseFooter(f *testing.F) {
	good, size := encodedFooter(f)
	f.Add(good, size, false)
	f.Add(good[:len(good)-20], size, true)
	f.Add(good[len(good)-minFooterSize:], size, true)
	f.Add([]byte(strings.Repeat("firn.seg", 70)+"firn.end"), int64(568), true)
	f.Add([]byte{}, int64(0), false)
	f.Fuzz(func(t *testing.T, b []byte, objectSize int64, fix bool) {
		if fix && len(b) >= footerTrailerSize {
			b = bytes.Clone(b)
			copy(b[len(b)-8:], footerTrailerMagic)
			binary.BigEndian.PutUint32(b[len(b)-16:], uint32(len(b)))
			fixFooter(b)
		}
		footer, err := ParseFooter("k", b, objectSize)
		if err != nil {
			return
		}
		if err := footer.check(objectSize); err != nil {
			t.Fatalf("accepted although %v", err)
		}
		if n := int64(len(b)) - footer.Size(); n < 0 || !bytes.Equal(footer.Marshal(), b[n:]) {
			t.Fatal("encodes to other bytes")
		}
		if e := footer.entry(Hash{}); e.check() != nil {
			t.Fatalf("the chain refuses its entry: %v", e.check())
		}
	})
}

// goldenLog is the log of the golden object. Never change it: objects in
// buckets outlive versions of Firn.
func goldenLog() []byte {
	log := recordtest.Log(42, 3, recordtest.ValueSize(3, 2000), recordtest.LeaderEpoch(7), recordtest.Producer(9, 1, 0), recordtest.TimestampStep(5))
	return append(log, recordtest.Batch(51, recordtest.Strings("the", "end"), recordtest.LeaderEpoch(8))...)
}

// An object that an earlier version wrote is read, and is still built byte for
// byte: the hash in its key depends on it.
func TestGoldenObject(t *testing.T) {
	seg := newMemSegment(goldenLog())
	seg.epochs = record.Epochs{{Epoch: 2, StartOffset: 0}, {Epoch: 7, StartOffset: 40}, {Epoch: 8, StartOffset: 51}, {Epoch: 9, StartOffset: 60}}
	seg.aborted = []record.AbortedTxn{{ProducerID: 77, FirstOffset: 30, LastOffset: 44, LastStableOffset: 45}}
	o, err := BuildObject(t.Context(), seg, nil)
	if err != nil {
		t.Fatal(err)
	}
	built := objectBytes(t, o)
	path := filepath.Join("testdata", "segment-v1.seg")
	if *updateGolden {
		if err := os.WriteFile(path, built, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(built, want) {
		t.Error("the same segment gives another object")
	}
	f, err := ParseFooter(path, want, int64(len(want)))
	if err != nil {
		t.Fatal(err)
	}
	const hash = "b20e454800a3d1ebdea258c8e197d243"
	if got := footerHash(want[int64(len(want))-f.Size():]).String(); got != hash {
		t.Errorf("hash is %s, want %s", got, hash)
	}
	s, err := parseSections("x-"+hash+".seg", o.Entry(), want[o.Entry().LogSize:])
	if err != nil {
		t.Fatal(err)
	}
	if len(s.aborted) != 1 || s.seek(51) == 0 || s.seekTime(o.Entry().MaxTimestamp) == 0 && o.Entry().MaxTimestampOffset > 47 {
		t.Errorf("sections are %+v", s)
	}
}
