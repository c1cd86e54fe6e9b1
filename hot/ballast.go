// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"

	"firn/internal/vfs"
)

// ballast is a file that holds space for the moment when the disk has none
// left. What makes room again has to write first (a manifest before segments
// may go, a checkpoint, the metadata), and on a disk that others have filled to
// its last block it could not. The file is then removed, and made again when
// there is room. While it is gone the disk takes no records of clients.
type ballast struct {
	bytes int64 // 0: none
	part  int64 // of the disk, at most; 0: any
	held  bool  // only the opening and then the watch touch it
	short atomic.Bool
}

// Room that makes the ballast go, and room that lets it be made, in parts and
// multiples of its size.
const (
	ballastGoesBelow = 2
	ballastMadeAbove = 3
)

// Exhausted says that the disk was full to its last block and has no room yet:
// records of clients must wait for what makes room.
func (s *Store) Exhausted() bool { return s.ballast.short.Load() }

// loadBallast looks at what an earlier start has left, and drops it when the
// disk is full, so that the start itself has room. It makes none: the directory
// may turn out to be one that is not to be written to.
func (s *Store) loadBallast() error {
	b := &s.ballast
	if b.bytes == 0 {
		return nil
	}
	usage, err := s.Usage()
	if err != nil {
		return err
	}
	if b.part > 0 {
		b.bytes = min(b.bytes, max(1, int64(usage.Total/uint64(b.part))))
	}
	path := filepath.Join(s.dir, ballastName)
	info, err := s.fs.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("look at the ballast: %w", err)
	case info.Size() == b.bytes:
		b.held = true
	default: // half made, or of another size
		if err := s.fs.Remove(path); err != nil {
			return fmt.Errorf("drop an old ballast: %w", err)
		}
	}
	if b.held {
		s.dropBallast(usage.Free)
	} else {
		b.short.Store(usage.Free <= ballastMadeAbove*uint64(b.bytes))
	}
	return nil
}

// tendBallast drops the ballast when the disk is full and makes it when there
// is room.
func (s *Store) tendBallast() {
	b := &s.ballast
	if b.bytes == 0 {
		return
	}
	usage, err := s.Usage()
	switch {
	case err != nil:
		s.logger.Warn("cannot tell the free space of the disk", "event", "disk_unknown", "error", err)
	case b.held:
		s.dropBallast(usage.Free)
	case usage.Free > ballastMadeAbove*uint64(b.bytes):
		b.short.Store(false)
		if err := s.makeBallast(filepath.Join(s.dir, ballastName)); err != nil {
			s.logger.Warn("the ballast is not made yet", "event", "ballast_failed", "error", err)
			s.doubt(err)
			return
		}
		b.held = true
		s.logger.Info("the ballast is in place", "event", "ballast_made", "dir", s.dir, "bytes", b.bytes)
	}
}

// dropBallast drops the ballast when there is no other room.
func (s *Store) dropBallast(free uint64) {
	b := &s.ballast
	if free >= uint64(b.bytes/ballastGoesBelow) {
		return
	}
	b.short.Store(true) // before there is room for anybody
	if err := s.fs.Remove(filepath.Join(s.dir, ballastName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Warn("the ballast cannot be dropped", "event", "ballast_stuck", "error", err)
		s.doubt(err)
		return
	}
	b.held = false
	s.logger.Warn("the disk is full: the ballast is dropped", "event", "ballast_dropped", "dir", s.dir, "free_bytes", free, "bytes", b.bytes)
}

// makeBallast writes the file, of bytes that no file system makes smaller.
func (s *Store) makeBallast(path string) (err error) {
	f, err := s.fs.OpenFile(path, vfs.Create|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	noise := rand.NewChaCha8([32]byte{})
	block := make([]byte, 64<<10)
	for off := int64(0); off < s.ballast.bytes && err == nil; off += int64(len(block)) {
		_, _ = noise.Read(block) // never fails
		_, err = f.WriteAt(block[:min(int64(len(block)), s.ballast.bytes-off)], off)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return errors.Join(err, f.Close(), s.fs.Remove(path))
	}
	s.io.DropWritten(f)
	return f.Close()
}
