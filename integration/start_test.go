// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/internal/testutil"
	"firn/record"
	"firn/record/recordtest"
)

// What a clean stop leaves of many partitions: three sealed segments and an
// active one of each, 100 MiB together, nearly all of it holes.
const (
	manyPartitions = 1000
	sealedBytes    = 32 << 20
	activeBytes    = 4 << 20
)

// manyStopped is a broker that was stopped clean over 1,000 partitions of
// 100 MiB each.
func manyStopped(tb testing.TB) *testutil.Broker {
	tb.Helper()
	b := testutil.StartBroker(tb, nil)
	createTopic(tb, b, "many", manyPartitions)
	if e := b.Stop(); e.Code != 0 {
		tb.Fatalf("exit code %d", e.Code)
	}
	points := fmt.Appendf(nil, "0\n%d\n", manyPartitions)
	for p := range manyPartitions {
		dir := filepath.Join(b.DataDir, fmt.Sprintf("many-%d", p))
		for _, kind := range []string{"log", "index", "timeindex", "snapshot"} {
			old, err := filepath.Glob(filepath.Join(dir, "*."+kind))
			if err != nil {
				tb.Fatal(err)
			}
			for _, path := range old {
				if err := os.Remove(path); err != nil {
					tb.Fatal(err)
				}
			}
		}
		next := record.Offset(0)
		for _, size := range []int64{sealedBytes, sealedBytes, sealedBytes, activeBytes} {
			next = sparseSegment(tb, dir, next, size)
		}
		writeData(tb, dir, "leader-epoch-checkpoint", []byte("0\n1\n1 0\n"))
		points = fmt.Appendf(points, "many %d %d\n", p, next)
	}
	writeData(tb, b.DataDir, "recovery-point-offset-checkpoint", points)
	// A start and a stop, after which the broker has written down what is there.
	b.Start()
	if e := b.Stop(); e.Code != 0 {
		tb.Fatalf("exit code %d", e.Code)
	}
	return b
}

func writeData(tb testing.TB, dir, name string, content []byte) {
	tb.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
		tb.Fatal(err)
	}
}

// sparseSegment makes a segment of two batches with its indexes and the
// snapshot at its end. The first batch is a hole behind its header.
func sparseSegment(tb testing.TB, dir string, base record.Offset, size int64) (next record.Offset) {
	tb.Helper()
	head, tail := recordtest.Batch(base, recordtest.ValueSize(1, 100)), recordtest.Batch(base+1, recordtest.ValueSize(1, 100))
	at := size - int64(len(tail))
	binary.BigEndian.PutUint32(head[8:], uint32(at-12))
	f, err := os.Create(filepath.Join(dir, base.FileName()+".log"))
	if err != nil {
		tb.Fatal(err)
	}
	_, errHead := f.WriteAt(head, 0)
	_, errTail := f.WriteAt(tail, at)
	if err := errors.Join(errHead, errTail, f.Close()); err != nil {
		tb.Fatal(err)
	}
	writeData(tb, dir, base.FileName()+".index", record.AppendIndexEntry(nil, base, record.IndexEntry{Offset: base + 1, Position: int32(at)}))
	writeData(tb, dir, base.FileName()+".timeindex",
		record.AppendTimeIndexEntry(nil, base, record.TimeIndexEntry{Timestamp: recordtest.DefaultTimestamp, Offset: base}))
	next = base + 2
	writeData(tb, dir, next.FileName()+".snapshot", record.NewProducers().Marshal(next))
	return next
}

// firstMetadata starts the broker and tells how long it took from then to its
// first Metadata answer, of so many bytes.
func firstMetadata(tb testing.TB, b *testutil.Broker) (took time.Duration, size int) {
	tb.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
	began := time.Now()
	b.Launch()
	for time.Since(began) < patience {
		nc, err := net.Dial("tcp", b.Addr)
		if err != nil {
			time.Sleep(500 * time.Microsecond)
			continue
		}
		defer nc.Close()
		if err := nc.SetDeadline(began.Add(patience)); err != nil {
			tb.Fatal(err)
		}
		if _, err := nc.Write(frame); err != nil {
			tb.Fatal(err)
		}
		var head [4]byte
		if _, err := io.ReadFull(nc, head[:]); err != nil {
			tb.Fatal(err)
		}
		n, err := io.CopyN(io.Discard, nc, int64(binary.BigEndian.Uint32(head[:])))
		if err != nil {
			tb.Fatal(err)
		}
		return time.Since(began), int(n)
	}
	tb.Fatal("the broker does not listen")
	return 0, 0
}

// A clean start over 1,000 partitions with 100 GiB has all of them, by what the
// stop wrote down and without recovering any. How long it takes is for
// BenchmarkStart to say.
func TestStartWithManyPartitions(t *testing.T) {
	b := manyStopped(t)
	took, size := firstMetadata(t, b)
	t.Logf("first Metadata after %v", took)
	if size < manyPartitions*20 {
		t.Errorf("the first Metadata has %d bytes", size)
	}
	for _, event := range []string{"log_recovered", "log_not_trusted", "log_repaired"} {
		if strings.Contains(b.Logs(), event) {
			t.Errorf("the broker says %s", event)
		}
	}
	ends, err := kadm.NewClient(b.Client()).ListEndOffsets(t.Context(), "many")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ends.Each(func(o kadm.ListedOffset) {
		n++
		if o.Err != nil || o.Offset != 8 {
			t.Errorf("partition %d ends at %d, %v", o.Partition, o.Offset, o.Err)
		}
	})
	if n != manyPartitions {
		t.Errorf("%d partitions", n)
	}
}

// BenchmarkStart is the time from the start of the process to the first
// Metadata answer, after a clean stop, with the page cache warm.
func BenchmarkStart(b *testing.B) {
	broker := manyStopped(b)
	var total time.Duration
	n := 0
	for b.Loop() {
		took, _ := firstMetadata(b, broker)
		total += took
		n++
		b.StopTimer()
		broker.Stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(total.Microseconds())/1000/float64(n), "ms/start")
}
