// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

func tieToParent(*exec.Cmd) {}

const lowestPriority = 19

func lowerPriority() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, lowestPriority) }
