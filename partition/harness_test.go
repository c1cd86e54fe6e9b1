// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"firn/hot"
	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
	"firn/record/recordtest"
	"firn/tier"
	"firn/tier/store"
	"firn/tier/store/dirstore"
	"firn/tier/store/faultstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	nodeTP      = record.TopicPartition{Topic: "orders", Partition: 1}
	nodeTopicID = record.TopicID{4, 2}
	forEver     = Retention{Age: -1, Bytes: -1, LocalAge: -1, LocalBytes: -1}
)

// node is one partition of a broker over any number of lives, with its disk
// and its bucket in memory, inside a bubble.
type node struct {
	t      *testing.T
	mem    *vfs.Mem
	disk   *faultfs.FS // over mem, new in each life
	bucket *vfs.Mem

	// What the next life opens with.
	log          hot.LogOptions
	retention    Retention
	untiered     bool
	copyDisabled bool
	storeID      tier.StoreID
	epoch        record.Epoch

	// What this life has.
	*Partition
	faults *faultstore.Store
	logs   *hot.Store
	cold   *tier.Tier
	lives  int
	letGo  func() // what holdSyncs holds
}

// bubble runs a test on a node and ends its last life in order.
func bubble(t *testing.T, change func(n *node), test func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		if change != nil {
			change(n)
		}
		n.open()
		defer n.stop()
		test(t, n)
	})
}

func newNode(t *testing.T) *node {
	return &node{
		t: t, mem: vfs.NewMem(), bucket: vfs.NewMem(), retention: forEver, storeID: tier.StoreID{7},
		log: hot.LogOptions{SegmentBytes: 1 << 20, IndexInterval: 100},
	}
}

// open begins a life, under a higher epoch.
func (n *node) open() {
	n.t.Helper()
	n.openWith(func(*faultstore.Store) {})
}

// openWith is open with a store that has faults from the start.
func (n *node) openWith(prepare func(*faultstore.Store)) {
	n.t.Helper()
	ctx := context.Background()
	n.lives++
	n.epoch++
	n.disk = faultfs.New(n.mem)
	var err error
	if n.logs, err = hot.Open(ctx, hot.Options{Dir: "/firn", FS: n.disk, FileDeleteDelay: -1}); err != nil {
		n.t.Fatal(err)
	}
	objects, err := dirstore.New(dirstore.Options{Path: "/store", FS: n.bucket})
	if err != nil {
		n.t.Fatal(err)
	}
	n.faults = faultstore.New(objects)
	prepare(n.faults)
	o := Options{
		TopicPartition: nodeTP, TopicID: nodeTopicID, Store: n.logs, Create: n.lives == 1, Log: n.log,
		CopyDisabled: n.copyDisabled, Epoch: n.epoch, Retention: n.retention,
		RaiseEpoch: func(_ context.Context, above record.Epoch) (record.Epoch, error) {
			n.epoch = max(n.epoch, above) + 1
			return n.epoch, nil
		},
	}
	n.cold = nil
	if !n.untiered {
		n.cold, err = tier.Open(ctx, tier.Options{
			Store: n.faults, ClusterID: "cluster", StoreID: n.storeID, FS: n.disk, DeleteGrace: time.Minute,
			RetryBackoffMin: time.Millisecond, RetryBackoffMax: time.Minute, Recheck: time.Hour,
			Retry: store.RetryOptions{Attempts: 1, AttemptTimeout: time.Second},
		})
		if err != nil {
			n.t.Fatal(err)
		}
		o.Tier = n.cold
	}
	if n.Partition, err = Open(ctx, o); err != nil {
		n.t.Fatal(err)
	}
}

// end ends the life and says what went wrong with that.
func (n *node) end() error {
	ctx := context.Background()
	n.disk.Hook(nil)
	if n.letGo != nil {
		n.letGo()
	}
	errs := []error{n.Close(ctx)}
	if n.cold != nil {
		errs = append(errs, n.cold.Close(ctx))
	}
	return errors.Join(append(errs, n.faults.Close(), n.logs.Close(ctx))...)
}

// stop ends the life in order.
func (n *node) stop() {
	n.t.Helper()
	if err := n.end(); err != nil {
		n.t.Errorf("stop: %v", err)
	}
}

// crash ends the life with a power cut, and leaves what keep says of the disk.
func (n *node) crash(keep func(*vfs.Mem) *vfs.Mem) {
	left := keep(n.mem)
	_ = n.end() // whatever it does now, it does to a disk that is gone
	n.mem = left
}

// settle lets time go by, until nothing moves any more.
func (n *node) settle(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// batch is a batch of so many records, all with a timestamp that lies so long
// ago.
func batch(records int, age time.Duration) []byte {
	return recordtest.Batch(0, recordtest.Count(records), recordtest.Timestamp(time.Now().Add(-age).UnixMilli()))
}

// put appends a batch and fails the test if that does.
func (n *node) put(b []byte, acks Acks) Ticket {
	n.t.Helper()
	ticket, err := n.Append(b, acks)
	if err != nil {
		n.t.Fatal(err)
	}
	return ticket
}

// segment appends a whole segment of 10 records in two batches and seals it.
func (n *node) segment() {
	n.t.Helper()
	n.put(batch(4, 0), AcksLeader)
	n.put(batch(6, 0), AcksLeader)
	n.seal()
}

func (n *node) seal() {
	n.t.Helper()
	if err := n.Log().Roll(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	synctest.Wait()
}

// uploaded waits until the store has everything that is sealed.
func (n *node) uploaded() {
	n.t.Helper()
	for range 200 {
		n.settle(time.Second)
		if s := n.Tier().State(); s.Phase == tier.Ready && s.LagSegments == 0 && s.LastError == nil {
			return
		}
	}
	n.t.Fatalf("not uploaded: %+v", n.Tier().State())
}

// retain applies a retention.
func (n *node) retain(r Retention) {
	n.t.Helper()
	n.SetRetention(r)
	if err := n.ApplyRetention(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	synctest.Wait()
}

// dropLocal drops everything local that the store has.
func (n *node) dropTiered() {
	n.t.Helper()
	r := forEver
	r.LocalBytes = 0
	n.retain(r)
	n.SetRetention(n.retention)
}

func (n *node) wantHigh(want record.Offset) {
	n.t.Helper()
	if got := n.HighWatermark(); got != want {
		n.t.Fatalf("the high watermark is %d, want %d", got, want)
	}
	if got := n.LastStableOffset(); got != want {
		n.t.Fatalf("the last stable offset is %d, want %d", got, want)
	}
}

func (n *node) wantStarts(logStart, local record.Offset) {
	n.t.Helper()
	if a, b := n.LogStartOffset(), n.LocalStartOffset(); a != logStart || b != local {
		n.t.Fatalf("the log starts at %d and locally at %d, want %d and %d", a, b, logStart, local)
	}
}

// readAll reads the local log from its start to the high watermark.
func (n *node) readAll() []byte {
	n.t.Helper()
	var all []byte
	for at, high := n.LocalStartOffset(), n.HighWatermark(); at < high; {
		r, err := n.ReadLocal(at, high, 1<<20, true, false)
		if err != nil || r == nil {
			n.t.Fatalf("read at %d: %v, %v", at, r, err)
		}
		b := make([]byte, r.Len())
		if k, err := r.ReadAt(b, 0); k < len(b) {
			n.t.Fatal(err)
		}
		all, at = append(all, b...), r.Next()
		r.Release()
	}
	return all
}
