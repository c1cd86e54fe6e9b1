// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"firn/internal/vfs"
	"firn/record"
)

// cut ends the log within the first segment of tail, at position valid of its
// open file f. What is cut off is kept in side files: the rest of this
// segment as a copy, the segments that follow as they are. It is durable when
// cut returns. A crash within it leaves a log that the next recovery cuts at
// the same place, and side files that may be there twice.
//
// The file is shortened in place: the process that served from it is gone, and
// this one has served nothing yet.
func (r *recovery) cut(tail []*Segment, f vfs.File, valid int64, damage error) error {
	l, s := r.log, tail[0]
	kept := ""
	// The last first: a crash must not leave a hole before a segment.
	for _, later := range slices.Backward(tail[1:]) {
		path, err := r.sideFile(later.base, 0)
		if err != nil {
			return err
		}
		l.store.files.drop(&later.handle)
		if err := l.store.fs.Rename(later.path, path); err != nil {
			return err
		}
		for _, suffix := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix} {
			if err := l.removeAll([]string{later.base.FileName() + suffix}); err != nil {
				return err
			}
		}
		if err := l.store.fs.SyncDir(l.dir); err != nil {
			return err
		}
		kept = path
	}
	if size := s.size; size > valid {
		path, err := r.keep(s, f, valid, size)
		if err != nil {
			return err
		}
		if path != "" {
			kept = path
		}
		if err := f.Truncate(valid); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	l.repaired(repairTail, "log was cut at its first bad batch", "event", "log_cut", "segment", s.path, "position", valid,
		"segment_bytes", s.size-valid, "later_segments", len(tail)-1, "kept_in", kept, "cause", damage)
	return nil
}

// keep copies the bytes [valid, size) of f to a side file, durably. Nothing
// but zeros, as a power cut or a preallocation leaves, is not worth keeping.
func (r *recovery) keep(s *Segment, f vfs.File, valid, size int64) (path string, err error) {
	if zero, err := r.allZero(f, valid, size); err != nil || zero {
		return "", err
	}
	if path, err = r.sideFile(s.base, valid); err != nil {
		return "", err
	}
	side, err := r.log.store.fs.OpenFile(path, vfs.CreateNew, 0o644)
	if err != nil {
		return "", err
	}
	err = r.copyRange(side, f, valid, size)
	if err == nil {
		err = side.Sync()
	}
	if err = errors.Join(err, side.Close()); err != nil {
		return "", err
	}
	return path, r.log.store.fs.SyncDir(r.log.dir)
}

func (r *recovery) copyRange(to, from vfs.File, start, end int64) error {
	for at := start; at < end; {
		b, err := r.read(from, at, end)
		if err != nil {
			return err
		}
		if _, err := to.WriteAt(b, at-start); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return nil
}

func (r *recovery) allZero(f vfs.File, start, end int64) (bool, error) {
	for at := start; at < end; {
		b, err := r.read(f, at, end)
		if err != nil {
			return false, err
		}
		for _, v := range b {
			if v != 0 {
				return false, nil
			}
		}
		at += int64(len(b))
	}
	return true, nil
}

// read fills the recovery's buffer from position at, up to end.
func (r *recovery) read(f vfs.File, at, end int64) ([]byte, error) {
	b := r.buf[:min(int64(len(r.buf)), end-at)]
	n, err := f.ReadAt(b, at)
	if n < len(b) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return b, nil
}

// sideFile is a path for what is cut off a segment from position on that is
// not taken yet.
func (r *recovery) sideFile(base record.Offset, position int64) (string, error) {
	for n := 0; ; n++ {
		path := cutFile(r.log.dir, base, position, n)
		_, err := r.log.store.fs.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", fmt.Errorf("find a name for a side file: %w", err)
		}
	}
}
