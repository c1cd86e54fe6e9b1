// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"io/fs"
	"os"
)

// InvalidFd is what File.Fd returns when there is no descriptor behind the
// file, as in the memory form. Fast paths that need one must fall back.
const InvalidFd = ^uintptr(0)

// FS is the file system as hot and tier see it. All methods may be called
// concurrently. Paths are those of the operating system.
type FS interface {
	// OpenFile opens path as os.OpenFile does; flag is made of os.O_*.
	OpenFile(path string, flag int, perm fs.FileMode) (File, error)
	// Remove removes a file or an empty directory.
	Remove(path string) error
	// RemoveAll removes a tree; a path that is not there is no error.
	RemoveAll(path string) error
	// Rename renames a file or directory over what is there. It is durable
	// only after SyncDir of the parent (both parents, when they differ).
	Rename(from, to string) error
	// MkdirAll makes a directory and its parents. New entries are durable
	// only after SyncDir of their parents.
	MkdirAll(path string, perm fs.FileMode) error
	// ReadDir lists a directory in the order of names.
	ReadDir(path string) ([]fs.DirEntry, error)
	// Stat describes a file.
	Stat(path string) (fs.FileInfo, error)
	// SyncDir makes the entries of a directory durable.
	SyncDir(path string) error
	// Lock takes the lock file at path (created if need be) for this open
	// file description, excluding Kafka and every other process: F_OFD_SETLK
	// on Linux. A lock that is held gives an error that wraps ErrLocked.
	Lock(path string) (Unlocker, error)
	// Usage tells the size and the free space of the file system that holds
	// path, in bytes.
	Usage(path string) (DiskUsage, error)
}

// File is an open file. ReadAt, WriteAt, Sync and Fd may be called
// concurrently; Close only when nothing else is under way.
type File interface {
	// ReadAt and WriteAt are as in io.ReaderAt and io.WriterAt.
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	// Truncate cuts or extends the file.
	Truncate(size int64) error
	// Sync makes content and size durable (fdatasync on Linux). After an
	// error the caller must treat everything unsynced as lost.
	Sync() error
	// Stat describes the file.
	Stat() (fs.FileInfo, error)
	// Fd is the descriptor, or InvalidFd. It is valid until Close.
	Fd() uintptr
	// Name is the path the file was opened with.
	Name() string
	Close() error
}

// Unlocker gives a lock back.
type Unlocker interface{ Unlock() error }

// DiskUsage is the size of a file system, in bytes.
type DiskUsage struct {
	Total uint64
	// Free is what an unprivileged process may still use.
	Free uint64
}

// Flags that callers of OpenFile combine most.
const (
	ReadOnly  = os.O_RDONLY
	ReadWrite = os.O_RDWR
	Create    = os.O_RDWR | os.O_CREATE
	CreateNew = os.O_RDWR | os.O_CREATE | os.O_EXCL
)
