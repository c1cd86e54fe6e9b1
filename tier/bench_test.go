// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"io"
	"testing"

	"firn/record"
)

// benchLogs is a history of 64 MiB in four segments, in batches of 16 KiB.
func benchLogs() (logs [][]byte, end record.Offset) {
	for range 4 {
		log := testLog(end, 1024, 16<<10)
		logs = append(logs, log)
		end = record.Batch(lastBatch(log)).Header().NextOffset()
	}
	return logs, end
}

// BenchmarkSequentialRead replays the history from a store that answers at
// once, so that what is measured is the reader: GET bookkeeping, CRCs, batch
// headers, and the copy that the test's store makes. Each turn has a reader of
// its own and finds nothing cached.
func BenchmarkSequentialRead(b *testing.B) {
	logs, end := benchLogs()
	g := newRig(b, ReaderOptions{}, logs...)
	b.SetBytes(int64(len(g.log)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := newReader(ReaderOptions{Store: g.bucket})
		if err != nil {
			b.Fatal(err)
		}
		for from := record.Offset(0); from < end; {
			d, err := r.read(context.Background(), g.chain, from, end, 1<<20, true)
			if err != nil {
				b.Fatal(err)
			}
			from = d.Next
			d.Release()
		}
		r.close()
	}
}

// BenchmarkCachedRead reads answers of 64 KiB from chunks in memory.
func BenchmarkCachedRead(b *testing.B) {
	log := testLog(0, 64, 16<<10)
	g := newRig(b, ReaderOptions{PrefetchBytes: -1}, log)
	g.read(b, 10, 64<<10)
	b.SetBytes(64 << 10)
	b.ReportAllocs()
	for b.Loop() {
		d, err := g.r.read(context.Background(), g.chain, 10, 1<<40, 64<<10, true)
		if err != nil {
			b.Fatal(err)
		}
		d.Release()
	}
}

// BenchmarkBuildObject is pass one over a segment of 16 MiB.
func BenchmarkBuildObject(b *testing.B) {
	seg := newMemSegment(testLog(0, 1024, 16<<10))
	b.SetBytes(seg.Size())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := BuildObject(context.Background(), seg, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSource is pass two, read as an HTTP client reads a body.
func BenchmarkSource(b *testing.B) {
	o := mustBuild(b, testLog(0, 1024, 16<<10))
	b.SetBytes(o.Size())
	b.ReportAllocs()
	buf := make([]byte, 32<<10)
	for b.Loop() {
		src := o.Source()
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.NewSectionReader(src, 0, src.Size()), buf); err != nil {
			b.Fatal(err)
		}
	}
}
