// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"testing"

	"pgregory.net/rapid"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

// decode finds a record in an uncompressed batch.
func decode(b record.Batch, ts int64) (record.Offset, int64, bool, error) {
	h := b.Header()
	for r, err := range h.Records(b.Section()) {
		if err != nil {
			return 0, 0, false, err
		}
		if at := h.RecordTimestamp(r); at >= ts {
			return h.RecordOffset(r), at, true, nil
		}
	}
	return 0, 0, false, nil
}

// TestTimestampsAgainstAScan compares OffsetForTimestamp and MaxTimestamp with
// a search through all records.
func TestTimestampsAgainstAScan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, err := hot.Open(t.Context(), hot.Options{Dir: logDir, FS: vfs.NewMem()})
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close(t.Context())
		l, err := s.CreateLog(t.Context(), tp, topicID, hot.LogOptions{
			SegmentBytes: 600, IndexInterval: rapid.SampledFrom([]int{1, 100, 300}).Draw(rt, "interval")})
		if err != nil {
			rt.Fatal(err)
		}
		stamps := map[record.Offset]int64{}
		for range rapid.IntRange(1, 25).Draw(rt, "batches") {
			base := rapid.Int64Range(-1, 40).Draw(rt, "timestamp")
			n, step := rapid.IntRange(1, 3).Draw(rt, "records"), int64(0)
			if base >= 0 {
				step = rapid.Int64Range(0, 5).Draw(rt, "step")
			}
			done, err := l.Append(recordtest.Batch(0, recordtest.Count(n), recordtest.Timestamp(base), recordtest.TimestampStep(step)), 0)
			if err != nil {
				rt.Fatal(err)
			}
			for i := range n {
				stamps[done.FirstOffset+record.Offset(i)] = base + step*int64(i)
			}
		}
		start := record.Offset(0)
		if rapid.Bool().Draw(rt, "raise start") {
			start = batchBase(rt, t, l)
			if err := l.SetLogStartOffset(t.Context(), start); err != nil {
				rt.Fatal(err)
			}
		}
		limit := batchBase(rt, t, l)
		for ts := int64(0); ts < 60; ts += 3 {
			want, wantOK := scanFor(stamps, ts, start, limit)
			got, ok, err := l.OffsetForTimestamp(ts, limit, decode)
			if err != nil || ok != wantOK || ok && (got.Offset != want || got.Timestamp != stamps[want]) {
				rt.Fatalf("timestamp %d in [%d,%d): %+v, %v, %v, want %d, %v", ts, start, limit, got, ok, err, want, wantOK)
			}
		}
		top := int64(-1)
		for o := start; o < limit; o++ {
			top = max(top, stamps[o])
		}
		got, ok, err := l.MaxTimestamp(limit, decode)
		want, _ := scanFor(stamps, top, start, limit)
		if err != nil || ok != (top >= 0) || ok && (got.Offset != want || got.Timestamp != top) {
			rt.Fatalf("largest in [%d,%d): %+v, %v, %v, want %d at %d", start, limit, got, ok, err, top, want)
		}
	})
}

func scanFor(stamps map[record.Offset]int64, ts int64, from, to record.Offset) (record.Offset, bool) {
	for o := from; o < to; o++ {
		if stamps[o] >= ts {
			return o, true
		}
	}
	return 0, false
}

// batchBase draws the start of some batch, or the end of the log.
func batchBase(rt *rapid.T, t *testing.T, l *hot.Log) record.Offset {
	o := record.Offset(rapid.Int64Range(0, int64(l.EndOffset())).Draw(rt, "offset"))
	if o == l.EndOffset() {
		return o
	}
	r, err := l.Read(o, l.EndOffset(), 1, true)
	if err != nil {
		rt.Fatal(err)
	}
	defer r.Release()
	return r.First()
}
