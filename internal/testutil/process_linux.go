// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"os/exec"
	"syscall"
)

// tieToParent has the kernel kill the program when the test binary dies
// without its clean-up, as it does after a panic or a timeout.
func tieToParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
