// SPDX-License-Identifier: Apache-2.0

package wire

import "golang.org/x/sys/unix"

// haveSendfile says that sysSendfile works for regular files.
const haveSendfile = true

// sysSend sends what the socket takes of p without blocking. more says that
// the rest of the message follows at once, so that the kernel may wait for it
// to fill a segment.
func sysSend(socket int, p []byte, more bool) (int, error) {
	flags := unix.MSG_NOSIGNAL
	if more {
		flags |= unix.MSG_MORE
	}
	return unix.SendmsgN(socket, p, nil, nil, flags)
}

// sysSendfile sends what the socket takes of n bytes of file from off. It
// leaves the file's own position alone, which other senders share.
func sysSendfile(socket, file int, off int64, n int) (int, error) {
	return unix.Sendfile(socket, file, &off, n)
}
