// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
)

// I4: a flipped byte on disk costs its own partition an error that clients
// repeat, and no other partition anything. This one is on a real disk.
func TestWarmReadsCheckTheCRC(t *testing.T) {
	dir := t.TempDir()
	store, err := hot.Open(t.Context(), hot.Options{Dir: dir, FS: vfs.Disk()})
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, disk: &countingFS{}, store: store, fetcher: f}
	good, bad := w.partition(), w.partition()
	for _, p := range []*fakePartition{good, bad} {
		p.append(t, 1000)
		p.append(t, 1000)
		p.setPaged(true)
	}
	path := filepath.Join(bad.log.Dir(), record.Offset(0).FileName()+".log")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[1500] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	c := f.NewConsumer()
	r, _ := w.fetch(c, ask(time.Minute, 1, at(good, 0)))
	w.wantData(r, 0, ClassWarm, 0, 2)
	r.Release()
	r, _ = w.fetch(c, ask(10*time.Millisecond, 1, at(bad, 0)))
	r.Release()
	for range 100 { // until both reads, which are under way at once, are done
		if r, _ = w.fetch(c, ask(10*time.Millisecond, 1, at(good, 0), at(bad, 0))); r.Partitions[0].Bytes != nil && r.Partitions[1].Err != nil {
			break
		}
		r.Release()
	}
	w.wantData(r, 0, ClassWarm, 0, 2)
	var damage *record.CorruptionError
	if err := r.Partitions[1].Err; !errors.Is(err, record.ErrStorage) || !errors.As(err, &damage) {
		t.Errorf("error %v, want a storage error that names the damage", err)
	} else if damage.Path != path || damage.Position != 1000 {
		t.Errorf("damage is in %s at %d, want %s at 1000", damage.Path, damage.Position, path)
	}
	r.Release()
	c.Close()
	w.close()
}

func TestWarmReadOfManyBatches(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		p := w.partition(func(o *hot.LogOptions) { o.SegmentBytes = 10 << 20 })
		for range 30 {
			p.append(t, 50_000) // several uncached reads, and no multiple of them
		}
		p.setPaged(true)
		c := w.fetcher.NewConsumer()
		r, took := w.fetch(c, ask(second, 1, PartitionRequest{Partition: p, MaxBytes: 1_234_567}))
		w.wantTook(took, 0)
		w.wantData(r, 0, ClassWarm, 0, 24)
		if used, _ := w.used(laneWarm); used < int64(len(r.Partitions[0].Bytes)) {
			t.Errorf("%d bytes are reserved for an answer of %d", used, len(r.Partitions[0].Bytes))
		}
		r.Release()
		c.Close()
	})
}

func TestReadChunk(t *testing.T) {
	bubble(t, Options{QueueLength: 1}, func(t *testing.T, w *world) {
		p := w.partition()
		p.append(t, 1000)
		region, err := p.log.Read(0, 1, 1000, true)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, 1000)
		if _, err := region.ReadAt(want, 0); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 400)
		for _, off := range []int64{0, 600} {
			if n, err := w.fetcher.ReadChunk(t.Context(), region, got, off); n != 400 || err != nil {
				t.Fatalf("read at %d: %d, %v", off, n, err)
			}
			if !bytes.Equal(got, want[off:off+400]) {
				t.Fatalf("wrong bytes at %d", off)
			}
		}
		if n, err := w.fetcher.ReadChunk(t.Context(), region, got, 800); n != 200 || !errors.Is(err, io.EOF) {
			t.Errorf("read over the end: %d, %v", n, err)
		}
		// The worker is busy and the queue full: it waits, as long as its
		// context lets it, and a close does not wait for it.
		busy := make(chan struct{})
		for range 2 {
			if err := w.fetcher.tail.enqueue(t.Context(), func() { <-busy }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		if _, err := w.fetcher.ReadChunk(ctx, region, got, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without room: %v", err)
		}
		failed := make(chan error)
		go func() {
			_, err := w.fetcher.ReadChunk(context.Background(), region, got, 0)
			failed <- err
		}()
		synctest.Wait()
		go w.fetcher.tail.close()
		if err := <-failed; !errors.Is(err, record.ErrClosed) {
			t.Errorf("at the close: %v", err)
		}
		close(busy)
		synctest.Wait()
		if _, err := w.fetcher.ReadChunk(context.Background(), region, got, 0); !errors.Is(err, record.ErrClosed) {
			t.Errorf("after the close: %v", err)
		}
		region.Release()
		w.fetcher.tail = newPool(1, 1) // for the end of the test
	})
}

// A full queue and a close lose no task that was accepted and run none that
// was not.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 2)
		var ran int
		busy := make(chan struct{})
		accepted := 0
		for range 5 {
			if p.submit(func() { <-busy; ran++ }) {
				accepted++
			}
			synctest.Wait()
		}
		if accepted != 3 {
			t.Errorf("%d tasks accepted, want 3: one at the worker, two in the queue", accepted)
		}
		go p.close()
		synctest.Wait()
		if p.submit(func() {}) {
			t.Error("a closed pool took a task")
		}
		close(busy)
		synctest.Wait()
		if ran != 3 {
			t.Errorf("%d of 3 tasks ran", ran)
		}
	})
}

func TestBuffersHoldNoMoreThanReserved(t *testing.T) {
	var b buffers
	for range 3 {
		for _, c := range []struct{ n, most, held int }{
			{0, 1, 0},
			{1000, 1000, 1000},
			{1000, 1 << 20, 64 << 10},
			{64 << 10, 64 << 10, 64 << 10},
			{64<<10 + 1, 100 << 10, 64<<10 + 1},
			{64<<10 + 1, 128 << 10, 128 << 10},
			{4 << 20, 4 << 20, 4 << 20},
			{4<<20 + 1, 8 << 20, 4<<20 + 1},
		} {
			p := b.get(c.n, c.most)
			if len(p) != c.n || cap(p) < c.held || cap(p) > max(c.n, c.most) {
				t.Errorf("get %d of at most %d: %d bytes, capacity %d", c.n, c.most, len(p), cap(p))
			}
			b.put(p)
		}
	}
}

func TestOptions(t *testing.T) {
	var o Options
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	o = Options{FetchMemoryBytes: 1 << 30}
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		t.Errorf("a large fetch: %v", err)
	}
	o = Options{WarmWorkers: -1, ColdWorkers: -1, QueueLength: -1, FetchMemoryBytes: 10, MemoryBytes: 19, TailBytes: -1, ColdWait: -1, ReadTimeout: -1, KeepReady: -1}
	_, err := New(o)
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 8 {
		t.Errorf("faults: %v", err)
	}
}

func TestClassNames(t *testing.T) {
	for class, want := range map[Class]string{ClassNone: "none", ClassHot: "hot", ClassWarm: "warm", ClassCold: "cold"} {
		if class.String() != want {
			t.Errorf("class %d is %q", class, class)
		}
	}
}
