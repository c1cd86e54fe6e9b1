// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"os"
	"path/filepath"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
)

// kafkaDir is a log directory that Kafka 4.3.1 wrote, with one partition.
const kafkaDir = "../record/testdata/kafka-4.3.1"

// copyDir puts a log directory of the disk into a Mem.
func copyDir(t testing.TB, from string) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	err := filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return mem.MkdirAll(filepath.Join(logDir, name), 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return vfs.ReplaceFile(mem, filepath.Join(logDir, name), b)
	})
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

func TestKafkasDirectoryOpensAsItIs(t *testing.T) {
	for name, clean := range map[string]bool{"after a clean stop": true, "after a crash": false} {
		t.Run(name, func(t *testing.T) {
			mem, kafka := copyDir(t, kafkaDir), record.TopicPartition{Topic: "golden", Partition: 0}
			if clean {
				writeFile(t, mem, logDir+"/.kafka_cleanshutdown", []byte(`{"version":0,"brokerEpoch":3}`))
			}
			s := openStore(t, mem)
			found := s.Found()
			if len(found) != 1 || found[0].TopicPartition != kafka || found[0].TopicID.IsZero() {
				t.Fatalf("found %+v", found)
			}
			l, err := s.OpenLog(t.Context(), kafka, found[0].TopicID, hot.LogOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if l.EndOffset() != 41 || len(l.Segments()) != 2 || l.DurableOffset() != 41 {
				t.Fatalf("log ends at %d with %d segments", l.EndOffset(), len(l.Segments()))
			}
			for at := l.StartOffset(); at < l.EndOffset(); {
				r, err := l.Read(at, l.EndOffset(), 1, true)
				if err != nil || r == nil {
					t.Fatalf("read at %d: %v", at, err)
				}
				b := drain(t, r.Len(), r.ReadAt)
				if err := record.Batch(b).CheckCRC(); err != nil {
					t.Fatal(err)
				}
				if r.Next() <= at {
					t.Fatalf("a read at %d goes on at %d", at, r.Next())
				}
				at = r.Next()
				r.Release()
			}
			if len(l.Epochs()) == 0 || l.MaxProducerID() < 0 {
				t.Fatalf("epochs %v, largest producer id %d", l.Epochs(), l.MaxProducerID())
			}
			last, _ := l.Epochs().Last()
			if _, err := l.Append(batchOf(3), last.Epoch+1); err != nil {
				t.Fatal(err)
			}
		})
	}
}
