// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"firn/internal/bulk"
	"firn/internal/vfs"
)

// testTLS is the configuration of a server with a certificate of its own, and
// that of a client which trusts it.
func testTLS(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
}

// tlsPair is a TLS connection over loopback: our end and the client's.
func tlsPair(t testing.TB) (ours *tlsConn, theirs *tls.Conn) {
	t.Helper()
	server, client := testTLS(t)
	a, b := tcpPair(t)
	ours, theirs = newTLSConn(a.(*net.TCPConn), server), tls.Client(b, client)
	shaken := make(chan error, 1)
	go func() { shaken <- ours.handshake(t.Context()) }()
	if err := errors.Join(theirs.Handshake(), <-shaken); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// TestAnyPiecesArriveSealed: whatever the pieces, as bulk or not, and nothing of
// a file goes around the session by sendfile.
func TestAnyPiecesArriveSealed(t *testing.T) {
	ours, theirs := tlsPair(t)
	f, _ := randomFile(t, vfs.Disk(), t.TempDir(), 1<<20)
	s := newServer(t, Options{Handler: handlerFunc(nil)})
	var snd sender
	snd.init(ours, s)
	rapid.Check(t, func(rt *rapid.T) {
		var pieces []piece
		for range rapid.IntRange(1, 5).Draw(rt, "pieces") {
			n := rapid.SampledFrom([]int{1, 100, 16 << 10, 64 << 10, 64<<10 + 1, 300 << 10}).Draw(rt, "size")
			if rapid.Bool().Draw(rt, "of a file") {
				pieces = append(pieces, piece{region: &fakeRegion{file: f, off: int64(rapid.IntRange(0, 1000).Draw(rt, "off")), n: int64(n)}})
			} else {
				pieces = append(pieces, piece{bytes: bytes.Repeat([]byte{byte(n)}, n)})
			}
		}
		want := content(pieces)
		inBulk := rapid.Bool().Draw(rt, "bulk")
		sent := make(chan error, 1)
		go func() { sent <- snd.sendPieces(context.Background(), pieces, inBulk) }()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(theirs, got); err != nil || !bytes.Equal(got, want) {
			rt.Fatalf("other bytes arrived, %v", err)
		}
		if err := <-sent; err != nil {
			rt.Fatal(err)
		}
	})
	if st := s.Stats(); st.SendfileBytes != 0 || st.BulkTurns == 0 {
		t.Errorf("%+v", st)
	}
}

// TestTLSEndToEnd: requests and answers over a listener with TLS, in order,
// beside a listener without, and an orderly end.
func TestTLSEndToEnd(t *testing.T) {
	server, config := testTLS(t)
	log := &logLines{}
	s := newServer(t, Options{Logger: log.logger(), Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
		return func(context.Context) (*Response, error) {
			return &Response{Parts: frameOf(r.CorrelationID, Part{Bytes: bytes.Repeat([]byte{byte(r.CorrelationID)}, 200<<10)})}, nil
		}, nil
	})})
	addr, err := s.ListenTLS("SECURE", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := tls.Dial("tcp", addr.String(), config)
	if err != nil {
		t.Fatal(err)
	}
	plain := dial(t, s)
	for _, c := range []*client{{t, nc}, plain} {
		for id := range int32(10) {
			c.send(encode(id, metadataRequest(9, "t")))
		}
		for id := range int32(10) {
			if got, answer := c.receive(); got != id || len(answer) != 200<<10 || answer[0] != byte(id) {
				t.Errorf("answer %d of %d has %d bytes", got, id, len(answer))
			}
		}
	}
	// A client that goes without a word of TLS has ended all the same.
	if err := nc.NetConn().Close(); err != nil {
		t.Error(err)
	}
	plain.Close()
	closeServer(t, s)
	expectEvents(t, log)
}

// TestWithoutHandshake: what is no TLS, a client that trusts nobody, and one that
// says nothing cost their connection, and a stop does not wait for the last.
func TestWithoutHandshake(t *testing.T) {
	server, _ := testTLS(t)
	log := &logLines{}
	s := newServer(t, Options{Logger: log.logger(), Handler: handlerFunc(nil)})
	addr, err := s.ListenTLS("SECURE", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	(&client{t, plain}).send(encode(1, metadataRequest(9, "t")))
	if _, err := io.Copy(io.Discard, plain); err != nil {
		t.Errorf("a client without TLS: %v", err)
	}
	if _, err := tls.Dial("tcp", addr.String(), &tls.Config{ServerName: "127.0.0.1"}); err == nil {
		t.Error("a client that trusts nobody got a session")
	}
	silent, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for s.Stats().FailedHandshakes < 2 || s.Stats().Connections < 1 {
		runtime.Gosched()
	}
	closeServer(t, s)
	expectEvents(t, log, "tls_handshake_failed", "tls_handshake_failed")
}

// TestStuckTLSClientHoldsNoTurn: as over plain TCP; it is cut off, and the others
// have their answers.
func TestStuckTLSClientHoldsNoTurn(t *testing.T) {
	f, data := randomFile(t, vfs.Disk(), t.TempDir(), 16<<20)
	s := newServer(t, Options{Handler: handlerFunc(nil), Turns: bulk.NewTurns(1), SendTimeout: 300 * time.Millisecond})
	stuckOurs, _ := tlsPair(t)
	stuck := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		var snd sender
		snd.init(stuckOurs, s)
		stuck <- snd.sendPieces(context.Background(), []piece{{region: &fakeRegion{file: f, n: 16 << 20}}}, true)
	})
	ours, theirs := tcpPair(t)
	got, err := sendAll(t, s, ours, theirs, []piece{{region: &fakeRegion{file: f, n: 16 << 20}}}, true)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := wait(t, stuck, "end of the stuck client"); !errors.Is(err, errSlowClient) {
		t.Errorf("got %v", err)
	}
	wg.Wait()
}
