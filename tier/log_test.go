// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
	"firn/tier/store"
	"firn/tier/store/dirstore"
	"firn/tier/store/faultstore"
)

// A store without conditional puts takes the same paths to the same end.
func TestLifeOnAStoreWithoutConditions(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.faults.IgnoreConditions(true)
		w.life()
		w.checkHistory()
		w.checkBucket()
	})
}

// A directory as the store, whose names and listings are a file system's.
func TestLifeOnADirectory(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		dir, err := dirstore.New(dirstore.Options{Path: "/bucket", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		w.faults = faultstore.New(dir)
		w.life()
		w.checkHistory()
		infos, err := listAll(t.Context(), dir, "", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos { // the same check over what is in the directory
			w.bucket.objects[info.Key] = nil
		}
		w.checkBucket()
	})
}

// 1,100 segments under the real shape: a page, and a head that stays small.
func TestLongHistory(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.shape = defaultShape
		w.open()
		w.pass(time.Second)
		for range 1100 {
			w.produce(1)
		}
		w.pass(10 * time.Minute)
		w.retain()
		m := w.log.manifest.Load()
		if len(m.Pages) != 1 || len(m.Recent) != 100 {
			t.Fatalf("%d pages and %d recent entries, want 1 and 100", len(m.Pages), len(m.Recent))
		}
		w.checkHistory()
		w.crash()
		w.open()
		w.pass(time.Second)
		if got := w.faults.Count(store.OpGet); got == 0 {
			t.Fatal("nothing was read")
		}
		w.setLogStart(900 * 2)
		w.pass(3 * time.Hour)
		w.checkHistory()
		w.checkBucket()
		if s := w.state(); s.Segments != 200 || s.Tombstones != 0 {
			t.Fatalf("state %+v, want 200 segments", s)
		}
	})
}

func TestReadAtTheEdges(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.produce(2)
		w.pass(time.Second)
		w.setLogStart(2)
		w.pass(time.Second)
		read := func(from, limit record.Offset) (Data, error) {
			return w.log.Read(t.Context(), from, limit, 1<<20, true)
		}
		for _, from := range []record.Offset{-1, 0, 1} {
			if _, err := read(from, 8); !isErr(err, record.ErrOffsetOutOfRange) {
				t.Errorf("read at %d, below the log start 2: %v", from, err)
			}
		}
		if d, err := read(2, 8); err != nil || !bytes.Equal(d.Bytes, w.modelBetween(2, 4)) {
			t.Errorf("read at the log start: %d bytes, %v", len(d.Bytes), err)
		}
		w.local.dropBefore(8)
		w.local.mu.Lock()
		w.local.start, w.local.end = 20, 20 // dropped before it went up, no gap is recorded yet
		w.local.mu.Unlock()
		if d, err := read(8, 20); err != nil || len(d.Bytes) != 0 || d.Next != 20 {
			t.Errorf("read above the chain goes on at %d, %v, want the local start 20", d.Next, err)
		}
	})
}

// Time queries pass over pages without reading them.
func TestTimestampsSkipPages(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		for range 12 {
			w.produce(1)
		}
		w.pass(time.Second)
		w.crash()
		w.open() // the page cache is empty
		w.pass(time.Second)
		w.faults.Forget()
		pagesRead := func() (n int) {
			for _, c := range w.faults.Calls() {
				if c.Op == store.OpGet && ofKind(KeyPage)(c.Key) {
					n++
				}
			}
			return n
		}
		got, ok, err := w.log.OffsetForTimestamp(t.Context(), recordtest.DefaultTimestamp+23, 24, decodeRecords)
		if err != nil || !ok || got.Offset != 23 || pagesRead() != 0 {
			t.Fatalf("found %+v, %v, %v with %d pages read, want offset 23 and none", got, ok, err, pagesRead())
		}
		max, ok, err := w.log.MaxTimestamp(t.Context(), 24, decodeRecords)
		if err != nil || !ok || max.Offset != 23 || pagesRead() != 0 {
			t.Fatalf("found %+v, %v, %v with %d pages read, want offset 23 and none", max, ok, err, pagesRead())
		}
		got, ok, err = w.log.OffsetForTimestamp(t.Context(), recordtest.DefaultTimestamp+7, 24, decodeRecords)
		if err != nil || !ok || got.Offset != 7 || pagesRead() != 1 {
			t.Fatalf("found %+v, %v, %v with %d pages read, want offset 7 and one", got, ok, err, pagesRead())
		}
		if _, ok, err = w.log.OffsetForTimestamp(t.Context(), recordtest.DefaultTimestamp+24, 24, decodeRecords); ok || err != nil {
			t.Fatalf("found a record in the future: %v", err)
		}
	})
}

// A page that does not come in time is not ready; its load goes on.
func TestPageLoadOutlivesTheRead(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		for range 5 {
			w.produce(1)
		}
		w.pass(time.Second)
		w.crash()
		w.open()
		w.pass(time.Second)
		hang := w.faults.Inject(faultstore.Fault{Op: store.OpGet, Key: ofKind(KeyPage), Effect: faultstore.Hang})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.log.Read(ctx, 0, 10, 100, true); !isErr(err, record.ErrNotReady) {
			t.Fatalf("read: %v, want not ready", err)
		}
		hang.Remove()
		w.pass(time.Second)
		w.faults.Forget()
		if _, err := w.log.Entries(t.Context(), 0, 3); err != nil || w.faults.Count("") != 0 {
			t.Fatalf("entries: %v with %d calls, want them from memory", err, w.faults.Count(""))
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := Open(t.Context(), Options{ClusterID: "a/b", Uploaders: -1}); err == nil {
		t.Fatal("opened without a store")
	} else {
		for _, fault := range []string{"no store", "no file system", "no store id", "cluster id", "uploaders"} {
			if !bytes.Contains([]byte(err.Error()), []byte(fault)) {
				t.Errorf("%q is not in %v", fault, err)
			}
		}
	}
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		if _, err := w.tier.OpenLog(t.Context(), LogOptions{Epoch: -1}); err == nil {
			t.Fatal("opened a log without anything")
		}
		w.close()
		o := w.log.o
		if _, err := w.tier.OpenLog(t.Context(), o); !isErr(err, record.ErrClosed) {
			t.Fatalf("open after close: %v", err)
		}
		if err := w.tier.Close(t.Context()); err != nil {
			t.Fatalf("second close: %v", err)
		}
	})
}

// Many partitions at once in real time, with readers, states and log starts
// that move: for the race detector.
func TestManyPartitionsAtOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	fs := vfs.NewMem()
	bucket := newMemStore()
	tier, err := Open(t.Context(), Options{Store: bucket, ClusterID: "c", StoreID: testStoreID, FS: fs, DeleteGrace: time.Millisecond, Recheck: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	tier.shape = testShape
	var wg sync.WaitGroup
	for p := range int32(12) {
		wg.Go(func() { churn(t, tier, fs, p) })
	}
	wg.Wait()
	if err := tier.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := tier.ReaderStats(); s.Lent != 0 {
		t.Errorf("%d bytes were not released", s.Lent)
	}
}

func churn(t *testing.T, tier *Tier, fs *vfs.Mem, partition int32) {
	local := &fakeLocal{epoch: 1}
	dir := fmt.Sprintf("/d/t-%d", partition)
	if err := vfs.MkdirAllSync(fs, dir, 0o755); err != nil {
		t.Error(err)
		return
	}
	changed := make(chan struct{}, 1)
	log, err := tier.OpenLog(t.Context(), LogOptions{
		TopicPartition: record.TopicPartition{Topic: "t", Partition: partition}, TopicID: testTopicID, Epoch: 1, Dir: dir, Local: local,
		OnChange: func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		t.Error(err)
		return
	}
	var all []byte
	for i := range 10 {
		all = append(all, local.appendBatches(2)...)
		local.seal()
		log.Wake()
		for log.End() < local.EndOffset() {
			<-changed
		}
		local.dropBefore(log.End())
		if i == 6 {
			log.SetLogStart(9)
		}
		d, err := log.Read(t.Context(), log.End()-4, log.End(), 1<<20, true)
		if err != nil || !bytes.Equal(d.Bytes, all[len(all)-len(d.Bytes):]) {
			t.Errorf("partition %d: read %d bytes, %v", partition, len(d.Bytes), err)
		}
		d.Release()
		_ = log.State()
	}
}
