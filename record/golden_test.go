// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"firn/record"
	"firn/record/recordtest"
)

// The files in testdata/kafka-4.3.1 were written by Apache Kafka 4.3.1: the
// directory of one partition after a clean stop and two checkpoints of its log
// directory. testdata/README.md says what was appended.

var update = flag.Bool("update", false, "write testdata/firn anew")

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func kafka(t *testing.T, name string) []byte { return read(t, "kafka-4.3.1", "golden-0", name) }

// eachBatch goes through a .log file.
func eachBatch(t *testing.T, log []byte, visit func(b record.Batch, h record.Header, position int)) {
	t.Helper()
	for rest := log; len(rest) > 0; {
		b, after, err := record.SplitBatch(rest)
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil {
			t.Fatal(err)
		}
		visit(b, b.Header(), len(log)-len(rest))
		rest = after
	}
}

func TestKafkasLog(t *testing.T) {
	next, batches := record.Offset(0), 0
	eachBatch(t, kafka(t, "00000000000000000000.log"), func(b record.Batch, h record.Header, _ int) {
		if h.BaseOffset != next {
			t.Fatalf("batch at %d, want %d", h.BaseOffset, next)
		}
		section := b.Section()
		if h.Codec() == record.CodecGzip {
			z, err := gzip.NewReader(bytes.NewReader(section))
			if err == nil {
				section, err = io.ReadAll(z)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		highest := int64(math.MinInt64)
		for r, err := range h.Records(section) {
			if err != nil {
				t.Fatal(err)
			}
			highest = max(highest, h.RecordTimestamp(r))
		}
		if highest != h.MaxTimestamp {
			t.Errorf("batch at %d: highest timestamp %d, the header says %d", h.BaseOffset, highest, h.MaxTimestamp)
		}
		next, batches = h.NextOffset(), batches+1
	})
	if next != 40 || batches != 16 {
		t.Errorf("%d batches up to offset %d", batches, next)
	}
}

// TestKafkasIndexes builds both indexes from the log by Kafka's rule, with its
// index.interval.bytes of 100, and compares the bytes.
func TestKafkasIndexes(t *testing.T) {
	log := kafka(t, "00000000000000000000.log")
	var offsets, times []byte
	since := 0
	highest, lastWritten := record.TimeIndexEntry{Timestamp: -1}, int64(-1)
	writeTime := func() {
		if highest.Timestamp > lastWritten {
			times = record.AppendTimeIndexEntry(times, 0, highest)
			lastWritten = highest.Timestamp
		}
	}
	eachBatch(t, log, func(b record.Batch, h record.Header, position int) {
		if h.MaxTimestamp > highest.Timestamp {
			highest = record.TimeIndexEntry{Timestamp: h.MaxTimestamp, Offset: h.LastOffset()}
		}
		if since > 100 {
			offsets = record.AppendIndexEntry(offsets, 0, record.IndexEntry{Offset: h.LastOffset(), Position: int32(position)})
			writeTime()
			since = 0
		}
		since += len(b)
	})
	writeTime() // when the segment rolls
	if got := kafka(t, "00000000000000000000.index"); !bytes.Equal(got, offsets) {
		t.Errorf("offset index\n got %x\nwant %x", offsets, got)
	}
	if got := kafka(t, "00000000000000000000.timeindex"); !bytes.Equal(got, times) {
		t.Errorf("time index\n got %x\nwant %x", times, got)
	}
	if err := record.CheckIndex(offsets, 0, int64(len(log))); err != nil {
		t.Error(err)
	}
	if err := record.CheckTimeIndex(times, 0, 40); err != nil {
		t.Error(err)
	}
	if err := record.CheckTimeIndex(kafka(t, "00000000000000000040.timeindex"), 40, 41); err != nil {
		t.Error(err)
	}
}

func TestKafkasTxnIndex(t *testing.T) {
	b := kafka(t, "00000000000000000000.txnindex")
	txns, err := record.ParseTxnIndex(b, 0)
	// The last stable offset is where the transaction of producer 9 began.
	want := record.AbortedTxn{ProducerID: 8, FirstOffset: 37, LastOffset: 39, LastStableOffset: 38}
	if err != nil || len(txns) != 1 || txns[0] != want {
		t.Fatalf("got %+v, %v", txns, err)
	}
	if again := record.AppendAbortedTxn(nil, want); !bytes.Equal(again, b) {
		t.Errorf("written back as %x, want %x", again, b)
	}
}

func TestKafkasSnapshots(t *testing.T) {
	for name, end := range map[string]record.Offset{"00000000000000000040.snapshot": 40, "00000000000000000041.snapshot": 41} {
		b := kafka(t, name)
		p, err := record.ParseProducers(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Marshal(end); !bytes.Equal(got, b) {
			t.Errorf("%s is written back as\n%x, want\n%x", name, got, b)
		}
	}
}

// TestRebuildGivesKafkasSnapshot applies the log and compares with the
// snapshot and the transaction index that Kafka left at its end.
func TestRebuildGivesKafkasSnapshot(t *testing.T) {
	p := record.NewProducers()
	var index []byte
	eachBatch(t, kafka(t, "00000000000000000000.log"), func(b record.Batch, h record.Header, _ int) {
		if !h.IsControl() {
			p.Apply(h)
			return
		}
		m, err := h.Marker(b.Section())
		if err != nil {
			t.Fatalf("marker at %d: %v", h.BaseOffset, err)
		}
		if got := recordtest.Marker(h.BaseOffset, h.ProducerID, h.ProducerEpoch, m, recordtest.Timestamp(h.BaseTimestamp),
			recordtest.LeaderEpoch(h.LeaderEpoch)); !bytes.Equal(got, b) {
			t.Errorf("marker at %d is made as\n%x, Kafka has\n%x", h.BaseOffset, got, b)
		}
		if ended, ok := p.ApplyMarker(h, m); ok && ended.Abort {
			index = record.AppendAbortedTxn(index, ended.AbortedTxn)
		}
	})
	want := kafka(t, "00000000000000000040.snapshot")
	if got := p.Marshal(40); !bytes.Equal(got, want) {
		t.Errorf("rebuilt\n%x, Kafka has\n%x", got, want)
	}
	if want := kafka(t, "00000000000000000000.txnindex"); !bytes.Equal(index, want) {
		t.Errorf("transaction index\n%x, Kafka has\n%x", index, want)
	}
	h := batch(0, 7, 1, 33, 3) // its last batch, sent again
	if v, err := p.Check(h, 0); err != nil || v != (record.Verdict{Duplicate: true, Base: 33, Next: 36}) {
		t.Errorf("the last batch again: %+v, %v", v, err)
	}
}

func TestKafkasTextFiles(t *testing.T) {
	b := kafka(t, "leader-epoch-checkpoint")
	es, err := record.ParseEpochs(b)
	if err != nil || !slices.Equal(es, record.Epochs{{Epoch: 3, StartOffset: 0}, {Epoch: 5, StartOffset: 36}}) || !bytes.Equal(es.Marshal(), b) {
		t.Errorf("epochs %v, %v", es, err)
	}
	b = kafka(t, "partition.metadata")
	m, err := record.ParsePartitionMetadata(b)
	if err != nil || m.TopicID != (record.TopicID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}) || !bytes.Equal(m.Marshal(), b) {
		t.Errorf("partition metadata %v, %v", m, err)
	}
	c, err := record.ParseOffsetCheckpoint(read(t, "kafka-4.3.1", "recovery-point-offset-checkpoint"))
	want := record.OffsetCheckpoint{{Topic: "golden", Partition: 0}: 41, {Topic: "a.b_c-d", Partition: 12}: 9007199254740993}
	if err != nil || !maps.Equal(c, want) {
		t.Errorf("checkpoint %v, %v", c, err)
	}
	b = read(t, "kafka-4.3.1", "log-start-offset-checkpoint")
	if c, err := record.ParseOffsetCheckpoint(b); err != nil || len(c) != 0 || !bytes.Equal(c.Marshal(), b) {
		t.Errorf("empty checkpoint %v, %v", c, err)
	}
}

// TestFirnsOwnFiles pins what we write where Kafka's order is not fixed.
func TestFirnsOwnFiles(t *testing.T) {
	p := record.NewProducers()
	for i, id := range []int64{300, 2, 4000000000} {
		p.Apply(batch(record.Offset(10*i), id, int16(i), int32(7*i), 3))
	}
	files := map[string][]byte{
		"00000000000000000023.snapshot": p.Marshal(23),
		"recovery-point-offset-checkpoint": record.OffsetCheckpoint{
			{Topic: "b", Partition: 0}: 5, {Topic: "a", Partition: 10}: 6, {Topic: "a", Partition: 9}: 7,
		}.Marshal(),
	}
	for name, content := range files {
		path := filepath.Join("testdata", "firn", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want := read(t, "firn", name); !bytes.Equal(content, want) {
			t.Errorf("%s:\n got %x\nwant %x", name, content, want)
		}
	}
}
