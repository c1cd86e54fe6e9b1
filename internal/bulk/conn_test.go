// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"
)

// pair is two ends of a TCP connection, of which the first takes turns.
func pair(t *testing.T, turns *Turns) (ours net.Conn, theirs *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err = turns.Dialer((&net.Dialer{}).DialContext)(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); other.Close() })
	return ours, other.(*net.TCPConn)
}

func randomBytes(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rand.Uint32())
	}
	return p
}

// What goes through arrives whole in both directions, far beyond what socket
// buffers hold, by every way that io offers.
func TestAllBytesArrive(t *testing.T) {
	want := randomBytes(9<<20 + 123)
	for name, way := range map[string]struct {
		send func(nc net.Conn) error
		take func(nc net.Conn) ([]byte, error)
	}{
		"plain": {
			func(nc net.Conn) error { _, err := nc.Write(want); return err },
			func(nc net.Conn) ([]byte, error) { return io.ReadAll(nc) },
		},
		"copied": {
			func(nc net.Conn) error { _, err := io.Copy(nc, bytes.NewReader(want)); return err },
			func(nc net.Conn) ([]byte, error) {
				var b bytes.Buffer
				_, err := io.Copy(&b, nc)
				return b.Bytes(), err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t, NewTurns(1))
			sent := make(chan error, 1)
			go func() { sent <- errors.Join(way.send(ours), ours.(*conn).Conn.(*net.TCPConn).CloseWrite()) }()
			if got, err := io.ReadAll(theirs); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes arrived of %d sent: %v", len(got), len(want), err)
			}
			if err := <-sent; err != nil {
				t.Error(err)
			}
			go func() { _, err := theirs.Write(want); sent <- errors.Join(err, theirs.CloseWrite()) }()
			if got, err := way.take(ours); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes were read of %d: %v", len(got), len(want), err)
			}
			if err := <-sent; err != nil {
				t.Error(err)
			}
		})
	}
}

// B2: with a single turn, one who waits for bytes and one whose peer takes none
// keep nobody from theirs.
func TestWhoWaitsHoldsNoTurn(t *testing.T) {
	turns := NewTurns(1)
	idle, _ := pair(t, turns)
	full, _ := pair(t, turns)
	ended := make(chan error, 2)
	go func() { _, err := idle.Read(make([]byte, 1)); ended <- err }()
	go func() { _, err := full.Write(make([]byte, 64<<20)); ended <- err }()

	ours, theirs := pair(t, turns)
	for range 200 {
		if _, err := theirs.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(ours, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
	idle.Close()
	full.Close()
	for range 2 {
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
}

// A deadline, an end and a reset are told as net tells them.
func TestErrorsAreThoseOfNet(t *testing.T) {
	ours, theirs := pair(t, NewTurns(1))
	if n, err := ours.Read(nil); n != 0 || err != nil {
		t.Errorf("an empty read: %d, %v", n, err)
	}
	if err := ours.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	if err := ours.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	theirs.CloseWrite()
	if _, err := ours.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	theirs.SetLinger(0)
	theirs.Close()
	var op *net.OpError
	for {
		if _, err := ours.Write(make([]byte, 1<<10)); errors.As(err, &op) {
			break // the reset has arrived
		} else if err != nil {
			t.Fatalf("after the reset: %v", err)
		}
	}
	if op.Op != "write" || op.Addr == nil {
		t.Errorf("got %+v", op)
	}
}

// Without turns, and where there is no TCP, a connection stays what it is.
func TestOthersAreLeftAlone(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	dial := func(context.Context, string, string) (net.Conn, error) { return a, nil }
	if nc, err := NewTurns(1).Dialer(dial)(t.Context(), "", ""); nc != a || err != nil {
		t.Errorf("a pipe has become %T, %v", nc, err)
	}
	var none *Turns
	if nc, err := none.Dialer(dial)(t.Context(), "", ""); nc != a || err != nil {
		t.Errorf("without turns it has become %T, %v", nc, err)
	}
	failed := errors.New("no way")
	if _, err := NewTurns(1).Dialer(func(context.Context, string, string) (net.Conn, error) { return nil, failed })(t.Context(), "", ""); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}
