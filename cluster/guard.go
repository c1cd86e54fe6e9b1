// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"

	"firn/record"
)

// recoverCorruption turns a panic under way into a corruption error of path.
// It is deferred around code that reads a file through a mapping it cannot
// check beforehand.
func recoverCorruption(path string, err *error) {
	if r := recover(); r != nil {
		*err = &record.CorruptionError{Path: path, Reason: fmt.Sprint(r)}
	}
}

// faultsPanic makes a fault in a mapping (a file shorter than its pages say)
// a panic of this goroutine instead of the end of the process, until the
// function that it returns is called.
func faultsPanic() (restore func()) {
	before := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(before) }
}

// isSystemError says whether the operating system refused something, so that
// the content of the file is not to blame.
func isSystemError(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno)
}

// abandon gives up a file that bbolt opened and, when it panicked, did not
// close. The mapping that it made cannot be undone from here and keeps the
// file open, so the lock is released by name. Errors mean that bbolt was
// there first.
func abandon(file *os.File) {
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	_ = file.Close()
}
