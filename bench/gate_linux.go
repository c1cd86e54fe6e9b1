// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"syscall"
	"unsafe"
)

const (
	schedFIFO        = 1
	schedResetOnFork = 0x40000000
	gatePriority     = 50
)

// realTime gives the calling thread real-time priority; what it starts has
// none.
func realTime() error {
	param := struct{ priority int32 }{gatePriority}
	_, _, errno := syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, 0, schedFIFO|schedResetOnFork, uintptr(unsafe.Pointer(&param)))
	if errno != 0 {
		return fmt.Errorf("set real-time priority: %w", errno)
	}
	return nil
}
