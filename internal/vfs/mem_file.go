// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

var errNegativeOffset = errors.New("negative offset")

// memFile is an open handle on a node of a Mem. What it shares with others is
// guarded by the lock of the Mem.
type memFile struct {
	mem  *Mem
	node *node
	name string
	flag int

	closed bool // guarded by mem.mu
}

// ReadAt is as in io.ReaderAt.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.mem.mu.RLock()
	defer f.mem.mu.RUnlock()
	switch {
	case f.closed:
		return 0, f.fault("read", fs.ErrClosed)
	case off < 0:
		return 0, f.fault("readat", errNegativeOffset)
	case len(p) == 0:
		return 0, nil
	case f.node.dir:
		return 0, f.fault("read", syscall.EISDIR)
	case f.flag&os.O_WRONLY != 0:
		return 0, f.fault("read", syscall.EBADF)
	case off >= int64(len(f.node.data)):
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt is as in io.WriterAt; a gap before off reads as zeros.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	switch {
	case f.closed:
		return 0, f.fault("write", fs.ErrClosed)
	case off < 0:
		return 0, f.fault("writeat", errNegativeOffset)
	case len(p) == 0:
		return 0, nil
	case !writable(f.flag):
		return 0, f.fault("write", syscall.EBADF)
	}
	size := int64(len(f.node.data))
	end := min(off+int64(len(p)), size+f.mem.freeLocked())
	if end <= off {
		return 0, f.fault("write", syscall.ENOSPC)
	}
	if end > size {
		f.mem.resizeLocked(f.node, end)
	}
	n := copy(f.node.data[off:end], p)
	f.node.markDirty(off, end)
	f.node.modTime = time.Now()
	if n < len(p) {
		return n, f.fault("write", syscall.ENOSPC)
	}
	return n, nil
}

// Truncate cuts or extends the file.
func (f *memFile) Truncate(size int64) error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	switch {
	case f.closed:
		return f.fault("truncate", fs.ErrClosed)
	case size < 0, !writable(f.flag):
		return f.fault("truncate", syscall.EINVAL)
	case size-int64(len(f.node.data)) > f.mem.freeLocked():
		return f.fault("truncate", syscall.ENOSPC)
	}
	f.mem.resizeLocked(f.node, size)
	return nil
}

// Sync makes content and size durable; on a directory, its entries.
func (f *memFile) Sync() error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if f.closed {
		return f.fault("sync", fs.ErrClosed)
	}
	f.node.sync()
	return nil
}

// DropUnsynced does to the file what a failed sync does on Linux: what was not
// synced is still read back, counts as clean, and will never reach the disk by
// a later Sync unless it is written again. Package faultfs calls it.
func (f *memFile) DropUnsynced() {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	clear(f.node.dirty)
}

// DropClean has the next reads show what is on the platter in every page that
// is not waiting to be written: those that DropUnsynced gave up are seen to be
// gone.
func (f *memFile) DropClean() {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	f.node.dropClean()
}

// Stat describes the file.
func (f *memFile) Stat() (fs.FileInfo, error) {
	f.mem.mu.RLock()
	defer f.mem.mu.RUnlock()
	if f.closed {
		return nil, f.fault("stat", fs.ErrClosed)
	}
	return f.node.info(filepath.Base(f.name)), nil
}

// Fd is InvalidFd.
func (f *memFile) Fd() uintptr { return InvalidFd }

// Name is the path the file was opened with.
func (f *memFile) Name() string { return f.name }

// Close closes the handle; a second call is an error, as with os.File.
func (f *memFile) Close() error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if f.closed {
		return f.fault("close", fs.ErrClosed)
	}
	f.closed = true
	f.node.opens--
	f.mem.releaseLocked(f.node)
	return nil
}

func (f *memFile) fault(op string, err error) error { return pathError(op, f.name, err) }
