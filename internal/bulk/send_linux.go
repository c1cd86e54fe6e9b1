// SPDX-License-Identifier: Apache-2.0

package bulk

import "golang.org/x/sys/unix"

// send writes to a socket; one that the peer has closed is an error and no
// signal.
func send(fd int, p []byte) (int, error) {
	return unix.SendmsgN(fd, p, nil, nil, unix.MSG_NOSIGNAL)
}
