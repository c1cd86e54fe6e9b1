// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// defaultCapacity is the size of a new Mem, in bytes: more than any test fills.
const defaultCapacity = 1 << 40

// Mem is a file system in memory that knows, for every byte, length and
// directory entry, whether it would outlive a power cut. It behaves as Disk
// does, down to the error numbers, apart from permissions (kept, not enforced)
// and links (there are none). Relative paths start at the root, which always
// exists.
//
// All methods may be called concurrently. It is meant for tests and keeps two
// copies of every file.
type Mem struct {
	mu       sync.RWMutex
	root     *node
	capacity int64
	used     int64 // bytes of all files that have a name or an open handle
}

// NewMem makes an empty file system.
func NewMem() *Mem {
	return &Mem{root: newDir(0o755), capacity: defaultCapacity}
}

// SetCapacity sets the size of the file system in bytes. A write that finds no
// room takes what fits and answers ENOSPC, as a disk does; lowering the
// capacity below what is used takes nothing away.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// Usage tells the capacity and what of it is free.
func (m *Mem) Usage(path string) (DiskUsage, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.lookup(path); err != nil {
		return DiskUsage{}, pathError("statfs", path, err)
	}
	return DiskUsage{Total: uint64(m.capacity), Free: uint64(m.freeLocked())}, nil
}

func (m *Mem) freeLocked() int64 { return max(0, m.capacity-m.used) }

// OpenFile opens path; O_APPEND is refused, since no caller writes by the
// file's own position.
func (m *Mem) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.openLocked(path, flag, perm)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	n.opens++
	return &memFile{mem: m, node: n, name: path, flag: flag}, nil
}

func (m *Mem) openLocked(path string, flag int, perm fs.FileMode) (*node, error) {
	if flag&os.O_APPEND != 0 {
		return nil, syscall.EINVAL
	}
	parent, name, err := m.parent(path)
	if err != nil {
		return nil, err
	}
	n, found := m.root, true
	if parent != nil {
		n, found = parent.entries[name]
	}
	switch {
	case !found && flag&os.O_CREATE == 0:
		return nil, syscall.ENOENT
	case !found:
		n = newFile(perm)
		parent.link(name, n)
		return n, nil
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, syscall.EEXIST
	case n.dir && (writable(flag) || flag&os.O_CREATE != 0):
		return nil, syscall.EISDIR
	}
	if flag&os.O_TRUNC != 0 && !n.dir {
		m.resizeLocked(n, 0)
	}
	return n, nil
}

// Remove removes a file or an empty directory.
func (m *Mem) Remove(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, name, err := m.parent(path)
	if err == nil && parent == nil {
		err = syscall.EBUSY // the root
	}
	if err == nil {
		n := parent.entries[name]
		switch {
		case n == nil:
			err = syscall.ENOENT
		case n.dir && len(n.entries) > 0:
			err = syscall.ENOTEMPTY
		default:
			m.unlinkLocked(parent, name)
		}
	}
	return pathError("remove", path, err)
}

// RemoveAll removes a tree, one entry at a time: a crash in CrashKeeping may
// find half of it.
func (m *Mem) RemoveAll(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, name, err := m.parent(path)
	if err == syscall.ENOENT {
		return nil
	}
	if err == nil && parent == nil {
		err = syscall.EBUSY
	}
	if err != nil {
		return pathError("removeall", path, err)
	}
	if parent.entries[name] != nil {
		m.removeTreeLocked(parent, name)
	}
	return nil
}

func (m *Mem) removeTreeLocked(parent *node, name string) {
	n := parent.entries[name]
	for _, child := range n.names() {
		m.removeTreeLocked(n, child)
	}
	m.unlinkLocked(parent, name)
}

// Rename renames as os.Rename does: a file replaces a file; nothing replaces a
// directory.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.renameLocked(from, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (m *Mem) renameLocked(from, to string) error {
	oldParent, oldName, err := m.parent(from)
	if err != nil {
		return err
	}
	newParent, newName, err := m.parent(to)
	if err != nil {
		return err
	}
	if oldParent == nil || newParent == nil {
		return syscall.EBUSY
	}
	n, over := oldParent.entries[oldName], newParent.entries[newName]
	switch {
	case n == nil:
		return syscall.ENOENT
	case over != nil && over.dir:
		return syscall.EEXIST // itself, too, as os.Rename has it
	case n == over:
		return nil
	case n.dir && strings.HasPrefix(clean(to)+"/", clean(from)+"/"):
		return syscall.EINVAL
	case over != nil && n.dir:
		return syscall.ENOTDIR
	}
	if over != nil {
		over.links--
		m.releaseLocked(over)
	}
	if oldParent == newParent {
		oldParent.apply(change{oldName, nil}, change{newName, n})
		return nil
	}
	newParent.apply(change{newName, n})
	oldParent.apply(change{oldName, nil})
	return nil
}

// MkdirAll makes a directory and its parents.
func (m *Mem) MkdirAll(path string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, name := range split(path) {
		next := n.entries[name]
		if next == nil {
			next = newDir(perm)
			n.link(name, next)
		}
		if !next.dir {
			return pathError("mkdir", path, syscall.ENOTDIR)
		}
		n = next
	}
	return nil
}

// ReadDir lists a directory in the order of names.
func (m *Mem) ReadDir(path string) ([]fs.DirEntry, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.lookup(path)
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("open", path, err)
	}
	entries := make([]fs.DirEntry, 0, len(n.entries))
	for _, name := range n.names() {
		entries = append(entries, fs.FileInfoToDirEntry(n.entries[name].info(name)))
	}
	return entries, nil
}

// Stat describes a file.
func (m *Mem) Stat(path string) (fs.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.lookup(path)
	if err != nil {
		return nil, pathError("stat", path, err)
	}
	return n.info(filepath.Base(path)), nil
}

// SyncDir makes the entries of a directory durable.
func (m *Mem) SyncDir(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(path)
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("sync", path, err)
	}
	n.sync()
	return nil
}

// Lock takes the lock file at path for this Mem. A Mem that a crash or a kill
// left behind holds none.
func (m *Mem) Lock(path string) (Unlocker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.openLocked(path, Create, 0o644)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	if n.locked {
		return nil, fmt.Errorf("lock %s: %w", path, ErrLocked)
	}
	n.locked = true
	return &memLock{mem: m, node: n}, nil
}

// memLock is a held lock of a Mem.
type memLock struct {
	mem  *Mem
	once sync.Once
	node *node
}

// Unlock gives the lock back; a second call does nothing.
func (l *memLock) Unlock() error {
	l.once.Do(func() {
		l.mem.mu.Lock()
		defer l.mem.mu.Unlock()
		l.node.locked = false
	})
	return nil
}

// lookup finds the node at path.
func (m *Mem) lookup(path string) (*node, error) {
	n := m.root
	for _, name := range split(path) {
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		if n = n.entries[name]; n == nil {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

// parent finds the directory that holds path, and the last name in path. The
// root has neither.
func (m *Mem) parent(path string) (*node, string, error) {
	names := split(path)
	if len(names) == 0 {
		return nil, "", nil
	}
	dir, err := m.lookup(filepath.Dir(clean(path)))
	if err != nil {
		return nil, "", err
	}
	if !dir.dir {
		return nil, "", syscall.ENOTDIR
	}
	return dir, names[len(names)-1], nil
}

// unlinkLocked takes an entry away; the file lives on while it is open.
func (m *Mem) unlinkLocked(parent *node, name string) {
	n := parent.entries[name]
	n.links--
	parent.apply(change{name, nil})
	m.releaseLocked(n)
}

// releaseLocked gives the space of a file back when nothing refers to it any
// more. Its bytes stay as long as a synced entry could bring it back.
func (m *Mem) releaseLocked(n *node) {
	if n.links == 0 && n.opens == 0 {
		m.used -= int64(len(n.data))
	}
}

// resizeLocked cuts or extends a file, and accounts for it.
func (m *Mem) resizeLocked(n *node, size int64) {
	m.used += size - int64(len(n.data))
	n.resize(size)
	n.modTime = time.Now()
}

func clean(path string) string { return filepath.Clean("/" + path) }

func split(path string) []string {
	return slices.DeleteFunc(strings.Split(clean(path), "/"), func(s string) bool { return s == "" })
}

func writable(flag int) bool { return flag&(os.O_WRONLY|os.O_RDWR) != 0 }

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
