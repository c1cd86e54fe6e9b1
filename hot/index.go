// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"

	"firn/internal/vfs"
	"firn/record"
)

// memIndex is the indexes of a segment that is being written, as the bytes of
// their files. It only grows: a slice taken under the segment's lock stays
// valid after it.
type memIndex struct {
	base    record.Offset
	offsets []byte
	times   []byte
	aborted []byte // the transaction index
	since   int64  // bytes of log since the last entry
	max     record.TimeIndexEntry
}

func newMemIndex(base record.Offset) *memIndex {
	return &memIndex{base: base, max: noMax(base)}
}

// add takes in the batch at position pos, and makes an entry in both indexes
// when more than interval bytes went by since the last one.
func (m *memIndex) add(h record.Header, pos int64, interval int) {
	if h.MaxTimestamp > m.max.Timestamp {
		m.max = record.TimeIndexEntry{Timestamp: h.MaxTimestamp, Offset: h.LastOffset()}
	}
	if m.since > int64(interval) {
		m.offsets = record.AppendIndexEntry(m.offsets, m.base, record.IndexEntry{Offset: h.LastOffset(), Position: int32(pos)})
		m.finish()
		m.since = 0
	}
	m.since += int64(h.Size())
}

// finish makes a time entry for the largest timestamp so far, unless the last
// entry says it. The last entry of a closed index so tells the segment's
// maximum.
func (m *memIndex) finish() {
	last := record.NoTimestamp
	if n := len(m.times); n > 0 {
		last = record.ParseTimeIndexEntry(m.times[n-record.TimeIndexEntrySize:], m.base).Timestamp
	}
	if m.max.Timestamp > last {
		m.times = record.AppendTimeIndexEntry(m.times, m.base, m.max)
	}
}

// full says whether either index has reached limit bytes.
func (m *memIndex) full(limit int) bool {
	return len(m.offsets)+record.IndexEntrySize > limit || len(m.times)+record.TimeIndexEntrySize > limit
}

// end takes in a transaction that a marker in the segment has ended.
func (m *memIndex) end(t record.EndedTxn) {
	if t.Abort {
		m.aborted = record.AppendAbortedTxn(m.aborted, t.AbortedTxn)
	}
}

func (m *memIndex) bytes(kind indexKind) []byte {
	return [indexKinds][]byte{m.offsets, m.times, m.aborted}[kind]
}

func (k indexKind) entrySize() int {
	return [indexKinds]int{record.IndexEntrySize, record.TimeIndexEntrySize, record.AbortedTxnSize}[k]
}

func (k indexKind) suffix() string {
	return [indexKinds]string{indexSuffix, timeIndexSuffix, txnIndexSuffix}[k]
}

// lastWhere finds the last entry of an index for which keep holds; those for
// which it holds come before all others. Nil means that there is none. A
// missing or damaged index file is rebuilt from the log first.
func (s *Segment) lastWhere(kind indexKind, keep func(entry []byte) bool) ([]byte, error) {
	s.mu.Lock()
	if s.mem != nil {
		b := s.mem.bytes(kind)
		s.mu.Unlock()
		return lastIn(b, kind, keep), nil
	}
	s.mu.Unlock()
	e, err := s.lastInFile(kind, keep)
	if !repairable(err) {
		return e, err
	}
	if err := s.rebuildIndex(kind, err); err != nil {
		return nil, err
	}
	return s.lastInFile(kind, keep)
}

func repairable(err error) bool {
	var damage *record.CorruptionError
	return errors.As(err, &damage) || errors.Is(err, fs.ErrNotExist)
}

func lastIn(b []byte, kind indexKind, keep func([]byte) bool) []byte {
	size := kind.entrySize()
	i := sort.Search(len(b)/size, func(i int) bool { return !keep(b[i*size:]) })
	if i == 0 {
		return nil
	}
	return b[(i-1)*size : i*size]
}

// lastInFile searches the pages of an index file: first for the last page
// whose first entry is kept, then within it.
func (s *Segment) lastInFile(kind indexKind, keep func([]byte) bool) ([]byte, error) {
	entries, err := s.countEntries(kind)
	if err != nil {
		return nil, err
	}
	var failed error
	pages := (entries + pageEntries - 1) / pageEntries
	i := sort.Search(pages, func(i int) bool {
		if failed != nil {
			return true
		}
		var b []byte
		if b, failed = s.page(kind, i, entries); failed != nil {
			return true
		}
		return !keep(b)
	})
	if failed != nil || i == 0 {
		return nil, failed
	}
	b, err := s.page(kind, i-1, entries)
	if err != nil {
		return nil, err
	}
	return lastIn(b, kind, keep), nil
}

// countEntries tells, from the file's size, how many entries an index has.
func (s *Segment) countEntries(kind indexKind) (int, error) {
	s.mu.Lock()
	n := s.onDisk[kind]
	s.mu.Unlock()
	if n >= 0 {
		return n, nil
	}
	path := segmentFile(s.log.dir, s.base, kind.suffix())
	info, err := s.log.store.fs.Stat(path)
	if kind == txnIndex && errors.Is(err, fs.ErrNotExist) {
		return s.countKnown(kind, 0), nil // most segments have no aborted transaction
	}
	if err != nil {
		return 0, fmt.Errorf("read index: %w", err)
	}
	if info.Size()%int64(kind.entrySize()) != 0 || info.Size() > maxIndexFile {
		return 0, &record.CorruptionError{Path: path, Position: info.Size(),
			Reason: fmt.Sprintf("want a multiple of %d bytes, at most %d", kind.entrySize(), maxIndexFile)}
	}
	n = int(info.Size()) / kind.entrySize()
	if n > 0 {
		// The end is where a preallocated or torn index shows.
		if _, err := s.page(kind, (n-1)/pageEntries, n); err != nil {
			return 0, err
		}
	}
	return s.countKnown(kind, n), nil
}

// countIs says whether an index can have n entries as far as is known.
func (s *Segment) countIs(kind indexKind, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.onDisk[kind] < 0 || s.onDisk[kind] == n
}

// countKnown notes that an index has n entries on disk.
func (s *Segment) countKnown(kind indexKind, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onDisk[kind] = n
	return n
}

// page reads one page of an index file, through the cache.
func (s *Segment) page(kind indexKind, page, entries int) ([]byte, error) {
	key := pageKey{segment: s, kind: kind, page: page}
	if b := s.log.store.indexes.get(key); b != nil {
		return b, nil
	}
	path := segmentFile(s.log.dir, s.base, kind.suffix())
	f, err := s.log.store.fs.OpenFile(path, vfs.ReadOnly, 0)
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	defer closeRead(f)
	first := page * pageEntries
	b := make([]byte, min(pageEntries, entries-first)*kind.entrySize())
	at := int64(first) * int64(kind.entrySize())
	if n, err := f.ReadAt(b, at); n < len(b) {
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read index: %w", err)
		}
		return nil, &record.CorruptionError{Path: path, Position: at + int64(n), Reason: "the index ends early"}
	}
	if err := s.checkIndex(kind, b); err != nil {
		return nil, record.InFile(err, path)
	}
	s.log.store.indexes.put(key, b)
	return b, nil
}

func (s *Segment) checkIndex(kind indexKind, b []byte) error {
	v := s.view()
	switch kind {
	case offsetIndex:
		return record.CheckIndex(b, s.base, v.size)
	case timeIndex:
		return record.CheckTimeIndex(b, s.base, v.next)
	}
	return checkTxnIndex(b, s.base, v.next)
}

// rebuildIndex makes the index files anew from the log, unless somebody else
// has just done it. The one of the transactions needs the state of the
// producers at the segment's start: where that cannot be had, the other two are
// made all the same, and kind says whether it was the one that was wanted.
func (s *Segment) rebuildIndex(kind indexKind, cause error) error {
	s.rebuilding.Lock()
	defer s.rebuilding.Unlock()
	if mem, err := s.readIndex(); err == nil && s.countIs(txnIndex, len(mem.aborted)/record.AbortedTxnSize) {
		return nil
	}
	return s.reindex(kind, cause)
}

// reindex is rebuildIndex whatever is there. The caller holds rebuilding.
func (s *Segment) reindex(kind indexKind, cause error) error {
	s.log.repaired(repairIndex, "rebuilding the indexes of a segment", "event", "index_rebuild", "segment", s.path, "cause", cause)
	mem, unknown, err := s.indexFromLog()
	if err == nil && kind == txnIndex {
		err = unknown
	}
	if err != nil {
		return fmt.Errorf("rebuild index: %w", err)
	}
	if err := s.log.store.beginWriting(); err != nil {
		return fmt.Errorf("rebuild index: %w", err)
	}
	for _, kind := range []indexKind{offsetIndex, timeIndex, txnIndex} {
		if err := s.replaceIndex(kind, mem, unknown == nil); err != nil {
			return fmt.Errorf("rebuild index: %w", err)
		}
	}
	s.mu.Lock()
	s.onDisk = unknownEntries
	s.mu.Unlock()
	s.log.store.indexes.forget(s)
	return nil
}

// replaceIndex writes one index file anew, durably; a transaction index only
// when it is known.
func (s *Segment) replaceIndex(kind indexKind, mem *memIndex, txnsKnown bool) error {
	path := segmentFile(s.log.dir, s.base, kind.suffix())
	if kind != txnIndex {
		return vfs.ReplaceFile(s.log.store.fs, path, mem.bytes(kind))
	}
	switch {
	case !txnsKnown:
		return nil
	case len(mem.aborted) > 0:
		s.log.aborts.Store(true)
		return vfs.ReplaceFile(s.log.store.fs, path, mem.aborted)
	}
	if err := s.log.store.fs.Remove(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return s.log.store.fs.SyncDir(s.log.dir)
}

// indexFromLog reads the headers of all batches of the segment, and all of those
// that tell about transactions. unknown is why the index has not all of these:
// the state of the producers at the segment's start is not to be had, or a batch
// is damaged.
func (s *Segment) indexFromLog() (_ *memIndex, unknown, _ error) {
	f, err := s.acquire()
	if err != nil {
		return nil, nil, err
	}
	defer s.release()
	mem := newMemIndex(s.base)
	var c cursor
	s.walk(&c, f, 0, s.Size())
	defer c.done()
	interval := s.log.options().IndexInterval
	producers, unknown := s.producersAtBase()
	for {
		h, at, err := c.header()
		if errors.Is(err, io.EOF) {
			mem.finish()
			return mem, unknown, nil
		}
		if err != nil {
			return nil, nil, err
		}
		mem.add(h, at, interval)
		if unknown != nil || !h.HasProducer() {
			continue
		}
		if unknown = c.checkCRC(h, at); unknown == nil {
			var took applied
			took, unknown = c.apply(producers, h, at)
			mem.end(took.ended)
		}
	}
}

// readIndex reads and checks the index files whole.
func (s *Segment) readIndex() (*memIndex, error) {
	mem := newMemIndex(s.base)
	for kind, into := range [indexKinds]*[]byte{&mem.offsets, &mem.times, &mem.aborted} {
		kind := indexKind(kind)
		path := segmentFile(s.log.dir, s.base, kind.suffix())
		b, err := vfs.ReadFile(s.log.store.fs, path, maxIndexFile)
		if kind == txnIndex && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := s.checkIndex(kind, b); err != nil {
			return nil, record.InFile(err, path)
		}
		*into = b
	}
	v := s.view()
	mem.since = v.size
	if n := len(mem.offsets); n > 0 {
		mem.since -= int64(record.ParseIndexEntry(mem.offsets[n-record.IndexEntrySize:], s.base).Position)
	}
	if n := len(mem.times); n > 0 {
		mem.max = record.ParseTimeIndexEntry(mem.times[n-record.TimeIndexEntrySize:], s.base)
	}
	return mem, nil
}

// ensureMem brings the index of the active segment into memory, where appends
// extend it.
func (s *Segment) ensureMem() error {
	s.mu.Lock()
	there := s.mem != nil
	s.mu.Unlock()
	if there {
		return nil
	}
	mem, err := s.readIndex()
	if repairable(err) {
		s.log.repaired(repairIndex, "rebuilding the indexes of the active segment", "event", "index_rebuild", "segment", s.path, "cause", err)
		var unknown error
		if mem, unknown, err = s.indexFromLog(); err == nil {
			err = unknown
		}
	}
	if err != nil {
		return fmt.Errorf("load index: %w", err)
	}
	s.mu.Lock()
	s.mem, s.max, s.maxKnown = mem, mem.max, true
	s.mu.Unlock()
	s.log.store.indexes.forget(s)
	return nil
}

// maxEntry is the largest timestamp of the segment and the last offset of the
// first batch that has it; the timestamp is record.NoTimestamp when no batch
// has one.
func (s *Segment) maxEntry() (record.TimeIndexEntry, error) {
	s.mu.Lock()
	e, known := s.max, s.maxKnown
	s.mu.Unlock()
	if known {
		return e, nil
	}
	b, err := s.lastWhere(timeIndex, func([]byte) bool { return true })
	if err != nil {
		return noMax(s.base), err
	}
	e = noMax(s.base)
	if b != nil {
		e = record.ParseTimeIndexEntry(b, s.base)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.maxKnown {
		return s.max, nil // an append was quicker
	}
	s.max, s.maxKnown = e, true
	return e, nil
}
