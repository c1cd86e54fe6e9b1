// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The tests of this file run on pipes inside a bubble of synctest: time there
// goes on only when everybody waits, so that nothing depends on the machine.

// bubble makes a server inside the bubble, with everything answered.
func bubble(t *testing.T, o Options) (*Server, *logLines) {
	t.Helper()
	var log logLines
	o.Logger = log.logger()
	if o.Handler == nil {
		o.Handler = handlerFunc(func(_ context.Context, r *Request) (Answer, error) { return reply(r), nil })
	}
	return newServer(t, o), &log
}

// pipe connects to s without a network.
func pipe(t *testing.T, s *Server) *client {
	t.Helper()
	theirs, ours := net.Pipe()
	s.admit(ours, "PIPE")
	return newClient(t, theirs)
}

// pass lets time go on in the bubble.
func pass(d time.Duration) { <-time.After(d) }

func (c *client) roundTrip(id int32) {
	c.t.Helper()
	c.send(encode(id, metadataRequest(9, "t")))
	if got, _ := c.receive(); got != id {
		c.t.Fatalf("got %d, want %d", got, id)
	}
}

func expectEvents(t *testing.T, log *logLines, want ...string) {
	t.Helper()
	if got := log.events(); !slices.Equal(got, want) {
		t.Errorf("logged %v, want %v", got, want)
	}
}

func TestConnectionLimits(t *testing.T) {
	for name, o := range map[string]Options{"total": {MaxConnections: 2}, "per address": {MaxConnectionsPerIP: 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, log := bubble(t, o)
				first, second := pipe(t, s), pipe(t, s)
				first.roundTrip(1)
				second.roundTrip(2)
				pipe(t, s).expectEnd()
				pipe(t, s).expectEnd()
				expectEvents(t, log, "connection_refused")
				if err := first.Close(); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				pipe(t, s).roundTrip(3)
				second.roundTrip(4)
				if st := s.Stats(); st.Accepted != 3 || st.Refused != 2 || st.Connections != 2 {
					t.Errorf("stats %+v", st)
				}
			})
		})
	}
}

// TestConnectionLimitOverTCP: the limit counts addresses, not ports.
func TestConnectionLimitOverTCP(t *testing.T) {
	s := newServer(t, Options{MaxConnectionsPerIP: 1, Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) { return reply(r), nil })})
	addr, err := s.Listen("TEST", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first := dialAddr(t, addr)
	first.roundTrip(1)
	dialAddr(t, addr).expectEnd()
	first.roundTrip(2)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		s, log := bubble(t, Options{IdleTimeout: time.Minute, Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
			then := reply(r)
			return func(ctx context.Context) (*Response, error) {
				if r.CorrelationID == 7 {
					<-gate
				}
				return then(ctx)
			}, nil
		})})
		silent, live, waiting := pipe(t, s), pipe(t, s), pipe(t, s)
		waiting.send(encode(7, metadataRequest(9, "t")))
		for i := range int32(4) {
			pass(50 * time.Second)
			live.roundTrip(i)
		}
		silent.expectEnd()
		// A request that takes longer than the timeout keeps its connection.
		close(gate)
		if id, _ := waiting.receive(); id != 7 {
			t.Errorf("got %d", id)
		}
		waiting.roundTrip(8)
		if st := s.Stats(); st.Connections != 2 {
			t.Errorf("stats %+v", st)
		}
		// The timeout counts from the last response.
		pass(61 * time.Second)
		synctest.Wait()
		if st := s.Stats(); st.Connections != 0 {
			t.Errorf("stats %+v", st)
		}
		expectEvents(t, log)
	})
}

// TestRequestMemoryIsShared attacks I4: a reader waits for memory before it
// reads a body, gets it when an answer was sent, and Close ends its wait.
func TestRequestMemoryIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		handled := 0
		s, log := bubble(t, Options{MaxRequestBytes: 4096, RequestMemory: 4096, Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
			handled++
			then := reply(r)
			return func(ctx context.Context) (*Response, error) { <-gate; return then(ctx) }, nil
		})})
		big := encode(1, metadataRequest(9, string(make([]byte, 3000))))
		clients := []*client{pipe(t, s), pipe(t, s), pipe(t, s)}
		// A bystander that sends nothing holds nothing.
		pipe(t, s)
		ended := make(chan error, len(clients))
		for _, c := range clients {
			go func() {
				_, err := c.Write(big)
				if err == nil {
					_, _, err = c.tryReceive()
				}
				ended <- err
			}()
		}
		synctest.Wait()
		if handled != 1 {
			t.Fatalf("%d requests were read with memory for one", handled)
		}
		gate <- struct{}{}
		synctest.Wait()
		if handled != 2 || len(ended) != 1 {
			t.Fatalf("%d requests were read after one was answered", handled)
		}
		closed := make(chan error)
		go func() { closed <- s.Close(context.Background()) }()
		synctest.Wait()
		gate <- struct{}{}
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		answered := 0
		for range clients {
			if err := <-ended; err == nil {
				answered++
			}
		}
		if handled != 2 || answered != 2 {
			t.Errorf("handled %d, answered %d", handled, answered)
		}
		expectEvents(t, log)
	})
}

// TestAnnouncedFrame attacks I4: clients that announce the largest frame and
// fall silent hold nobody up, however many they are.
func TestAnnouncedFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := bubble(t, Options{MaxRequestBytes: 1 << 20, RequestMemory: 1 << 20})
		var silent []*client
		for i := range 100 {
			c := pipe(t, s)
			c.send(append(binary.BigEndian.AppendUint32(nil, 1<<20), make([]byte, i*10)...))
			silent = append(silent, c)
		}
		synctest.Wait()
		began := time.Now()
		c := pipe(t, s)
		c.send(encode(7, metadataRequest(9, string(make([]byte, 30_000)))))
		if id, _ := c.receive(); id != 7 || time.Since(began) != 0 {
			t.Errorf("answer %d came after %v", id, time.Since(began))
		}
		for _, c := range silent {
			c.expectEnd()
		}
		if took := time.Since(began); took > DefaultSendTimeout+lingerTime {
			t.Errorf("the silent clients were ended after %v", took)
		}
		if got := log.events(); len(got) != len(silent) {
			t.Errorf("%d lines for %d clients", len(got), len(silent))
		}
	})
}

// TestStalledFrame: a client that stops in the middle of a frame does not keep
// its memory.
func TestStalledFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := bubble(t, Options{MaxRequestBytes: 4096, RequestMemory: 4096})
		c := pipe(t, s)
		frame := encode(1, metadataRequest(9, "topic"))
		c.send(frame[:len(frame)-1])
		c.expectEnd()
		synctest.Wait()
		if !s.frames.small.TryAcquire(4096) {
			t.Error("memory was not given back")
		}
		expectEvents(t, log, "connection_failed")
	})
}

// TestSlowClientOnAPipe: one that takes nothing is closed, one that takes a
// little now and then is not.
func TestSlowClientOnAPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan bool, 2)
		body := make([]byte, 1<<20)
		s, log := bubble(t, Options{SendTimeout: time.Minute, IdleTimeout: 24 * time.Hour, Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
			return func(context.Context) (*Response, error) {
				return &Response{Parts: frameOf(r.CorrelationID, Part{Bytes: body}), Done: func(sent bool) { done <- sent }}, nil
			}, nil
		})})
		stuck, slow := pipe(t, s), pipe(t, s)
		slow.send(encode(1, metadataRequest(9, "t")))
		buf := make([]byte, plainWrite)
		for left := len(body) + 8; left > 0; left -= plainWrite {
			pass(40 * time.Second)
			if _, err := io.ReadFull(slow, buf[:min(left, plainWrite)]); err != nil {
				t.Fatal(err)
			}
		}
		if !<-done {
			t.Error("the slow client's answer counts as not sent")
		}
		stuck.send(encode(2, metadataRequest(9, "t")))
		if <-done {
			t.Error("the stuck client's answer counts as sent")
		}
		synctest.Wait()
		expectEvents(t, log, "client_slow")
		if st := s.Stats(); st.SlowClients != 1 || st.Connections != 1 {
			t.Errorf("stats %+v", st)
		}
	})
}

// failing is a listener whose first accepts fail.
type failing struct {
	net.Listener // nil: nothing else may be called
	failures     int
	conns        chan net.Conn
}

func (l *failing) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, errors.New("too many open files")
	}
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// TestAcceptGoesOn: a lack of descriptors is survived, with one line.
func TestAcceptGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := bubble(t, Options{})
		ln := &failing{failures: 20, conns: make(chan net.Conn)}
		s.wg.Go(func() { s.accept(ln, "TEST", nil) })
		theirs, ours := net.Pipe()
		ln.conns <- ours
		c := newClient(t, theirs)
		c.roundTrip(1)
		close(ln.conns)
		expectEvents(t, log, "accept_failed")
	})
}
