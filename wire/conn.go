// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

const (
	// readAhead is the only buffer that an idle connection holds. It lets a
	// small request arrive with one read.
	readAhead = 1 << 10
	// readPiece of a frame must arrive within Options.SendTimeout, so that a
	// trickle cannot hold the request memory of others.
	readPiece = 256 << 10
	// lingerTime bounds how long a connection that we end stays readable, so
	// that the kernel does not reset it under answers that are still on their
	// way.
	lingerTime = 500 * time.Millisecond
)

// Reasons for a reader to stop that are nobody's fault.
var (
	errDraining = errors.New("server is draining")
	errIdle     = errors.New("connection was idle for too long")
)

// Faults that end a connection.
var (
	errStalled = errors.New("client stopped sending in the middle of a frame")
	errRead    = errors.New("reading failed")
	errHandler = errors.New("handling failed")
	errAnswer  = errors.New("answering failed")
	errDone    = errors.New("connection is done")
)

// conn is one connection: a reader that calls the Handler in order and a
// writer that runs the answers in the same order.
type conn struct {
	s    *Server
	nc   net.Conn
	br   *bufio.Reader // the reader's
	info ConnInfo
	// clientID is the reader's: the one of the last request, kept because it
	// is nearly always that of the next.
	clientID string

	ctx    context.Context // ends when the connection fails
	cancel context.CancelCauseFunc
	// reading ends when no more requests are to be read.
	reading    context.Context
	endReading context.CancelFunc

	// slots holds one element for each request between read and sent (I7).
	// The queue has room for all of them, so that sending to it never blocks.
	slots  chan struct{}
	queue  chan pending
	sender sender // the writer's

	lastSent  atomic.Int64 // Unix nanoseconds
	lingering atomic.Bool  // all answers were sent
}

// pending is a request whose answer the writer is to run.
type pending struct {
	req    *Request
	answer Answer
	frame  *frame
	// handled is when Handle returned.
	handled time.Time
}

func newConn(s *Server, nc net.Conn, info ConnInfo) *conn {
	c := &conn{s: s, nc: nc, info: info, br: bufio.NewReaderSize(nc, readAhead)}
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	c.reading, c.endReading = context.WithCancel(c.ctx)
	c.slots = make(chan struct{}, s.o.MaxInFlight)
	c.queue = make(chan pending, s.o.MaxInFlight)
	c.sender.init(nc, s)
	return c
}

// serve runs the connection to its end. It is the reader goroutine.
func (c *conn) serve() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		for p := range c.queue {
			c.respond(p)
		}
	}()
	err := c.begin()
	if err == nil {
		err = c.readAll()
	}
	close(c.queue)
	switch {
	case c.ctx.Err() != nil: // the writer failed first, and said so
	case errors.Is(err, errRead):
		c.fail(err)
	default:
		c.report(err)
	}
	<-written
	if !errors.Is(err, io.EOF) {
		c.linger()
	}
	c.cancel(errDone)
	c.close()
}

// begin does what comes before the first request.
func (c *conn) begin() error {
	if t, ok := c.nc.(*tlsConn); ok {
		err := t.handshake(c.reading)
		if err != nil && c.reading.Err() != nil {
			return errDraining
		}
		return err
	}
	return nil
}

// fail ends the connection at once. Only the first reason is reported.
func (c *conn) fail(err error) {
	if errors.Is(err, errSlowClient) {
		c.discardUnsent()
	}
	c.cancel(err)
	if context.Cause(c.ctx) == err {
		c.report(err)
	}
	c.close()
}

// discardUnsent makes the close of the socket a reset. The kernel would else go
// on holding what the client does not take, megabytes of it, for minutes, and
// give up in the end without a word to the client.
func (c *conn) discardUnsent() {
	if tcp := tcpOf(c.nc); tcp != nil {
		// It fails only on a socket that is closed, which holds nothing.
		_ = tcp.SetLinger(0)
	}
}

// close closes the socket, which may be closed already. A TLS session is not
// ended here: linger did so, or there is nobody to tell, and to wait for it
// would keep a stuck client's connection open.
func (c *conn) close() {
	end := c.nc.Close
	if tcp := tcpOf(c.nc); tcp != nil {
		end = tcp.Close
	}
	if err := end(); err != nil && !errors.Is(err, net.ErrClosed) {
		c.s.o.Logger.Debug("closing a connection failed", "event", "close_failed", "remote", c.info.RemoteAddr, "error", err)
	}
}

// stopReading makes the reader stop before its next request. The reader sets
// a deadline first and looks at the context then; we end the context first and
// set the deadline then, so that one of us always sees the other.
func (c *conn) stopReading() {
	c.endReading()
	// A deadline cannot be set only on a closed connection, which does not
	// read any more either.
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
}

// armRead gives the next read until d from now, or says that there is to be
// none.
func (c *conn) armRead(d time.Duration) error {
	if err := c.nc.SetReadDeadline(time.Now().Add(d)); err != nil {
		return fmt.Errorf("%w: set read deadline: %w", errRead, err)
	}
	if c.reading.Err() != nil {
		return errDraining
	}
	return nil
}

// readAll reads requests and hands them to the Handler until there is a reason
// to stop. io.EOF is the client's orderly end.
func (c *conn) readAll() error {
	for {
		n, err := c.awaitFrame()
		if err != nil {
			return err
		}
		if err := c.readRequest(n); err != nil {
			return err
		}
	}
}

// awaitFrame waits for the next length field, for as long as the connection
// may be idle, and checks it. The field stays in the read-ahead buffer.
func (c *conn) awaitFrame() (int, error) {
	wait := c.s.o.IdleTimeout
	for {
		if err := c.armRead(wait); err != nil {
			return 0, err
		}
		head, err := c.br.Peek(lengthSize)
		switch {
		case err == nil:
			return checkLength(head, c.s.o.MaxRequestBytes)
		case errors.Is(err, os.ErrDeadlineExceeded):
			if wait = c.idleLeft(); wait <= 0 {
				return 0, errIdle
			}
		case errors.Is(err, io.EOF) && len(head) == 0:
			return 0, io.EOF
		default:
			return 0, readFault(err)
		}
	}
}

// idleLeft is how much longer the connection may stay silent.
func (c *conn) idleLeft() time.Duration {
	if len(c.slots) > 0 || c.reading.Err() != nil {
		return c.s.o.IdleTimeout
	}
	return time.Until(time.Unix(0, c.lastSent.Load()).Add(c.s.o.IdleTimeout))
}

// checkLength reads a length field. max is the largest frame allowed.
func checkLength(head []byte, max int) (int, error) {
	n := int64(int32(binary.BigEndian.Uint32(head)))
	if n < minFrame || n > int64(max) {
		return 0, fmt.Errorf("%w: length %d is not between %d and %d", errMalformed, n, minFrame, max)
	}
	return int(n), nil
}

func readFault(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ended early", errMalformed)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errStalled
	}
	return fmt.Errorf("%w: %w", errRead, err)
}

// readRequest takes a slot and memory for a frame of n bytes, reads it and
// hands it on.
func (c *conn) readRequest(n int) error {
	if err := c.awaitStart(n); err != nil {
		return err
	}
	seen := time.Now()
	select {
	case c.slots <- struct{}{}:
	case <-c.reading.Done():
		return errDraining
	}
	f, err := c.s.frames.take(c.reading, n)
	if err != nil {
		<-c.slots
		return errDraining
	}
	admitted := time.Now()
	queued := false
	defer func() {
		if !queued {
			c.finish(f)
		}
	}()
	if err := c.readBody(f.b); err != nil {
		return err
	}
	req, err := decode(f.b, c.s.o.Table, c.intern)
	if err != nil {
		return err
	}
	req.Conn, req.Received = c.info, time.Now()
	c.s.counters.requests.Add(1)
	answer, err := c.s.o.Handler.Handle(c.ctx, req)
	handled := time.Now()
	if err != nil {
		return fmt.Errorf("%w: key %d, version %d: %w", errHandler, req.Key, req.Version, err)
	}
	if m := c.s.metrics.apis[req.Key]; m != nil {
		m.requests.Inc()
		m.seconds[phaseQueue].Observe(admitted.Sub(seen).Seconds())
		m.seconds[phaseHandle].Observe(handled.Sub(req.Received).Seconds())
	}
	if answer != nil {
		queued = true
		c.queue <- pending{req: req, answer: answer, frame: f, handled: handled}
	}
	return nil
}

// awaitStart waits until the read-ahead buffer holds a frame of n bytes, or as
// much of it as it can. A client that announces a frame and falls silent then
// holds no memory that others wait for.
func (c *conn) awaitStart(n int) error {
	want := min(lengthSize+n, readAhead)
	if c.br.Buffered() >= want {
		return nil
	}
	if err := c.armRead(c.s.o.SendTimeout); err != nil {
		return err
	}
	if _, err := c.br.Peek(want); err != nil {
		if c.reading.Err() != nil {
			return errDraining
		}
		return readFault(err)
	}
	return nil
}

// readBody drops the length field and fills p.
func (c *conn) readBody(p []byte) error {
	if _, err := c.br.Discard(lengthSize); err != nil {
		return readFault(err)
	}
	// Each read takes all that is there: pieces bound the time, not the reads.
	for len(p) > 0 {
		if err := c.armRead(c.s.o.SendTimeout); err != nil {
			return err
		}
		for got := 0; len(p) > 0 && got < readPiece; {
			n, err := c.br.Read(p)
			p, got = p[n:], got+n
			if err != nil && len(p) > 0 {
				if c.reading.Err() != nil {
					return errDraining
				}
				return readFault(err)
			}
		}
	}
	return nil
}

func (c *conn) intern(b []byte) string {
	if string(b) != c.clientID {
		c.clientID = string(b)
	}
	return c.clientID
}

// finish gives back what a request held.
func (c *conn) finish(f *frame) {
	f.release()
	<-c.slots
}

// respond runs one answer and sends its response. After a failure it still
// runs the answer, so that what the answer holds is given back (I3).
func (c *conn) respond(p pending) {
	defer c.finish(p.frame)
	resp, err := p.answer(c.ctx)
	answered := time.Now()
	if err == nil && resp != nil {
		err = c.send(p.req, resp)
	} else {
		resp.done(false)
	}
	if err != nil {
		c.fail(fmt.Errorf("%w: key %d, version %d: %w", errAnswer, p.req.Key, p.req.Version, err))
	}
	sent := time.Now()
	c.lastSent.Store(sent.UnixNano())
	if err == nil && resp != nil {
		c.measure(p, resp, answered, sent)
	}
}

// measure notes the phases of a request whose answer was sent whole.
func (c *conn) measure(p pending, resp *Response, answered, sent time.Time) {
	if m := c.s.metrics.apis[p.req.Key]; m != nil {
		m.seconds[phaseWait].Observe(answered.Sub(p.handled).Seconds())
		m.seconds[phaseSend].Observe(sent.Sub(answered).Seconds())
	}
	if !resp.Bulk && !resp.Appended.IsZero() {
		c.s.metrics.tail.Observe(sent.Sub(resp.Appended).Seconds())
	}
}

// send writes a response and calls its Done.
func (c *conn) send(req *Request, resp *Response) (err error) {
	defer func() { resp.done(err == nil) }()
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if resp.Message != nil {
		buf := c.s.pool.get(0)
		defer c.s.pool.put(buf)
		if buf.b, err = appendMessage(buf.b, req, resp); err != nil {
			return err
		}
		return c.sender.sendBytes(c.ctx, buf.b, resp.Bulk)
	}
	if err := checkParts(resp.Parts, req); err != nil {
		return err
	}
	return c.sender.sendParts(c.ctx, resp.Parts, resp.Bulk)
}

// linger ends our side and reads on for a moment: closing a socket with unread
// bytes in it makes the kernel send a reset, which could overtake answers that
// the client has not received yet.
func (c *conn) linger() {
	tcp := tcpOf(c.nc)
	if tcp == nil || c.ctx.Err() != nil {
		return
	}
	c.lingering.Store(true)
	if t, ok := c.nc.(*tlsConn); ok && t.CloseWrite() != nil {
		return
	}
	if tcp.CloseWrite() != nil || tcp.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	// How this ends does not matter: the connection is done either way.
	_, _ = io.Copy(io.Discard, tcp)
}

// report writes the one line that a faulty connection gets.
func (c *conn) report(err error) {
	log := c.s.o.Logger.With("remote", c.info.RemoteAddr, "listener", c.info.Listener, "connection", c.info.ID)
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, errDraining), errors.Is(err, errServerClosed):
	case errors.Is(err, errHandshake):
		c.s.counters.handshakes.Add(1)
		log.Warn("closing a connection without a TLS session", "event", "tls_handshake_failed", "error", err)
	case errors.Is(err, errMalformed):
		c.s.counters.malformed.Add(1)
		log.Warn("closing a connection for a malformed frame", "event", "frame_malformed", "error", err)
	case errors.Is(err, errUnsupported):
		c.s.counters.unsupported.Add(1)
		log.Warn("closing a connection for an unsupported request", "event", "request_unsupported", "error", err)
	case errors.Is(err, errSlowClient):
		c.s.counters.slow.Add(1)
		log.Warn("closing a connection that takes no answer", "event", "client_slow", "error", err)
	case errors.Is(err, errShortRegion), errors.Is(err, errFile), errors.Is(err, errBadResponse):
		log.Error("closing a connection for an answer that cannot be sent whole", "event", "answer_broken", "error", err)
	case errors.Is(err, errIdle), errors.Is(err, errRead), errors.Is(err, errSocket):
		log.Debug("closing a connection", "event", "connection_lost", "error", err)
	default:
		log.Warn("closing a connection", "event", "connection_failed", "error", err)
	}
}
