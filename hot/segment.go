// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"firn/internal/vfs"
	"firn/record"
)

// Segment is one .log file with its indexes. Its methods may be called
// concurrently. A Segment stays usable for its numbers when it was dropped; its
// bytes stay readable while it is pinned.
//
// Invariants:
//
//	S1  size and next only grow, together, and only while the segment is not
//	    sealed; the bytes below size never change.
//	S2  complete implies sealed, and that log, all indexes, the producer
//	    snapshot at the end, and their directory entries are synced.
//	S3  While mem is set it is the index and the files are out of date; else
//	    the files are the index.
//	S4  The next offset of a sealed segment is the base offset of the one that
//	    follows, even where its last records were compacted away.
type Segment struct {
	log    *Log
	base   record.Offset
	path   string
	handle segmentHandle

	rebuilding sync.Mutex // lets one goroutine rebuild the index files
	reindexed  bool       // they were rebuilt for what they say; guarded by rebuilding
	syncs      syncOnce   // of the .log file

	mu       sync.Mutex // never held over I/O
	size     int64
	synced   int64 // bytes of the .log file known to be durable
	next     record.Offset
	sealed   bool
	complete bool
	held     bool            // the writer's reference to the file
	mem      *memIndex       // see S3
	onDisk   [indexKinds]int // entries in the index files; -1 when not known yet
	max      record.TimeIndexEntry
	maxKnown bool   // max is known; else it is the last entry of the time index
	snapshot []byte // producer state at the end, from the seal until it is written

	firstStamp  int64 // the first batch's maximum timestamp in ms, for rolling
	firstAppend time.Time
	modified    time.Time
}

// unknownEntries stands for index files that nobody has looked at.
var unknownEntries = [indexKinds]int{-1, -1, -1}

// noMax stands for "no batch with a timestamp yet".
func noMax(base record.Offset) record.TimeIndexEntry {
	return record.TimeIndexEntry{Timestamp: record.NoTimestamp, Offset: base}
}

// newSegment describes a segment that has no bytes yet.
func newSegment(l *Log, base record.Offset) *Segment {
	return &Segment{
		log: l, base: base, path: segmentFile(l.dir, base, logSuffix), next: base,
		mem: newMemIndex(base), max: noMax(base), maxKnown: true, firstStamp: record.NoTimestamp,
		modified: l.store.now(),
	}
}

// foundSegment describes a segment whose files are there.
func foundSegment(l *Log, base record.Offset, info fs.FileInfo) *Segment {
	return &Segment{
		log: l, base: base, path: segmentFile(l.dir, base, logSuffix), next: base,
		size: info.Size(), synced: info.Size(), onDisk: unknownEntries, max: noMax(base),
		firstStamp: record.NoTimestamp, firstAppend: info.ModTime(), modified: info.ModTime(),
	}
}

// vouchedFor describes a segment as a clean stop left it.
func vouchedFor(l *Log, v vouchedSegment) *Segment {
	at := timeOf(v.modified)
	return &Segment{
		log: l, base: v.base, path: segmentFile(l.dir, v.base, logSuffix), next: v.base,
		size: v.size, synced: v.size, onDisk: unknownEntries, max: noMax(v.base),
		firstStamp: record.NoTimestamp, firstAppend: at, modified: at,
	}
}

// timeOf and nanosOf turn times into ns since the Unix epoch and back; 0 is no
// time.
func timeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

func nanosOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// BaseOffset is the offset that the segment's first record has or would have.
func (s *Segment) BaseOffset() record.Offset { return s.base }

// NextOffset is the first offset after the segment.
func (s *Segment) NextOffset() record.Offset { return s.view().next }

// Size is the number of bytes of the .log file that hold batches.
func (s *Segment) Size() int64 { return s.view().size }

// Sealed says whether the segment is closed for appends.
func (s *Segment) Sealed() bool { return s.view().sealed }

// FirstAppend is the wall time of the first append, zero while there was none.
// Of a segment written by an earlier process it is an estimate: the first
// batch's timestamp for the active segment, the last write for a sealed one.
func (s *Segment) FirstAppend() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.firstAppend
}

// LastModified is the wall time of the last append.
func (s *Segment) LastModified() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.modified
}

// MaxTimestamp is the largest timestamp of the segment's batches, in ms since
// the Unix epoch. As in Kafka it is the time of the last write where no batch
// has a timestamp, or where the index that tells it cannot be read.
func (s *Segment) MaxTimestamp() int64 {
	e, err := s.maxEntry()
	if err != nil || e.Timestamp < 0 {
		return s.LastModified().UnixMilli()
	}
	return e.Timestamp
}

// Pin keeps the segment readable, even if it is dropped meanwhile, until the
// Unpin that goes with it. The error wraps record.ErrClosed when the segment
// was dropped already.
func (s *Segment) Pin() error {
	_, err := s.acquire()
	return err
}

// Unpin ends one Pin.
func (s *Segment) Unpin() { s.release() }

// ReadUncachedAt reads from the .log file as io.ReaderAt does, beside the page
// cache. Bytes at or above Size are not there for it.
func (s *Segment) ReadUncachedAt(p []byte, off int64) (int, error) {
	f, err := s.acquire()
	if errors.Is(err, record.ErrClosed) {
		// Dropped, but pinned by the caller.
		if f = s.log.store.files.share(&s.handle); f != nil {
			err = nil
		}
	}
	if err != nil {
		return 0, err
	}
	defer s.release()
	return readWithin(p, off, s.Size(), func(p []byte) (int, error) {
		return s.uncached(f).ReadAt(p, off)
	})
}

// ProducerSnapshot is the content of the .snapshot file at the segment's end:
// the producer state after its last batch. The segment must be sealed.
func (s *Segment) ProducerSnapshot() ([]byte, error) {
	s.mu.Lock()
	sealed, next, snapshot := s.sealed, s.next, s.snapshot
	s.mu.Unlock()
	if !sealed {
		return nil, fmt.Errorf("snapshot of segment %s: not sealed yet: %w", s.path, record.ErrNotReady)
	}
	if snapshot != nil {
		return snapshot, nil
	}
	path := segmentFile(s.log.dir, next, snapshotSuffix)
	b, err := vfs.ReadFile(s.log.store.fs, path, maxSmallFile)
	if err == nil {
		_, err = record.ParseProducers(b)
	}
	if err == nil {
		return b, nil
	}
	var damage *record.CorruptionError
	if !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &damage) {
		return nil, fmt.Errorf("snapshot of segment %s: %w", s.path, err)
	}
	// Kafka did not leave one, or it was damaged: the log tells the same.
	inv, err := s.log.takeInventory()
	if err != nil {
		return nil, fmt.Errorf("snapshot of segment %s: %w", s.path, err)
	}
	p, err := s.log.rebuildProducers(inv, next)
	if err != nil {
		return nil, fmt.Errorf("snapshot of segment %s: %w", s.path, err)
	}
	return p.Marshal(next), nil
}

// Epochs is the history of leader epochs up to the segment's end.
func (s *Segment) Epochs() record.Epochs { return s.log.Epochs().TruncateFrom(s.NextOffset()) }

// AbortedTxns are the aborted transactions that overlap the segment, wherever
// their markers lie, in the order of these. They are all of them once the
// segment ends at or below the last stable offset. Errors are those of
// Log.AbortedTxns.
func (s *Segment) AbortedTxns() ([]record.AbortedTxn, error) {
	return s.log.AbortedTxns(s.base, s.NextOffset())
}

// segmentView is what a reader needs to know of a segment at one moment.
type segmentView struct {
	size     int64
	next     record.Offset
	sealed   bool
	complete bool
}

func (s *Segment) view() segmentView {
	s.mu.Lock()
	defer s.mu.Unlock()
	return segmentView{size: s.size, next: s.next, sealed: s.sealed, complete: s.complete}
}

// acquire takes a reference to the open .log file, to be given back by release.
func (s *Segment) acquire() (vfs.File, error) {
	return s.log.store.files.acquire(&s.handle, s.path)
}

func (s *Segment) release() { s.log.store.files.release(&s.handle) }

// hold takes the writer's reference, once.
func (s *Segment) hold() (vfs.File, error) {
	f, err := s.acquire()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	held := s.held
	s.held = true
	s.mu.Unlock()
	if held {
		s.release()
	}
	return f, nil
}

// letGo gives the writer's reference back, if there is one.
func (s *Segment) letGo() {
	s.mu.Lock()
	held := s.held
	s.held = false
	s.mu.Unlock()
	if held {
		s.release()
	}
}

// syncLog makes the bytes written so far durable. A segment that was dropped
// meanwhile has nothing to keep.
func (s *Segment) syncLog() error {
	f, err := s.acquire()
	if errors.Is(err, record.ErrClosed) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.release()
	return s.syncs.do(func() error {
		s.mu.Lock()
		size, synced := s.size, s.synced
		s.mu.Unlock()
		if synced == size {
			return nil
		}
		started := time.Now()
		if err := f.Sync(); err != nil {
			return fmt.Errorf("sync segment: %w", err)
		}
		s.log.store.metrics.flush.Observe(time.Since(started).Seconds())
		s.mu.Lock()
		s.synced = max(s.synced, size)
		s.mu.Unlock()
		return nil
	})
}

// unsynced says whether bytes were written that are not known to be durable.
func (s *Segment) unsynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced < s.size
}

// uncached reads the open file f beside the page cache.
func (s *Segment) uncached(f vfs.File) io.ReaderAt { return uncachedFile{s.log.store.io, f} }

type uncachedFile struct {
	io   *vfs.IO
	file vfs.File
}

func (u uncachedFile) ReadAt(p []byte, off int64) (int, error) {
	return u.io.ReadUncached(u.file, p, off)
}
