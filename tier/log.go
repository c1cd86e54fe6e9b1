// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"firn/record"
)

// Local is the local log of a partition, as the archiver needs it. All methods
// may be called concurrently; no lock of this package is held meanwhile.
type Local interface {
	// Sealed lists the closed segments whose base offset is from or above,
	// ascending, and only those that are completely synced: log, indexes,
	// snapshot and directory entry. It is empty while the log is poisoned.
	Sealed(from record.Offset) []Sealed
	// StartOffset is the first offset that is here, EndOffset the one after
	// the last, LogStartOffset the first that may be read in either tier.
	StartOffset() record.Offset
	EndOffset() record.Offset
	LogStartOffset() record.Offset
	// StableOffset is the last stable offset: nothing above it goes up.
	StableOffset() record.Offset
	// Epochs is the lineage of leader epochs, from the log start offset on.
	Epochs() record.Epochs
	// Header reads the header of the batch that holds an offset; ok is false
	// when none does.
	Header(o record.Offset) (h record.Header, ok bool, err error)
	// ResetTo drops everything and begins anew, durably. It must change
	// nothing and return an error when the log does not end at r.IfEnd, or if
	// an append could be under way.
	ResetTo(ctx context.Context, r Reset) error
	// RaiseEpoch makes a leader epoch above the given one durable and returns
	// it. From the next State on, appends use it.
	RaiseEpoch(ctx context.Context, above record.Epoch) (record.Epoch, error)
}

// Reset is how a local log that ended below its chain begins anew.
type Reset struct {
	// IfEnd is the end of the local log when it was found to be a part of the
	// chain. Records appended since would be lost.
	IfEnd record.Offset
	// Start is where it begins anew: the chain's end.
	Start record.Offset
	// Epochs and Snapshot are the leader epochs and the producer snapshot at
	// Start; Snapshot is nil when no producer is known.
	Epochs   record.Epochs
	Snapshot []byte
}

// LogOptions is how one partition is tiered. All fields without a note must be
// set.
type LogOptions struct {
	TopicPartition record.TopicPartition
	TopicID        record.TopicID
	// Epoch is the leader epoch of this start, durable.
	Epoch record.Epoch
	// Dir is the partition's directory, which exists. The local copy of the
	// manifest is the file firn-manifest in it.
	Dir   string
	Local Local
	// OnChange, when set, is called after the state or the chain changed, from
	// a worker, with no lock held. It must not call Close.
	OnChange func()
	// Lost says that the partition is older than its local log, which is new and
	// empty: until the bucket was read nobody knows where its offsets go on.
	Lost bool
	// CopyDisabled is remote.log.copy.disable: nothing goes up, deletion goes on.
	CopyDisabled bool
}

func (o *LogOptions) validate() error {
	var errs []error
	if err := record.CheckTopicName(o.TopicPartition.Topic); err != nil {
		errs = append(errs, err)
	}
	if o.TopicPartition.Partition < 0 || o.Epoch < 0 {
		errs = append(errs, fmt.Errorf("partition %d or epoch %d is negative", o.TopicPartition.Partition, o.Epoch))
	}
	if o.TopicID.IsZero() || o.Dir == "" || o.Local == nil {
		errs = append(errs, errors.New("topic id, directory and local log must be set"))
	}
	return errors.Join(errs...)
}

// Log is one partition in the cold tier: its chain, and the work of archiving
// it. All methods may be called concurrently.
//
// Everything that writes is done by steps, one at a time, which the scheduler
// runs; what only steps use is in work and needs no lock.
type Log struct {
	t        *Tier
	o        LogOptions
	prefix   string // of the partition's keys
	writer   WriterID
	task     *task
	manifest atomic.Pointer[Manifest]    // newest durable one; never nil
	logStart atomic.Int64                // highest that SetLogStart was told
	oldest   atomic.Pointer[offsetRange] // of the oldest alive entry, as far as known
	work     work

	mu           sync.Mutex
	phase        Phase
	reason       string
	loaded       bool
	epoch        record.Epoch
	lastError    error
	copyDisabled bool
}

// offsetRange is a range of offsets, to exclusive.
type offsetRange struct{ from, to record.Offset }

// work is what only the steps of a Log use.
type work struct {
	writers    []WriterID // of the local copy
	reconciled bool
	dead       bool // read-only for good
	epoch      record.Epoch
	failures   int
	// pending is a head that was composed and may be durable already. Nothing
	// else is written until it is known to be.
	pending *pendingHead
	// attempt is an object whose upload began and that no head names yet.
	attempt *Entry
	// orphans are objects that no head will name; the next head buries them.
	orphans []Tombstone
	// slowest is how long a head took to become durable at most: tombstones
	// are younger than they look by that.
	slowest time.Duration
	// copyWasDisabled says that segments may have aged out meanwhile.
	copyWasDisabled bool
}

// OpenLog opens a partition. It reads the local copy of the manifest, never
// waits for the store, and takes over in the background; State tells how that
// goes. A copy that is damaged counts as none.
func (t *Tier) OpenLog(ctx context.Context, o LogOptions) (*Log, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("open log %v in the tier: %w", o.TopicPartition, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open log %v in the tier: %w", o.TopicPartition, err)
	}
	l := &Log{
		t: t, o: o, prefix: partitionPrefix(t.root, o.TopicID, o.TopicPartition), writer: WriterID(randomID()),
		epoch: o.Epoch, copyDisabled: o.CopyDisabled,
		work: work{epoch: o.Epoch, copyWasDisabled: o.CopyDisabled},
	}
	if err := l.loadCopy(); err != nil {
		return nil, fmt.Errorf("open log %v in the tier: %w", o.TopicPartition, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, fmt.Errorf("open log %v in the tier: %w", o.TopicPartition, record.ErrClosed)
	}
	l.task = t.sched.add(t.ctx, l)
	t.logs[l] = true
	t.sched.wake(l.task)
	return l, nil
}

// loadCopy starts from the local copy, if there is a good one.
func (l *Log) loadCopy() error {
	empty := &Manifest{TopicID: l.o.TopicID, Partition: l.o.TopicPartition.Partition}
	l.manifest.Store(empty)
	if l.o.Lost {
		l.phase, l.reason = ReadOnly, ReasonLogBehind
	}
	writers, m, err := readLocalCopy(l.t.o.FS, l.o.Dir, l.o.TopicID, l.o.TopicPartition.Partition)
	var bad *record.CorruptionError
	switch {
	case errors.As(err, &bad):
		l.t.o.Logger.Error("local copy of the manifest is damaged", "event", "tier_copy_corrupt", "partition", l.name(), "error", err)
		return nil
	case err != nil:
		return err
	}
	l.work.writers = writers
	if m == nil {
		return nil
	}
	l.manifest.Store(m)
	l.loaded = true
	if l.o.Local.EndOffset() < m.End {
		l.phase, l.reason = ReadOnly, ReasonLogBehind
	}
	return nil
}

// saveCopy makes a manifest the local copy. encoded is its head object; nil
// stands for encoding it again, which gives the same bytes.
func (l *Log) saveCopy(m *Manifest, encoded []byte) error {
	if encoded == nil && m.Seq > 0 {
		encoded = m.encode()
	}
	return writeLocalCopy(l.t.o.FS, l.o.Dir, localCopy{writers: l.work.writers, head: encoded})
}

// Close ends the partition's work: it cancels a step under way and waits for
// it as long as ctx allows. After an error it may be called again. Reads under
// way go on.
func (l *Log) Close(ctx context.Context) error {
	if err := l.t.sched.remove(ctx, l.task); err != nil {
		return fmt.Errorf("close log %v in the tier: %w", l.o.TopicPartition, err)
	}
	l.t.mu.Lock()
	delete(l.t.logs, l)
	l.t.mu.Unlock()
	return nil
}

// Wake says that a segment was sealed, the stable offset rose or the log start
// moved. It never blocks.
func (l *Log) Wake() { l.t.sched.wake(l.task) }

// SetLogStart raises the log start offset: entries wholly below it get
// tombstones in one of the next heads. It is asynchronous and idempotent, and
// nothing happens before the log is Ready.
func (l *Log) SetLogStart(o record.Offset) {
	for {
		old := l.logStart.Load()
		if int64(o) <= old {
			return
		}
		if l.logStart.CompareAndSwap(old, int64(o)) {
			l.Wake()
			return
		}
	}
}

// SetCopyDisabled changes remote.log.copy.disable.
func (l *Log) SetCopyDisabled(disabled bool) {
	l.mu.Lock()
	l.copyDisabled = disabled
	l.mu.Unlock()
	l.Wake()
}

// End is where the durable chain ends: local segments whose NextOffset is not
// above it are tiered. It may justify dropping them only in the phase Ready.
func (l *Log) End() record.Offset { return l.manifest.Load().End }

// State tells how the partition is at this moment.
func (l *Log) State() State {
	m := l.manifest.Load()
	l.mu.Lock()
	s := State{Phase: l.phase, Loaded: l.loaded, Reason: l.reason, Epoch: l.epoch, LastError: l.lastError}
	l.mu.Unlock()
	s.LogStart, s.End = m.LogStart, m.End
	s.Start = min(max(m.Start, m.LogStart), m.End)
	alive := l.alive(m, l.currentLogStart())
	s.Bytes, s.Segments, s.Tombstones = alive.bytes, alive.segments, len(m.Tombstones)
	for _, seg := range l.o.Local.Sealed(m.End) {
		s.LagSegments++
		s.LagBytes += seg.Size()
	}
	return s
}

// alive counts the segments that are not wholly below a log start. Only the
// oldest page's share cannot be told without loading it, when the log start
// moved into it and the archiver did not follow yet; it is left out then.
func (l *Log) alive(m *Manifest, logStart record.Offset) totals {
	if logStart <= m.Start || l.keeps(m, logStart) {
		return totals{m.Segments, m.Bytes}
	}
	var t totals
	for _, p := range m.Pages {
		if p.From >= logStart {
			t.segments += int64(p.Segments)
			t.bytes += p.Bytes
		}
	}
	for _, e := range m.Recent {
		if e.To > logStart {
			t.add(e)
		}
	}
	return t
}

// keeps says whether the oldest alive entry of m is known to end above a log
// start, so that there is nothing to drop.
func (l *Log) keeps(m *Manifest, logStart record.Offset) bool {
	oldest := l.oldest.Load()
	return oldest != nil && oldest.from == m.Start && logStart < oldest.to
}

// TopicPartition names the partition.
func (l *Log) TopicPartition() record.TopicPartition { return l.o.TopicPartition }

// name, limit and step make a Log the scheduler's.
func (l *Log) name() string { return l.o.TopicPartition.String() }

func (l *Log) limit(in lane) time.Duration {
	limit := l.t.o.ControlTimeout
	if in == laneUpload {
		if c, err := l.candidate(); err == nil && c.segment != nil {
			limit += l.t.o.uploadLimit(c.segment.Size())
		}
	}
	return limit
}

// update changes the state and tells the partition when it did.
func (l *Log) update(change func()) {
	l.mu.Lock()
	before := [...]any{l.phase, l.reason, l.loaded, l.epoch}
	change()
	changed := before != [...]any{l.phase, l.reason, l.loaded, l.epoch}
	l.mu.Unlock()
	if changed {
		l.changed()
	}
}

func (l *Log) changed() {
	if l.o.OnChange != nil {
		l.o.OnChange()
	}
}
