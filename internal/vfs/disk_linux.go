// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// datasync is fdatasync: content and the metadata needed to read it back, the
// size among them, but not the times.
func datasync(f *os.File) error {
	return retryInterrupted(func() error { return unix.Fdatasync(int(f.Fd())) })
}

// dropClean is a request that the kernel may pass over, page by page; it reports
// no error that says so.
func dropClean(f *os.File) {
	_ = retryInterrupted(func() error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) })
}

// lockFile takes a lock of the open file description over the whole file.
// Kafka takes a POSIX lock (fcntl) of its process: those conflict with locks
// of a description, while flock would not even see them. Unlike a POSIX lock it
// also keeps two users in this process apart, and closing another descriptor of
// the file does not lose it.
func lockFile(f *os.File) error {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := retryInterrupted(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l) })
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrLocked
	}
	return err
}

func usage(path string) (DiskUsage, error) {
	var st unix.Statfs_t
	if err := retryInterrupted(func() error { return unix.Statfs(path, &st) }); err != nil {
		return DiskUsage{}, err
	}
	// Block counts are in units of the fragment size where there is one.
	unit := uint64(st.Bsize)
	if st.Frsize > 0 {
		unit = uint64(st.Frsize)
	}
	return DiskUsage{Total: st.Blocks * unit, Free: st.Bavail * unit}, nil
}

// retryInterrupted calls again as long as a signal cut the call short.
func retryInterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
