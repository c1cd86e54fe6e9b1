// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// ErrLocked says that another process, or another user in this one, holds a
// lock file.
var ErrLocked = errors.New("locked by another user")

// Disk is the file system of the operating system. The value has no state:
// all values of Disk are the same file system.
func Disk() FS { return disk{} }

type disk struct{}

func (disk) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f}, nil
}

func (disk) Remove(path string) error                     { return os.Remove(path) }
func (disk) RemoveAll(path string) error                  { return os.RemoveAll(path) }
func (disk) Rename(from, to string) error                 { return os.Rename(from, to) }
func (disk) MkdirAll(path string, perm fs.FileMode) error { return os.MkdirAll(path, perm) }
func (disk) ReadDir(path string) ([]fs.DirEntry, error)   { return os.ReadDir(path) }
func (disk) Stat(path string) (fs.FileInfo, error)        { return os.Stat(path) }

func (disk) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	// Sync, not fdatasync: a directory has no data apart from its entries, and
	// some file systems take only fsync on directories.
	return errors.Join(d.Sync(), d.Close())
}

func (disk) Lock(path string) (Unlocker, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return &diskLock{file: f}, nil
}

func (disk) Usage(path string) (DiskUsage, error) {
	u, err := usage(path)
	if err != nil {
		return DiskUsage{}, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	return u, nil
}

// diskFile is an *os.File whose Sync is the cheapest durable one, and which
// keeps the mapping that residency questions by mincore need.
type diskFile struct {
	*os.File
	pages pageMap
}

// Sync makes content and size durable.
func (f *diskFile) Sync() error {
	if err := datasync(f.File); err != nil {
		return &fs.PathError{Op: "sync", Path: f.Name(), Err: err}
	}
	return nil
}

// Close closes the file and gives its residency mapping back.
func (f *diskFile) Close() error {
	return errors.Join(f.pages.unmap(), f.File.Close())
}

// DropClean is what the function of this name asks for.
func (f *diskFile) DropClean() { dropClean(f.File) }

// DropClean takes what is clean of a file out of the page cache, so that the
// next reads come from the disk. Call it after Sync. After a failed sync the
// cache shows bytes that are clean and were never written: whoever starts anew
// must not believe it. Where the system offers no means, the cache stays.
func DropClean(f File) {
	if c, ok := f.(interface{ DropClean() }); ok {
		c.DropClean()
	}
}

// diskLock is a held lock file. The lock belongs to the open file description
// and goes with it; the file itself stays, since removing it would let two
// users lock two different files of one name.
type diskLock struct {
	once sync.Once
	file *os.File
	err  error
}

// Unlock gives the lock back; a second call answers as the first.
func (l *diskLock) Unlock() error {
	l.once.Do(func() { l.err = l.file.Close() })
	return l.err
}
