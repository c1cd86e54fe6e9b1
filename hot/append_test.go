// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

func TestAppendRefuses(t *testing.T) {
	now := time.Now().UnixMilli()
	current := recordtest.Timestamp(now)
	old, young := recordtest.Timestamp(now-3600_000), recordtest.Timestamp(now+3600_000)
	badCRC := recordtest.Batch(0)
	badCRC[len(badCRC)-1] ^= 1
	oldMagic := recordtest.Batch(0)
	oldMagic[16] = 1
	producer := recordtest.Producer(7, 0, 0)
	cases := []struct {
		name string
		b    []byte
		want error
	}{
		{"nothing", nil, record.ErrInvalidBatch},
		{"a few bytes", []byte{1, 2, 3}, record.ErrCorruptBatch},
		{"a batch cut short", recordtest.Batch(0)[:65], record.ErrCorruptBatch},
		{"a batch and a piece", append(recordtest.Batch(0, current), 1, 2), record.ErrCorruptBatch},
		{"a wrong CRC", badCRC, record.ErrCorruptBatch},
		{"an old magic", oldMagic, record.ErrUnsupportedMagic},
		{"a control batch", recordtest.Batch(0, recordtest.Control()), record.ErrInvalidBatch},
		{"a transactional batch", recordtest.Batch(0, recordtest.Transactional(), producer, current), record.ErrInvalidTxnState},
		{"a transactional batch without a producer", recordtest.Batch(0, recordtest.Transactional()), record.ErrInvalidBatch},
		{"an unknown codec", recordtest.Batch(0, recordtest.CodecBits(5)), record.ErrInvalidBatch},
		{"no records", recordtest.Batch(0, recordtest.Count(0)), record.ErrInvalidBatch},
		{"a count that is too small", recordtest.Batch(0, recordtest.Count(3), recordtest.ClaimCount(2)), record.ErrInvalidBatch},
		{"a delta that is too large", recordtest.Batch(0, recordtest.Count(3), recordtest.LastOffsetDelta(9)), record.ErrInvalidBatch},
		{"a producer without a sequence", recordtest.Batch(0, recordtest.Producer(7, 0, -1)), record.ErrInvalidBatch},
		{"two batches of a producer", slices.Concat(recordtest.Batch(0, producer, current), recordtest.Batch(0, producer, current)), record.ErrInvalidBatch},
		{"a large batch", recordtest.Batch(0, recordtest.ValueSize(1, 600)), record.ErrBatchTooLarge},
		{"more than a segment", recordtest.Log(0, 11, current, recordtest.ValueSize(1, 100)), record.ErrBatchTooLarge},
		{"a timestamp too old", recordtest.Batch(0, old), record.ErrInvalidTimestamp},
		{"a timestamp too young", recordtest.Batch(0, young), record.ErrInvalidTimestamp},
		{"the broker's stamp", recordtest.Batch(0, recordtest.Timestamp(now), recordtest.LogAppendTime()), record.ErrInvalidTimestamp},
	}
	s := openStore(t, vfs.NewMem())
	l := createLog(t, s, hot.LogOptions{SegmentBytes: 1000, MaxMessageBytes: 500, TimestampBefore: time.Minute, TimestampAfter: time.Minute})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := l.Append(c.b, 0); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if l.EndOffset() != 0 || l.Size() != 0 {
				t.Fatalf("something was appended: end %d, %d bytes", l.EndOffset(), l.Size())
			}
		})
	}
	if _, err := l.Append(recordtest.Batch(0, recordtest.Timestamp(-1)), 0); err != nil {
		t.Fatalf("a batch without timestamps: %v", err)
	}
}

func TestAppendWritesOffsetsAndEpochInPlace(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	l := createLog(t, s, hot.LogOptions{})
	appendBatch(t, l, 5)
	b := slices.Concat(recordtest.Batch(77, recordtest.Count(2)), recordtest.Batch(99, recordtest.Count(3)))
	done, err := l.Append(b, 4)
	if err != nil {
		t.Fatal(err)
	}
	if want := (hot.Appended{FirstOffset: 5, NextOffset: 10, LogAppendTimeMs: -1}); done != want {
		t.Fatalf("got %+v, want %+v", done, want)
	}
	batches := readAll(t, l, 1<<20)
	if got := batches[1].bytes + batches[2].bytes; got != string(b) {
		t.Fatal("what was stored is not what Append left in the buffer")
	}
	for i, base := range []record.Offset{0, 5, 7} {
		h := record.Batch(batches[i].bytes).Header()
		if h.BaseOffset != base || h.LeaderEpoch != []record.Epoch{0, 4, 4}[i] {
			t.Fatalf("batch %d has offset %d and epoch %d", i, h.BaseOffset, h.LeaderEpoch)
		}
	}
	want := record.Epochs{{Epoch: 0, StartOffset: 0}, {Epoch: 4, StartOffset: 5}}
	if !slices.Equal(l.Epochs(), want) {
		t.Fatalf("epochs %v, want %v", l.Epochs(), want)
	}
	if _, err := l.Append(recordtest.Batch(0), 3); !errors.Is(err, record.ErrFencedEpoch) {
		t.Fatalf("an append under an old epoch: %v", err)
	}
}

func TestAppendRecognisesDuplicates(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	l := createLog(t, s, smallSegments())
	batch := func(sequence int32) []byte {
		return recordtest.Batch(0, recordtest.Count(10), recordtest.Producer(42, 1, sequence))
	}
	for i := range int32(20) {
		if _, err := l.Append(batch(i*10), 0); err != nil {
			t.Fatal(err)
		}
	}
	check := func(l *hot.Log) {
		t.Helper()
		done, err := l.Append(batch(190), 0)
		if want := (hot.Appended{FirstOffset: 190, NextOffset: 200, LogAppendTimeMs: -1, Duplicate: true}); err != nil || done != want {
			t.Fatalf("got %+v, %v, want %+v", done, err, want)
		}
		if _, err := l.Append(batch(250), 0); !errors.Is(err, record.ErrOutOfOrderSequence) {
			t.Fatalf("a gap: %v", err)
		}
		if _, err := l.Append(recordtest.Batch(0, recordtest.Producer(42, 0, 200)), 0); !errors.Is(err, record.ErrInvalidProducerEpoch) {
			t.Fatalf("a fenced producer: %v", err)
		}
		if l.EndOffset() != 200 || l.MaxProducerID() != 42 {
			t.Fatalf("end %d, largest producer %d", l.EndOffset(), l.MaxProducerID())
		}
	}
	check(l)
	if err := l.WaitDurable(t.Context(), 200); err != nil {
		t.Fatal(err)
	}
	for name, fs := range map[string]*vfs.Mem{"after a kill": mem.Kill(), "after a power cut": mem.Crash()} {
		t.Run(name, func(t *testing.T) { check(openLog(t, openStore(t, fs), smallSegments())) })
	}
	closeStore(t, s)
	t.Run("after a clean stop", func(t *testing.T) { check(openLog(t, openStore(t, mem), smallSegments())) })
}

func TestLogAppendTime(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_123)
	s := openStore(t, vfs.NewMem(), func(o *hot.Options) { o.Now = func() time.Time { return now } })
	l := createLog(t, s, hot.LogOptions{LogAppendTime: true, TimestampAfter: time.Second})
	done := appendBatch(t, l, 3, recordtest.Timestamp(math.MaxInt64/2))
	if done.LogAppendTimeMs != now.UnixMilli() {
		t.Fatalf("stamped with %d", done.LogAppendTimeMs)
	}
	h := record.Batch(readAll(t, l, 1<<20)[0].bytes).Header() // readAll checks the CRC
	if !h.IsLogAppendTime() || h.MaxTimestamp != now.UnixMilli() {
		t.Fatalf("the batch says %d, %v", h.MaxTimestamp, h.IsLogAppendTime())
	}
	found, ok, err := l.OffsetForTimestamp(now.UnixMilli(), l.EndOffset(), nil)
	if err != nil || !ok || found.Offset != 0 {
		t.Fatalf("found %+v, %v, %v", found, ok, err)
	}
}

func TestAppendAfterFailedWrite(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	l := createLog(t, s, hot.LogOptions{})
	appendBatch(t, l, 10)
	mem.SetCapacity(l.Size() + 250)
	for range 3 {
		if _, err := l.Append(recordtest.Batch(0, recordtest.ValueSize(1, 2000)), 0); !errors.Is(err, record.ErrStorage) {
			t.Fatalf("append to a full disk: %v", err)
		}
	}
	if l.Poisoned() != nil || l.EndOffset() != 10 {
		t.Fatalf("poisoned %v, end %d", l.Poisoned(), l.EndOffset())
	}
	mem.SetCapacity(math.MaxInt64)
	appendBatch(t, l, 10)
	if got := readAll(t, l, 1<<20); len(got) != 2 || got[1].next != 20 {
		t.Fatalf("read back %d batches", len(got))
	}
	if size := int64(len(readFile(t, mem, inPartition(segmentName(0, ".log"))))); size != l.Size() {
		t.Fatalf("the file has %d bytes, the log %d", size, l.Size())
	}
}

// An append allocates what holds its headers, and nothing for each batch; index
// entries, segments and syncs are paid by many.
func TestAppendAllocatesLittle(t *testing.T) {
	for _, batches := range []int{1, 20} {
		s := openStore(t, vfs.Disk(), func(o *hot.Options) { o.Dir = t.TempDir() })
		l := createLog(t, s, hot.LogOptions{})
		set := recordtest.Log(0, batches, recordtest.Count(3))
		if got := testing.AllocsPerRun(500, func() {
			if _, err := l.Append(set, 0); err != nil {
				t.Fatal(err)
			}
		}); got > 6 {
			t.Errorf("%v allocations to append %d batches", got, batches)
		}
	}
}
