// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// LockHeld says whether somebody, Kafka included, holds the lock file at path
// on the file system of the operating system. It takes no lock, not even for a
// moment, and makes no file: one that is not there is not held.
func LockHeld(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	held, err := lockHeld(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("ask for the lock %s: %w", path, err)
	}
	return held, nil
}
