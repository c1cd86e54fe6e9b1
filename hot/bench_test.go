// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"fmt"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

func benchLog(b *testing.B, o hot.LogOptions) *hot.Log {
	b.Helper()
	dir := b.TempDir()
	s := openStore(b, vfs.Disk(), func(so *hot.Options) { so.Dir = dir })
	return createLog(b, s, o)
}

// BenchmarkAppend is an append to the page cache, checks included.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			l := benchLog(b, hot.LogOptions{SegmentBytes: 256 << 20})
			batch := recordtest.Batch(0, recordtest.ValueSize(1, size))
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if _, err := l.Append(batch, 0); err != nil {
					b.Fatal(err)
				}
				if n%2000 == 1999 { // bound the disk space
					if _, err := l.DropBefore(b.Context(), l.EndOffset()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkAppendDurable is an append that waits for its sync, by so many
// producers on each core at once.
func BenchmarkAppendDurable(b *testing.B) {
	for _, producers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("producers-per-core=%d", producers), func(b *testing.B) {
			l := benchLog(b, hot.LogOptions{})
			b.SetParallelism(producers)
			b.RunParallel(func(pb *testing.PB) {
				batch := recordtest.Batch(0, recordtest.ValueSize(1, 2<<10))
				for pb.Next() {
					done, err := l.Append(batch, 0)
					if err == nil {
						err = l.WaitDurable(b.Context(), done.NextOffset)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkRead finds a Region and lets it go: at the end of the active
// segment, and at changing places of a sealed one.
func BenchmarkRead(b *testing.B) {
	l := benchLog(b, hot.LogOptions{SegmentBytes: 64 << 20})
	batch := recordtest.Batch(0, recordtest.ValueSize(1, 1<<10))
	for len(l.Segments()) < 2 || l.Segments()[1].Size() < 8<<20 {
		if _, err := l.Append(batch, 0); err != nil {
			b.Fatal(err)
		}
	}
	for len(l.Sealed(0)) == 0 {
		if err := l.WaitDurable(b.Context(), l.EndOffset()); err != nil {
			b.Fatal(err)
		}
	}
	sealed := l.Sealed(0)[0]
	read := func(b *testing.B, from record.Offset, maxBytes int) {
		r, err := l.Read(from, l.EndOffset(), maxBytes, true)
		if err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
	b.Run("tail", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			read(b, l.EndOffset()-4, 1<<20)
		}
	})
	b.Run("active", func(b *testing.B) {
		b.ReportAllocs()
		from, span := sealed.NextOffset(), l.EndOffset()-sealed.NextOffset()-2000
		for i := record.Offset(0); b.Loop(); i += 7919 {
			read(b, from+i%span, 1<<20)
		}
	})
	b.Run("sealed", func(b *testing.B) {
		b.ReportAllocs()
		for i := record.Offset(0); b.Loop(); i += 7919 {
			read(b, i%(sealed.NextOffset()-2000), 1<<20)
		}
	})
}

// BenchmarkLookup finds the offset for a timestamp, at changing places of a
// sealed segment, without decoding batches.
func BenchmarkLookup(b *testing.B) {
	l := benchLog(b, hot.LogOptions{SegmentBytes: 64 << 20})
	const batches = 60000
	for i := range int64(batches) {
		if _, err := l.Append(recordtest.Batch(0, recordtest.ValueSize(1, 1<<10), recordtest.Timestamp(1000+i)), 0); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Roll(b.Context()); err != nil {
		b.Fatal(err)
	}
	for len(l.Sealed(0)) == 0 {
		if err := l.WaitDurable(b.Context(), l.EndOffset()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i += 7919 {
		want := i % batches
		found, ok, err := l.OffsetForTimestamp(1000+want, l.EndOffset(), nil)
		if err != nil || !ok || int64(found.Offset) != want {
			b.Fatalf("%d: %+v, %v, %v", want, found, ok, err)
		}
	}
}

// BenchmarkRecovery scans one segment after a kill.
func BenchmarkRecovery(b *testing.B) {
	const size = 64 << 20
	dir := b.TempDir()
	s := openStore(b, vfs.Disk(), func(o *hot.Options) { o.Dir = dir })
	l := createLog(b, s, hot.LogOptions{})
	batch := recordtest.Batch(0, recordtest.ValueSize(1, 4<<10))
	for l.Size() < size {
		if _, err := l.Append(batch, 0); err != nil {
			b.Fatal(err)
		}
	}
	closeStore(b, s)
	b.SetBytes(size)
	for b.Loop() {
		b.StopTimer()
		if err := vfs.Disk().RemoveAll(dir + "/.kafka_cleanshutdown"); err != nil {
			b.Fatal(err)
		}
		s := openStore(b, vfs.Disk(), func(o *hot.Options) { o.Dir = dir })
		b.StartTimer()
		openLog(b, s, hot.LogOptions{})
		b.StopTimer()
		closeStore(b, s)
		b.StartTimer()
	}
}

// BenchmarkOpen opens many partitions after a clean stop, one after another.
func BenchmarkOpen(b *testing.B) {
	const partitions = 1000
	dir := b.TempDir()
	at := func(o *hot.Options) { o.Dir = dir }
	s := openStore(b, vfs.Disk(), at)
	for p := range int32(partitions) {
		l, err := s.CreateLog(b.Context(), record.TopicPartition{Topic: "many", Partition: p}, topicID, hot.LogOptions{})
		if err != nil {
			b.Fatal(err)
		}
		appendBatch(b, l, 10)
	}
	closeStore(b, s)
	for b.Loop() {
		s := openStore(b, vfs.Disk(), at)
		for _, f := range s.Found() {
			if _, err := s.OpenLog(b.Context(), f.TopicPartition, f.TopicID, hot.LogOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		closeStore(b, s)
		b.StartTimer()
	}
}
