// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"firn/cluster"
	"firn/fetch"
	"firn/hot"
	"firn/internal/vfs"
	"firn/partition"
	"firn/record"
	"firn/record/recordtest"
	"firn/tier"
	"firn/tier/store/dirstore"
)

// maxIdleBytes is what an idle partition may take of memory: heap and stacks,
// over all objects of the broker.
const maxIdleBytes = 8 << 10

// idleSite opens brokers over one directory of the real disk: the objects of
// files in memory would be counted as well.
type idleSite struct {
	tb  testing.TB
	dir string
	id  tier.StoreID
}

// open opens a broker; close closes it with everything below it. The work of
// the tier does not begin: what waits for it is part of an idle partition.
func (s *idleSite) open() (b *Broker, close func()) {
	tb, ctx := s.tb, context.WithoutCancel(s.tb.Context())
	tb.Helper()
	var closers []func() error
	must := func(err error, close func() error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		closers = append(closers, close)
	}
	logs, err := hot.OpenDisks(ctx, []string{filepath.Join(s.dir, "logs")}, hot.Options{FS: vfs.Disk(), RecoveryThreads: 8})
	must(err, func() error { return logs.Close(ctx) })
	metadata, err := cluster.OpenLocal(ctx, cluster.LocalOptions{Path: filepath.Join(s.dir, "firn.db"), NodeID: 1})
	must(err, func() error { return metadata.Close() })
	objects, err := dirstore.New(dirstore.Options{Path: filepath.Join(s.dir, "store")})
	must(err, func() error { return objects.Close() })
	cold, err := tier.Open(ctx, tier.Options{Store: objects, ClusterID: metadata.Metadata().ClusterID, StoreID: s.id, FS: vfs.Disk(), Held: true})
	must(err, func() error { return cold.Close(ctx) })
	fetcher, err := fetch.New(fetch.Options{})
	must(err, func() error { fetcher.Close(); return nil })
	b, err = Open(ctx, Options{
		Logs: logs, Cluster: metadata, Fetcher: fetcher, Tier: cold,
		TopicDefaults: cluster.Defaults{Store: true, ExcludeTopics: []string{"local*"}},
	})
	must(err, func() error { return b.Close(ctx) })
	return b, func() {
		var errs []error
		for i := len(closers) - 1; i >= 0; i-- {
			errs = append(errs, closers[i]())
		}
		if err := errors.Join(errs...); err != nil {
			tb.Error(err)
		}
	}
}

// resources is what the process uses at a moment.
type resources struct{ bytes, goroutines, descriptors int }

func using(tb testing.TB) resources {
	tb.Helper()
	runtime.GC()
	runtime.GC() // what the first one has found to be finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r := resources{bytes: int(m.HeapAlloc + m.StackInuse), goroutines: runtime.NumGoroutine()}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		r.descriptors = len(entries)
	}
	return r
}

// measureIdle tells what each of n partitions takes after a clean start, and
// after each got one batch.
func measureIdle(tb testing.TB, topic string, n int) (opened, written int) {
	tb.Helper()
	s := &idleSite{tb: tb, dir: tb.TempDir(), id: tier.NewStoreID()}
	_, end := s.open()
	empty := using(tb) // one broker was there once: what is lazily made is made
	end()
	b, end := s.open()
	if _, err := b.createTopic(tb.Context(), cluster.CreateTopic{Name: topic, Partitions: int32(n)}); err != nil {
		tb.Fatal(err)
	}
	end()

	b, end = s.open()
	defer func() { end() }()
	got := using(tb)
	opened = (got.bytes - empty.bytes) / n
	if more := got.goroutines - empty.goroutines; more > 10 {
		tb.Errorf("%d goroutines more with %d partitions", more, n)
	}
	if more := got.descriptors - empty.descriptors; more > 10 {
		tb.Errorf("%d descriptors more with %d partitions that nobody uses", more, n)
	}
	all, _ := b.Partitions(topic)
	if len(all) != n {
		tb.Fatalf("%d partitions are open, want %d", len(all), n)
	}
	for _, p := range all {
		if tiered := p.Tier() != nil; tiered != (topic == "tiered") {
			tb.Fatalf("partition %s is tiered: %v", p.TopicPartition(), tiered)
		}
		// Not through the partition: a tiered one waits for its store.
		if _, err := p.Log().Append(recordtest.Batch(0, recordtest.Count(1)), record.Epoch(9)); err != nil {
			tb.Fatal(err)
		}
	}
	got = using(tb)
	written = (got.bytes - empty.bytes) / n
	if more := got.goroutines - empty.goroutines; more > 10 {
		tb.Errorf("%d goroutines more with %d partitions that were written to", more, n)
	}
	if more := got.descriptors - empty.descriptors; more > n+10 {
		tb.Errorf("%d descriptors more with %d partitions that were written to", more, n)
	}
	runtime.KeepAlive([]*partition.Partition(all))
	return opened, written
}

// An idle partition takes less than 8 KiB, with everything that belongs to it,
// and has no goroutine.
func TestIdlePartitionsAreSmall(t *testing.T) {
	for _, topic := range []string{"local", "tiered"} {
		t.Run(topic, func(t *testing.T) {
			opened, written := measureIdle(t, topic, 500)
			t.Logf("%d bytes a partition after a clean start, %d after one batch", opened, written)
			if opened > maxIdleBytes || written > maxIdleBytes {
				t.Errorf("%d bytes a partition after a clean start, %d after one batch, want at most %d", opened, written, maxIdleBytes)
			}
		})
	}
}

// BenchmarkIdlePartitions is the same with 10,000 of them.
func BenchmarkIdlePartitions(b *testing.B) {
	for _, topic := range []string{"local", "tiered"} {
		b.Run(topic, func(b *testing.B) {
			for b.Loop() {
				opened, written := measureIdle(b, topic, 10000)
				b.ReportMetric(float64(opened), "B/opened")
				b.ReportMetric(float64(written), "B/written")
			}
		})
	}
}
