// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"unsafe"
)

// tieToParent has the kernel kill the child when this process dies without
// stopping it. The kernel means the thread that started the child: nothing here
// may end a thread.
func tieToParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

const lowestPriority = 19

// lowerPriority gives every thread of this process the lowest priority; what
// they start inherits it. Twice, since a thread may start meanwhile. It is a
// wish: where it is refused the process runs as it is.
func lowerPriority() {
	for range 2 {
		tasks, _ := os.ReadDir("/proc/self/task")
		for _, task := range tasks {
			if id, err := strconv.Atoi(task.Name()); err == nil {
				setOrdinary(id)
				_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, lowestPriority)
			}
		}
	}
}

// setOrdinary takes a thread out of a real-time class, which it inherits from a
// parent that was started in one. There the nice value means nothing, and two
// replays that never sleep would keep the broker off both cores for good.
func setOrdinary(thread int) {
	const schedOther = 0
	param := struct{ priority int32 }{}
	_, _, _ = syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(thread), schedOther, uintptr(unsafe.Pointer(&param)))
}
