// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls is the part of the kernel that the methods rest on. Tests put kernels
// in its place that lack something.
type calls struct {
	read      func(fd int, p []byte, off int64, flags int) (int, error)
	write     func(fd int, p []byte, off int64, flags int) (int, error)
	fadvise   func(fd int, off, n int64, advice int) error
	syncRange func(fd int, off, n int64, flags int) error
	// cachestat counts the cached pages of a range.
	cachestat func(fd int, off, n int64) (int64, error)
	// mincore fills states with one byte a page for the n mapped bytes at addr.
	mincore func(addr unsafe.Pointer, n int64, states []byte) error
}

func kernel() calls {
	return calls{
		read: func(fd int, p []byte, off int64, flags int) (n int, err error) {
			err = retryInterrupted(func() error {
				n, err = unix.Preadv2(fd, [][]byte{p}, off, flags)
				return err
			})
			return max(n, 0), err
		},
		write: func(fd int, p []byte, off int64, flags int) (n int, err error) {
			err = retryInterrupted(func() error {
				n, err = unix.Pwritev2(fd, [][]byte{p}, off, flags)
				return err
			})
			return max(n, 0), err
		},
		fadvise: func(fd int, off, n int64, advice int) error {
			return retryInterrupted(func() error { return unix.Fadvise(fd, off, n, advice) })
		},
		syncRange: func(fd int, off, n int64, flags int) error {
			return retryInterrupted(func() error { return unix.SyncFileRange(fd, off, n, flags) })
		},
		cachestat: func(fd int, off, n int64) (int64, error) {
			var st unix.Cachestat_t
			r := unix.CachestatRange{Off: uint64(off), Len: uint64(n)}
			if err := unix.Cachestat(uint(fd), &r, &st, 0); err != nil {
				return 0, err
			}
			return int64(st.Cache), nil
		},
		mincore: mincore,
	}
}

func mincore(addr unsafe.Pointer, n int64, states []byte) error {
	if int64(len(states)) < n/int64(os.Getpagesize()) {
		return unix.EFAULT // the kernel would write beyond states
	}
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(addr), uintptr(n), uintptr(unsafe.Pointer(&states[0])))
	if errno != 0 {
		return errno
	}
	return nil
}
