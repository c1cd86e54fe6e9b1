// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"firn/fetch"
	"firn/record"
	"firn/record/recordtest"
	"firn/tier/store"
	"firn/tier/store/faultstore"
)

// consumer is one connection to the node.
func (n *node) consumer(o fetch.Options) (*fetch.Consumer, func()) {
	n.t.Helper()
	f, err := fetch.New(o)
	if err != nil {
		n.t.Fatal(err)
	}
	c := f.NewConsumer()
	return c, func() { c.Close(); f.Close() }
}

// poll is one fetch of the partition, the bytes it gave and how long it took.
func (n *node) poll(c *fetch.Consumer, from record.Offset, wait time.Duration) ([]byte, fetch.PartitionResult, time.Duration) {
	n.t.Helper()
	started := time.Now()
	r, err := c.Fetch(n.t.Context(), &fetch.Request{
		Partitions: []fetch.PartitionRequest{{Partition: n.Partition, Offset: from, MaxBytes: 3000}},
		MinBytes:   1, MaxWait: wait, MaxBytes: 1 << 20,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	defer r.Release()
	got := r.Partitions[0]
	b := slices.Clone(got.Bytes)
	if got.Region != nil {
		b = make([]byte, got.Region.Len())
		if k, err := got.Region.ReadAt(b, 0); k < len(b) {
			n.t.Fatal(err)
		}
	}
	return b, got, time.Since(started)
}

func TestFetchIsWoken(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *node) {
		c, done := n.consumer(fetch.Options{})
		defer done()
		time.AfterFunc(time.Second, func() { n.put(batch(1, 0), AcksLeader) })
		if b, _, took := n.poll(c, 0, time.Hour); len(b) == 0 || took != time.Second {
			t.Errorf("by an append: %d bytes after %v", len(b), took)
		}
		// The append alone does not wake it; the sync does.
		letGo := n.holdSyncs()
		n.put(batch(1, 0), AcksAll)
		time.AfterFunc(time.Second, letGo)
		if b, got, took := n.poll(c, 1, time.Hour); len(b) == 0 || took != time.Second || got.HighWatermark != 2 {
			t.Errorf("by the sync of acks=all: %d bytes after %v, %+v", len(b), took, got)
		}
		n.disk.Hook(nil)
		// So does the answer of a slow store.
		n.seal()
		n.uploaded()
		n.dropTiered()
		n.faults.Inject(faultstore.Fault{Op: store.OpGet, Times: 1, Effect: faultstore.Twice, Before: func(context.Context, faultstore.Call) {
			<-time.After(900 * time.Millisecond)
		}})
		if b, got, took := n.poll(c, 0, time.Hour); len(b) == 0 || took != 900*time.Millisecond || got.Class != fetch.ClassCold {
			t.Errorf("by the store: %d bytes after %v, %+v", len(b), took, got)
		}
	})
}

// TestReplayMeetsTheTail reads the whole history while records are appended,
// go up and are dropped, and the store fails now and then: every byte arrives,
// once and in order, and nobody is told out of range.
func TestReplayMeetsTheTail(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			change := func(n *node) { n.log.SegmentBytes = 3000; n.retention.LocalBytes = 2000 }
			bubble(t, change, func(t *testing.T, n *node) {
				rng := rand.New(rand.NewPCG(seed, 4))
				var mu sync.Mutex
				var written []byte
				stop := make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() {
					defer close(stop)
					for range 150 {
						b := recordtest.Batch(0, recordtest.ValueSize(1+rng.IntN(5), rng.IntN(120)))
						acks := []Acks{AcksNone, AcksLeader, AcksAll}[rng.IntN(3)]
						mu.Lock()
						if _, err := n.Append(b, acks); err != nil {
							t.Error(err)
						}
						written = append(written, b...)
						mu.Unlock()
						switch rng.IntN(20) {
						case 0:
							storeAway(n.faults)
						case 1, 2:
							n.faults.Clear()
						}
						<-time.After(time.Duration(rng.IntN(400)) * time.Millisecond)
					}
					n.faults.Clear()
				})
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(300 * time.Millisecond):
							if err := n.ApplyRetention(t.Context()); err != nil {
								t.Error(err)
							}
						}
					}
				})
				for i := range 2 {
					pause := time.Duration(i) * 500 * time.Millisecond
					wg.Go(func() {
						n.follow(stop, pause, func() []byte { mu.Lock(); defer mu.Unlock(); return slices.Clone(written) })
					})
				}
				wg.Wait()
			})
		})
	}
}

// follow consumes from offset 0 until everything written was read, with a
// pause between two fetches.
func (n *node) follow(stop <-chan struct{}, pause time.Duration, written func() []byte) {
	c, done := n.consumer(fetch.Options{})
	defer done()
	var got []byte
	next := record.Offset(0)
	for {
		b, p, _ := n.poll(c, next, time.Second)
		if errors.Is(p.Err, record.ErrOffsetOutOfRange) {
			n.t.Errorf("offset %d: %v", next, p.Err)
			return
		}
		for rest := b; len(rest) > 0; {
			one, after, err := record.SplitBatch(rest)
			if err != nil {
				n.t.Error(err)
				return
			}
			next, rest = one.Header().NextOffset(), after
		}
		got = append(got, b...)
		select {
		case <-stop:
			if next == n.EndOffset() {
				if !bytes.Equal(got, written()) {
					n.t.Errorf("%d bytes were read, %d written, or they differ", len(got), len(written()))
				}
				return
			}
		case <-time.After(pause):
		}
	}
}
