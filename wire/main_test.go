// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTable serves a few keys with both kinds of header.
func testTable() Table {
	return Table{
		0:  {Min: 3, Max: 11},
		1:  {Min: 4, Max: 18},
		3:  {Min: 0, Max: 13},
		18: {Min: 0, Max: 4},
	}
}

// handlerFunc makes a Handler of a function.
type handlerFunc func(ctx context.Context, r *Request) (Answer, error)

func (f handlerFunc) Handle(ctx context.Context, r *Request) (Answer, error) { return f(ctx, r) }

// reply answers with the empty response of the request's kind.
func reply(r *Request) Answer {
	resp := r.Message.ResponseKind()
	return func(context.Context) (*Response, error) { return &Response{Message: resp}, nil }
}

// logLines collects what a server logs.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// events returns the event names of all lines in order.
func (l *logLines) events() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for line := range strings.Lines(l.buf.String()) {
		_, rest, _ := strings.Cut(line, "event=")
		name, _, _ := strings.Cut(rest, " ")
		names = append(names, name)
	}
	return names
}

func (l *logLines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// newServer makes a server that is closed with the test.
func newServer(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Table == nil {
		o.Table = testTable()
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, s) })
	return s
}

// closeServer closes s and wants nothing to be cut off.
func closeServer(t testing.TB, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// client is the other end of one connection.
type client struct {
	t testing.TB
	net.Conn
}

// dial starts a listener on s, if it has none, and connects.
func dial(t testing.TB, s *Server) *client {
	t.Helper()
	addr, err := s.Listen("TEST", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return dialAddr(t, addr)
}

func dialAddr(t testing.TB, addr net.Addr) *client {
	t.Helper()
	nc, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, nc)
}

func newClient(t testing.TB, nc net.Conn) *client {
	if _, pipe := nc.RemoteAddr().(*net.TCPAddr); pipe {
		if err := nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &client{t: t, Conn: nc}
}

// encode is a whole request frame as kmsg writes it.
func encode(correlationID int32, req kmsg.Request) []byte {
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("tester"))
	return f.AppendRequest(nil, req, correlationID)
}

func metadataRequest(version int16, topic string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = version
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	return req
}

func (c *client) send(frames ...[]byte) {
	c.t.Helper()
	if _, err := c.Write(bytes.Join(frames, nil)); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// receive reads one frame: its correlation id and what follows.
func (c *client) receive() (int32, []byte) {
	c.t.Helper()
	id, body, err := c.tryReceive()
	if err != nil {
		c.t.Fatalf("receive: %v", err)
	}
	return id, body
}

func (c *client) tryReceive() (int32, []byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(head[:])))
	if n < 4 {
		return 0, nil, fmt.Errorf("frame of %d bytes", n)
	}
	body := make([]byte, n-4)
	_, err := io.ReadFull(c, body)
	return int32(binary.BigEndian.Uint32(head[4:])), body, err
}

// expectEnd wants nothing more to arrive and the connection to end.
func (c *client) expectEnd() {
	c.t.Helper()
	n, err := c.Read(make([]byte, 1))
	if n > 0 || err == nil {
		c.t.Fatalf("read %d bytes where the connection should have ended", n)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Fatalf("the connection did not end: %v", err)
	}
}

// wait fails the test when ch does not deliver in a minute.
func wait[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("no %s within a minute", what)
		panic("not reached")
	}
}
