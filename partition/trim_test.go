// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"testing"
	"time"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
	"firn/tier"
	"firn/tier/store/dirstore"
)

var (
	trimTP = record.TopicPartition{Topic: "clicks", Partition: 0}
	trimID = record.TopicID{7}
)

// machine is the disk, the store and the clock-free settings of one partition
// over several starts.
type machine struct {
	t    *testing.T
	disk *vfs.Mem
	cold *vfs.Mem
	id   tier.StoreID
}

func newMachine(t *testing.T) *machine {
	return &machine{t: t, disk: vfs.NewMem(), cold: vfs.NewMem(), id: tier.NewStoreID()}
}

// running is one start of the partition.
type running struct {
	*Partition
	tier *tier.Tier
	stop func()
}

// start opens the partition, with a cold tier if tiered. stop closes it and
// what it stands on; the test's end does so too.
func (m *machine) start(create, tiered bool) *running {
	t := m.t
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	logs, err := hot.Open(ctx, hot.Options{Dir: "/firn", FS: m.disk, FileDeleteDelay: -1})
	if err != nil {
		t.Fatalf("open the logs: %v", err)
	}
	objects, err := dirstore.New(dirstore.Options{Path: "/store", FS: m.cold})
	if err != nil {
		t.Fatalf("open the store: %v", err)
	}
	cold, err := tier.Open(ctx, tier.Options{
		Store: objects, ClusterID: "AAAAAAAAAAAAAAAAAAAAAQ", StoreID: m.id, FS: m.disk,
		DeleteGrace: time.Millisecond, RetryBackoffMin: time.Millisecond, RetryBackoffMax: time.Millisecond,
	})
	if err != nil {
		t.Fatalf("open the tier: %v", err)
	}
	o := Options{
		TopicPartition: trimTP, TopicID: trimID, Store: logs, Create: create, Epoch: 1,
		Log:        hot.LogOptions{SegmentBytes: 1000},
		Retention:  Retention{Age: -1, Bytes: -1, LocalAge: -1, LocalBytes: 0},
		RaiseEpoch: func(_ context.Context, above record.Epoch) (record.Epoch, error) { return above + 1, nil },
	}
	if tiered {
		o.Tier = cold
	}
	p, err := Open(ctx, o)
	if err != nil {
		t.Fatalf("open the partition: %v", err)
	}
	stopped := false
	r := &running{Partition: p, tier: cold}
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := errors.Join(p.Close(ctx), cold.Close(ctx), objects.Close(), logs.Close(ctx)); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// fill appends batches of 10 records, a second apart from 1,000,000 ms on.
func (r *running) fill(t *testing.T, batches int) {
	t.Helper()
	for range batches {
		first := 1_000_000 + 1000*int64(r.EndOffset())
		b := recordtest.Batch(0, recordtest.Count(10), recordtest.Timestamp(first), recordtest.TimestampStep(1000))
		if _, err := r.Append(b, AcksLeader); err != nil {
			t.Fatalf("append: %v", err)
		}
	}
}

// await waits until the partition is as wanted, woken by what it notifies.
func (r *running) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	wake := make(chan struct{}, 1)
	defer r.Watch(wake)()
	for !done() {
		select {
		case <-wake:
		case <-time.After(20 * time.Second):
			t.Fatalf("waited for %s: %+v", what, r.Tier().State())
		}
	}
}

// offload seals what is there and waits until only the store has it.
func (r *running) offload(t *testing.T) {
	t.Helper()
	if err := r.Log().Roll(t.Context()); err != nil {
		t.Fatalf("roll: %v", err)
	}
	end := r.EndOffset()
	r.await(t, "the upload", func() bool { return r.Tier().End() == end })
	if err := r.ApplyRetention(t.Context()); err != nil {
		t.Fatalf("retention: %v", err)
	}
	if start := r.LocalStartOffset(); start != end {
		t.Fatalf("the local log starts at %d, want %d", start, end)
	}
}

// inBatch is a FindFunc for the batches of fill.
func inBatch(b record.Batch, from record.Offset, ts int64) (record.Offset, int64, bool) {
	h := b.Header()
	for o := max(from, h.BaseOffset); o < h.NextOffset(); o++ {
		if at := h.BaseTimestamp + 1000*int64(o-h.BaseOffset); at >= ts {
			return o, at, true
		}
	}
	return 0, 0, false
}

// checkStart wants the partition to begin at an offset for everybody who asks.
func (r *running) checkStart(t *testing.T, want record.Offset) {
	t.Helper()
	if got := r.LogStartOffset(); got != want {
		t.Errorf("log start %d, want %d", got, want)
	}
	if got, err := r.Earliest(); err != nil || got.Offset != want {
		t.Errorf("earliest %d, %v, want %d", got.Offset, err, want)
	}
	if _, _, err := r.Locate(want - 1); !errors.Is(err, record.ErrOffsetOutOfRange) {
		t.Errorf("a read below the log start: %v, want ErrOffsetOutOfRange", err)
	}
	if _, at, err := r.Locate(want); err != nil || at != want {
		t.Errorf("a read at the log start goes to %d, %v", at, err)
	}
	for _, ts := range []int64{0, 1_000_000 + 1000*int64(want)} {
		got, err := r.OffsetForTimestamp(t.Context(), ts, ReadUncommitted, inBatch)
		if err != nil || got.Offset != want || got.Timestamp != 1_000_000+1000*int64(want) {
			t.Errorf("time %d is at %+v, %v, want offset %d", ts, got, err, want)
		}
	}
	got, err := r.OffsetForTimestamp(t.Context(), 1_000_000+1000*int64(want)+1, ReadUncommitted, inBatch)
	if err != nil || got.Offset != want+1 {
		t.Errorf("the time after the first record is at %+v, %v, want offset %d", got, err, want+1)
	}
}

// A log start in the middle of a batch is the start for reads and look-ups in
// both tiers, and after a crash (attacks I4).
func TestDeleteRecordsInsideABatch(t *testing.T) {
	for _, c := range []struct {
		name          string
		tiered, moved bool
	}{{"local", false, false}, {"in both tiers", true, false}, {"in the store", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			r := m.start(true, c.tiered)
			r.fill(t, 30)
			if c.moved {
				r.offload(t)
			}
			for _, before := range []record.Offset{14, 155} {
				if got, err := r.DeleteRecords(t.Context(), before); err != nil || got != before {
					t.Fatalf("delete before %d: %d, %v", before, got, err)
				}
				r.checkStart(t, before)
			}
			if got, err := r.DeleteRecords(t.Context(), 20); err != nil || got != 155 {
				t.Errorf("delete below the log start: %d, %v, want the log start, 155", got, err)
			}
			if c.tiered {
				r.await(t, "the manifest to follow", func() bool { return r.Tier().LogStart() == 155 || r.Tier().End() == 0 })
			}
			r.stop()
			m.disk = m.disk.Crash()
			r = m.start(false, c.tiered)
			if c.tiered {
				r.await(t, "the tier", func() bool { phase, _ := r.Tier().Phase(); return phase == tier.Ready })
			}
			r.checkStart(t, 155)
		})
	}
}

func TestDeleteRecordsRefuses(t *testing.T) {
	r := newMachine(t).start(true, false)
	r.fill(t, 2)
	for _, before := range []record.Offset{21, -2} {
		if _, err := r.DeleteRecords(t.Context(), before); !errors.Is(err, record.ErrOffsetOutOfRange) {
			t.Errorf("delete before %d: %v, want ErrOffsetOutOfRange", before, err)
		}
	}
	if got := r.LogStartOffset(); got != 0 {
		t.Errorf("refused, but the log start is %d", got)
	}
}

// Everything can be deleted, and the disk and the store are empty after it.
func TestDeleteRecordsUpToTheHighWatermark(t *testing.T) {
	r := newMachine(t).start(true, true)
	r.fill(t, 30)
	r.offload(t)
	r.fill(t, 5)
	got, err := r.DeleteRecords(t.Context(), record.NoOffset)
	if err != nil || got != 350 {
		t.Fatalf("delete everything: %d, %v, want 350", got, err)
	}
	if err := r.ApplyRetention(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.await(t, "the objects to go", func() bool {
		s := r.Tier().State()
		return s.Segments == 0 && s.Tombstones == 0
	})
	if size := r.Log().Size(); size != 0 {
		t.Errorf("%d bytes are left on the disk", size)
	}
	r.fill(t, 1)
	if end := r.EndOffset(); end != 360 {
		t.Errorf("the next records end at %d, want 360", end)
	}
}

// The log start of records that a power cut took back is where the log goes on.
func TestDeleteRecordsThatAreLostAfterwards(t *testing.T) {
	m := newMachine(t)
	r := m.start(true, false)
	r.fill(t, 3)
	if _, err := r.DeleteRecords(t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	m.disk = m.disk.Crash()
	r.stop()
	r = m.start(false, false)
	if start, end := r.LogStartOffset(), r.EndOffset(); start != 30 || end != 30 {
		t.Errorf("the log is [%d, %d), want [30, 30)", start, end)
	}
}

// A running partition gets a tier: what it has goes up, and later leaves the
// disk, and reads go on.
func TestEnableTier(t *testing.T) {
	m := newMachine(t)
	r := m.start(true, false)
	r.fill(t, 30)
	if _, err := r.DeleteRecords(t.Context(), 25); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.EnableTier(t.Context(), r.tier, false); err != nil {
			t.Fatalf("enable: %v", err)
		}
	}
	r.fill(t, 3)
	r.offload(t)
	r.checkStart(t, 25)
	if cold, _, err := r.Locate(25); err != nil || !cold {
		t.Errorf("offset 25 is read from the store: %v, %v", cold, err)
	}
	d, err := r.ReadCold(t.Context(), 25, r.HighWatermark(), 1<<20, true)
	if err != nil || len(d.Bytes) == 0 {
		t.Fatalf("read from the store: %d bytes, %v", len(d.Bytes), err)
	}
	d.Release()
}
