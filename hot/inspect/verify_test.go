// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"firn/hot/inspect"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

func TestVerifyFindsNothingInWhatWasWritten(t *testing.T) {
	mem, bases := written(t)
	lines, sum := verify(t, options(t, mem))
	if len(lines) != 0 {
		t.Errorf("%q", lines)
	}
	if sum.Partitions != 1 || sum.Segments != len(bases) || sum.Batches != 30 || sum.Records != 90 || sum.Bytes == 0 {
		t.Errorf("%+v", sum)
	}
}

func TestVerifyOfOnePartitionAlone(t *testing.T) {
	mem, _ := written(t)
	writeFile(t, mem, fileAt(0, ".index"), nil)
	found := 0
	_, err := inspect.Verify(t.Context(), inDir(""), options(t, mem), func(inspect.Finding) error { found++; return nil })
	if err != nil || found != 0 {
		t.Errorf("%d findings, %v: an index without entries is one that was never due", found, err)
	}
}

// TestVerifyAfterPowerCuts: what was not synced is gone, and what is left is no
// fault of the log.
func TestVerifyAfterPowerCuts(t *testing.T) {
	for n := range 12 {
		mem := vfs.NewMem()
		s, l := opened(t, mem)
		appended(t, l)
		if err := l.WaitDurable(t.Context(), l.EndOffset()); err != nil {
			t.Fatal(err)
		}
		appendedMore := recordtest.Batch(0, recordtest.Count(2))
		if _, err := l.Append(appendedMore, 5); err != nil {
			t.Fatal(err)
		}
		crashed := mem.CrashKeeping(uint64(n))
		lines, _ := verify(t, options(t, crashed))
		for _, line := range lines {
			if strings.HasPrefix(line, "fault") {
				t.Errorf("crash %d: %s", n, line)
			}
		}
		_ = s.Close(context.WithoutCancel(t.Context()))
	}
}

func TestVerifyWhileInUse(t *testing.T) {
	mem := vfs.NewMem()
	_, l := opened(t, mem)
	appended(t, l)
	o := options(t, mem)
	o.InUse = true
	// The epochs may not be written yet, which is worth a note and no fault.
	if lines, sum := verify(t, o); sum.Faults != 0 || sum.Batches != 30 {
		t.Errorf("%+v: %q", sum, lines)
	}
}

// damage is one way to spoil the directory, and the one fault that it is.
type damage struct {
	name string
	do   func(t *testing.T, mem *vfs.Mem, bases []record.Offset)
	want string // how the only line begins
}

// edit changes a file.
func edit(t *testing.T, mem *vfs.Mem, path string, change func(b []byte) []byte) {
	t.Helper()
	writeFile(t, mem, path, change(readFile(t, mem, path)))
}

// flip changes one byte.
func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		if at < 0 {
			at += len(b)
		}
		b[at] ^= 0x5a
		return b
	}
}

// second is the position of the second batch of a .log file.
func second(b []byte) int { return record.Batch(b).Header().Size() }

func damages(bases []record.Offset) []damage {
	first, middle, last := bases[0], bases[1], bases[len(bases)-1]
	name := func(base record.Offset, suffix string) string { return base.FileName() + suffix }
	on := func(path string, change func(b []byte) []byte) func(*testing.T, *vfs.Mem, []record.Offset) {
		return func(t *testing.T, mem *vfs.Mem, _ []record.Offset) { edit(t, mem, path, change) }
	}
	remove := func(path string) func(*testing.T, *vfs.Mem, []record.Offset) {
		return func(t *testing.T, mem *vfs.Mem, _ []record.Offset) {
			if err := mem.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	return []damage{
		{"a byte of a record", on(fileAt(first, ".log"), flip(100)), "fault " + name(first, ".log") + ":0 CRC-32C is"},
		{"the last byte of the log", on(fileAt(last, ".log"), flip(-1)), "fault " + name(last, ".log") + ":"},
		{"bytes behind the log", on(fileAt(last, ".log"), func(b []byte) []byte { return append(b, "behind the end"...) }),
			"fault " + name(last, ".log") + ":"},
		{"a base offset", on(fileAt(first, ".log"), func(b []byte) []byte {
			binary.BigEndian.PutUint64(b, 1)
			return b
		}), "fault " + name(first, ".log") + ":0 the batch starts at offset 1, the one before it ends at 0: 1 offsets are missing"},
		{"an offset twice", on(fileAt(first, ".log"), func(b []byte) []byte {
			binary.BigEndian.PutUint64(b[second(b):], 1)
			return b
		}), "fault " + name(first, ".log") + ":"},
		{"an epoch that falls", on(fileAt(last, ".log"), func(b []byte) []byte {
			record.Batch(b[second(b):]).SetLeaderEpoch(0)
			return b
		}), "fault " + name(last, ".log") + ":"},
		{"an index position", on(fileAt(first, ".index"), func(b []byte) []byte { b[7]++; return b }), "fault " + name(first, ".index") + ":0 no batch begins"},
		{"an index offset", on(fileAt(first, ".index"), func(b []byte) []byte { b[3]--; return b }), "fault " + name(first, ".index") + ":0 the batch at position"},
		{"a cut index", on(fileAt(middle, ".index"), func(b []byte) []byte { return b[:len(b)-3] }), "fault " + name(middle, ".index") + ":"},
		{"a time", on(fileAt(first, ".timeindex"), func(b []byte) []byte { b[7]--; return b }), "fault " + name(first, ".timeindex") + ":0 the highest timestamp"},
		{"the last time", on(fileAt(first, ".timeindex"), func(b []byte) []byte { return b[:len(b)-12] }), "fault " + name(first, ".timeindex") + ":"},
		{"a snapshot's CRC", on(fileAt(middle, ".snapshot"), flip(3)), "fault " + name(middle, ".snapshot") + ":2 CRC-32C"},
		{"a producer's sequence", on(fileAt(middle, ".snapshot"), func(b []byte) []byte {
			b[10+13]++
			binary.BigEndian.PutUint32(b[2:], record.CRC32C(b[6:]))
			return b
		}), "fault " + name(middle, ".snapshot") + ":0 producer 40 is said to be at"},
		{"no index", remove(fileAt(first, ".index")), "fault " + name(first, ".index") + ":0 there is no such file"},
		{"no epochs", on(inDir("leader-epoch-checkpoint"), func([]byte) []byte { return []byte("0\n1\n0 0\n") }), "fault leader-epoch-checkpoint:0 it says epoch 0 for offset"},
		{"damaged epochs", on(inDir("leader-epoch-checkpoint"), func(b []byte) []byte { return b[:len(b)-1] }), "fault leader-epoch-checkpoint:"},
		{"epochs of a later version", on(inDir("leader-epoch-checkpoint"), func(b []byte) []byte { b[0] = '7'; return b }), "fault leader-epoch-checkpoint:0 unsupported format version"},
		{"no metadata", remove(inDir("partition.metadata")), "fault partition.metadata:0 there is no such file"},
		{"damaged metadata", on(inDir("partition.metadata"), func([]byte) []byte { return []byte("version: 0\ntopic_id: x") }), "fault partition.metadata:11"},
		{"a transaction that is not there", func(t *testing.T, mem *vfs.Mem, _ []record.Offset) {
			writeFile(t, mem, fileAt(first, ".txnindex"), record.AppendAbortedTxn(nil, record.AbortedTxn{ProducerID: 4, LastOffset: 2, LastStableOffset: 1}))
		}, "fault " + name(first, ".txnindex") + ":0 no abort marker of producer 4 is at offset 2"},
		{"an index without a segment", func(t *testing.T, mem *vfs.Mem, _ []record.Offset) {
			writeFile(t, mem, inDir(name(7, ".index")), nil)
		}, "fault " + name(7, ".index") + ":0 there is no segment at offset 7"},
		{"a name that is no offset", func(t *testing.T, mem *vfs.Mem, _ []record.Offset) {
			writeFile(t, mem, inDir("17.log"), nil)
		}, "fault 17.log:0 the name is not an offset"},
		{"a checkpoint beyond the end", on(logDir+"/recovery-point-offset-checkpoint", func([]byte) []byte { return []byte("0\n1\norders 3 900\n") }),
			"fault recovery-point-offset-checkpoint:0 orders-3 was synced up to offset 900, its log ends at 90"},
		{"a damaged checkpoint", on(logDir+"/recovery-point-offset-checkpoint", func(b []byte) []byte { return append(b, "x"...) }), "fault recovery-point-offset-checkpoint:"},
		{"a log start beyond the end", func(t *testing.T, mem *vfs.Mem, _ []record.Offset) {
			writeFile(t, mem, logDir+"/log-start-offset-checkpoint", []byte("0\n1\norders 3 91\n"))
		}, "fault log-start-offset-checkpoint:0 orders-3 starts at offset 91, its log ends at 90"},
	}
}

// TestVerifyNamesEachFault spoils one thing at a time in a directory that was
// stopped clean, and wants that told and nothing else.
func TestVerifyNamesEachFault(t *testing.T) {
	_, bases := written(t)
	for _, d := range damages(bases) {
		t.Run(d.name, func(t *testing.T) {
			mem, bases := written(t)
			d.do(t, mem, bases)
			lines, _ := verify(t, options(t, mem))
			if len(lines) == 0 || !strings.HasPrefix(lines[0], d.want) {
				t.Fatalf("got %q, want %q", lines, d.want)
			}
			for _, line := range lines[1:] {
				if !strings.Contains(line, strings.Fields(d.want)[1][:10]) {
					t.Errorf("beside it: %s", line)
				}
			}
		})
	}
}

// TestVerifyGoesOnAfterDamage: a header that is gone costs the batches up to
// the next index entry, and both places are told (I3).
func TestVerifyGoesOnAfterDamage(t *testing.T) {
	mem, bases := written(t)
	at := 0
	edit(t, mem, fileAt(0, ".log"), func(b []byte) []byte {
		at = second(b)
		binary.BigEndian.PutUint32(b[at+8:], 1<<30) // the length
		b[len(b)-1] ^= 1
		return b
	})
	lines, sum := verify(t, options(t, mem))
	if len(lines) != 2 || !strings.HasPrefix(lines[0], fmt.Sprintf("fault %s.log:%d ", bases[0].FileName(), at)) || !strings.Contains(lines[1], "CRC-32C") {
		t.Errorf("%q", lines)
	}
	if sum.Batches < 28 {
		t.Errorf("%d batches of 30 were looked at", sum.Batches)
	}
}

func TestVerifyTakesUnfinishedWorkForNone(t *testing.T) {
	mem, bases := written(t)
	if err := mem.Remove(logDir + "/.kafka_cleanshutdown"); err != nil {
		t.Fatal(err)
	}
	last := bases[len(bases)-1]
	whole := readFile(t, mem, fileAt(last, ".log"))
	writeFile(t, mem, logDir+"/recovery-point-offset-checkpoint", fmt.Appendf(nil, "0\n1\norders 3 %d\n", last))
	for name, tail := range map[string][]byte{
		"a batch cut short":     whole[:second(whole)-1],
		"a header cut short":    whole[:20],
		"zeros":                 make([]byte, 5000),
		"preallocated indexes":  nil,
		"indexes never written": nil,
	} {
		t.Run(name, func(t *testing.T) {
			mem := mem.Crash()
			writeFile(t, mem, fileAt(last, ".log"), append(slices.Clone(whole), tail...))
			switch name {
			case "preallocated indexes":
				edit(t, mem, fileAt(last, ".index"), func(b []byte) []byte { return append(b, make([]byte, 800)...) })
				edit(t, mem, fileAt(last, ".timeindex"), func(b []byte) []byte { return append(b, make([]byte, 1200)...) })
			case "indexes never written":
				if err := errors.Join(mem.Remove(fileAt(last, ".index")), mem.Remove(fileAt(last, ".timeindex"))); err != nil {
					t.Fatal(err)
				}
			}
			lines, sum := verify(t, options(t, mem))
			if sum.Faults != 0 || sum.Notes == 0 && name != "indexes never written" {
				t.Errorf("%q", lines)
			}
		})
	}
}

// TestVerifyKafkasDirectory: Kafka's own log, with transactions in it, has no
// fault; the checkpoint names a partition that is not there.
func TestVerifyKafkasDirectory(t *testing.T) {
	mem := copyDir(t, "../../record/testdata/kafka-4.3.1")
	lines, sum := verify(t, options(t, mem))
	if len(lines) != 1 || !strings.Contains(lines[0], "partition a.b_c-d-12, which it names, is not there") {
		t.Errorf("%q", lines)
	}
	if sum.Batches != 17 || sum.Records != 41 {
		t.Errorf("%+v", sum)
	}
}

// TestVerifyHoldsTransactionsAgainstTheirIndex spoils Kafka's transaction index.
func TestVerifyHoldsTransactionsAgainstTheirIndex(t *testing.T) {
	const path = logDir + "/golden-0/00000000000000000000.txnindex"
	for want, txn := range map[string]*record.AbortedTxn{
		"it does not have the transaction of producer 8 that was aborted at offset 39":  nil,
		"the marker at offset 39 is of producer 8, the entry says 9":                    {ProducerID: 9, FirstOffset: 37, LastOffset: 39, LastStableOffset: 38},
		"the transaction that was aborted at offset 39 begins at 37, the entry says 36": {ProducerID: 8, FirstOffset: 36, LastOffset: 39, LastStableOffset: 38},
		"no abort marker of producer 8 is at offset 38":                                 {ProducerID: 8, FirstOffset: 37, LastOffset: 38, LastStableOffset: 38},
		"the last stable offset 41 lies above the marker at 39":                         {ProducerID: 8, FirstOffset: 37, LastOffset: 39, LastStableOffset: 41},
		"aborted transaction from offset 40 to 39":                                      {ProducerID: 8, FirstOffset: 40, LastOffset: 39, LastStableOffset: 38},
	} {
		mem := copyDir(t, "../../record/testdata/kafka-4.3.1")
		writeFile(t, mem, logDir+"/.kafka_cleanshutdown", []byte("{}"))
		var b []byte
		if txn != nil {
			b = record.AppendAbortedTxn(nil, *txn)
		}
		writeFile(t, mem, path, b)
		lines, _ := verify(t, options(t, mem))
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "fault") && strings.Contains(l, want) }) {
			t.Errorf("want %q, got %q", want, lines)
		}
	}
}

func TestVerifyFindsABatchTwice(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll(inDir(""), 0o755); err != nil {
		t.Fatal(err)
	}
	b := recordtest.Log(0, 2, recordtest.Count(3), recordtest.Producer(9, 0, 0), recordtest.LeaderEpoch(0))
	again := recordtest.Batch(6, recordtest.Count(3), recordtest.Producer(9, 0, 0), recordtest.LeaderEpoch(0))
	writeFile(t, mem, fileAt(0, ".log"), append(b, again...))
	writeFile(t, mem, inDir("leader-epoch-checkpoint"), []byte("0\n1\n0 0\n"))
	writeFile(t, mem, inDir("partition.metadata"), record.PartitionMetadata{TopicID: topicID}.Marshal())
	lines, _ := verify(t, options(t, mem))
	want := fmt.Sprintf("fault %s.log:%d producer 9's sequence numbers 0 to 2, at offset 6, are at offset 0 already", record.Offset(0).FileName(), len(b))
	if !slices.Equal(lines, []string{want}) {
		t.Errorf("got %q, want %q", lines, want)
	}
}

func TestVerifyAllowsGapsWhereCompactionWas(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll(inDir(""), 0o755); err != nil {
		t.Fatal(err)
	}
	b := append(recordtest.Batch(2, recordtest.Count(1)), recordtest.Batch(5, recordtest.Count(1), recordtest.LastOffsetDelta(3))...)
	writeFile(t, mem, fileAt(0, ".log"), b)
	writeFile(t, mem, inDir("partition.metadata"), record.PartitionMetadata{TopicID: topicID}.Marshal())
	o := options(t, mem)
	if lines, _ := verify(t, o); len(lines) != 3 {
		t.Errorf("gaps without compaction: %q", lines)
	}
	o.Gaps = true
	if lines, _ := verify(t, o); len(lines) != 0 {
		t.Errorf("gaps that are allowed: %q", lines)
	}
	o.Gaps = false
	writeFile(t, mem, logDir+"/cleaner-offset-checkpoint", []byte("0\n1\norders 3 9\n"))
	if lines, _ := verify(t, o); len(lines) != 0 {
		t.Errorf("gaps that Kafka's compaction has left: %q", lines)
	}
}

func TestVerifyOfNothing(t *testing.T) {
	_, err := inspect.Verify(t.Context(), "/nowhere", inspect.Options{FS: vfs.NewMem()}, func(inspect.Finding) error { return nil })
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mem, _ := written(t)
	if _, err := inspect.Verify(ctx, logDir, options(t, mem), func(inspect.Finding) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
