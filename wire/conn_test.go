// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRequestAndResponse: what a client sends arrives decoded, and what is
// answered arrives whole.
func TestRequestAndResponse(t *testing.T) {
	s := newServer(t, Options{Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
		m := r.Message.(*kmsg.MetadataRequest)
		if r.ClientID != "tester" || r.Conn.Listener != "TEST" || r.Conn.ID != 1 || r.Conn.RemoteAddr == "" || r.Received.IsZero() {
			t.Errorf("got %+v", r)
		}
		resp := m.ResponseKind().(*kmsg.MetadataResponse)
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic = m.Topics[0].Topic
		resp.Topics = append(resp.Topics, topic)
		return func(context.Context) (*Response, error) { return &Response{Message: resp}, nil }, nil
	})})
	c := dial(t, s)
	for _, v := range []int16{1, 8, 9, 12} {
		c.send(encode(int32(v), metadataRequest(v, "snow")))
		id, body := c.receive()
		got := kmsg.NewPtrMetadataResponse()
		if got.Version = v; v >= 9 {
			body = body[1:]
		}
		if err := got.ReadFrom(body); err != nil || id != int32(v) || *got.Topics[0].Topic != "snow" {
			t.Errorf("version %d: id %d, %+v, %v", v, id, got, err)
		}
	}
	if st := s.Stats(); st.Requests != 4 || st.Accepted != 1 || st.Connections != 1 || st.MemoryBytes == 0 {
		t.Errorf("stats %+v", st)
	}
}

// TestPipelining attacks I1 and I2: requests are read on while the first
// answer is not ready, and answers that complete out of order leave in order.
func TestPipelining(t *testing.T) {
	const n = 5
	ready := make([]chan struct{}, n)
	for i := range ready {
		ready[i] = make(chan struct{})
	}
	var handled []int32
	s := newServer(t, Options{Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
		handled = append(handled, r.CorrelationID)
		if len(handled) == n {
			// Only now, with all requests read, do answers become ready: the
			// last one first.
			for i := range slices.Backward(ready) {
				close(ready[i])
			}
		}
		then := reply(r)
		return func(ctx context.Context) (*Response, error) { <-ready[r.CorrelationID]; return then(ctx) }, nil
	})})
	c := dial(t, s)
	var frames [][]byte
	for i := range int32(n) {
		frames = append(frames, encode(i, metadataRequest(9, "t")))
	}
	c.send(frames...)
	for i := range int32(n) {
		if id, _ := c.receive(); id != i {
			t.Fatalf("response %d has correlation id %d", i, id)
		}
	}
}

// TestNoAnswerSendsNothing: acks=0 has no response, and holds neither slot nor
// memory.
func TestNoAnswerSendsNothing(t *testing.T) {
	s := newServer(t, Options{MaxInFlight: 1, Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
		switch {
		case r.CorrelationID < 100:
			return nil, nil
		case r.CorrelationID == 100:
			return func(context.Context) (*Response, error) { return nil, nil }, nil
		}
		return reply(r), nil
	})})
	c := dial(t, s)
	for i := range int32(102) {
		c.send(encode(i, metadataRequest(9, "t")))
	}
	if id, _ := c.receive(); id != 101 {
		t.Errorf("got a response to request %d", id)
	}
}

// TestHalfClosed: a client that has finished sending still gets its answers.
func TestHalfClosed(t *testing.T) {
	ended := make(chan struct{})
	s := newServer(t, Options{Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
		then := reply(r)
		return func(ctx context.Context) (*Response, error) { <-ended; return then(ctx) }, nil
	})})
	c := dial(t, s)
	c.send(encode(1, metadataRequest(9, "t")), encode(2, metadataRequest(9, "t")))
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	close(ended)
	for _, want := range []int32{1, 2} {
		if id, _ := c.receive(); id != want {
			t.Errorf("got %d, want %d", id, want)
		}
	}
	c.expectEnd()
}

// TestMalformedCostsItsConnectionAlone attacks I5.
func TestMalformedCostsItsConnectionAlone(t *testing.T) {
	length := func(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	good := encode(2, metadataRequest(9, "t"))
	body := rawHeader(3, 1, nil, true, 0, 0, 0, 9) // announces nine topics
	tests := []struct {
		name, event string
		bytes       []byte
		end         bool // our side ends after it
	}{
		{"negative length", "frame_malformed", length(-1), false},
		{"no length", "frame_malformed", length(0), false},
		{"oversized", "frame_malformed", length(1<<20 + 1), false},
		{"another protocol", "frame_malformed", []byte("GET / HTTP/1.1\r\nHost: firn\r\n\r\n"), false},
		{"truncated length", "frame_malformed", good[:2], true},
		{"truncated frame", "frame_malformed", good[:len(good)-1], true},
		{"bad body", "frame_malformed", append(length(int32(len(body))), body...), false},
		{"garbage in a frame", "frame_malformed", append(length(32), bytes.Repeat([]byte{0xAA}, 32)...), false},
		{"unsupported key", "request_unsupported", encode(3, kmsg.NewPtrHeartbeatRequest()), false},
		{"unsupported version", "request_unsupported", encode(3, kmsg.NewPtrProduceRequest()), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log logLines
			s := newServer(t, Options{MaxRequestBytes: 1 << 20, Logger: log.logger(), Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
				return reply(r), nil
			})})
			addr, err := s.Listen("TEST", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			bystander, bad := dialAddr(t, addr), dialAddr(t, addr)
			bystander.send(encode(1, metadataRequest(9, "t")))
			bystander.receive()
			// What came before the fault is still answered, as in Kafka.
			bad.send(encode(1, metadataRequest(9, "t")), tt.bytes)
			if tt.end {
				if err := bad.Conn.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			if id, _ := bad.receive(); id != 1 {
				t.Errorf("got %d", id)
			}
			bad.expectEnd()
			if err := bad.Close(); err != nil {
				t.Error(err)
			}
			bystander.send(encode(7, metadataRequest(9, "t")))
			if id, _ := bystander.receive(); id != 7 {
				t.Errorf("bystander got %d", id)
			}
			if err := bystander.Close(); err != nil {
				t.Error(err)
			}
			closeServer(t, s)
			if got := log.events(); !slices.Equal(got, []string{tt.event}) {
				t.Errorf("logged %v, want one %s", got, tt.event)
			}
			if st := s.Stats(); st.Malformed+st.Unsupported != 1 {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

// TestErrorsOfTheHandler: an error of Handle or of an Answer closes the
// connection with one line; answers before it are sent, and those behind it
// are run (I3).
func TestErrorsOfTheHandler(t *testing.T) {
	boom := errors.New("boom")
	for _, inHandle := range []bool{true, false} {
		var log logLines
		done := make(chan bool, 3)
		ran := make(chan error, 1)
		failed := make(chan struct{})
		s := newServer(t, Options{Logger: log.logger(), Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
			then := reply(r)
			ok := func(ctx context.Context) (*Response, error) {
				resp, err := then(ctx)
				resp.Done = func(sent bool) { done <- sent }
				return resp, err
			}
			switch {
			case r.CorrelationID == 1:
				return ok, nil
			case inHandle:
				return nil, boom
			case r.CorrelationID == 2:
				return func(context.Context) (*Response, error) { <-failed; return nil, boom }, nil
			}
			defer close(failed)
			return func(ctx context.Context) (*Response, error) { ran <- ctx.Err(); return ok(ctx) }, nil
		})})
		c := dial(t, s)
		c.send(encode(1, metadataRequest(9, "t")), encode(2, metadataRequest(9, "t")), encode(3, metadataRequest(9, "t")))
		if id, _ := c.receive(); id != 1 {
			t.Errorf("got %d", id)
		}
		c.expectEnd()
		if !wait(t, done, "Done of the first response") {
			t.Error("the first response counts as not sent")
		}
		if !inHandle {
			if err := wait(t, ran, "run of the answer behind the error"); err == nil {
				t.Error("its context was not done")
			}
			if wait(t, done, "Done of the response behind the error") {
				t.Error("it counts as sent")
			}
		}
		closeServer(t, s)
		if got := log.events(); !slices.Equal(got, []string{"connection_failed"}) {
			t.Errorf("in Handle %v: logged %v", inHandle, got)
		}
	}
}

// TestResponseThatDoesNotFit: a slip of the broker closes the connection and
// still calls Done.
func TestResponseThatDoesNotFit(t *testing.T) {
	done := make(chan bool, 1)
	s := newServer(t, Options{Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
		return func(context.Context) (*Response, error) {
			return &Response{Parts: []Part{{Bytes: make([]byte, 8)}}, Done: func(sent bool) { done <- sent }}, nil
		}, nil
	})})
	c := dial(t, s)
	c.send(encode(1, metadataRequest(9, "t")))
	c.expectEnd()
	if wait(t, done, "Done") {
		t.Error("counts as sent")
	}
}

// TestUnknownApiVersions: the Handler gets it, and answers in version 0.
func TestUnknownApiVersions(t *testing.T) {
	s := newServer(t, Options{Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
		if !r.Unsupported || r.Message != nil || r.Version != 77 {
			t.Errorf("got %+v", r)
		}
		return func(context.Context) (*Response, error) {
			return &Response{Message: ApiVersionsV0(35, testTable().ApiKeys())}, nil
		}, nil
	})})
	c := dial(t, s)
	frame := rawHeader(18, 77, []byte("new"), false, 0, 3, 'x', 'y', 1, 'z', 0)
	c.send(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame)
	_, body := c.receive()
	got := kmsg.NewPtrApiVersionsResponse()
	if err := got.ReadFrom(body); err != nil || got.ErrorCode != 35 || len(got.ApiKeys) != 4 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestMaxInFlight attacks I7: the Handler sees no more requests than may be in
// flight until one of them is answered.
func TestMaxInFlight(t *testing.T) {
	const bound = 3
	gate := make(chan struct{})
	handled := make(chan int32, 10)
	s := newServer(t, Options{MaxInFlight: bound, Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
		handled <- r.CorrelationID
		then := reply(r)
		return func(ctx context.Context) (*Response, error) { <-gate; return then(ctx) }, nil
	})})
	c := dial(t, s)
	for i := range int32(10) {
		c.send(encode(i, metadataRequest(9, "t")))
	}
	for range bound {
		wait(t, handled, "request")
	}
	for i := range int32(10 - bound) {
		if len(handled) != 0 {
			t.Fatal("a request beyond the bound was handled")
		}
		gate <- struct{}{}
		if id, _ := c.receive(); id != i {
			t.Fatalf("got %d, want %d", id, i)
		}
		wait(t, handled, "request")
	}
	close(gate)
}

// TestCloseDrains: the answer under way is sent, nothing more is read, and
// every goroutine ends.
func TestCloseDrains(t *testing.T) {
	gate, handled := make(chan struct{}), make(chan struct{}, 10)
	s := newServer(t, Options{Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
		handled <- struct{}{}
		then := reply(r)
		return func(ctx context.Context) (*Response, error) { <-gate; return then(ctx) }, nil
	})})
	addr, err := s.Listen("TEST", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	idle, busy := dialAddr(t, addr), dialAddr(t, addr)
	busy.send(encode(1, metadataRequest(9, "t")))
	wait(t, handled, "request")
	closed := make(chan error, 1)
	go func() { closed <- s.Close(context.Background()) }()
	idle.expectEnd()
	// Close stops all readers under one lock, which Stats takes as well: once
	// it returns, the busy connection's reader was stopped, too.
	s.Stats()
	busy.send(encode(2, metadataRequest(9, "t")))
	select {
	case err := <-closed:
		t.Fatalf("closed with an answer under way: %v", err)
	default:
	}
	close(gate)
	if id, _ := busy.receive(); id != 1 {
		t.Errorf("got %d", id)
	}
	busy.expectEnd()
	if err := wait(t, closed, "close"); err != nil {
		t.Error(err)
	}
	if len(handled) != 0 {
		t.Error("a request was read after Close")
	}
	if _, err := net.DialTimeout("tcp", addr.String(), time.Minute); err == nil {
		t.Error("the listener still accepts")
	}
}

// TestCloseCutsOff: when patience ends, contexts end and Close says so.
func TestCloseCutsOff(t *testing.T) {
	done := make(chan bool, 1)
	entered := make(chan struct{}, 2)
	s := newServer(t, Options{Handler: handlerFunc(func(ctx context.Context, r *Request) (Answer, error) {
		if r.CorrelationID == 2 {
			entered <- struct{}{}
			<-ctx.Done() // muted, as in a JoinGroup that waits
			return nil, ctx.Err()
		}
		then := reply(r)
		return func(ctx context.Context) (*Response, error) {
			entered <- struct{}{}
			<-ctx.Done()
			resp, _ := then(ctx)
			resp.Done = func(sent bool) { done <- sent }
			return resp, nil
		}, nil
	})})
	c := dial(t, s)
	c.send(encode(1, metadataRequest(9, "t")), encode(2, metadataRequest(9, "t")))
	wait(t, entered, "answer or request")
	wait(t, entered, "answer or request")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if wait(t, done, "Done") {
		t.Error("counts as sent")
	}
	c.expectEnd()
}
