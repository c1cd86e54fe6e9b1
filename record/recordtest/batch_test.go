// SPDX-License-Identifier: Apache-2.0

package recordtest_test

import (
	"testing"

	"firn/record"
	"firn/record/recordtest"
)

func TestBatchIsWhole(t *testing.T) {
	b := recordtest.Batch(42, recordtest.Count(3), recordtest.TimestampStep(5), recordtest.Producer(7, 1, 10),
		recordtest.LeaderEpoch(4), recordtest.CodecBits(record.CodecZstd), recordtest.Headers(2))
	batch, rest, err := record.SplitBatch(b)
	if err != nil || len(rest) != 0 {
		t.Fatalf("split: %v, %d bytes left", err, len(rest))
	}
	if err := batch.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	h := batch.Header()
	if h.BaseOffset != 42 || h.LastOffset() != 44 || h.Count != 3 || h.LeaderEpoch != 4 || h.Codec() != record.CodecZstd {
		t.Errorf("header %+v", h)
	}
	if h.ProducerID != 7 || h.ProducerEpoch != 1 || h.BaseSequence != 10 || h.LastSequence() != 12 {
		t.Errorf("producer in header %+v", h)
	}
	if h.BaseTimestamp != recordtest.DefaultTimestamp || h.MaxTimestamp != recordtest.DefaultTimestamp+10 {
		t.Errorf("timestamps in header %+v", h)
	}
}

func TestLogIsContiguous(t *testing.T) {
	log := recordtest.Log(100, 5, recordtest.Count(4), recordtest.Producer(1, 0, 2))
	next, sequence := record.Offset(100), int32(2)
	for len(log) > 0 {
		batch, rest, err := record.SplitBatch(log)
		if err != nil {
			t.Fatal(err)
		}
		h := batch.Header()
		if h.BaseOffset != next || h.BaseSequence != sequence || batch.CheckCRC() != nil {
			t.Fatalf("want offset %d, sequence %d and a right CRC, got %+v", next, sequence, h)
		}
		next, sequence, log = h.NextOffset(), sequence+4, rest
	}
	if next != 120 {
		t.Errorf("the log ends at %d, want 120", next)
	}
}
