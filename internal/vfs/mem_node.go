// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"io/fs"
	"maps"
	"slices"
	"time"
)

// memPage is the unit in which a file in a Mem becomes durable, in bytes.
const memPage = 4096

// node is a file or a directory of a Mem. It is guarded by the lock of the Mem.
//
// A file is there twice: data is what the page cache shows and disk is what the
// platter holds. They agree in every page that is not in dirty, apart from
// pages that DropUnsynced gave up.
type node struct {
	dir     bool
	perm    fs.FileMode
	modTime time.Time

	// Of a directory: what is seen, what is durable, and the changes between
	// the two, oldest first; one element is atomic.
	entries map[string]*node
	synced  map[string]*node
	pending [][]change

	// Of a file.
	data, disk []byte
	dirty      map[int64]struct{} // page numbers
	links      int                // entries that name the file
	opens      int                // open handles
	locked     bool               // a lock file that is held
}

// change is one entry of a directory set, or removed where node is nil.
type change struct {
	name string
	node *node
}

func newDir(perm fs.FileMode) *node {
	return &node{dir: true, perm: perm.Perm(), modTime: time.Now(),
		entries: make(map[string]*node), synced: make(map[string]*node)}
}

func newFile(perm fs.FileMode) *node {
	return &node{perm: perm.Perm(), modTime: time.Now(), dirty: make(map[int64]struct{})}
}

// link adds an entry for a new node.
func (n *node) link(name string, child *node) {
	child.links++
	n.apply(change{name, child})
}

// apply makes changes visible at once and durable together.
func (n *node) apply(changes ...change) {
	setEntries(n.entries, changes)
	n.pending = append(n.pending, changes)
	n.modTime = time.Now()
}

func setEntries(entries map[string]*node, changes []change) {
	for _, c := range changes {
		if c.node == nil {
			delete(entries, c.name)
		} else {
			entries[c.name] = c.node
		}
	}
}

// names lists the entries of a directory in order.
func (n *node) names() []string { return slices.Sorted(maps.Keys(n.entries)) }

// resize cuts or extends the visible content and marks what changed, so that
// a cut followed by an extension makes zeros durable, not the old bytes.
func (n *node) resize(size int64) {
	old := int64(len(n.data))
	n.markDirty(min(old, size), max(old, size))
	if size <= old {
		n.data = n.data[:size]
		return
	}
	n.data = slices.Grow(n.data, int(size-old))[:size]
	clear(n.data[old:])
}

func (n *node) markDirty(from, to int64) {
	if from >= to {
		return
	}
	for page := from / memPage; page <= (to-1)/memPage; page++ {
		n.dirty[page] = struct{}{}
	}
}

// sync makes what is visible durable.
func (n *node) sync() {
	if n.dir {
		n.synced = maps.Clone(n.entries)
		n.pending = nil
		return
	}
	n.disk = resized(n.disk, len(n.data))
	for page := range n.dirty {
		copyPage(n.disk, n.data, page, memPage)
	}
	clear(n.dirty)
}

// dropClean forgets the page cache's view of a file wherever it is clean. The
// length is the inode's and stays; a page that the platter does not have reads
// as zeros.
func (n *node) dropClean() {
	if n.dir {
		return
	}
	fresh := resized(slices.Clone(n.disk), len(n.data))
	for page := range n.dirty {
		copyPage(fresh, n.data, page, memPage)
	}
	n.data = fresh
}

// copyPage copies the first n bytes of a page as far as both sides reach.
func copyPage(dst, src []byte, page int64, n int) {
	from := page * memPage
	if end := min(from+int64(n), int64(len(dst)), int64(len(src))); from < end {
		copy(dst[from:end], src[from:end])
	}
}

// resized cuts b, or extends it with zeros.
func resized(b []byte, size int) []byte {
	old := len(b)
	if size <= old {
		return b[:size]
	}
	b = slices.Grow(b, size-old)[:size]
	clear(b[old:])
	return b
}

func (n *node) info(name string) fs.FileInfo {
	mode := n.perm
	if n.dir {
		mode |= fs.ModeDir
	}
	return memInfo{name: name, size: int64(len(n.data)), mode: mode, modTime: n.modTime}
}

// memInfo describes a node as it was when it was asked.
type memInfo struct {
	name    string
	size    int64
	mode    fs.FileMode
	modTime time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.modTime }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
