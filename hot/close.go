// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"fmt"

	"firn/record"
)

// shut ends all writing to the log and wakes everybody who waits for it. When
// it returns no append is under way.
func (l *Log) shut() {
	l.appendMu.Lock()
	l.closed.Store(true)
	l.appendMu.Unlock()
	l.mu.Lock()
	l.signalLocked()
	l.mu.Unlock()
}

// finish makes everything durable that shut has left: a later clean start
// needs no scan. The log was shut. A poisoned log is not touched.
func (l *Log) finish() error {
	l.sealMu.Lock()
	defer l.sealMu.Unlock()
	defer func() {
		for _, s := range l.list() {
			s.letGo()
		}
	}()
	if err := l.Poisoned(); err != nil {
		return fmt.Errorf("%w: %w", record.ErrStorage, err)
	}
	end := l.EndOffset()
	if l.finished(end) {
		return nil
	}
	if err := l.purge(); err != nil {
		return err
	}
	for _, s := range l.list() {
		v := s.view()
		if v.complete {
			continue
		}
		if v.sealed {
			if _, err := l.completeSegment(s, v.next); err != nil {
				return err
			}
			continue
		}
		if err := l.finishActive(s, end); err != nil {
			return err
		}
	}
	l.store.recoveryPoints.set(l.tp, end)
	l.mu.Lock()
	generation := l.generation
	l.mu.Unlock()
	l.advance(end, generation)
	return nil
}

// finished says whether everything is on disk already, as in a log that was
// opened after a clean stop and not written to.
func (l *Log) finished(end record.Offset) bool {
	active := l.active()
	active.mu.Lock()
	onDisk := active.mem == nil && active.synced == active.size
	active.mu.Unlock()
	l.mu.Lock()
	epochs := l.epochsSynced == l.epochsChanged
	l.mu.Unlock()
	return onDisk && epochs && len(l.doomed) == 0 && l.store.recoveryPoints.get(l.tp) == end
}

// finishActive writes and syncs the active segment, its indexes, the producer
// state at the end, the epochs and the directory.
func (l *Log) finishActive(s *Segment, end record.Offset) error {
	s.mu.Lock()
	if s.mem != nil {
		s.mem.finish()
	}
	s.mu.Unlock()
	if err := s.writeIndexes(); err != nil {
		return err
	}
	if err := l.writeFile(segmentFile(l.dir, end, snapshotSuffix), l.producers.Marshal(end)); err != nil {
		return err
	}
	if err := s.syncLog(); err != nil {
		l.setPoison(err)
		return err
	}
	if err := l.writeEpochs(); err != nil {
		return err
	}
	if err := l.store.fs.SyncDir(l.dir); err != nil {
		return err
	}
	l.dropStrays(end)
	return nil
}
