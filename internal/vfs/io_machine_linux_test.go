// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// machine is a kernel with a page cache of its own, so that the methods can be
// tested whatever the machine underneath can do, and what they leave in the
// cache can be counted. Only one file is in the cache.
type machine struct {
	mu       sync.Mutex
	resident map[int64]bool // page numbers
	size     int64
	ahead    int64 // bytes of read-ahead by buffered reads
	refuse   map[string]error
	calls    map[string]int
	mapped   unsafe.Pointer // where the file of the last mincore began
	lies     bool           // mincore says that everything is resident
}

func newMachine(size int64) *machine {
	return &machine{resident: make(map[int64]bool), size: size, refuse: make(map[string]error), calls: make(map[string]int)}
}

func (m *machine) enter(call string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[call]++
	return m.refuse[call]
}

// touch makes pages resident, as a buffered read or write does, or drops them.
func (m *machine) touch(off, n int64, in bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	page := int64(os.Getpagesize())
	for p := off / page; p*page < min(off+n, m.size); p++ {
		if in {
			m.resident[p] = true
		} else {
			delete(m.resident, p)
		}
	}
}

func (m *machine) count(off, n int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	page := int64(os.Getpagesize())
	var found int64
	for p := off / page; p*page < min(off+n, m.size); p++ {
		if m.resident[p] {
			found++
		}
	}
	return found
}

func (m *machine) kernel() calls {
	real := kernel()
	return calls{
		read: func(fd int, p []byte, off int64, flags int) (int, error) {
			if err := m.enter("preadv2"); err != nil {
				return 0, err
			}
			return unix.Pread(fd, p, off)
		},
		write: func(fd int, p []byte, off int64, flags int) (int, error) {
			if err := m.enter("pwritev2"); err != nil {
				return 0, err
			}
			return unix.Pwrite(fd, p, off)
		},
		fadvise: func(fd int, off, n int64, advice int) error {
			if err := m.enter("fadvise"); err != nil {
				return err
			}
			if n == 0 {
				n = m.size
			}
			m.touch(off, n, false)
			return nil
		},
		syncRange: func(fd int, off, n int64, flags int) error { return m.enter("sync_file_range") },
		cachestat: func(fd int, off, n int64) (int64, error) {
			if err := m.enter("cachestat"); err != nil {
				return 0, err
			}
			return m.count(off, n), nil
		},
		mincore: func(addr unsafe.Pointer, n int64, states []byte) error {
			if err := m.enter("mincore"); err != nil {
				return err
			}
			if m.mapped == nil {
				return real.mincore(addr, n, states)
			}
			off := int64(uintptr(addr) - uintptr(m.mapped))
			page := int64(os.Getpagesize())
			for i := range states {
				states[i] = byte(m.count(off+int64(i)*page, page)) | 0xfe
				if m.lies {
					states[i] = 1
				}
			}
			return nil
		},
	}
}

// cachedFile is a file whose buffered reads go through the machine's cache.
type cachedFile struct {
	File
	m *machine
}

func (f cachedFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.touch(off, int64(len(p))+f.m.ahead, true)
	return f.File.ReadAt(p, off)
}

func (f cachedFile) WriteAt(p []byte, off int64) (int, error) {
	f.m.touch(off, int64(len(p)), true)
	return f.File.WriteAt(p, off)
}

// newIO makes an IO on the machine whose every method passed the probe, with a
// sparse file of the machine's size.
func newIO(t *testing.T, m *machine, c chains) (*IO, File) {
	t.Helper()
	f, err := Disk().OpenFile(filepath.Join(t.TempDir(), "a"), CreateNew, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := f.Truncate(m.size); err != nil {
		t.Fatal(err)
	}
	return &IO{&platform{calls: m.kernel(), chains: c}}, cachedFile{f, m}
}

func allChains() chains {
	return chains{read: uncachedMethods, write: uncachedMethods, residency: residencyMethods}
}

// probeKernel is a kernel whose cache holds the whole of the probe's file, or
// nothing of it: the probe reads and drops it in one piece. The file is read by
// the real kernel, unseen, so that each second look finds it back.
func (m *machine) probeKernel(blind bool) calls {
	c := m.kernel()
	looks := 0
	look := func() bool { looks++; return blind || looks%2 == 0 }
	c.cachestat = func(_ int, _, n int64) (int64, error) {
		if err := m.enter("cachestat"); err != nil {
			return 0, err
		}
		if look() {
			return n / int64(os.Getpagesize()), nil
		}
		return 0, nil
	}
	c.mincore = func(_ unsafe.Pointer, _ int64, states []byte) error {
		if err := m.enter("mincore"); err != nil {
			return err
		}
		in := look() || m.lies
		for i := range states {
			states[i] = 0xfe
			if in {
				states[i] = 0xff
			}
		}
		return nil
	}
	return c
}
