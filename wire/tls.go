// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// handshakeTime is how long a client may take for its TLS handshake.
const handshakeTime = 10 * time.Second

// errHandshake marks a client with which no TLS session came about.
var errHandshake = errors.New("TLS handshake failed")

// tlsConn is the server's end of a TLS connection. What is written goes to the
// socket as it is; what is sealed is gathered into a buffer, so that the sender
// decides how its records leave.
type tlsConn struct {
	*tls.Conn
	tcp     *net.TCPConn
	records *recordSocket
}

func newTLSConn(tcp *net.TCPConn, config *tls.Config) *tlsConn {
	records := &recordSocket{TCPConn: tcp}
	return &tlsConn{tls.Server(records, config), tcp, records}
}

// handshake runs the handshake, within its time.
func (c *tlsConn) handshake(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	if err := c.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("%w: %w", errHandshake, err)
	}
	return nil
}

// Read reads what the client sent. Many clients end without a word of TLS about
// it. That a frame was cut off shows by its length, so that between two frames
// the one end is as good as the other.
func (c *tlsConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// seal makes records of p, adds them to sealed and calls send with all of it,
// before any record that the TLS session itself wants to write after them (it
// answers key updates from the reader). Only the connection's writer calls it.
func (c *tlsConn) seal(p, sealed []byte, send func(sealed []byte) error) error {
	r := c.records
	r.mu.Lock()
	r.hold, r.held = true, sealed
	r.mu.Unlock()
	_, err := c.Conn.Write(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	sealed = r.held
	r.hold, r.held = false, nil
	if err != nil {
		return fmt.Errorf("%w: seal records: %w", errSocket, err)
	}
	return send(sealed)
}

// recordSocket is the socket below a TLS session.
type recordSocket struct {
	*net.TCPConn

	mu   sync.Mutex
	hold bool // records are gathered in held
	held []byte
}

// Write takes one record of the session.
func (r *recordSocket) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hold {
		r.held = append(r.held, p...)
		return len(p), nil
	}
	return r.TCPConn.Write(p)
}
