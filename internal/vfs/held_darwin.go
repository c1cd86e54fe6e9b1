// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lockHeld asks whether a POSIX lock would be refused; the kernel tells of
// locks taken by flock as well.
func lockHeld(f *os.File) (bool, error) {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &l)
	return err == nil && l.Type != unix.F_UNLCK, err
}
