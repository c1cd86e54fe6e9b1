// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package bulk

import "runtime"

// yield lets other goroutines run first, which is all that Go has for it.
func yield() { runtime.Gosched() }
