// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"firn/internal/vfs"
	"firn/record"
)

// DropBefore deletes the whole sealed segments that end at or below o, oldest
// first, and answers how many are gone for readers. It does not move the log
// start. Regions and pins keep what they have. After an error, which wraps
// record.ErrStorage, some files may still be there; a later call and the
// janitor try them again before anything else is dropped, unless it was a sync
// that failed: that poisons the log.
func (l *Log) DropBefore(ctx context.Context, o record.Offset) (dropped int, err error) {
	l.sealMu.Lock()
	defer l.sealMu.Unlock()
	if l.closed.Load() {
		return 0, fmt.Errorf("drop segments of %s: %w", l.tp, record.ErrClosed)
	}
	if list := l.list(); len(l.doomed) == 0 && list[0].NextOffset() > o {
		return 0, nil
	}
	if err := l.store.beginWriting(); err != nil {
		return 0, fmt.Errorf("drop segments of %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	err = l.purge()
	if err == nil {
		// The batches of a segment that was never completed are the only ones
		// to know their epochs.
		err = l.writeEpochs()
	}
	if err != nil {
		return 0, fmt.Errorf("drop segments of %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	for {
		if err := ctx.Err(); err != nil {
			return dropped, err
		}
		if err := l.keepProducers(o); err != nil {
			return dropped, fmt.Errorf("drop segments of %s: %w: %w", l.tp, record.ErrStorage, err)
		}
		if !l.dropFirst(o) {
			return dropped, nil
		}
		dropped++
		if err := l.purge(); err != nil {
			return dropped, fmt.Errorf("drop segments of %s: %w: %w", l.tp, record.ErrStorage, err)
		}
	}
}

// keepProducers makes the state of the producers at the end of the oldest
// segment durable when that is about to be dropped and was never completed: its
// batches are the only other ones to know it. The caller holds sealMu.
func (l *Log) keepProducers(o record.Offset) error {
	s := l.list()[0]
	s.mu.Lock()
	due, next, snapshot := s.sealed && !s.complete && s.next <= o, s.next, s.snapshot
	s.mu.Unlock()
	if !due {
		return nil
	}
	if err := l.writeFile(segmentFile(l.dir, next, snapshotSuffix), snapshot); err != nil {
		return err
	}
	l.mu.Lock()
	l.dirChanged++
	dir := l.dirChanged
	l.mu.Unlock()
	if err := l.syncDir(dir); err != nil {
		l.setPoison(err)
		return err
	}
	return nil
}

// dropFirst takes the oldest segment from the list if it is sealed and ends at
// or below o. The caller holds sealMu.
func (l *Log) dropFirst(o record.Offset) bool {
	l.mu.Lock()
	list := l.list()
	if v := list[0].view(); !v.sealed || v.next > o {
		l.mu.Unlock()
		return false
	}
	l.setSegmentsLocked(list[1:])
	l.mu.Unlock()
	l.doom(list[0])
	return true
}

// doom makes a segment unavailable; purge deletes its files. The caller holds
// sealMu.
func (l *Log) doom(s *Segment) {
	l.store.files.drop(&s.handle)
	l.store.indexes.forget(s)
	l.doomed = append(l.doomed, s)
}

// purge deletes the files of dropped segments, oldest first and each durably
// before the next, so that no crash leaves a hole between segments. A sync that
// fails poisons the log: after it nobody knows which of them a crash would bring
// back. The caller holds sealMu.
func (l *Log) purge() error {
	for len(l.doomed) > 0 {
		if err := l.store.beginWriting(); err != nil {
			return err
		}
		s := l.doomed[0]
		s.letGo()
		for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix, snapshotSuffix} {
			err := l.store.fs.Remove(segmentFile(l.dir, s.base, suffix))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		l.mu.Lock()
		l.dirChanged++
		dir := l.dirChanged
		l.mu.Unlock()
		if err := l.syncDir(dir); err != nil {
			l.setPoison(err)
			return err
		}
		l.doomed = l.doomed[1:]
	}
	return nil
}

// ResetTo drops all segments and begins the log anew at start, with the given
// history of epochs and producer state (a .snapshot file's content; nil for
// none), durably. Who waits for a sync gets an error; Regions and pins keep
// what they have. Reads answer record.ErrStorage until it is done.
//
// A start below the log start, and a snapshot that cannot be read, change
// nothing. After a failure on the
// way, which wraps record.ErrStorage, the log is poisoned; opened again it has
// a part of the old segments, or none and begins at the log start.
func (l *Log) ResetTo(ctx context.Context, start record.Offset, epochs record.Epochs, snapshot []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	producers, err := parseProducers(snapshot)
	if err == nil && start < l.LogStartOffset() {
		err = fmt.Errorf("%w: %d lies below the log start %d", record.ErrOffsetOutOfRange, start, l.LogStartOffset())
	}
	if err != nil {
		return fmt.Errorf("reset %s: %w", l.tp, err)
	}
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	l.sealMu.Lock()
	defer l.sealMu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	if err := l.store.beginWriting(); err != nil {
		return fmt.Errorf("reset %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	// A recovery point above the new end would forbid the recovery of what is
	// appended from here on. Nothing was dropped yet: a failure is harmless.
	l.store.recoveryPoints.set(l.tp, 0)
	if err := l.store.recoveryPoints.write(); err != nil {
		return fmt.Errorf("reset %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	if err := l.replaceAll(start, epochs.TruncateFrom(maxOffset), producers); err != nil {
		l.setPoison(fmt.Errorf("reset to offset %d: %w", start, err))
		return fmt.Errorf("reset %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	l.logger.Info("log begun anew", "event", "log_reset", "offset", int64(start))
	return nil
}

// replaceAll deletes all segments and begins at start. The old list stays
// visible until the new one replaces it; its segments are unavailable.
func (l *Log) replaceAll(start record.Offset, epochs record.Epochs, producers *record.Producers) error {
	for _, s := range l.list() {
		l.doom(s)
	}
	if err := l.purge(); err != nil {
		return err
	}
	inv, err := l.takeInventory()
	if err != nil {
		return err
	}
	if err := l.removeSnapshots(inv.snapshots, func(record.Offset) bool { return false }); err != nil {
		return err
	}
	l.strays = nil
	path := segmentFile(l.dir, start, snapshotSuffix)
	if err := vfs.ReplaceFile(l.store.fs, path, producers.Marshal(start)); err != nil {
		return err
	}
	return l.beginAt(start, epochs, producers)
}

func parseProducers(snapshot []byte) (*record.Producers, error) {
	if snapshot == nil {
		return record.NewProducers(), nil
	}
	p, err := record.ParseProducers(snapshot)
	if err != nil {
		return nil, fmt.Errorf("producer snapshot: %w", err)
	}
	return p, nil
}
