// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"firn/record"
	"firn/record/recordtest"
)

// compressors pack a record section as clients do.
var compressors = map[string]struct {
	codec record.Codec
	pack  func([]byte) []byte
}{
	"none": {record.CodecNone, func(b []byte) []byte { return b }},
	"gzip": {record.CodecGzip, func(b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write(b)
		_ = w.Close()
		return out.Bytes()
	}},
	"snappy": {record.CodecSnappy, func(b []byte) []byte { return s2.EncodeSnappy(nil, b) }},
	"snappy in Java's framing": {record.CodecSnappy, func(b []byte) []byte {
		out := append(append([]byte{}, snappyHeader...), 0, 0, 0, 1, 0, 0, 0, 1)
		for half := range bytes.SplitSeq(b, nil) {
			block := s2.EncodeSnappy(nil, half)
			out = binary.BigEndian.AppendUint32(out, uint32(len(block)))
			out = append(out, block...)
		}
		return out
	}},
	"lz4": {record.CodecLZ4, func(b []byte) []byte {
		var out bytes.Buffer
		w := lz4.NewWriter(&out)
		_, _ = w.Write(b)
		_ = w.Close()
		return out.Bytes()
	}},
	"zstd": {record.CodecZstd, func(b []byte) []byte {
		w, err := zstd.NewWriter(nil)
		if err != nil {
			panic(err)
		}
		return w.EncodeAll(b, nil)
	}},
}

func TestFindTimestampInEachCodec(t *testing.T) {
	const first = 1_700_000_000_000
	for name, c := range compressors {
		t.Run(name, func(t *testing.T) {
			b := record.Batch(recordtest.Batch(100, recordtest.Count(10), recordtest.Timestamp(first), recordtest.TimestampStep(1000),
				recordtest.Compressed(c.codec, c.pack)))
			for _, want := range []struct {
				from   record.Offset
				ts     int64
				offset record.Offset
				at     int64
				ok     bool
			}{
				{0, 0, 100, first, true},
				{0, first, 100, first, true},
				{0, first + 1, 101, first + 1000, true},
				{0, first + 9000, 109, first + 9000, true},
				{0, first + 9001, 0, 0, false},
				{104, first, 104, first + 4000, true},
				{104, first + 5000, 105, first + 5000, true},
				{110, first, 0, 0, false},
			} {
				offset, at, ok := findTimestamp(b, want.from, want.ts)
				if offset != want.offset || at != want.at || ok != want.ok {
					t.Errorf("time %d from %d: offset %d at %d, %v; want %d at %d, %v", want.ts, want.from, offset, at, ok, want.offset, want.at, want.ok)
				}
			}
		})
	}
}

func TestFindTimestampOfUnreadableRecordsAnswersForTheBatch(t *testing.T) {
	garbage := func([]byte) []byte { return []byte("no compressor wrote this") }
	for _, codec := range []record.Codec{record.CodecGzip, record.CodecSnappy, record.CodecLZ4, record.CodecZstd, 7} {
		b := record.Batch(recordtest.Batch(5, recordtest.Count(3), recordtest.Timestamp(1000), recordtest.Compressed(codec, garbage)))
		if offset, _, ok := findTimestamp(b, 0, 1000); !ok || offset != 5 {
			t.Errorf("codec %d: offset %d, %v; want the batch's first, 5", codec, offset, ok)
		}
		if offset, _, ok := findTimestamp(b, 6, 1000); !ok || offset != 6 {
			t.Errorf("codec %d: offset %d, %v; want the first one asked for, 6", codec, offset, ok)
		}
	}
}

// A small batch must not be able to take all memory.
func TestDecompressIsBounded(t *testing.T) {
	bomb := make([]byte, maxDecoded+1)
	for _, name := range []string{"gzip", "snappy", "lz4", "zstd"} {
		c := compressors[name]
		if _, err := Decompress(c.codec, c.pack(bomb)); err == nil {
			t.Errorf("%s: %d bytes were unpacked, at most %d are allowed", name, len(bomb), maxDecoded)
		}
	}
	if _, err := Decompress(record.CodecSnappy, compressors["snappy"].pack(bomb)); !errors.Is(err, ErrTooMuchDecoded) {
		t.Errorf("snappy: %v, want ErrTooMuchDecoded before anything is allocated", err)
	}
}

func FuzzDecompressSnappy(f *testing.F) {
	f.Add(compressors["snappy"].pack([]byte("hello")))
	f.Add(compressors["snappy in Java's framing"].pack([]byte("hello")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if out, err := decompressSnappy(b); err == nil && len(out) > maxDecoded {
			t.Errorf("%d bytes were unpacked, at most %d are allowed", len(out), maxDecoded)
		}
	})
}
