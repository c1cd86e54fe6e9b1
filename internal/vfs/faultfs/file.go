// SPDX-License-Identifier: Apache-2.0

package faultfs

import (
	"errors"
	"io/fs"

	"firn/internal/vfs"
)

// file is an open file of an FS. Name is the inner one's.
type file struct {
	vfs.File
	fs *FS
}

func (f *file) call(op Op) Call { return Call{Op: op, Path: f.Name()} }

// ReadAt reads, fails after some bytes, or reads with a bit turned over.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	c := Call{Op: OpRead, Path: f.Name(), Off: off, Len: len(p)}
	fault := f.fs.meet(c)
	switch {
	case fault == nil:
		return f.File.ReadAt(p, off)
	case fault.Flip:
		n, err := f.File.ReadAt(p, off)
		if n > 0 {
			bit := fault.Bit % (8 * n)
			p[bit/8] ^= 1 << (bit % 8)
		}
		return n, err
	}
	n, err := 0, error(nil)
	if part := clamp(fault.Bytes, len(p)); part > 0 {
		n, err = f.File.ReadAt(p[:part], off)
	}
	if err != nil {
		return n, err
	}
	return n, fault.error(c)
}

// WriteAt writes, or writes some bytes and fails.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	c := Call{Op: OpWrite, Path: f.Name(), Off: off, Len: len(p)}
	fault := f.fs.meet(c)
	if fault == nil || fault.Flip {
		return f.File.WriteAt(p, off)
	}
	n, err := 0, error(nil)
	if part := clamp(fault.Bytes, len(p)); part > 0 {
		n, err = f.File.WriteAt(p[:part], off)
	}
	if err != nil {
		return n, err
	}
	return n, fault.error(c)
}

// Truncate cuts or extends the file.
func (f *file) Truncate(size int64) error {
	c := f.call(OpTruncate)
	c.Off = size
	if err := f.fs.fails(c); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Sync makes the file durable, or fails and loses what was not.
func (f *file) Sync() error {
	if err := f.fs.fails(f.call(OpSync)); err != nil {
		if inner, ok := f.File.(interface{ DropUnsynced() }); ok {
			inner.DropUnsynced()
		}
		return err
	}
	return f.File.Sync()
}

// DropClean is passed on, and no operation that counts.
func (f *file) DropClean() { vfs.DropClean(f.File) }

// Stat describes the file.
func (f *file) Stat() (fs.FileInfo, error) {
	if err := f.fs.fails(f.call(OpFileStat)); err != nil {
		return nil, err
	}
	return f.File.Stat()
}

// Fd is vfs.InvalidFd unless the FS exposes descriptors.
func (f *file) Fd() uintptr {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if !f.fs.fds {
		return vfs.InvalidFd
	}
	return f.File.Fd()
}

// Close closes the inner file, whatever it answers.
func (f *file) Close() error {
	err := f.fs.fails(f.call(OpClose))
	return errors.Join(err, f.File.Close())
}

func clamp(n, limit int) int { return max(0, min(n, limit)) }
