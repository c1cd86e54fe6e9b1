// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"math/bits"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// minMapBytes is the smallest residency mapping: a growing file is mapped anew
// each time it doubles, not with each append.
const minMapBytes = 8 << 20

// pageMap is a mapping of a file that is never read through, and for that
// reason cannot fault: mincore wants one. It is made when it is first needed
// and goes with the file, since a mapping keeps the blocks of a removed file.
type pageMap struct {
	mu     sync.RWMutex
	addr   unsafe.Pointer
	length int64
}

// count counts the resident pages among `pages` pages from start on.
func (m *pageMap) count(c *calls, fd int, start, pages int64) (int64, error) {
	page := int64(os.Getpagesize())
	if err := m.cover(fd, start+pages*page); err != nil {
		return 0, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	var found int64
	states := make([]byte, min(pages, windowBytes/page))
	for pages > 0 {
		n := min(pages, int64(len(states)))
		if err := c.mincore(unsafe.Add(m.addr, start), n*page, states[:n]); err != nil {
			return 0, err
		}
		for _, s := range states[:n] {
			found += int64(s & 1)
		}
		start, pages = start+n*page, pages-n
	}
	return found, nil
}

// cover makes the mapping reach to end. It may reach beyond the end of the
// file: those pages count as not resident and are not asked for.
func (m *pageMap) cover(fd int, end int64) error {
	m.mu.RLock()
	enough := m.length >= end
	m.mu.RUnlock()
	if enough {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.length >= end {
		return nil
	}
	if err := m.unmapLocked(); err != nil {
		return err
	}
	length := int64(1) << bits.Len64(uint64(max(end, minMapBytes)-1))
	addr, err := unix.MmapPtr(fd, 0, nil, uintptr(length), unix.PROT_NONE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	m.addr, m.length = addr, length
	return nil
}

// unmap gives the mapping back.
func (m *pageMap) unmap() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unmapLocked()
}

func (m *pageMap) unmapLocked() error {
	if m.addr == nil {
		return nil
	}
	err := unix.MunmapPtr(m.addr, uintptr(m.length))
	m.addr, m.length = nil, 0
	return err
}

// mincorePages counts resident pages by mincore, with the file's own mapping
// where it has one, else with one for this call.
func (p *platform) mincorePages(t target, start, pages int64) (int64, error) {
	if f, ok := t.file.(*diskFile); ok {
		return f.pages.count(&p.calls, t.fd, start, pages)
	}
	var once pageMap
	found, err := once.count(&p.calls, t.fd, start, pages)
	if unmapErr := once.unmap(); err == nil {
		err = unmapErr
	}
	return found, err
}
