// SPDX-License-Identifier: Apache-2.0

package faultfs

import (
	"io/fs"
	"os"
	"slices"
	"sync"

	"firn/internal/vfs"
)

// FS is a vfs.FS that fails on demand. It may be used concurrently; which of
// several operations at once is the n-th is then up to chance.
type FS struct {
	inner vfs.FS

	mu     sync.Mutex
	counts [opCount]int64
	rules  []*Injection
	hook   func(Call) *Fault
	fds    bool
}

// New wraps inner. Without rules or a hook it changes nothing, but for file
// descriptors: see ExposeFds.
func New(inner vfs.FS) *FS { return &FS{inner: inner} }

// Inject puts a rule to work. Of several rules that match an operation the
// oldest decides, and only that one counts it.
func (f *FS) Inject(r Rule) *Injection {
	i := &Injection{fs: f, rule: r}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, i)
	return i
}

// FailNth makes the n-th operation from now on, counted from 1, of the given
// kinds (none means all) meet the fault.
func (f *FS) FailNth(n int, fault Fault, ops ...Op) *Injection {
	return f.Inject(Rule{Ops: ops, Skip: n - 1, Fault: fault})
}

// FailFrom makes the n-th and all later operations of the given kinds meet the
// fault, until the injection is stopped: a disk that is full or gone.
func (f *FS) FailFrom(n int, fault Fault, ops ...Op) *Injection {
	return f.Inject(Rule{Ops: ops, Skip: n - 1, Times: -1, Fault: fault})
}

// Hook has fn see every operation before the rules do, and before it takes
// effect. A fault that it returns happens; nil leaves the operation to the
// rules. fn is called without a lock and may block, which holds the operation
// up. A nil fn takes the hook away.
func (f *FS) Hook(fn func(Call) *Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = fn
}

// ExposeFds has File.Fd answer the inner descriptor. By default it is
// vfs.InvalidFd, since what goes by the descriptor (sendfile, uncached reads)
// passes the faults by.
func (f *FS) ExposeFds(expose bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fds = expose
}

// Count tells how many operations of the given kinds (none means all) there
// were, failed ones included.
func (f *FS) Count(ops ...Op) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var n int64
	for op, count := range f.counts {
		if len(ops) == 0 || slices.Contains(ops, Op(op)) {
			n += count
		}
	}
	return n
}

// meet counts an operation and returns the fault it meets, or nil.
func (f *FS) meet(c Call) *Fault {
	f.mu.Lock()
	f.counts[c.Op]++
	c.N = f.counts[c.Op]
	hook := f.hook
	f.mu.Unlock()
	if hook != nil {
		if fault := hook(c); fault != nil {
			return fault
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.hitLocked(c) {
			return &r.rule.Fault
		}
	}
	return nil
}

// fails is meet for operations that can only fail as a whole.
func (f *FS) fails(c Call) error {
	fault := f.meet(c)
	if fault == nil || fault.Flip {
		return nil
	}
	return fault.error(c)
}

func (t *Fault) error(c Call) error {
	err := t.Err
	if err == nil {
		err = ErrInjected
	}
	return &fs.PathError{Op: c.Op.String(), Path: c.Path, Err: err}
}

// OpenFile opens a file of the inner file system.
func (f *FS) OpenFile(path string, flag int, perm fs.FileMode) (vfs.File, error) {
	op := OpOpen
	if flag&os.O_CREATE != 0 {
		op = OpCreate
	}
	if err := f.fails(Call{Op: op, Path: path}); err != nil {
		return nil, err
	}
	inner, err := f.inner.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return &file{File: inner, fs: f}, nil
}

// Remove removes a file or an empty directory.
func (f *FS) Remove(path string) error {
	if err := f.fails(Call{Op: OpRemove, Path: path}); err != nil {
		return err
	}
	return f.inner.Remove(path)
}

// RemoveAll removes a tree.
func (f *FS) RemoveAll(path string) error {
	if err := f.fails(Call{Op: OpRemoveAll, Path: path}); err != nil {
		return err
	}
	return f.inner.RemoveAll(path)
}

// Rename renames a file or directory.
func (f *FS) Rename(from, to string) error {
	if err := f.fails(Call{Op: OpRename, Path: from, To: to}); err != nil {
		return err
	}
	return f.inner.Rename(from, to)
}

// MkdirAll makes a directory and its parents.
func (f *FS) MkdirAll(path string, perm fs.FileMode) error {
	if err := f.fails(Call{Op: OpMkdir, Path: path}); err != nil {
		return err
	}
	return f.inner.MkdirAll(path, perm)
}

// ReadDir lists a directory.
func (f *FS) ReadDir(path string) ([]fs.DirEntry, error) {
	if err := f.fails(Call{Op: OpReadDir, Path: path}); err != nil {
		return nil, err
	}
	return f.inner.ReadDir(path)
}

// Stat describes a file.
func (f *FS) Stat(path string) (fs.FileInfo, error) {
	if err := f.fails(Call{Op: OpStat, Path: path}); err != nil {
		return nil, err
	}
	return f.inner.Stat(path)
}

// SyncDir makes the entries of a directory durable.
func (f *FS) SyncDir(path string) error {
	if err := f.fails(Call{Op: OpSyncDir, Path: path}); err != nil {
		return err
	}
	return f.inner.SyncDir(path)
}

// Lock takes a lock file.
func (f *FS) Lock(path string) (vfs.Unlocker, error) {
	if err := f.fails(Call{Op: OpLock, Path: path}); err != nil {
		return nil, err
	}
	return f.inner.Lock(path)
}

// Usage tells size and free space.
func (f *FS) Usage(path string) (vfs.DiskUsage, error) {
	if err := f.fails(Call{Op: OpUsage, Path: path}); err != nil {
		return vfs.DiskUsage{}, err
	}
	return f.inner.Usage(path)
}
