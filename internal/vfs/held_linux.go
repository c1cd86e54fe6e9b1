// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lockHeld asks whether a lock of this open file description would be refused.
func lockHeld(f *os.File) (bool, error) {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := retryInterrupted(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l) })
	return err == nil && l.Type != unix.F_UNLCK, err
}
