// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync is os.File.Sync, which asks for F_FULLFSYNC: fsync alone leaves the
// bytes in the drive's own cache.
func datasync(f *os.File) error { return f.Sync() }

// dropClean has no system call to go by here.
func dropClean(*os.File) {}

// lockFile uses flock, as there are no locks of an open file description here
// that could be asked for without blocking. It keeps Firn apart from Firn, not
// from Kafka.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func usage(path string) (DiskUsage, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return DiskUsage{}, err
	}
	unit := uint64(st.Bsize)
	return DiskUsage{Total: st.Blocks * unit, Free: st.Bavail * unit}, nil
}
