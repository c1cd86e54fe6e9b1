// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dial is the DialContext of a net.Dialer.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer makes connections of dial whose reads and writes take turns. Those
// that are not TCP are left as they are.
func (t *Turns) Dialer(dial Dial) Dial {
	if t == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		tcp, ok := nc.(*net.TCPConn)
		if !ok {
			return nc, nil
		}
		raw, err := tcp.SyscallConn()
		if err != nil {
			return nc, nil // closed already, which its first use will tell
		}
		return &conn{Conn: tcp, raw: raw, turns: t}, nil
	}
}

// conn takes a turn for every system call that moves bytes. It embeds no more
// than a net.Conn: the ReadFrom and WriteTo of *net.TCPConn would go past the
// turns.
type conn struct {
	net.Conn
	raw   syscall.RawConn
	turns *Turns
}

// Read reads at most Size bytes.
func (c *conn) Read(p []byte) (int, error) {
	p = p[:min(len(p), Size)]
	if len(p) == 0 {
		return 0, nil
	}
	n, err := c.move("read", p, c.raw.Read, unix.Read)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// Write writes all of p.
func (c *conn) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, err := c.move("write", p[written:min(len(p), written+Size)], c.raw.Write, send)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// move makes one call that moves bytes of p, once the socket is ready for it,
// as wait says. The turn covers the call and never the waiting.
func (c *conn) move(op string, p []byte, wait func(func(fd uintptr) bool) error, call func(int, []byte) (int, error)) (int, error) {
	var n int
	var err error
	waited := wait(func(fd uintptr) bool {
		c.turns.Take()
		defer c.turns.Give()
		for {
			if n, err = call(int(fd), p); err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	if waited != nil {
		return 0, waited
	}
	if err != nil {
		return 0, &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, err)}
	}
	return n, nil
}
