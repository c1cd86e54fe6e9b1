// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/record"
)

// Segment is a part of a log in a file that begins with it.
type Segment struct {
	From record.Offset `json:"from"`
	To   record.Offset `json:"to"`
	Path string        `json:"path"`
	Size int64         `json:"size"`
}

// Control serves replays of one partition as a broker without tiers does: from
// local files, through the page cache, by sendfile, to everybody as fast as
// they take it. It knows the Fetch of raw frames and nothing else, and is what
// a broker that keeps replays apart is compared with.
type Control struct {
	topic    string
	segments []Segment
	listener net.Listener
	done     sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// NewControl listens on a free port of the loopback address. The segments must
// be contiguous.
func NewControl(topic string, segments []Segment) (*Control, error) {
	for i := 1; i < len(segments); i++ {
		if segments[i].From != segments[i-1].To {
			return nil, fmt.Errorf("control: offset %d follows %d", segments[i].From, segments[i-1].To)
		}
	}
	if len(segments) == 0 {
		return nil, errors.New("control: there are no segments")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	c := &Control{topic: topic, segments: segments, listener: listener, conns: map[net.Conn]struct{}{}}
	c.done.Go(c.accept)
	return c, nil
}

// Address is the host:port it listens on.
func (c *Control) Address() string { return c.listener.Addr().String() }

// Close ends all connections and waits for their goroutines.
func (c *Control) Close() error {
	c.mu.Lock()
	c.closed = true
	for nc := range c.conns {
		_ = nc.Close() // it is to end, one way or another
	}
	c.mu.Unlock()
	err := c.listener.Close()
	c.done.Wait()
	return err
}

func (c *Control) accept() {
	for {
		nc, err := c.listener.Accept()
		if err != nil {
			return // closed
		}
		c.mu.Lock()
		if c.closed {
			_ = nc.Close() // it came too late
		} else {
			c.conns[nc] = struct{}{}
			c.done.Go(func() { c.serve(nc) })
		}
		c.mu.Unlock()
	}
}

// serve answers one connection until it fails: a client that asks for what a
// control does not know sees it closed.
func (c *Control) serve(nc net.Conn) {
	r := &controlReader{control: c, nc: nc}
	in := bufio.NewReader(nc)
	for r.answer(in) == nil {
	}
	r.close()
	_ = nc.Close() // nothing is left to be lost
	c.mu.Lock()
	delete(c.conns, nc)
	c.mu.Unlock()
}

// controlReader is one connection with the file it reads: one of its own,
// since sendfile by io.Copy moves the position that all users of a file share.
type controlReader struct {
	control *Control
	nc      net.Conn
	file    *os.File
	segment int
	offset  record.Offset // of the batch at position
	pos     int64
	frame   []byte
}

func (r *controlReader) close() {
	if r.file != nil {
		_ = r.file.Close() // only read
		r.file = nil
	}
}

const maxControlRequest = 64 << 10

// answer reads one request and answers it.
func (r *controlReader) answer(in *bufio.Reader) error {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxControlRequest {
		return fmt.Errorf("a request of %d bytes", n)
	}
	r.frame = slices.Grow(r.frame[:0], int(n))[:n]
	if _, err := io.ReadFull(in, r.frame); err != nil {
		return err
	}
	b := kbin.Reader{Src: r.frame}
	key, version, correlation := b.Int16(), b.Int16(), b.Int32()
	b.NullableString() // client id
	if err := b.Complete(); err != nil {
		return err
	}
	if key != int16(kmsg.Fetch) || version != fetchVersion {
		return fmt.Errorf("request %d version %d", key, version)
	}
	req := kmsg.FetchRequest{Version: version}
	if err := req.ReadFrom(b.Src); err != nil {
		return err
	}
	if len(req.Topics) != 1 || req.Topics[0].Topic != r.control.topic || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Partitions[0].Partition != 0 {
		return errors.New("it serves one partition")
	}
	return r.fetch(correlation, record.Offset(req.Topics[0].Partitions[0].FetchOffset), int64(req.MaxBytes))
}

// fetch sends the whole batches from an offset on, at most maxBytes but at
// least one. At the end it waits a little, as a long poll does.
func (r *controlReader) fetch(correlation int32, from record.Offset, maxBytes int64) error {
	end := r.control.segments[len(r.control.segments)-1].To
	var n int64
	if from < end {
		if err := r.seek(from); err != nil {
			return err
		}
		var err error
		if n, err = r.measure(maxBytes); err != nil {
			return err
		}
	} else {
		sleepUntil(context.Background(), time.Now().Add(10*time.Millisecond))
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = fetchVersion
	p := kmsg.NewFetchResponseTopicPartition()
	p.HighWatermark, p.LastStableOffset = int64(end), int64(end)
	p.RecordBatches = []byte{}
	t := kmsg.NewFetchResponseTopic()
	t.Topic, t.Partitions = r.control.topic, append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	// The records are the last field of the last partition: they follow the
	// frame whose last four bytes are their length.
	out := binary.BigEndian.AppendUint32(make([]byte, 4, 256), uint32(correlation))
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out[len(out)-4:], uint32(n))
	binary.BigEndian.PutUint32(out, uint32(int64(len(out)-4)+n))
	if _, err := r.nc.Write(out); err != nil || n == 0 {
		return err
	}
	if _, err := r.file.Seek(r.pos, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(r.nc, io.LimitReader(r.file, n)); err != nil {
		return err
	}
	r.pos += n
	return nil
}

// seek finds the batch that holds an offset. Who goes straight on is there
// already; anybody else walks through the headers.
func (r *controlReader) seek(from record.Offset) error {
	at, found := slices.BinarySearchFunc(r.control.segments, from, func(s Segment, o record.Offset) int { return int(s.From - o) })
	if !found {
		at--
	}
	if at < 0 {
		return fmt.Errorf("offset %d lies below the log", from)
	}
	s := r.control.segments[at]
	if r.file == nil || r.segment != at {
		r.close()
		file, err := os.Open(s.Path)
		if err != nil {
			return err
		}
		r.file, r.segment, r.offset, r.pos = file, at, s.From, 0
	}
	if from < r.offset {
		r.offset, r.pos = s.From, 0
	}
	for r.offset < from {
		h, err := r.header(r.pos)
		if err != nil {
			return err
		}
		if h.NextOffset() > from {
			break
		}
		r.offset = h.NextOffset()
		r.pos += int64(h.Size())
	}
	return nil
}

func (r *controlReader) header(pos int64) (record.Header, error) {
	var head [record.HeaderSize]byte
	if _, err := r.file.ReadAt(head[:], pos); err != nil {
		return record.Header{}, err
	}
	return record.ParseHeader(head[:])
}

// measure is how many bytes of whole batches from the position on fit. It
// moves the offset behind them; fetch moves the position.
func (r *controlReader) measure(maxBytes int64) (int64, error) {
	s := r.control.segments[r.segment]
	var n int64
	for r.pos+n < s.Size {
		h, err := r.header(r.pos + n)
		if err != nil {
			return 0, err
		}
		size := int64(h.Size())
		if r.pos+n+size > s.Size || n > 0 && n+size > maxBytes {
			break
		}
		n += size
		r.offset = h.NextOffset()
	}
	return n, nil
}
