// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/hot"
	"firn/hot/inspect"
	"firn/internal/vfs"
	"firn/record"
)

// kafkaRecord is one record as Kafka served it, in testdata/kafka-4.3.1/*.json.
type kafkaRecord struct {
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"`
	Epoch     int32  `json:"epoch"`
	Key       string `json:"key"`
	ValueCRC  uint32 `json:"value_crc"`
	Control   bool   `json:"control"`
}

// kafkaRecords reads a log to its end, markers and aborted records included.
func kafkaRecords(t *testing.T, l *hot.Log) (out []kafkaRecord) {
	t.Helper()
	unpack := kgo.DefaultDecompressor()
	for at := l.StartOffset(); at < l.EndOffset(); {
		r, err := l.Read(at, l.EndOffset(), 700, true)
		if err != nil || r == nil {
			t.Fatalf("read at %d: %v", at, err)
		}
		p := kmsg.NewFetchResponseTopicPartition()
		p.RecordBatches = drain(t, r.Len(), r.ReadAt)
		got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: int64(at)}, &p, unpack, nil)
		if got.Err != nil {
			t.Fatalf("read at %d: %v", at, got.Err)
		}
		for _, r := range got.Records {
			k := kafkaRecord{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Epoch: r.LeaderEpoch, Control: r.Attrs.IsControl()}
			if !k.Control {
				k.Key, k.ValueCRC = string(r.Key), record.CRC32C(r.Value)
			}
			out = append(out, k)
		}
		at = r.Next()
		r.Release()
	}
	return out
}

// inspected answers what hot/inspect finds wrong with the log directory.
func inspected(t *testing.T, mem *vfs.Mem) (faults []string) {
	t.Helper()
	unpack := kgo.DefaultDecompressor()
	o := inspect.Options{FS: mem, Decompress: func(codec record.Codec, b []byte) ([]byte, error) {
		return unpack.Decompress(b, kgo.CompressionCodecType(codec))
	}}
	_, err := inspect.Verify(t.Context(), logDir, o, func(f inspect.Finding) error {
		if f.Fault {
			faults = append(faults, f.File+": "+f.Reason)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

// TestGoOnWhereKafkaStopped opens what a Kafka broker has left, after a clean
// stop and after kill -9: several segments, all codecs, idempotent and plain
// producers, transactions, a compacted topic, several leader epochs. It reads
// what Kafka served, appends, and finds all of it again; nothing of it is a
// fault.
func TestGoOnWhereKafkaStopped(t *testing.T) {
	for _, name := range []string{"clean", "killed"} {
		mem := copyDir(t, filepath.Join("testdata", "kafka-4.3.1", name))
		if faults := inspected(t, mem); len(faults) > 0 {
			t.Errorf("%s, as Kafka left it: %q", name, faults)
		}
		var want map[string][]kafkaRecord
		b, err := os.ReadFile(filepath.Join("testdata", "kafka-4.3.1", name+".json"))
		if err == nil {
			err = json.Unmarshal(b, &want)
		}
		if err != nil || len(want) != 3 {
			t.Fatalf("%d topics, %v", len(want), err)
		}
		s := openStore(t, mem)
		if s.Clean() != (name == "clean") || len(s.Found()) != len(want) {
			t.Fatalf("%s: clean %v, found %+v", name, s.Clean(), s.Found())
		}
		for _, found := range s.Found() {
			t.Run(name+"/"+found.TopicPartition.Topic, func(t *testing.T) {
				goOn(t, s, found, want[found.TopicPartition.Topic])
			})
		}
		closeStore(t, s)
		if faults := inspected(t, mem); len(faults) > 0 {
			t.Errorf("%s, as Firn left it: %q", name, faults)
		}
		if c := string(readFile(t, mem, logDir+"/recovery-point-offset-checkpoint")); !strings.Contains(c, "\n__transaction_state 0 ") {
			t.Errorf("%s: what Kafka said of a partition that was not opened is gone: %q", name, c)
		}
	}
}

// goOn reads and extends one log that Kafka has left.
func goOn(t *testing.T, s *hot.Store, found hot.FoundLog, want []kafkaRecord) {
	l, err := s.OpenLog(t.Context(), found.TopicPartition, found.TopicID, smallSegments())
	if err != nil {
		t.Fatal(err)
	}
	if got := kafkaRecords(t, l); !slices.Equal(got, want) || len(got) == 0 {
		t.Fatalf("%d records, Kafka served %d", len(got), len(want))
	}
	end, epochs := l.EndOffset(), l.Epochs()
	if len(l.Segments()) < 2 || len(epochs) == 0 || l.MaxProducerID() < 0 {
		t.Errorf("%d segments, epochs %v, largest producer id %d", len(l.Segments()), epochs, l.MaxProducerID())
	}
	last, _ := epochs.Last()
	segments := len(l.Segments())
	for len(l.Segments()) < segments+2 {
		if _, err := l.Append(batchOf(3), last.Epoch+1); err != nil {
			t.Fatal(err)
		}
	}
	got := kafkaRecords(t, l)
	if !slices.Equal(got[:len(want)], want) || got[len(want)].Offset != int64(end) || got[len(got)-1].Offset != int64(l.EndOffset())-1 {
		t.Errorf("%d records after the appends, %d before", len(got), len(want))
	}
	// Kafka's last epoch may have begun at the end and have no record.
	if e := l.Epochs(); e.For(end) != last.Epoch+1 || e.For(end-1) != epochs.For(end-1) {
		t.Errorf("epochs %v, want %d from offset %d", e, last.Epoch+1, end)
	}
}
