// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"container/list"
	"errors"
	"fmt"
	"sync"

	"firn/internal/vfs"
	"firn/record"
)

// fileCache opens the .log files of segments on demand and keeps some of them
// open. It is safe for concurrent use.
//
// Invariants:
//
//	F1  A descriptor in use is never closed; one that is not in use is among
//	    the idle ones, of which there are at most maxIdle, unless its segment
//	    was dropped.
//	F2  A dropped segment is opened no more; its descriptor is closed by the
//	    last user.
//	F3  Opening a file holds up only those who want the same file.
//
// A bound on all descriptors instead of the idle ones was rejected: a writer
// or a Region that has to wait for another's descriptor could wait for ever.
type fileCache struct {
	fs      vfs.FS
	maxIdle int

	mu   sync.Mutex
	idle list.List // of *segmentHandle, least recently used last
	used int       // descriptors in use
}

// segmentHandle is a segment's entry in the cache.
type segmentHandle struct {
	opening sync.Mutex // held while the file is being opened
	// least is how many bytes the file must have when it is opened. It is set
	// before the handle is used.
	least int64

	// Guarded by fileCache.mu.
	file    vfs.File // nil when not open
	refs    int
	dropped bool
	idle    *list.Element // set exactly while open with refs == 0
}

func newFileCache(fs vfs.FS, maxIdle int) *fileCache {
	return &fileCache{fs: fs, maxIdle: maxIdle}
}

// acquire opens the file or takes another reference to it. Each success is
// paired with one release. The error wraps record.ErrClosed when the segment
// was dropped.
func (c *fileCache) acquire(h *segmentHandle, path string) (vfs.File, error) {
	if f, err := c.take(h, path); f != nil || err != nil {
		return f, err
	}
	h.opening.Lock()
	defer h.opening.Unlock()
	if f, err := c.take(h, path); f != nil || err != nil {
		return f, err
	}
	f, err := c.fs.OpenFile(path, vfs.ReadWrite, 0)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	if err := h.check(f, path); err != nil {
		closeRead(f)
		return nil, err
	}
	if err := c.adopt(h, f); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), f.Close())
	}
	return f, nil
}

// check refuses a file that is shorter than it was when it was closed clean.
func (h *segmentHandle) check(f vfs.File, path string) error {
	if h.least == 0 {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	if info.Size() < h.least {
		return &record.CorruptionError{Path: path, Position: info.Size(), Reason: fmt.Sprintf("the file ends here, it had %d bytes", h.least)}
	}
	return nil
}

// take answers nil, nil when the file is not open.
func (c *fileCache) take(h *segmentHandle, path string) (vfs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case h.dropped:
		return nil, fmt.Errorf("open %s: segment was dropped: %w", path, record.ErrClosed)
	case h.file == nil:
		return nil, nil
	case h.refs == 0:
		c.idle.Remove(h.idle)
		h.idle = nil
		c.used++
	}
	h.refs++
	return h.file, nil
}

// adopt puts a file just opened into h, with one reference for the caller.
func (c *fileCache) adopt(h *segmentHandle, f vfs.File) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.dropped {
		return record.ErrClosed
	}
	h.file, h.refs = f, 1
	c.used++
	return nil
}

// share takes another reference to a file that somebody has in use, even if
// the segment was dropped; nil when nobody has.
func (c *fileCache) share(h *segmentHandle) vfs.File {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.refs == 0 {
		return nil
	}
	h.refs++
	return h.file
}

// release gives one reference back.
func (c *fileCache) release(h *segmentHandle) {
	var victim vfs.File
	c.mu.Lock()
	h.refs--
	switch {
	case h.refs < 0:
		c.mu.Unlock()
		panic("hot: a segment's file was released more often than acquired")
	case h.refs > 0:
	case h.dropped:
		victim, h.file = h.file, nil
		c.used--
	default:
		c.used--
		h.idle = c.idle.PushFront(h)
		if c.idle.Len() > c.maxIdle {
			victim = c.evictLocked(c.idle.Back())
		}
	}
	c.mu.Unlock()
	closeRead(victim)
}

func (c *fileCache) evictLocked(e *list.Element) vfs.File {
	h := c.idle.Remove(e).(*segmentHandle)
	f := h.file
	h.file, h.idle = nil, nil
	return f
}

// drop makes the segment's file unavailable to new users.
func (c *fileCache) drop(h *segmentHandle) {
	var victim vfs.File
	c.mu.Lock()
	h.dropped = true
	if h.idle != nil {
		victim = c.evictLocked(h.idle)
	}
	c.mu.Unlock()
	closeRead(victim)
}

// close closes what is idle and answers how many descriptors are in use still.
func (c *fileCache) close() (inUse int) {
	c.mu.Lock()
	c.maxIdle = 0
	var victims []vfs.File
	for c.idle.Len() > 0 {
		victims = append(victims, c.evictLocked(c.idle.Back()))
	}
	inUse = c.used
	c.mu.Unlock()
	for _, f := range victims {
		closeRead(f)
	}
	return inUse
}

// closeRead closes a descriptor of which nothing depends any more: what was
// written through it was synced through it, or counts as not synced. The error
// of close(2) says nothing about either.
func closeRead(f vfs.File) {
	if f != nil {
		_ = f.Close()
	}
}

// isDropped says whether the segment was dropped.
func (c *fileCache) isDropped(h *segmentHandle) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return h.dropped
}
