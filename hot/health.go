// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"firn/internal/vfs"
	"firn/record"
)

// ErrDirFailed says that a log directory has failed: its disk, or the
// directory itself, is gone, and nothing is read from it or written to it until
// the next start. It comes together with record.ErrStorage.
var ErrDirFailed = errors.New("log directory has failed")

// health is what a Store knows of the directory as a whole. One log may be
// poisoned by a bad sector while the others serve; a directory that fails takes
// all of them with it.
//
// A disk is not judged by the first error, which one sector can explain: an
// error has the directory tried, by a small file that is written, synced, read
// and removed, and that decides.
type health struct {
	failure  atomic.Pointer[poisonError]
	lost     chan struct{} // closed with the failure
	doubts   chan struct{} // signalled when the directory is to be tried
	every    time.Duration // 0: it is never looked at
	lockFile fs.FileInfo   // the lock file as it was at the start
}

func newHealth(every time.Duration) health {
	return health{every: every, lost: make(chan struct{}), doubts: make(chan struct{}, 1)}
}

// Failed is why the directory is not used any more, nil while it is. The error
// wraps ErrDirFailed and record.ErrStorage.
func (s *Store) Failed() error {
	if f := s.health.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// Lost is closed when the directory fails.
func (s *Store) Lost() <-chan struct{} { return s.health.lost }

// Offline is why the log is not used any more though nothing may be wrong with
// it: its directory has failed. Nil while it is in use.
func (l *Log) Offline() error { return l.store.Failed() }

// doubt has the directory tried after an operation on it failed. An error for
// want of space says nothing about its health.
func (s *Store) doubt(err error) {
	if err == nil || s.health.every == 0 || vfs.IsFull(err) {
		return
	}
	select {
	case s.health.doubts <- struct{}{}:
	default:
	}
}

// watch looks after the directory from time to time, tries it when there is
// doubt, and tends the ballast. A disk that hangs holds up this goroutine
// alone.
func (s *Store) watch() {
	tick := time.NewTicker(s.health.every)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-s.stop:
			return
		case <-tick.C:
			err = s.look()
		case <-s.health.doubts:
			err = s.try()
		}
		if err != nil {
			s.fail(err)
			return
		}
		s.tendBallast()
	}
}

// look sees whether the directory is still the one that was locked: it may be
// removed, unmounted, or covered by another.
func (s *Store) look() error {
	now, err := s.fs.Stat(filepath.Join(s.dir, lockName))
	if err != nil {
		return fmt.Errorf("look at the lock: %w", err)
	}
	// A file in memory has nothing to be told by.
	if then := s.health.lockFile; then != nil && then.Sys() != nil && !os.SameFile(then, now) {
		return errors.New("another directory is in its place")
	}
	return nil
}

// try finds out whether the directory takes and keeps a small file. A disk
// that is full is well.
func (s *Store) try() error {
	if err := s.look(); err != nil {
		return err
	}
	err := s.tryFile(filepath.Join(s.dir, probeName))
	if vfs.IsFull(err) {
		return nil
	}
	return err
}

func (s *Store) tryFile(path string) error {
	f, err := s.fs.OpenFile(path, vfs.Create|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("try the disk: %w", err)
	}
	want := bytes.Repeat([]byte("firn"), 1024)
	got := make([]byte, len(want))
	_, err = f.WriteAt(want, 0)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		_, err = f.ReadAt(got, 0)
	}
	if err == nil && !bytes.Equal(got, want) {
		err = errors.New("what was written reads differently")
	}
	err = errors.Join(err, f.Close(), s.fs.Remove(path))
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	if err != nil {
		return fmt.Errorf("try the disk: %w", err)
	}
	return nil
}

// fail ends all use of the directory, for the first of several reasons.
func (s *Store) fail(cause error) {
	err := fmt.Errorf("%w: %w: %s: %w", ErrDirFailed, record.ErrStorage, s.dir, cause)
	s.mu.Lock()
	if s.closed || !s.health.failure.CompareAndSwap(nil, &poisonError{err}) {
		s.mu.Unlock()
		return
	}
	var logs []*Log
	for _, l := range s.logs {
		if l != nil {
			logs = append(logs, l)
		}
	}
	s.mu.Unlock()
	s.logger.Error("a log directory has failed: its partitions are offline until the next start", "event", "log_dir_failed",
		"dir", s.dir, "partitions", len(logs), "error", cause)
	close(s.health.lost)
	for _, l := range logs {
		l.takePoison(err)
	}
}
