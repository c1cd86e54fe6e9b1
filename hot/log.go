// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"fmt"
	"log/slog"
	"math"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"firn/record"
)

// Limits on what is read whole from files that we or Kafka wrote.
const (
	maxIndexFile = 1 << 29
	maxSmallFile = 1 << 28
	// maxSegmentBytes is how long a .log file can be: the offset index has
	// positions of 31 bits.
	maxSegmentBytes = math.MaxInt32
)

// Log is the local log of one partition. All methods may be called
// concurrently. Readers take no lock that is held over I/O.
//
// Locks, in the order in which they are taken: appendMu, sealMu, epochsFile,
// mu, then Segment.mu, then a cache's or txnBook's.
//
// Invariants:
//
//	L1  The segments are ascending; each but the last is sealed and ends where
//	    the next begins; there is at least one, except while ResetTo runs.
//	L2  end is published after the bytes below it were written, and only then
//	    are they handed out.
//	L3  durable is at most end; every byte below it is synced and its file's
//	    directory entry too. It never falls, except by ResetTo.
//	L4  Once poisoned, nothing is written to the log any more.
//	L5  The log start never falls and is durable before it is visible.
type Log struct {
	store  *Store
	tp     record.TopicPartition
	id     record.TopicID
	dir    string
	logger *slog.Logger
	hooks  Hooks // set when the log is open
	opened time.Time

	opts     atomic.Pointer[LogOptions]
	segments atomic.Pointer[[]*Segment] // changed under mu
	start    atomic.Int64               // base of the first segment
	end      atomic.Int64
	durable  atomic.Int64
	logStart atomic.Int64
	maxPID   atomic.Int64
	poison   atomic.Pointer[poisonError]
	closed   atomic.Bool
	appends  atomic.Pointer[appends] // nil before the first append
	aborts   atomic.Bool             // a segment may have an aborted transaction
	txns     txnBook

	// syncWanted and sealWanted say that the log is in the queue of the
	// store's flusher or sealer.
	syncWanted atomic.Bool
	sealWanted atomic.Bool

	// appendMu makes appends, rolls and resets follow one another.
	appendMu  sync.Mutex
	producers *record.Producers

	// sealMu is held by whoever completes, drops or resets segments.
	sealMu sync.Mutex
	doomed []*Segment      // dropped, files still to be removed, oldest first
	strays []record.Offset // snapshots that a clean stop has left, not at a segment's base

	epochsFile sync.Mutex // lets one goroutine write leader-epoch-checkpoint
	dirSyncs   syncOnce   // of the partition directory

	mu            sync.Mutex
	generation    int // counts resets
	epochs        record.Epochs
	epochsChanged int           // counts changes of epochs
	epochsSynced  int           // the value of epochsChanged that is on disk
	dirChanged    int           // counts new files of the directory
	dirSynced     int           // the value of dirChanged that is on disk
	progress      chan struct{} // closed when durable rises or the log ends
}

// poisonError is why a log takes no more writes.
type poisonError struct{ err error }

func newLog(s *Store, tp record.TopicPartition, id record.TopicID, dir string, o LogOptions) *Log {
	l := &Log{
		store: s, tp: tp, id: id, dir: dir,
		logger:    s.logger.With("topic", tp.Topic, "partition", tp.Partition),
		opened:    s.now(),
		producers: record.NewProducers(),
		progress:  make(chan struct{}),
	}
	l.opts.Store(&o)
	l.segments.Store(&[]*Segment{})
	l.maxPID.Store(record.NoProducerID)
	l.logStart.Store(int64(s.logStarts.get(tp)))
	return l
}

// SetOptions changes the log's options from the next append on; its hooks stay
// those of the opening. Options that Validate refuses are not taken.
func (l *Log) SetOptions(o LogOptions) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		l.logger.Error("log options refused", "event", "log_options_refused", "error", err)
		return
	}
	o.Hooks = l.hooks
	l.opts.Store(&o)
}

func (l *Log) options() *LogOptions { return l.opts.Load() }

// ID is the topic id of the topic that the partition belongs to.
func (l *Log) ID() record.TopicID { return l.id }

// TopicPartition names the partition.
func (l *Log) TopicPartition() record.TopicPartition { return l.tp }

// Dir is the partition directory.
func (l *Log) Dir() string { return l.dir }

// StartOffset is the first offset on local disk.
func (l *Log) StartOffset() record.Offset { return record.Offset(l.start.Load()) }

// EndOffset is the offset that the next record gets.
func (l *Log) EndOffset() record.Offset { return record.Offset(l.end.Load()) }

// DurableOffset is the end of what survives a power cut. With NoFsync it is
// what a sync was asked for.
func (l *Log) DurableOffset() record.Offset { return record.Offset(l.durable.Load()) }

// LogStartOffset is where SetLogStartOffset has put the start of the log, in
// all tiers: 0 when it never did, however much was dropped locally.
func (l *Log) LogStartOffset() record.Offset { return record.Offset(l.logStart.Load()) }

// MaxProducerID is the largest producer id that was ever appended, as far as
// the log still knows, or record.NoProducerID.
func (l *Log) MaxProducerID() int64 { return l.maxPID.Load() }

// Poisoned is why the log takes no more writes, or nil.
func (l *Log) Poisoned() error {
	if p := l.poison.Load(); p != nil {
		return p.err
	}
	return nil
}

// Size is the number of bytes in all segments.
func (l *Log) Size() int64 {
	var n int64
	for _, s := range l.list() {
		n += s.Size()
	}
	return n
}

// Segments are all segments, ascending, the active one last.
func (l *Log) Segments() []*Segment { return append([]*Segment(nil), l.list()...) }

// Sealed are the segments from the given base offset on that are sealed and
// wholly durable: log, indexes, producer snapshot and directory. Ascending.
func (l *Log) Sealed(from record.Offset) []*Segment {
	var out []*Segment
	for _, s := range l.list() {
		if s.base >= from && s.view().complete {
			out = append(out, s)
		}
	}
	return out
}

// BytesFrom is the number of bytes from the start of the region to the end of
// the log: 0 when the region's segment was dropped.
func (l *Log) BytesFrom(r *Region) int64 {
	list := l.list()
	for i, s := range list {
		if s != r.segment {
			continue
		}
		n := -r.off
		for _, s := range list[i:] {
			n += s.Size()
		}
		return n
	}
	return 0
}

// Epochs is the history of leader epochs. It is a value of its own.
func (l *Log) Epochs() record.Epochs {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs
}

// list is the current list of segments, which must not be changed.
func (l *Log) list() []*Segment { return *l.segments.Load() }

// active is the segment that appends go to. The caller holds appendMu or
// otherwise knows that the list is not empty.
func (l *Log) active() *Segment {
	list := l.list()
	return list[len(list)-1]
}

// setSegmentsLocked publishes a new list. The caller holds mu and does not
// touch the list afterwards.
func (l *Log) setSegmentsLocked(list []*Segment) {
	if len(list) > 0 {
		l.start.Store(int64(list[0].base))
	}
	l.segments.Store(&list)
}

// segmentOf is the index in list of the segment that holds o, which is at or
// above the first base offset.
func segmentOf(list []*Segment, o record.Offset) int {
	return sort.Search(len(list), func(i int) bool { return list[i].base > o }) - 1
}

// writable says why nothing may be written: the log was closed or poisoned.
func (l *Log) writable() error {
	if l.closed.Load() {
		return fmt.Errorf("log %s: %w", l.tp, record.ErrClosed)
	}
	if p := l.poison.Load(); p != nil {
		return fmt.Errorf("log %s takes no more writes: %w: %w", l.tp, record.ErrStorage, p.err)
	}
	return nil
}

// setPoison ends all writing to the log, for the first of several reasons.
func (l *Log) setPoison(err error) {
	if l.takePoison(err) {
		l.logger.Error("log is poisoned: it takes no more writes", "event", "log_poison", "error", err)
	}
	l.store.doubt(err)
}

// takePoison is setPoison without a word; false when there was a reason before.
func (l *Log) takePoison(err error) bool {
	if !l.poison.CompareAndSwap(nil, &poisonError{err}) {
		return false
	}
	l.mu.Lock()
	l.signalLocked()
	l.mu.Unlock()
	if hook := l.hooks.OnPoison; hook != nil {
		l.store.run(func() { hook(err) })
	}
	return true
}

// signalLocked wakes everybody who waits in WaitDurable.
func (l *Log) signalLocked() {
	close(l.progress)
	l.progress = make(chan struct{})
}
