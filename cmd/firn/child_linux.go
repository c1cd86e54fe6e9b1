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

// lowerPriority makes every thread of this process one that any other may
// interrupt at once; what they start inherits it. Twice, since a thread may
// start meanwhile. It is a wish: where it is refused the process runs as it is.
//
// SCHED_IDLE is what comes closest to another machine. A process at nice 19 may
// finish its time slice, of up to a tick of 4 ms, before a broker's thread that
// was just woken gets the processor; and one that inherited a real-time class,
// where nice means nothing, can keep the broker off all of them for good.
func lowerPriority() {
	for range 2 {
		tasks, _ := os.ReadDir("/proc/self/task")
		for _, task := range tasks {
			if id, err := strconv.Atoi(task.Name()); err == nil {
				_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, lowestPriority)
				setIdle(id)
			}
		}
	}
}

// setIdle puts a thread into the class SCHED_IDLE.
func setIdle(thread int) {
	const schedIdle = 5
	param := struct{ priority int32 }{}
	_, _, _ = syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(thread), schedIdle, uintptr(unsafe.Pointer(&param)))
}
