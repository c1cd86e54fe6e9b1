// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// clockUnsynced is the kernel's word for a clock that nobody disciplines
// (TIME_ERROR).
const clockUnsynced = 5

// clockSynced says whether the kernel takes its clock for right, or cannot say.
func clockSynced() bool {
	var t syscall.Timex
	state, err := syscall.Adjtimex(&t)
	return err != nil || state != clockUnsynced
}
