// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"firn/record"
)

const (
	// headerWindow is the read size of a walk over a few batch headers.
	headerWindow = 8 << 10
	// scanWindow is the read size of a walk over all bytes of a segment.
	scanWindow = 1 << 20
)

// cursor walks over the batches of a stretch of a .log file, header by header.
// It reads a window at a time and skips what lies between headers. It is used
// by one goroutine.
//
// Every header it returns belongs to a batch that lies wholly inside the
// stretch, and starts at or above the offset that the one before it ended at.
// The CRC does not cover the base offset, and headers are read without the rest
// of their batch: a bit that flips on its way from the disk could so make
// records vanish between two batches. Where one does not begin at next, both
// headers are therefore read again.
type cursor struct {
	file io.ReaderAt
	path string
	pos  int64         // of the next header
	end  int64         // of the stretch
	next record.Offset // lowest base offset that the next batch may have
	last int64         // where the last header was, -1 before the first one

	buf   []byte
	bufAt int64
	bufN  int

	windows *windows // where lent, which holds buf, goes back to
	lent    *[]byte
}

// errUnsteady says that reading the same bytes twice gave different ones.
var errUnsteady = errors.New("the same bytes were read differently")

// windows lends the buffers of short walks.
type windows struct{ pool sync.Pool }

func (w *windows) get() *[]byte {
	if b, ok := w.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, headerWindow)
	return &b
}

func (w *windows) put(b *[]byte) { w.pool.Put(b) }

// header reads the header at pos and moves past its batch. At the end of the
// stretch the error is io.EOF; a *record.CorruptionError says that no batch
// starts at pos or that it does not end inside; other errors are those of the
// read.
func (c *cursor) header() (h record.Header, at int64, err error) {
	at = c.pos
	if at == c.end {
		return record.Header{}, at, io.EOF
	}
	if c.end-at < record.HeaderSize {
		return record.Header{}, at, c.corrupt(fmt.Sprintf("%d bytes are left, a batch header has %d", c.end-at, record.HeaderSize))
	}
	b, err := c.bytes(at, record.HeaderSize)
	if err != nil {
		return record.Header{}, at, err
	}
	h, err = record.ParseHeader(b)
	switch {
	case err != nil:
		return h, at, c.corrupt(err.Error())
	case int64(h.Size()) > c.end-at:
		return h, at, c.corrupt(fmt.Sprintf("the batch says %d bytes, %d are left", h.Size(), c.end-at))
	case h.BaseOffset < c.next:
		return h, at, c.corrupt(fmt.Sprintf("the batch starts at offset %d, the one before it ends at %d", h.BaseOffset, c.next))
	case h.BaseOffset > c.next:
		if err := c.confirmGap(h, at); err != nil {
			return h, at, err
		}
	}
	c.pos, c.last = at+int64(h.Size()), at
	c.next = h.NextOffset()
	return h, at, nil
}

// confirmGap reads the header h at position at again, and the one before it,
// which should still end at next.
func (c *cursor) confirmGap(h record.Header, at int64) error {
	err := confirm(c.file, h, at)
	if err == nil && c.last >= 0 {
		var before record.Header
		before, err = headerAt(c.file, c.last)
		if err == nil && (before.NextOffset() != c.next || c.last+int64(before.Size()) != at) {
			err = fmt.Errorf("%w: the header at byte %d", errUnsteady, c.last)
		}
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", c.path, err)
	}
	return nil
}

// confirm reads the header h at position at of f again; the error wraps
// errUnsteady when it is another one now.
func confirm(f io.ReaderAt, h record.Header, at int64) error {
	again, err := headerAt(f, at)
	if err == nil && again != h {
		err = fmt.Errorf("%w: the header at byte %d", errUnsteady, at)
	}
	return err
}

// headerAt reads a header that was read before.
func headerAt(f io.ReaderAt, at int64) (record.Header, error) {
	var b [record.HeaderSize]byte
	if n, err := f.ReadAt(b[:], at); n < len(b) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return record.Header{}, err
	}
	h, err := record.ParseHeader(b[:])
	if err != nil {
		return h, fmt.Errorf("%w: %w", errUnsteady, err)
	}
	return h, nil
}

// rewind has the cursor go on at position at with what the file says now.
func (c *cursor) rewind(at int64, next record.Offset, last int64) {
	c.pos, c.next, c.last, c.bufN = at, next, last, 0
}

// checkCRC compares the CRC of the batch at position at with its bytes. The
// batch is read window by window: a damaged length cannot make it allocate.
func (c *cursor) checkCRC(h record.Header, at int64) error {
	const covered = 21 // the CRC covers everything from the attributes on
	crc := uint32(0)
	for p, end := at+covered, at+int64(h.Size()); p < end; {
		b, err := c.bytes(p, int(min(end-p, int64(len(c.buf)))))
		if err != nil {
			return err
		}
		crc = record.UpdateCRC32C(crc, b)
		p += int64(len(b))
	}
	if crc != h.CRC {
		return &record.CorruptionError{Path: c.path, Position: at,
			Reason: fmt.Sprintf("CRC-32C is %08x, the header of the batch at offset %d says %08x", crc, h.BaseOffset, h.CRC)}
	}
	return nil
}

// bytes returns n bytes from position at, of the stretch and no more than a
// window. They are valid until the next call.
func (c *cursor) bytes(at int64, n int) ([]byte, error) {
	if at < c.bufAt || at+int64(n) > c.bufAt+int64(c.bufN) {
		want := int(min(int64(len(c.buf)), c.end-at))
		got, err := c.file.ReadAt(c.buf[:want], at)
		c.bufAt, c.bufN = at, got
		if got < n {
			c.bufN = 0
			if err == nil || errors.Is(err, io.EOF) {
				return nil, &record.CorruptionError{Path: c.path, Position: at + int64(got),
					Reason: fmt.Sprintf("the file ends here, it had %d bytes", c.end)}
			}
			return nil, fmt.Errorf("read segment: %w", err)
		}
	}
	from := int(at - c.bufAt)
	return c.buf[from : from+n], nil
}

func (c *cursor) corrupt(reason string) error { return c.corruptAt(c.pos, reason) }

func (c *cursor) corruptAt(at int64, reason string) error {
	return &record.CorruptionError{Path: c.path, Position: at, Reason: reason}
}
