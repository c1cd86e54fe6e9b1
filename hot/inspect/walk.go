// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"

	"firn/internal/vfs"
	"firn/record"
)

// window is how much of a .log file is read at a time.
const window = 1 << 20

// walk goes through the batches of one .log file and survives what is no
// batch. It is used by one goroutine.
type walk struct {
	path string
	size int64
	// starts are positions at which a batch may begin, rising, where the walk
	// goes on after damage.
	starts []int64
	// tried is how many bytes were summed up to find where to go on: starts
	// that are damaged themselves must not make it read the file over and over.
	tried int64

	file  vfs.File
	io    *vfs.IO
	buf   []byte
	bufAt int64
	bufN  int
}

// openWalk opens a .log file. Bytes that are appended later are not seen.
func openWalk(o *Options, path string, starts []int64) (*walk, error) {
	f, err := o.FS.OpenFile(path, vfs.ReadOnly, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &walk{path: path, size: info.Size(), starts: starts, file: f, io: o.IO, buf: make([]byte, min(window, max(info.Size(), 1)))}, nil
}

func (w *walk) close() error { return w.file.Close() }

// lost is a stretch of a .log file that holds no batches.
type lost struct {
	from, to int64
	reason   string
	// unfinished says that the stretch is the end of the file and looks like
	// an append that did not come to its end: a batch cut short, or zeros.
	unfinished bool
}

// each calls batch for every batch, with the position at which it starts, and
// damaged for every stretch that holds none. It ends at the end of the file,
// with an error of reading, or with the first error of a callback.
func (w *walk) each(ctx context.Context, batch func(at int64, h record.Header) error, damaged func(l lost) error) error {
	for at := int64(0); at < w.size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, bad, err := w.header(at)
		if err != nil {
			return err
		}
		if bad == "" {
			if err := batch(at, h); err != nil {
				return err
			}
			at += int64(h.Size())
			continue
		}
		l := lost{from: at, reason: bad}
		if l.to, err = w.resume(at); err != nil {
			return err
		}
		if l.to == w.size {
			if l.unfinished, err = w.looksUnfinished(at); err != nil {
				return err
			}
		}
		if err := damaged(l); err != nil {
			return err
		}
		at = l.to
	}
	return nil
}

// header reads the header at a position. bad says why none is there, or why
// its batch does not lie inside the file.
func (w *walk) header(at int64) (h record.Header, bad string, err error) {
	if left := w.size - at; left < record.HeaderSize {
		return h, fmt.Sprintf("%d bytes are left, a batch header has %d", left, record.HeaderSize), nil
	}
	b, err := w.bytes(at, record.HeaderSize)
	if err != nil {
		return h, "", err
	}
	if h, err = record.ParseHeader(b); err != nil {
		return h, err.Error(), nil
	}
	if int64(h.Size()) > w.size-at {
		return h, fmt.Sprintf("the batch at offset %d says %d bytes, %d are left", h.BaseOffset, h.Size(), w.size-at), nil
	}
	return h, "", nil
}

// resume finds where the walk goes on after damage: the first of the known
// starts behind it with a batch whose CRC is right, or the end of the file.
func (w *walk) resume(after int64) (int64, error) {
	first := sort.Search(len(w.starts), func(i int) bool { return w.starts[i] > after })
	for _, at := range w.starts[first:] {
		if at >= w.size || w.tried > 4*w.size {
			break
		}
		h, bad, err := w.header(at)
		if err != nil {
			return 0, err
		}
		if bad != "" {
			continue
		}
		w.tried += int64(h.Size())
		crc, err := w.crc(at, h)
		if err != nil {
			return 0, err
		}
		if crc == h.CRC {
			return at, nil
		}
	}
	return w.size, nil
}

// looksUnfinished says whether what is left from a position on is the start
// of a batch, or nothing but zeros.
func (w *walk) looksUnfinished(at int64) (bool, error) {
	if w.size-at < record.HeaderSize {
		return true, nil
	}
	b, err := w.bytes(at, record.HeaderSize)
	if err != nil {
		return false, err
	}
	if h, err := record.ParseHeader(b); err == nil {
		return int64(h.Size()) > w.size-at, nil
	}
	for at < w.size {
		n := min(w.size-at, int64(len(w.buf)))
		b, err := w.bytes(at, int(n))
		if err != nil {
			return false, err
		}
		for _, c := range b {
			if c != 0 {
				return false, nil
			}
		}
		at += n
	}
	return true, nil
}

// crc is the CRC-32C of the batch at a position, which lies inside the file.
func (w *walk) crc(at int64, h record.Header) (uint32, error) {
	const covered = 21 // the CRC covers everything from the attributes on
	crc := uint32(0)
	for p, end := at+covered, at+int64(h.Size()); p < end; {
		b, err := w.bytes(p, int(min(end-p, int64(len(w.buf)))))
		if err != nil {
			return 0, err
		}
		crc = record.UpdateCRC32C(crc, b)
		p += int64(len(b))
	}
	return crc, nil
}

// section reads the record section of the batch at a position, which lies
// inside the file. The bytes are the caller's.
func (w *walk) section(at int64, h record.Header) ([]byte, error) {
	b := make([]byte, h.Size()-record.HeaderSize)
	for done := 0; done < len(b); {
		part, err := w.bytes(at+record.HeaderSize+int64(done), min(len(b)-done, len(w.buf)))
		if err != nil {
			return nil, err
		}
		done += copy(b[done:], part)
	}
	return b, nil
}

// bytes returns n bytes of the file, no more than a window, valid until the
// next call. A file that has become shorter meanwhile is an error.
func (w *walk) bytes(at int64, n int) ([]byte, error) {
	if at < w.bufAt || at+int64(n) > w.bufAt+int64(w.bufN) {
		got, err := w.io.ReadUncached(w.file, w.buf[:min(int64(len(w.buf)), w.size-at)], at)
		w.bufAt, w.bufN = at, got
		if got < n {
			w.bufN = 0
			if err == nil || errors.Is(err, io.EOF) {
				err = &record.CorruptionError{Path: w.path, Position: at + int64(got), Reason: fmt.Sprintf("the file ends here, it had %d bytes", w.size)}
			}
			return nil, fmt.Errorf("read segment: %w", err)
		}
	}
	from := int(at - w.bufAt)
	return w.buf[from : from+n], nil
}
