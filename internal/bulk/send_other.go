// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package bulk

import "golang.org/x/sys/unix"

// send writes to a socket.
func send(fd int, p []byte) (int, error) { return unix.Write(fd, p) }
