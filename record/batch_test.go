// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"firn/record"
	"firn/record/recordtest"
)

// put writes v over b at pos, as wide as v is.
func put[V uint8 | uint16 | uint32 | uint64](b []byte, pos int, v V) []byte {
	b = bytes.Clone(b)
	switch v := any(v).(type) {
	case uint8:
		b[pos] = v
	case uint16:
		binary.BigEndian.PutUint16(b[pos:], v)
	case uint32:
		binary.BigEndian.PutUint32(b[pos:], v)
	case uint64:
		binary.BigEndian.PutUint64(b[pos:], v)
	}
	return b
}

func TestSplitBatchRefuses(t *testing.T) {
	good := recordtest.Batch(10, recordtest.Count(3))
	tests := []struct {
		name string
		b    []byte
		want error
	}{
		{"nothing", nil, record.ErrCorruptBatch},
		{"half a header", good[:record.HeaderSize-1], record.ErrCorruptBatch},
		{"a cut batch", good[:len(good)-1], record.ErrCorruptBatch},
		{"magic 1", put(good, 16, uint8(1)), record.ErrUnsupportedMagic},
		{"magic 0", put(good, 16, uint8(0)), record.ErrUnsupportedMagic},
		{"magic 3", put(good, 16, uint8(3)), record.ErrCorruptBatch},
		{"magic -1", put(good, 16, uint8(255)), record.ErrCorruptBatch},
		{"a length below the header's", put(good, 8, uint32(record.HeaderSize-record.LogOverhead-1)), record.ErrCorruptBatch},
		{"a negative length", put(good, 8, uint32(1<<31)), record.ErrCorruptBatch},
		{"the longest length", put(good, 8, uint32(math.MaxInt32)), record.ErrCorruptBatch},
		{"a negative base offset", put(good, 0, uint64(1<<63)), record.ErrCorruptBatch},
		{"a negative last offset delta", put(good, 23, uint32(1<<31)), record.ErrCorruptBatch},
		{"offsets past the end of int64", put(good, 0, uint64(math.MaxInt64-2)), record.ErrCorruptBatch},
		{"a negative count", put(good, 57, uint32(1<<31)), record.ErrCorruptBatch},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			batch, rest, err := record.SplitBatch(tt.b)
			if !errors.Is(err, tt.want) || batch != nil || len(rest) != len(tt.b) {
				t.Errorf("got %d bytes, %d left, %v; want %v", len(batch), len(rest), err, tt.want)
			}
		})
	}
}

func TestHeaderReadsEveryField(t *testing.T) {
	b := recordtest.Batch(1000, recordtest.Count(4), recordtest.TimestampStep(3), recordtest.Timestamp(50),
		recordtest.Producer(77, 5, math.MaxInt32-1), recordtest.LeaderEpoch(9), recordtest.Transactional(), recordtest.CodecBits(record.CodecLZ4))
	h := record.Batch(b).Header()
	want := record.Header{
		BaseOffset: 1000, Length: int32(len(b) - record.LogOverhead), LeaderEpoch: 9, Magic: 2, CRC: record.CRC32C(b[21:]),
		Attributes: 0x13, LastOffsetDelta: 3, BaseTimestamp: 50, MaxTimestamp: 59,
		ProducerID: 77, ProducerEpoch: 5, BaseSequence: math.MaxInt32 - 1, Count: 4,
	}
	if h != want {
		t.Errorf("got  %+v\nwant %+v", h, want)
	}
	if h.Codec() != record.CodecLZ4 || !h.IsTransactional() || h.IsControl() || h.IsLogAppendTime() || !h.HasProducer() {
		t.Errorf("attributes of %+v", h)
	}
	if h.LastSequence() != 1 {
		t.Errorf("last sequence %d, want 1 after the wrap", h.LastSequence())
	}
	if none := record.Batch(recordtest.Batch(0, recordtest.Count(2))).Header(); none.LastSequence() != record.NoSequence || none.HasProducer() {
		t.Errorf("a batch without a producer: %+v", none)
	}
}

// TestOnlyOffsetAndEpochChange attacks I3.
func TestOnlyOffsetAndEpochChange(t *testing.T) {
	b := record.Batch(recordtest.Batch(0, recordtest.Count(2)))
	before := bytes.Clone(b)
	b.SetBaseOffset(1 << 40)
	b.SetLeaderEpoch(7)
	if h := b.Header(); h.BaseOffset != 1<<40 || h.LeaderEpoch != 7 {
		t.Errorf("header %+v", h)
	}
	if err := b.CheckCRC(); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(b[16:], before[16:]) || !bytes.Equal(b[8:12], before[8:12]) {
		t.Error("other bytes changed")
	}
}

func TestSetLogAppendTime(t *testing.T) {
	b := record.Batch(recordtest.Batch(0, recordtest.Count(2), recordtest.CodecBits(record.CodecZstd)))
	section := bytes.Clone(b.Section())
	b.SetLogAppendTime(123456)
	h := b.Header()
	if !h.IsLogAppendTime() || h.MaxTimestamp != 123456 || h.Codec() != record.CodecZstd {
		t.Errorf("header %+v", h)
	}
	if err := b.CheckCRC(); err != nil || !bytes.Equal(b.Section(), section) {
		t.Errorf("CRC: %v, or the records changed", err)
	}
}

func TestCRCSeesEveryFlippedBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := recordtest.Batch(3, recordtest.Count(rapid.IntRange(1, 5).Draw(t, "count")))
		at := rapid.IntRange(17, len(b)-1).Draw(t, "byte")
		b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if err := record.Batch(b).CheckCRC(); !errors.Is(err, record.ErrCorruptBatch) {
			t.Fatalf("byte %d: %v", at, err)
		}
	})
}

func TestUpdateCRC32C(t *testing.T) {
	b := []byte("123456789")
	if got := record.CRC32C(b); got != 0xe3069283 {
		t.Errorf("CRC-32C of the check input is %08x", got)
	}
	if got := record.UpdateCRC32C(record.CRC32C(b[:4]), b[4:]); got != 0xe3069283 {
		t.Errorf("in two steps it is %08x", got)
	}
}

func TestAddSequenceWraps(t *testing.T) {
	for _, tt := range []struct{ sequence, n, want int32 }{
		{0, 0, 0}, {0, 5, 5}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 3, 1}, {math.MaxInt32, math.MaxInt32, math.MaxInt32 - 1},
	} {
		if got := record.AddSequence(tt.sequence, tt.n); got != tt.want {
			t.Errorf("AddSequence(%d, %d) = %d, want %d", tt.sequence, tt.n, got, tt.want)
		}
	}
}

// FuzzSplitBatch attacks I1 and I2.
func FuzzSplitBatch(f *testing.F) {
	f.Add(recordtest.Batch(0))
	f.Add(recordtest.Log(5, 3, recordtest.Count(2)))
	f.Add(recordtest.Batch(1)[:70])
	f.Fuzz(func(t *testing.T, b []byte) {
		whole := b
		for len(b) > 0 {
			batch, rest, err := record.SplitBatch(b)
			if err != nil {
				if !errors.Is(err, record.ErrCorruptBatch) && !errors.Is(err, record.ErrUnsupportedMagic) {
					t.Fatalf("error of an unknown kind: %v", err)
				}
				return
			}
			h := batch.Header()
			if h.Size() != len(batch) || len(batch)+len(rest) != len(b) || len(batch) < record.HeaderSize || cap(batch) != len(batch) {
				t.Fatalf("batch of %d bytes with %d left of %d (input %d)", len(batch), len(rest), len(b), len(whole))
			}
			if h.NextOffset() <= h.BaseOffset || h.Count < 0 {
				t.Fatalf("header %+v", h)
			}
			_ = batch.CheckCRC()
			b = rest
		}
	})
}
