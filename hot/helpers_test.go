// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

const logDir = "/firn"

var (
	tp      = record.TopicPartition{Topic: "orders", Partition: 3}
	topicID = record.TopicID{1, 2, 3}
)

// openStore opens a store on fs and closes it at the end of the test.
func openStore(t testing.TB, fs vfs.FS, change ...func(*hot.Options)) *hot.Store {
	t.Helper()
	o := hot.Options{Dir: logDir, FS: fs}
	for _, c := range change {
		c(&o)
	}
	s, err := hot.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
	return s
}

// smallSegments makes logs that roll soon and have an index entry for almost
// every batch.
func smallSegments() hot.LogOptions {
	return hot.LogOptions{SegmentBytes: 1000, IndexInterval: 100}
}

func createLog(t testing.TB, s *hot.Store, o hot.LogOptions) *hot.Log {
	t.Helper()
	l, err := s.CreateLog(t.Context(), tp, topicID, o)
	if err != nil {
		t.Fatalf("create log: %v", err)
	}
	return l
}

func openLog(t testing.TB, s *hot.Store, o hot.LogOptions) *hot.Log {
	t.Helper()
	l, err := s.OpenLog(t.Context(), tp, topicID, o)
	if err != nil {
		t.Fatalf("open log: %v", err)
	}
	return l
}

func closeStore(t testing.TB, s *hot.Store) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatalf("close store: %v", err)
	}
}

// appendBatch appends one batch of n records under epoch 0.
func appendBatch(t testing.TB, l *hot.Log, n int, opts ...recordtest.Option) hot.Appended {
	t.Helper()
	done, err := l.Append(recordtest.Batch(0, append([]recordtest.Option{recordtest.Count(n)}, opts...)...), 0)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return done
}

// fill appends batches of 10 records until the log has n segments.
func fill(t testing.TB, l *hot.Log, n int) {
	t.Helper()
	for len(l.Segments()) < n {
		appendBatch(t, l, 10)
	}
}

// stored is one batch as it is read back.
type stored struct {
	base, next record.Offset
	bytes      string
}

// readAll reads the whole log through Read with the given answer size and
// checks that the batches follow one another.
func readAll(t testing.TB, l *hot.Log, maxBytes int) []stored {
	t.Helper()
	var out []stored
	for at := l.StartOffset(); at < l.EndOffset(); {
		r, err := l.Read(at, l.EndOffset(), maxBytes, true)
		if err != nil {
			t.Fatalf("read at %d: %v", at, err)
		}
		if r == nil {
			t.Fatalf("read at %d: nothing, the log ends at %d", at, l.EndOffset())
		}
		batches := regionBatches(t, r)
		if batches[0].base != r.First() || batches[0].base != at || batches[len(batches)-1].next != r.Next() {
			t.Fatalf("region says %d to %d, has %d to %d, asked for %d", r.First(), r.Next(), batches[0].base, batches[len(batches)-1].next, at)
		}
		out = append(out, batches...)
		at = r.Next()
		r.Release()
	}
	return out
}

func regionBatches(t testing.TB, r *hot.Region) []stored {
	t.Helper()
	b := make([]byte, r.Len())
	if n, err := r.ReadAt(b, 0); n < len(b) {
		t.Fatalf("read region: %d of %d bytes: %v", n, len(b), err)
	}
	return split(t, b)
}

func split(t testing.TB, b []byte) []stored {
	t.Helper()
	var out []stored
	for len(b) > 0 {
		batch, rest, err := record.SplitBatch(b)
		if err == nil {
			err = batch.CheckCRC()
		}
		if err != nil {
			t.Fatalf("bytes are not whole batches: %v", err)
		}
		h := batch.Header()
		if len(out) > 0 && out[len(out)-1].next != h.BaseOffset {
			t.Fatalf("batch at %d follows one that ends at %d", h.BaseOffset, out[len(out)-1].next)
		}
		out = append(out, stored{h.BaseOffset, h.NextOffset(), string(batch)})
		b = rest
	}
	return out
}

// names lists the partition directory.
func names(t testing.TB, fs vfs.FS) []string {
	t.Helper()
	entries, err := fs.ReadDir(filepath.Join(logDir, tp.String()))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func has(t testing.TB, fs vfs.FS, name string) bool { return slices.Contains(names(t, fs), name) }

func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fs, path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, fs vfs.FS, path string, b []byte) {
	t.Helper()
	if err := vfs.ReplaceFile(fs, path, b); err != nil {
		t.Fatal(err)
	}
}

func inPartition(name string) string { return filepath.Join(logDir, tp.String(), name) }

func segmentName(base record.Offset, suffix string) string { return base.FileName() + suffix }

// drain reads a whole io.ReaderAt-like range.
func drain(t testing.TB, size int64, readAt func([]byte, int64) (int, error)) []byte {
	t.Helper()
	b := make([]byte, size)
	if n, err := readAt(b, 0); int64(n) != size || err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("read %d of %d bytes: %v", n, size, err)
	}
	return b
}

// batchOf is one batch of n records.
func batchOf(n int) []byte { return recordtest.Batch(0, recordtest.Count(n)) }
