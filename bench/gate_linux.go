// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"syscall"
	"unsafe"
)

const (
	schedOther   = 0
	schedFIFO    = 1
	gatePriority = 50
)

// setRealTime gives the calling thread real-time priority, or takes it back.
func setRealTime(on bool) error {
	policy, param := uintptr(schedOther), struct{ priority int32 }{0}
	if on {
		policy, param.priority = schedFIFO, gatePriority
	}
	_, _, errno := syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, 0, policy, uintptr(unsafe.Pointer(&param)))
	if errno != 0 {
		return fmt.Errorf("set real-time priority: %w", errno)
	}
	return nil
}
