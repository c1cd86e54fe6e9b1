// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"firn/record"
)

// decodeRecords is a Decode over uncompressed records.
func decodeRecords(b record.Batch, ts int64) (record.Offset, int64, bool) {
	h := b.Header()
	for r, err := range h.Records(b[record.HeaderSize:]) {
		if err != nil {
			return 0, 0, false
		}
		if at := h.RecordTimestamp(r); at >= ts {
			return h.RecordOffset(r), at, true
		}
	}
	return 0, 0, false
}

// The answer is that of a search through every record of the plain log.
func TestTimestampsAreThoseOfThePlainLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log, heads, _ := drawLog(rt, 80)
		cut := rapid.IntRange(0, len(heads)).Draw(rt, "cut")
		at := len(log)
		if cut < len(heads) {
			at -= len(batchesFrom(log, heads[cut].BaseOffset))
		}
		g := newRig(t, ReaderOptions{})
		defer g.r.close()
		for _, part := range [][]byte{log[:at], log[at:]} {
			if len(part) > 0 {
				g.add(t, part)
			}
		}
		end := heads[len(heads)-1].NextOffset()
		from := heads[rapid.IntRange(0, len(heads)-1).Draw(rt, "from")].BaseOffset
		below := heads[rapid.IntRange(0, len(heads)-1).Draw(rt, "below")].NextOffset()
		ts := rapid.Int64Range(1e12-10, 1e12+1010).Draw(rt, "ts")
		got, ok, err := g.r.offsetForTimestamp(context.Background(), g.chain, ts, from, below, decodeRecords)
		if err != nil {
			rt.Fatal(err)
		}
		want, wantOK := scanTimestamp(log, ts, from, below)
		if ok != wantOK || ok && got != want {
			rt.Fatalf("timestamp %d in [%d, %d): %+v, %v; want %+v, %v", ts, from, below, got, ok, want, wantOK)
		}
		most, ok, err := g.r.maxTimestamp(context.Background(), g.chain, from, end, decodeRecords)
		if err != nil || !ok {
			rt.Fatalf("maximum: %v, %v", ok, err)
		}
		largest := int64(0)
		for _, h := range heads {
			if h.NextOffset() > from {
				largest = max(largest, h.MaxTimestamp)
			}
		}
		if want, _ := scanTimestamp(log, largest, from, end); most != want {
			rt.Fatalf("maximum is %+v, want %+v", most, want)
		}
	})
}

func scanTimestamp(log []byte, ts int64, from, below record.Offset) (TimestampOffset, bool) {
	for rest := batchesFrom(log, from); len(rest) > 0; {
		b, after, err := record.SplitBatch(rest)
		if err != nil {
			panic(err)
		}
		h := b.Header()
		if h.BaseOffset >= below {
			break
		}
		if o, at, ok := decodeRecords(b, ts); ok {
			return TimestampOffset{Timestamp: at, Offset: o, Epoch: h.LeaderEpoch}, true
		}
		rest = after
	}
	return TimestampOffset{}, false
}

func TestTimestampsWithoutADecoder(t *testing.T) {
	g := newRig(t, ReaderOptions{}, testLog(0, 10, 500), testLog(50, 10, 500))
	ctx := context.Background()
	ts := g.entries[0].FirstTimestamp + 3
	got, ok, err := g.r.offsetForTimestamp(ctx, g.chain, ts, 0, 1000, nil)
	if err != nil || !ok || got.Offset != 4 || got.Epoch != 3 {
		t.Errorf("found %+v, %v, %v; want the batch at offset 4", got, ok, err)
	}
	if _, ok, err := g.r.offsetForTimestamp(ctx, g.chain, ts+1000, 0, 1000, nil); ok || err != nil {
		t.Errorf("a timestamp beyond the end: %v, %v", ok, err)
	}
	gets := g.total()
	got, ok, err = g.r.offsetForTimestamp(ctx, g.chain, g.entries[0].MaxTimestamp, 50, 1000, nil)
	if err != nil || !ok || got.Offset < 50 {
		t.Errorf("found %+v, %v, %v; want an offset from 50 on", got, ok, err)
	}
	if n := g.total() - gets; n != 2 {
		t.Errorf("%d GETs, want sections and a chunk of the one object in question", n)
	}
	if _, ok, err := g.r.maxTimestamp(ctx, g.chain, 1000, 2000, nil); ok || err != nil {
		t.Errorf("maximum of nothing: %v, %v", ok, err)
	}
}
