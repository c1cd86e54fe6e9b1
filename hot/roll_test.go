// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

func TestRollRules(t *testing.T) {
	batch := int64(len(recordtest.Batch(0, recordtest.ValueSize(1, 100))))
	day := int64(24 * time.Hour / time.Millisecond)
	stamped := func(ms int64) []recordtest.Option {
		return []recordtest.Option{recordtest.ValueSize(1, 100), recordtest.Timestamp(ms)}
	}
	cases := []struct {
		name   string
		o      hot.LogOptions
		stamps []int64
		want   []record.Offset // base offsets of the segments
	}{
		{"by size", hot.LogOptions{SegmentBytes: 3 * batch}, []int64{0, 0, 0, 0, 0, 0, 0}, []record.Offset{0, 3, 6}},
		{"by record time", hot.LogOptions{SegmentAge: 24 * time.Hour}, []int64{0, day, day + 1, day + 2}, []record.Offset{0, 2}},
		{"not by older records", hot.LogOptions{SegmentAge: 24 * time.Hour}, []int64{10 * day, 0, 1}, []record.Offset{0}},
		{"by a full index", hot.LogOptions{IndexInterval: 1, IndexBytes: 24}, []int64{1, 2, 3, 4, 5, 6, 7}, []record.Offset{0, 3, 6}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := createLog(t, openStore(t, vfs.NewMem()), c.o)
			for _, ms := range c.stamps {
				if _, err := l.Append(recordtest.Batch(0, stamped(ms)...), 0); err != nil {
					t.Fatal(err)
				}
			}
			var got []record.Offset
			for _, s := range l.Segments() {
				got = append(got, s.BaseOffset())
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Fatalf("segments at %v, want %v", got, c.want)
			}
		})
	}
}

func TestRollAfterFirstAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, vfs.NewMem())
		sealed := make(chan struct{}, 1)
		l := createLog(t, s, hot.LogOptions{
			RollAfter: time.Hour,
			Hooks:     hot.Hooks{OnSeal: func() { sealed <- struct{}{} }},
		})
		<-time.After(3 * time.Hour)
		if n := len(l.Segments()); n != 1 {
			t.Fatalf("an empty segment rolled: %d segments", n)
		}
		start := time.Now()
		appendBatch(t, l, 1)
		<-sealed
		if took := time.Since(start); took < 54*time.Minute || took > time.Hour+time.Second {
			t.Fatalf("rolled after %v", took)
		}
		if got := l.Sealed(0); len(got) != 1 || got[0].NextOffset() != 1 || !got[0].FirstAppend().Equal(start) {
			t.Fatalf("sealed: %d segments", len(got))
		}
		<-time.After(3 * time.Hour)
		if n := len(l.Segments()); n != 2 {
			t.Fatalf("%d segments, want 2: nothing was appended since", n)
		}
		closeStore(t, s)
	})
}

func TestRollAfterCountsFromTheFirstAppendAcrossARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		s := openStore(t, mem)
		l := createLog(t, s, hot.LogOptions{RollAfter: time.Hour})
		appendBatch(t, l, 1, recordtest.Timestamp(time.Now().UnixMilli()))
		<-time.After(40 * time.Minute)
		appendBatch(t, l, 1, recordtest.Timestamp(time.Now().UnixMilli()))
		closeStore(t, s)

		s = openStore(t, mem)
		sealed := make(chan struct{}, 1)
		l = openLog(t, s, hot.LogOptions{RollAfter: time.Hour, Hooks: hot.Hooks{OnSeal: func() { sealed <- struct{}{} }}})
		start := time.Now()
		<-sealed
		if took := time.Since(start); took > 21*time.Minute {
			t.Fatalf("rolled %v after the restart, the segment was 40 minutes old", took)
		}
		if l.StartOffset() != 0 || l.EndOffset() != 2 {
			t.Fatal("wrong bounds")
		}
		closeStore(t, s)
	})
}

func TestSetOptionsTakesEffect(t *testing.T) {
	l := createLog(t, openStore(t, vfs.NewMem()), hot.LogOptions{})
	for range 10 {
		appendBatch(t, l, 10)
	}
	l.SetOptions(hot.LogOptions{SegmentBytes: -1}) // refused
	l.SetOptions(smallSegments())
	appendBatch(t, l, 10)
	if n := len(l.Segments()); n != 2 {
		t.Fatalf("%d segments, want 2", n)
	}
}

func TestSealedSegmentTellsItsContent(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	seals := make(chan struct{}, 100)
	o := smallSegments()
	o.Hooks.OnSeal = func() { seals <- struct{}{} }
	l := createLog(t, s, o)
	for i := range int32(30) {
		epoch := record.Epoch(i / 10)
		b := recordtest.Batch(0, recordtest.Count(10), recordtest.Producer(9, 0, i*10), recordtest.Timestamp(1000+int64(i)))
		if _, err := l.Append(b, epoch); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Roll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Roll(t.Context()); err != nil { // an empty segment does not roll
		t.Fatal(err)
	}
	list := l.Segments()
	for range len(list) - 1 {
		<-seals
	}
	sealed := l.Sealed(0)
	if len(sealed) != len(list)-1 || len(l.Sealed(sealed[1].BaseOffset())) != len(sealed)-1 {
		t.Fatalf("%d segments of %d are sealed", len(sealed), len(list))
	}
	if l.DurableOffset() != l.EndOffset() {
		t.Fatalf("durable to %d, all is sealed to %d", l.DurableOffset(), l.EndOffset())
	}
	for _, seg := range sealed {
		checkSealed(t, seg)
	}
	if _, err := list[len(list)-1].ProducerSnapshot(); err == nil {
		t.Fatal("the active segment has a snapshot at its end")
	}

	// All of it was synced: a power cut now leaves the segments as they are,
	// and a start after it has nothing to scan but the empty active one.
	again := openLog(t, openStore(t, mem.Crash()), o)
	if got := again.Sealed(0); len(got) != len(sealed) {
		t.Fatalf("%d sealed segments after a power cut, want %d", len(got), len(sealed))
	}
	for i, seg := range again.Sealed(0) {
		if seg.MaxTimestamp() != sealed[i].MaxTimestamp() || seg.NextOffset() != sealed[i].NextOffset() {
			t.Fatalf("segment %d changed over a power cut", seg.BaseOffset())
		}
	}
}

// checkSealed compares what a segment says with the batches in it.
func checkSealed(t *testing.T, seg *hot.Segment) {
	t.Helper()
	if err := seg.Pin(); err != nil {
		t.Fatal(err)
	}
	batches := split(t, drain(t, seg.Size(), seg.ReadUncachedAt))
	seg.Unpin()
	last := batches[len(batches)-1]
	h := record.Batch(last.bytes).Header()
	if batches[0].base != seg.BaseOffset() || last.next != seg.NextOffset() || seg.MaxTimestamp() != h.MaxTimestamp {
		t.Fatalf("segment %d does not tell what it has", seg.BaseOffset())
	}
	b, err := seg.ProducerSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	p, err := record.ParseProducers(b)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := p.Check(h, 0); err != nil || !v.Duplicate || v.Next != seg.NextOffset() {
		t.Fatalf("the snapshot of segment %d does not end with it: %+v, %v", seg.BaseOffset(), v, err)
	}
	if e, _ := seg.Epochs().Last(); e.Epoch != h.LeaderEpoch {
		t.Fatalf("segment %d ends with epoch %d, has %d", seg.BaseOffset(), e.Epoch, h.LeaderEpoch)
	}
	if txns, err := seg.AbortedTxns(); txns != nil || err != nil {
		t.Fatalf("aborted transactions out of nowhere: %v, %v", txns, err)
	}
}
