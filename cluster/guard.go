// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"runtime/debug"

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
