// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package wire

import "golang.org/x/sys/unix"

// haveSendfile is false where regions are sent by pread and write.
const haveSendfile = false

// sysSend sends what the socket takes of p without blocking. There is no hint
// for more to come.
func sysSend(socket int, p []byte, _ bool) (int, error) { return unix.Write(socket, p) }

func sysSendfile(_, _ int, _ int64, _ int) (int, error) { return 0, unix.ENOSYS }
