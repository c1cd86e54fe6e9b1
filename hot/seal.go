// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"firn/internal/vfs"
	"firn/record"
)

// complete makes the sealed segments of the log wholly durable, oldest first,
// and moves the recovery point past each. It is the sealer's work on one log.
// A write that failed leaves the segment sealed and incomplete, for the next
// try; a sync that failed poisons the log.
func (l *Log) complete() {
	for l.completeOne() {
		if hook := l.hooks.OnSeal; hook != nil {
			hook()
		}
	}
}

// completeOne completes the oldest segment that is sealed and not complete;
// false means that there is none, or that it has to wait.
func (l *Log) completeOne() bool {
	l.sealMu.Lock()
	next, generation, err := l.completeOldest()
	l.sealMu.Unlock()
	if err != nil {
		l.logger.Warn("sealed segment is not durable yet", "event", "seal_failed", "error", err)
		l.store.doubt(err)
	}
	if err != nil || next == record.NoOffset {
		return false
	}
	l.advance(next, generation)
	return true
}

// completeOldest does completeOne's work and answers up to where the log is
// now durable, NoOffset when there was nothing to do. The caller holds sealMu.
func (l *Log) completeOldest() (next record.Offset, generation int, err error) {
	if l.closed.Load() || l.poison.Load() != nil {
		return record.NoOffset, 0, nil
	}
	for _, s := range l.list() {
		v := s.view()
		if v.complete {
			continue
		}
		if !v.sealed {
			break
		}
		generation, err = l.completeSegment(s, v.next)
		return v.next, generation, err
	}
	return record.NoOffset, 0, nil
}

// completeSegment writes and syncs all that belongs to a sealed segment. The
// caller holds sealMu.
func (l *Log) completeSegment(s *Segment, next record.Offset) (generation int, err error) {
	l.mu.Lock()
	generation = l.generation
	l.dirChanged++
	dir := l.dirChanged
	l.mu.Unlock()
	if err := s.writeIndexes(); err != nil {
		return generation, err
	}
	s.mu.Lock()
	snapshot := s.snapshot
	s.mu.Unlock()
	if snapshot != nil {
		if err := l.writeFile(segmentFile(l.dir, next, snapshotSuffix), snapshot); err != nil {
			return generation, err
		}
	}
	if err := s.syncLog(); err != nil {
		l.setPoison(err)
		return generation, err
	}
	if err := l.writeEpochs(); err != nil {
		return generation, err
	}
	if err := l.syncDir(dir); err != nil {
		l.setPoison(err)
		return generation, err
	}
	s.mu.Lock()
	s.complete, s.mem, s.snapshot, s.onDisk = true, nil, nil, unknownEntries
	s.mu.Unlock()
	s.letGo()
	l.store.recoveryPoints.set(l.tp, next)
	l.dropStrays(next)
	return generation, nil
}

// writeIndexes writes and syncs the index files of a segment whose index is in
// memory; it stays there for readers. The files are written from the start:
// whatever an earlier try has left is not trusted. A transaction index without
// an entry is no file at all, as in Kafka.
func (s *Segment) writeIndexes() error {
	s.mu.Lock()
	mem := s.mem
	s.mu.Unlock()
	if mem == nil {
		return nil
	}
	for _, kind := range []indexKind{offsetIndex, timeIndex, txnIndex} {
		path, b := segmentFile(s.log.dir, s.base, kind.suffix()), mem.bytes(kind)
		if kind == txnIndex && len(b) == 0 {
			if err := s.log.store.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		if err := s.log.writeFile(path, b); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes and syncs a file that recovery can rebuild, so that it need
// not be replaced atomically. A failed write is removed, and may be tried
// again; a failed sync poisons the log. The directory is not synced.
func (l *Log) writeFile(path string, content []byte) error {
	f, err := l.store.fs.OpenFile(path, vfs.Create|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, f.Close(), l.store.fs.Remove(path)))
	}
	if err := f.Sync(); err != nil {
		l.setPoison(fmt.Errorf("sync %s: %w", path, err))
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// dropStrays removes the snapshots that a clean stop left below keep, in the
// middle of a segment: they served the start after it. What stays is harmless
// and goes another time. The caller holds sealMu.
func (l *Log) dropStrays(keep record.Offset) {
	at := l.strays
	l.strays = nil
	if err := l.removeSnapshots(at, func(o record.Offset) bool { return o >= keep }); err != nil {
		l.logger.Warn("old producer snapshots not removed", "event", "snapshot_delete_failed", "error", err)
	}
}
