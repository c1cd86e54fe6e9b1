// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"firn/internal/vfs"
	"firn/record"
)

// RequestSync asks for a sync of everything appended so far and returns at
// once. OnDurable tells when it is done, OnPoison when it never will be.
func (l *Log) RequestSync() { l.store.flusher.request(l) }

// WaitDurable asks for a sync and waits until the log is durable up to, and
// without, the offset. The error is the context's or wraps record.ErrStorage
// (poisoned, or begun anew by ResetTo) or record.ErrClosed.
func (l *Log) WaitDurable(ctx context.Context, upTo record.Offset) error {
	l.mu.Lock()
	generation := l.generation
	l.mu.Unlock()
	for {
		l.mu.Lock()
		progress, now := l.progress, l.generation
		l.mu.Unlock()
		switch {
		case now != generation:
			return fmt.Errorf("wait for sync of %s: %w: the log was begun anew", l.tp, record.ErrStorage)
		case l.DurableOffset() >= upTo:
			return nil
		}
		if err := l.writable(); err != nil {
			return err
		}
		l.RequestSync()
		select {
		case <-progress:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// advance raises the durable offset, unless the log was reset since the
// generation that the caller saw, and tells who waits.
func (l *Log) advance(to record.Offset, generation int) {
	l.mu.Lock()
	rose := l.generation == generation && to > l.DurableOffset()
	if rose {
		l.durable.Store(int64(to))
		l.signalLocked()
	}
	l.mu.Unlock()
	if hook := l.hooks.OnDurable; rose && hook != nil {
		hook(to)
	}
}

// flush makes everything appended so far durable: the active segment and its
// predecessors that were rolled since the last flush, their directory entries
// and the history of epochs, all in parallel. It is one log's part of a round
// of the group commit. An error has been dealt with.
func (l *Log) flush() {
	if l.closed.Load() || l.poison.Load() != nil {
		return
	}
	l.mu.Lock()
	generation, end := l.generation, l.EndOffset()
	segments, dir := l.list(), l.dirChanged
	dirDue := l.dirSynced < dir
	epochsDue := l.epochsSynced < l.epochsChanged
	l.mu.Unlock()
	if end == l.DurableOffset() {
		return
	}
	if l.store.noFsync {
		l.advance(end, generation)
		return
	}
	var jobs []func() error
	for i := len(segments) - 1; i >= 0 && !segments[i].view().complete; i-- {
		if segments[i].unsynced() {
			jobs = append(jobs, segments[i].syncLog)
		}
	}
	if dirDue {
		jobs = append(jobs, func() error { return l.syncDir(dir) })
	}
	if epochsDue {
		jobs = append(jobs, func() error {
			if err := l.writeEpochs(); err != nil {
				// The batches carry their epochs, and the recovery point does
				// not pass them before the file is written.
				l.logger.Warn("leader epochs not written", "event", "epochs_write_failed", "error", err)
			}
			return nil
		})
	}
	if err := inParallel(jobs); err != nil {
		l.setPoison(err)
		return
	}
	l.advance(end, generation)
}

// syncOnce makes the syncs of one file follow one another and keeps the first
// error for good. The kernel tells a failure to one of its callers only: of two
// syncs at once the other would report success for bytes that are lost.
type syncOnce struct {
	mu  sync.Mutex
	err error
}

func (s *syncOnce) do(sync func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = sync()
	}
	return s.err
}

// inParallel runs the jobs at once and joins their errors.
func inParallel(jobs []func() error) error {
	if len(jobs) == 1 {
		return jobs[0]()
	}
	errs := make([]error, len(jobs))
	var wg sync.WaitGroup
	for i, job := range jobs {
		wg.Go(func() { errs[i] = job() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// syncDir makes the entries of the partition directory durable; changes is the
// value of dirChanged that this covers.
func (l *Log) syncDir(changes int) error {
	err := l.dirSyncs.do(func() error { return l.store.fs.SyncDir(l.dir) })
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	l.mu.Lock()
	l.dirSynced = max(l.dirSynced, changes)
	l.mu.Unlock()
	return nil
}

// writeEpochs makes leader-epoch-checkpoint say what is in memory.
func (l *Log) writeEpochs() error {
	l.epochsFile.Lock()
	defer l.epochsFile.Unlock()
	l.mu.Lock()
	epochs, changed, due := l.epochs, l.epochsChanged, l.epochsSynced < l.epochsChanged
	l.mu.Unlock()
	if !due {
		return nil
	}
	if err := vfs.ReplaceFile(l.store.fs, filepath.Join(l.dir, epochsName), epochs.Marshal()); err != nil {
		return err
	}
	l.mu.Lock()
	l.epochsSynced = max(l.epochsSynced, changed)
	l.mu.Unlock()
	return nil
}

// SetEpochs replaces the history of leader epochs, durably.
func (l *Log) SetEpochs(ctx context.Context, epochs record.Epochs) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	if err := l.store.beginWriting(); err != nil {
		return fmt.Errorf("set epochs of %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	l.mu.Lock()
	l.epochs = epochs.TruncateFrom(maxOffset) // a copy
	l.epochsChanged++
	l.mu.Unlock()
	if err := l.writeEpochs(); err != nil {
		return fmt.Errorf("set epochs of %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	return nil
}

// SetLogStartOffset raises the start of the log, in all tiers, and makes that
// durable before it returns. A lower offset than the current one changes
// nothing. One above the end wraps record.ErrOffsetOutOfRange; a failed write
// wraps record.ErrStorage and may be tried again.
func (l *Log) SetLogStartOffset(ctx context.Context, o record.Offset) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if o <= l.LogStartOffset() {
		return nil
	}
	if end := l.EndOffset(); o > end {
		return fmt.Errorf("set log start of %s to %d: %w: the log ends at %d", l.tp, o, record.ErrOffsetOutOfRange, end)
	}
	if err := l.writable(); err != nil {
		return err
	}
	if err := l.store.beginWriting(); err != nil {
		return fmt.Errorf("set log start of %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	if err := l.store.logStarts.raise(l.tp, o); err != nil {
		return fmt.Errorf("set log start of %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if o > l.LogStartOffset() {
		l.logStart.Store(int64(o))
	}
	if first := l.epochs; len(first) > 0 && first[0].StartOffset < l.LogStartOffset() {
		l.epochs = l.epochs.TruncateTo(l.LogStartOffset())
		l.epochsChanged++
	}
	return nil
}
