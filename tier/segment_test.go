// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"sync/atomic"
	"testing"

	"firn/record"
	"firn/record/recordtest"
)

// memSegment is a sealed segment in memory.
type memSegment struct {
	base, next record.Offset
	log        []byte
	snapshot   []byte
	epochs     record.Epochs
	aborted    []record.AbortedTxn
	reads      atomic.Int64 // bytes
	failRead   error
	// failAborted is what is wrong with the transaction index.
	failAborted error
}

func (s *memSegment) BaseOffset() record.Offset         { return s.base }
func (s *memSegment) NextOffset() record.Offset         { return s.next }
func (s *memSegment) Size() int64                       { return int64(len(s.log)) }
func (s *memSegment) Pin() error                        { return nil }
func (s *memSegment) Unpin()                            {}
func (s *memSegment) ProducerSnapshot() ([]byte, error) { return s.snapshot, nil }
func (s *memSegment) Epochs() record.Epochs             { return s.epochs }

func (s *memSegment) AbortedTxns() ([]record.AbortedTxn, error) { return s.aborted, s.failAborted }

func (s *memSegment) ReadUncachedAt(p []byte, off int64) (int, error) {
	if s.failRead != nil {
		return 0, s.failRead
	}
	n, err := bytes.NewReader(s.log).ReadAt(p, off)
	s.reads.Add(int64(n))
	return n, err
}

// newMemSegment makes a segment of the log's batches, with the state that
// belongs to it.
func newMemSegment(log []byte) *memSegment {
	s := &memSegment{log: log}
	producers := record.NewProducers()
	for rest, first := log, true; len(rest) > 0; first = false {
		b, after, err := record.SplitBatch(rest)
		if err != nil {
			panic(err)
		}
		h := b.Header()
		if first {
			s.base = h.BaseOffset
			s.epochs = record.Epochs{{Epoch: max(h.LeaderEpoch, 0), StartOffset: h.BaseOffset}}
		}
		s.next = h.NextOffset()
		if h.HasProducer() {
			producers.Apply(h)
		}
		rest = after
	}
	s.snapshot = producers.Marshal(s.next)
	return s
}

// mustBuild builds the object of a log.
func mustBuild(t testing.TB, log []byte) *Object {
	t.Helper()
	o, err := BuildObject(context.Background(), newMemSegment(log), nil)
	if err != nil {
		t.Fatalf("BuildObject: %v", err)
	}
	return o
}

// objectBytes is the whole object as pass two gives it.
func objectBytes(t testing.TB, o *Object) []byte {
	t.Helper()
	src := o.Source()
	b, err := io.ReadAll(io.NewSectionReader(src, 0, src.Size()))
	if err != nil {
		t.Fatalf("read object: %v", err)
	}
	return b
}

// testLog is a log of n batches of two records and about size bytes, from base
// on. The timestamps of each batch lie 1 ms above those of the one before it.
func testLog(base record.Offset, n, size int) []byte {
	// One batch, stamped n times: building each anew takes most of a test's
	// time under the race detector.
	b := recordtest.Batch(0, recordtest.ValueSize(2, max(1, (size-record.HeaderSize)/2-10)), recordtest.LeaderEpoch(3), recordtest.TimestampStep(1))
	h := record.Batch(b).Header()
	log := make([]byte, 0, n*len(b))
	for i := range n {
		record.Batch(b).SetBaseOffset(base + 2*record.Offset(i))
		binary.BigEndian.PutUint64(b[27:], uint64(h.BaseTimestamp+int64(i)))
		binary.BigEndian.PutUint64(b[35:], uint64(h.MaxTimestamp+int64(i)))
		recordtest.FixCRC(b)
		log = append(log, b...)
	}
	return log
}
