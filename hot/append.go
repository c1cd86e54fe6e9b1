// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"math"

	"firn/record"
)

// Appended is where a record set went.
type Appended struct {
	// FirstOffset and NextOffset bound the offsets it got; those of the
	// original for a duplicate.
	FirstOffset, NextOffset record.Offset
	// LogAppendTimeMs is the broker's time in ms since the Unix epoch that was
	// written into the batches, -1 on a topic with CreateTime.
	LogAppendTimeMs int64
	// Duplicate says that an idempotent producer sent it before; nothing was
	// appended.
	Duplicate bool
}

// Append appends one client's record set under the given leader epoch: whole
// batches of magic 2, one of an idempotent producer or any number of others.
// It checks them, writes base offset and leader epoch into batches in place,
// and writes them in one piece. When it returns they are in the page cache.
//
// The error wraps one of record's kinds: ErrCorruptBatch, ErrUnsupportedMagic,
// ErrInvalidBatch, ErrBatchTooLarge, ErrInvalidTimestamp, a sequence error,
// ErrInvalidTxnState, ErrFencedEpoch for an epoch below the log's, ErrClosed, or ErrStorage. After
// an error nothing was appended; batches may have been changed.
func (l *Log) Append(batches []byte, epoch record.Epoch) (Appended, error) {
	return l.AppendFrom(Client, batches, epoch)
}

// AppendFrom is Append of what comes from the given origin: markers of the
// transaction coordinator, or batches that may begin a transaction. A marker's
// error may also wrap ErrFencedCoordinator. What ends a transaction by abort is
// in the transaction index when it returns.
func (l *Log) AppendFrom(origin Origin, batches []byte, epoch record.Epoch) (Appended, error) {
	o := l.options()
	set, err := checkBatches(origin, batches, o, l.store.now())
	if err != nil {
		return Appended{}, err
	}
	if int64(len(batches)) > o.SegmentBytes {
		return Appended{}, fmt.Errorf("%w: %d bytes, a segment has %d", record.ErrBatchTooLarge, len(batches), o.SegmentBytes)
	}

	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if err := l.writable(); err != nil {
		return Appended{}, err
	}
	nowMs := l.store.now().UnixMilli() // in the order of the appends
	verdict, err := l.admit(origin, set[0], nowMs)
	if err != nil {
		return Appended{}, err
	}
	if verdict.Duplicate {
		return Appended{FirstOffset: verdict.Base, NextOffset: verdict.Next, LogAppendTimeMs: -1, Duplicate: true}, nil
	}
	if last, ok := l.Epochs().Last(); ok && epoch < last.Epoch {
		return Appended{}, fmt.Errorf("%w: append under epoch %d, the log has %d", record.ErrFencedEpoch, epoch, last.Epoch)
	}
	done := Appended{FirstOffset: l.EndOffset(), LogAppendTimeMs: -1}
	if o.LogAppendTime {
		done.LogAppendTimeMs = nowMs
	}
	if done.NextOffset, err = place(set, done, epoch); err != nil {
		return Appended{}, err
	}
	if err := l.store.beginWriting(); err != nil {
		return Appended{}, fmt.Errorf("append to %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	active, err := l.roomFor(set, int64(len(batches)), done.NextOffset, o)
	if err != nil {
		return Appended{}, fmt.Errorf("append to %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	if err := l.write(active, batches); err != nil {
		return Appended{}, fmt.Errorf("append to %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	l.publish(active, set, done, epoch, o)
	return done, nil
}

// place writes offsets, the leader epoch and, where asked for, the log-append
// time into the batches, and re-reads their headers. It answers the offset
// after the last one.
func place(set []incoming, at Appended, epoch record.Epoch) (record.Offset, error) {
	next := at.FirstOffset
	for i := range set {
		in := &set[i]
		if int64(next) > math.MaxInt64-int64(in.header.Count) {
			return 0, fmt.Errorf("%w: no offsets are left", record.ErrInvalidBatch)
		}
		in.batch.SetBaseOffset(next)
		in.batch.SetLeaderEpoch(epoch)
		if at.LogAppendTimeMs >= 0 {
			in.batch.SetLogAppendTime(at.LogAppendTimeMs)
		}
		in.header = in.batch.Header()
		next = in.header.NextOffset()
	}
	return next, nil
}

// write puts b at the end of the active segment, not yet visible to anybody.
// What a failed write left is cut off again; a failed cut poisons the log.
func (l *Log) write(active *Segment, b []byte) error {
	if err := active.ensureMem(); err != nil {
		return err
	}
	f, err := active.hold()
	if err != nil {
		return err
	}
	size := active.Size()
	n, err := f.WriteAt(b, size)
	if err == nil && n == len(b) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("wrote %d of %d bytes", n, len(b))
	}
	if cut := f.Truncate(size); cut != nil {
		l.setPoison(fmt.Errorf("cut back a failed append: %w", cut))
	}
	l.store.doubt(err)
	return fmt.Errorf("write segment: %w", err)
}

// publish makes what was written visible. The caller holds appendMu.
func (l *Log) publish(active *Segment, set []incoming, done Appended, epoch record.Epoch, o *LogOptions) {
	now := l.store.now()
	active.mu.Lock()
	if active.size == 0 {
		active.firstAppend, active.firstStamp = now, set[0].header.MaxTimestamp
	}
	for _, in := range set {
		active.mem.add(in.header, active.size, o.IndexInterval)
		active.size += int64(len(in.batch))
		if in.header.HasProducer() {
			took := l.take(in)
			active.mem.end(took.ended)
			l.txns.note(in.header, took)
		}
	}
	active.next, active.max, active.modified = done.NextOffset, active.mem.max, now
	active.mu.Unlock()
	l.noteEpoch(record.EpochEntry{Epoch: epoch, StartOffset: done.FirstOffset})
	l.noteAppend(done.FirstOffset)
	l.end.Store(int64(done.NextOffset))
}

// admit says whether the batch of a producer comes next, or was appended before.
// The caller holds appendMu.
func (l *Log) admit(origin Origin, in incoming, nowMs int64) (record.Verdict, error) {
	if in.header.IsControl() {
		return record.Verdict{}, l.producers.CheckMarker(in.header, in.marker)
	}
	verdict, err := l.producers.Check(in.header, nowMs)
	if errors.Is(err, record.ErrOutOfOrderSequence) && l.recall(in.header) {
		verdict, err = l.producers.Check(in.header, nowMs)
	}
	if err == nil && !verdict.Duplicate {
		err = l.producers.CheckTxn(in.header, origin != Client)
	}
	return verdict, err
}

// take brings the state of the producers past a batch that was written. The
// caller holds appendMu.
func (l *Log) take(in incoming) applied {
	l.maxPID.Store(max(l.maxPID.Load(), in.header.ProducerID))
	if !in.header.IsControl() {
		return applied{began: l.producers.Apply(in.header)}
	}
	ended, ok := l.producers.ApplyMarker(in.header, in.marker)
	if ended.Abort {
		l.aborts.Store(true)
	}
	return applied{hasEnded: ok, ended: ended}
}

// noteEpoch makes the first append of an epoch part of the history. The file
// follows with the sync that makes the append durable: a history that is
// shorter than the log is completed from the batches by recovery.
func (l *Log) noteEpoch(e record.EpochEntry) {
	if e.Epoch < 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, ok := l.epochs.Last(); ok && last.Epoch >= e.Epoch {
		return
	}
	l.epochs = l.epochs.Append(e)
	l.epochsChanged++
}
