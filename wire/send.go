// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"firn/hot"
	"firn/internal/bulk"
	"firn/internal/vfs"
)

const (
	// sendfileMin is the size from which sendfile costs less than pread behind
	// the header and one write. Measured: the two cross at 8 to 16 KiB when
	// streaming and at 16 to 32 KiB in request and response.
	sendfileMin = 32 << 10
	// regionChunk is sent between two looks at whether the region's pages are
	// still in the page cache.
	regionChunk = 256 << 10
	// gatherMax is the largest part that is copied behind its neighbours to
	// save a system call, and gatherSize what is gathered before a write.
	gatherMax  = 16 << 10
	gatherSize = 64 << 10
	// plainWrite is written at a time to a connection that is not TCP, each
	// with the whole SendTimeout.
	plainWrite = 64 << 10
	// sealedMore is more than TLS adds to bulk.Size bytes.
	sealedMore = 1 << 10
)

var (
	errSlowClient  = errors.New("client takes nothing")
	errShortRegion = errors.New("file ended before the region did")
	errFile        = errors.New("reading a region failed")
	errSocket      = errors.New("writing to the socket failed")
	// errNoSendfile says that the kernel cannot send this file by sendfile.
	errNoSendfile = errors.New("sendfile is not supported")
)

// region is what the sender needs of a pinned hot.Region.
type region interface {
	Len() int64
	File() vfs.File
	Offset() int64
	Resident(off, n int64) bool
	ReadAt(p []byte, off int64) (int, error)
	readCold(ctx context.Context, p []byte, off int64) (int, error)
}

// hotRegion is a hot.Region and the means to read what is cold of it.
type hotRegion struct {
	*hot.Region
	chunks ChunkReader
}

func (r *hotRegion) readCold(ctx context.Context, p []byte, off int64) (int, error) {
	return r.chunks.ReadChunk(ctx, r.Region, p, off)
}

// piece is a Part as the sender sees it: bytes, or a region that is not nil.
type piece struct {
	bytes  []byte
	region region
}

func (p piece) len() int64 {
	if p.region != nil {
		return p.region.Len()
	}
	return int64(len(p.bytes))
}

// gathers says whether the piece is copied behind its neighbours.
func (p piece) gathers() bool {
	if p.region != nil {
		return p.region.Len() < sendfileMin
	}
	return len(p.bytes) <= gatherMax
}

// sender writes responses to one connection. It belongs to the connection's
// writer goroutine.
type sender struct {
	nc       net.Conn
	raw      syscall.RawConn // nil when the connection is not TCP
	tls      *tlsConn        // nil when records go as they are
	turns    *bulk.Turns
	pace     *bulk.Pace
	timeout  time.Duration
	chunks   ChunkReader
	pool     *bufferPool
	counters *counters

	deadline time.Time
	pieces   []piece
	bulk     bool
	// call is the system call that attempt makes, and its result. It lives
	// here, with the method value beside it, so that no call allocates.
	call    call
	attempt func(fd uintptr) bool
}

// call is one send or sendfile.
type call struct {
	bytes []byte // sent, unless n bytes of file from off are
	more  bool
	file  int
	off   int64
	size  int

	n   int
	err error
}

func (s *sender) init(nc net.Conn, srv *Server) {
	s.nc, s.turns, s.pace, s.timeout, s.chunks = nc, srv.o.Turns, srv.o.BulkPace, srv.o.SendTimeout, srv.o.ChunkReader
	s.pool, s.counters = &srv.pool, &srv.counters
	s.attempt = s.tryCall
	if tcp := tcpOf(nc); tcp != nil {
		// It fails only on a connection that is closed, which plain writes
		// will find out as well.
		s.raw, _ = tcp.SyscallConn()
	}
	s.tls, _ = nc.(*tlsConn)
}

// tcpOf is the TCP connection that nc is, or is made over; nil for none.
func tcpOf(nc net.Conn) *net.TCPConn {
	switch c := nc.(type) {
	case *net.TCPConn:
		return c
	case *tlsConn:
		return c.tcp
	}
	return nil
}

// sendBytes sends one whole frame from memory.
func (s *sender) sendBytes(ctx context.Context, p []byte, bulk bool) error {
	s.bulk = bulk
	s.counters.memory.Add(uint64(len(p)))
	return s.write(ctx, p, false)
}

// sendParts sends one whole frame.
func (s *sender) sendParts(ctx context.Context, parts []Part, bulk bool) error {
	for _, p := range parts {
		switch {
		case p.Len() == 0:
		case p.Region != nil:
			s.pieces = append(s.pieces, piece{region: &hotRegion{p.Region, s.chunks}})
		default:
			s.pieces = append(s.pieces, piece{bytes: p.Bytes})
		}
	}
	err := s.sendPieces(ctx, s.pieces, bulk)
	clear(s.pieces)
	s.pieces = s.pieces[:0]
	return err
}

// sendPieces sends pieces, none of them empty, as one message: everything but
// the last system call says that more is to come.
func (s *sender) sendPieces(ctx context.Context, pieces []piece, bulk bool) error {
	s.bulk = bulk
	var small int64
	for _, p := range pieces {
		if p.gathers() {
			small += p.len()
		}
	}
	gathered := s.pool.get(int(min(small, gatherSize)))
	defer s.pool.put(gathered)
	gathered.b = gathered.b[:0]
	flush := func(more bool) error {
		b := gathered.b
		gathered.b = b[:0]
		return s.write(ctx, b, more)
	}
	for i, p := range pieces {
		if !p.gathers() || int64(len(gathered.b))+p.len() > gatherSize {
			if err := flush(true); err != nil {
				return err
			}
		}
		var err error
		switch more := i < len(pieces)-1; {
		case p.gathers():
			gathered.b, err = s.gather(ctx, gathered.b, p)
		case p.region != nil:
			err = s.sendRegion(ctx, p.region, more)
		default:
			s.counters.memory.Add(uint64(len(p.bytes)))
			err = s.write(ctx, p.bytes, more)
		}
		if err != nil {
			return err
		}
	}
	return flush(false)
}

// gather appends a small piece to b.
func (s *sender) gather(ctx context.Context, b []byte, p piece) ([]byte, error) {
	if p.region == nil {
		s.counters.memory.Add(uint64(len(p.bytes)))
		return append(b, p.bytes...), nil
	}
	n := len(b)
	b = append(b, make([]byte, p.len())...)
	if err := s.load(ctx, p.region, b[n:], 0, p.region.Resident(0, p.len())); err != nil {
		return b[:n], err
	}
	return b, nil
}

// load fills p from the region at off: from the page cache when it is said to
// be there, through the ChunkReader when not.
func (s *sender) load(ctx context.Context, r region, p []byte, off int64, resident bool) error {
	var n int
	var err error
	if resident {
		n, err = r.ReadAt(p, off)
		s.counters.pread.Add(uint64(n))
	} else {
		s.counters.cold.Add(1)
		n, err = r.readCold(ctx, p, off)
		s.counters.memory.Add(uint64(n))
	}
	switch {
	case n == len(p):
		return nil
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %s at byte %d", errShortRegion, r.File().Name(), r.Offset()+off+int64(n))
	}
	return fmt.Errorf("%w: %s at byte %d: %w", errFile, r.File().Name(), r.Offset()+off, err)
}

// sendRegion sends a region chunk by chunk, each by the way that its residency
// at that moment allows.
func (s *sender) sendRegion(ctx context.Context, r region, more bool) error {
	var buf *buffer
	defer func() {
		if buf != nil {
			s.pool.put(buf)
		}
	}()
	direct := haveSendfile && s.raw != nil && s.tls == nil && r.File().Fd() != vfs.InvalidFd
	size := r.Len()
	for off := int64(0); off < size; {
		n := min(regionChunk, size-off)
		resident := r.Resident(off, n)
		if resident && direct {
			sent, err := s.sendfile(ctx, r, off, n)
			off, n = off+sent, n-sent
			switch {
			case errors.Is(err, errNoSendfile):
				direct = false // not on this file system: go on from where it stopped
			case err != nil:
				return err
			default:
				continue
			}
		}
		if buf == nil {
			buf = s.pool.get(int(min(regionChunk, size)))
		}
		chunk := buf.b[:n]
		if err := s.load(ctx, r, chunk, off, resident); err != nil {
			return err
		}
		off += n
		if err := s.write(ctx, chunk, more || off < size); err != nil {
			return err
		}
	}
	return nil
}

// sendfile sends n bytes of the region from off out of the page cache, and
// says how many went out.
func (s *sender) sendfile(ctx context.Context, r region, off, n int64) (int64, error) {
	for sent := int64(0); sent < n; {
		s.call = call{file: int(r.File().Fd()), off: r.Offset() + off + sent, size: int(n - sent)}
		if err := s.do(ctx); err != nil {
			return sent, err
		}
		switch s.call.err {
		case nil:
		case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP:
			return sent, errNoSendfile
		case unix.EIO:
			return sent, fmt.Errorf("%w: sendfile of %s at byte %d: %w", errFile, r.File().Name(), s.call.off, s.call.err)
		default:
			return sent, fmt.Errorf("%w: sendfile: %w", errSocket, s.call.err)
		}
		if s.call.n <= 0 {
			return sent, fmt.Errorf("%w: %s at byte %d", errShortRegion, r.File().Name(), s.call.off)
		}
		sent += int64(s.call.n)
		s.counters.sendfile.Add(uint64(s.call.n))
	}
	return n, nil
}

// write sends all of p. more says that the rest of the frame follows.
func (s *sender) write(ctx context.Context, p []byte, more bool) error {
	switch {
	case s.raw == nil:
		return s.writePlain(p)
	case s.tls != nil:
		return s.writeSealed(ctx, p, more)
	}
	return s.writeRaw(ctx, p, more)
}

// writeSealed sends all of p in TLS records, as many at a time as one call
// sends of what goes as it is.
func (s *sender) writeSealed(ctx context.Context, p []byte, more bool) error {
	buf := s.pool.get(min(len(p), bulk.Size) + sealedMore)
	defer s.pool.put(buf)
	for len(p) > 0 {
		n := min(len(p), bulk.Size)
		rest := more || n < len(p)
		err := s.tls.seal(p[:n], buf.b[:0], func(sealed []byte) error {
			buf.b = sealed // it may have grown
			return s.writeRaw(ctx, sealed, rest)
		})
		if err != nil {
			return err
		}
		if s.bulk {
			bulk.Yield() // sealing took as long as the call
		}
		p = p[n:]
	}
	return nil
}

// writeRaw sends all of p to the socket.
func (s *sender) writeRaw(ctx context.Context, p []byte, more bool) error {
	for len(p) > 0 {
		n := len(p)
		if s.bulk {
			n = min(n, bulk.Size+sealedMore)
		}
		s.call = call{bytes: p[:n], more: more || n < len(p)}
		if err := s.do(ctx); err != nil {
			return err
		}
		if s.call.err != nil {
			return fmt.Errorf("%w: %w", errSocket, s.call.err)
		}
		p = p[s.call.n:]
	}
	s.call.bytes = nil
	return nil
}

// writePlain sends all of p where there is no socket to call the kernel on. It
// takes no turns: such a write may park, and a turn must never be held then.
func (s *sender) writePlain(p []byte) error {
	for len(p) > 0 {
		if err := s.arm(); err != nil {
			return err
		}
		n, err := s.nc.Write(p[:min(len(p), plainWrite)])
		if err != nil {
			return s.socketFault(err)
		}
		p = p[n:]
	}
	return nil
}

// arm moves the write deadline on, so that the next call may wait for SendTimeout
// or a little less: it is not set anew for every call, since most of them do
// not wait and there can be many thousands in a second.
func (s *sender) arm() error {
	now := time.Now()
	if s.deadline.Sub(now) >= s.timeout-s.timeout/8 {
		return nil
	}
	s.deadline = now.Add(s.timeout)
	if err := s.nc.SetWriteDeadline(s.deadline); err != nil {
		return fmt.Errorf("%w: set write deadline: %w", errSocket, err)
	}
	return nil
}

// do makes s.call once the socket takes something, waiting for that no longer
// than the SendTimeout; a bulk call waits for its pace before. What the kernel
// said is in s.call; the error is for what kept it from being asked.
func (s *sender) do(ctx context.Context) error {
	if s.bulk {
		if err := s.pace.Wait(ctx); err != nil {
			return fmt.Errorf("%w: wait for the pace of bulk answers: %w", errSocket, err)
		}
	}
	if err := s.arm(); err != nil {
		return err
	}
	if s.bulk && s.call.bytes == nil {
		s.call.size = min(s.call.size, bulk.Size)
	}
	if err := s.raw.Write(s.attempt); err != nil {
		return s.socketFault(err)
	}
	if s.bulk {
		s.pace.Did(s.call.n)
		runtime.Gosched()
	}
	return nil
}

// tryCall makes s.call without blocking and says whether it is over; if not,
// the runtime parks us until the socket takes something. A bulk turn covers
// the call and a yield of the thread, and never the parking.
func (s *sender) tryCall(fd uintptr) bool {
	if s.bulk {
		s.turns.Take()
	}
	c := &s.call
	for {
		if c.bytes != nil {
			c.n, c.err = sysSend(int(fd), c.bytes, c.more)
		} else {
			c.n, c.err = sysSendfile(int(fd), c.file, c.off, c.size)
		}
		if c.err != unix.EINTR {
			break
		}
	}
	if s.bulk {
		s.turns.Give()
		s.counters.turns.Add(1)
	}
	return c.err != unix.EAGAIN
}

func (s *sender) socketFault(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w within %v", errSlowClient, s.timeout)
	}
	return fmt.Errorf("%w: %w", errSocket, err)
}
