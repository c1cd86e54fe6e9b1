// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// FuzzDecode: any frame is either refused for a stated reason or gives a
// Request whose parts lie in the frame and whose key and version are what the
// frame says; nothing panics and nothing reads past the frame.
func FuzzDecode(f *testing.F) {
	for _, v := range []int16{0, 3, 9, 13} {
		f.Add(encode(1, metadataRequest(v, "topic"))[lengthSize:])
	}
	f.Add(rawHeader(18, 99, nil, true, 0, 1, 2))
	f.Add(rawHeader(3, 12, nil, true, 2, 0, 1, 9, 200, 1, 0))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		// A frame with no room behind it: an append would show.
		frame := append(make([]byte, 0, len(b)), b...)
		table := testTable()
		r, err := decode(frame, table, asString)
		if err != nil {
			if !errors.Is(err, errMalformed) && !errors.Is(err, errUnsupported) {
				t.Fatalf("no reason: %v", err)
			}
			return
		}
		if !bytes.Equal(frame, b) {
			t.Fatal("the frame was changed")
		}
		if r.Key != int16(binary.BigEndian.Uint16(b)) || r.Version != int16(binary.BigEndian.Uint16(b[2:])) ||
			r.CorrelationID != int32(binary.BigEndian.Uint32(b[4:])) {
			t.Fatalf("header %+v of %x", r, b[:8])
		}
		if !bytes.HasSuffix(b, r.Body) || len(r.Body)+len(r.ClientID)+minFrame > len(b) {
			t.Fatalf("body of %d bytes in a frame of %d", len(r.Body), len(b))
		}
		if supported := table[r.Key].Contains(r.Version); supported == r.Unsupported || supported == (r.Message == nil) {
			t.Fatalf("key %d version %d: unsupported %v, message %v", r.Key, r.Version, r.Unsupported, r.Message)
		}
	})
}

// FuzzStream feeds a connection any bytes in pieces: every whole valid frame
// is handled in order, and the connection ends with all memory given back.
func FuzzStream(f *testing.F) {
	good := encode(1, metadataRequest(9, "t"))
	f.Add(good, 3)
	f.Add(append(bytes.Clone(good), good...), 1)
	f.Add(append(bytes.Clone(good), 0xff, 0xff, 0xff, 0xff), 100)
	f.Add(good[:len(good)-1], 7)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), 2)
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		const memory, maxFrame = 1 << 16, 1 << 12
		handled := 0
		s, err := New(Options{
			Table: testTable(), MaxRequestBytes: maxFrame, RequestMemory: memory,
			Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
				handled++
				return nil, nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		newConn(s, &scripted{data: b, piece: max(1, piece)}, ConnInfo{}).serve()
		if err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if !s.frames.small.TryAcquire(memory) {
			t.Fatal("memory was not given back")
		}
		if got := uint64(handled); got != s.Stats().Requests {
			t.Fatalf("handled %d, counted %d", got, s.Stats().Requests)
		}
	})
}

// scripted is a connection that delivers data in pieces and then ends.
type scripted struct {
	net.Conn // nil: nothing else may be called
	data     []byte
	piece    int
}

func (c *scripted) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.data[:min(c.piece, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}

func (c *scripted) SetReadDeadline(time.Time) error { return nil }
func (c *scripted) Close() error                    { return nil }
