// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"fmt"
	"testing"
	"time"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
)

// benchWorld is a world on a real disk, outside a bubble.
func benchWorld(b *testing.B) (*hot.Store, *Fetcher) {
	b.Helper()
	store, err := hot.Open(b.Context(), hot.Options{Dir: b.TempDir(), FS: vfs.Disk()})
	if err != nil {
		b.Fatal(err)
	}
	f, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		f.Close()
		if err := store.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return store, f
}

func benchPartition(b *testing.B, store *hot.Store, i int) *fakePartition {
	b.Helper()
	p := &fakePartition{
		tp:   record.TopicPartition{Topic: "topic", Partition: int32(i)},
		high: record.NoOffset, watching: make(map[*chan<- struct{}]struct{}),
	}
	var err error
	if p.log, err = store.CreateLog(b.Context(), p.tp, record.TopicID{1}, hot.LogOptions{}); err != nil {
		b.Fatal(err)
	}
	return p
}

// BenchmarkTailFetch is one consumer at the tail: one partition, resident, a
// batch of 1 KiB.
func BenchmarkTailFetch(b *testing.B) {
	store, f := benchWorld(b)
	p := benchPartition(b, store, 0)
	p.append(b, 1024)
	c := f.NewConsumer()
	defer c.Close()
	req := ask(time.Second, 1, at(p, 0))
	b.ReportAllocs()
	for b.Loop() {
		r, err := c.Fetch(b.Context(), req)
		if err != nil || r.Partitions[0].Region == nil {
			b.Fatal("nothing", err)
		}
		r.Release()
	}
}

// BenchmarkLongPoll is one consumer of many partitions: it parks, an append to
// one of them wakes it, and it answers.
func BenchmarkLongPoll(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("partitions=%d", n), func(b *testing.B) {
			store, f := benchWorld(b)
			partitions := make([]*fakePartition, n)
			wants := make([]PartitionRequest, n)
			for i := range partitions {
				partitions[i] = benchPartition(b, store, i)
				wants[i] = at(partitions[i], 0)
			}
			c := f.NewConsumer()
			defer c.Close()
			req := ask(time.Hour, 1, wants...)
			parked := make(chan struct{}, 1)
			partitions[n-1].onWatch = func() { parked <- struct{}{} }
			at := 0
			go func() {
				for i := 0; ; i++ {
					select {
					case <-parked:
						partitions[i%n].append(b, 1024)
					case <-b.Context().Done():
						return
					}
				}
			}()
			b.ReportAllocs()
			for b.Loop() {
				r, err := c.Fetch(b.Context(), req)
				if err != nil {
					b.Fatal(err)
				}
				req.Partitions[at%n].Offset++
				at++
				r.Release()
			}
		})
	}
}
