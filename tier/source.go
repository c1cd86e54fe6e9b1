// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// objectSource is the Source of an Object: the log from the sealed segment's
// file, then the tail from memory. A store reads it from front to back in
// pieces of its own size, so that it keeps the last block it checked.
type objectSource struct {
	object *Object

	mu    sync.Mutex
	buf   []byte // the content of block
	block int64  // -1 for none
}

// Size is the size of the object.
func (s *objectSource) Size() int64 { return s.object.Size() }

// ReadAt is io.ReaderAt over the object.
func (s *objectSource) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("read object: negative offset")
	}
	n := 0
	logSize := s.object.footer.LogSize()
	for n < len(p) && off < logSize {
		m, err := s.readLog(p[n:], off)
		n += m
		off += int64(m)
		if err != nil {
			return n, fmt.Errorf("read segment again for its upload: %w", err)
		}
	}
	if n == len(p) {
		return n, nil
	}
	if rest := off - logSize; rest < int64(len(s.object.tail)) {
		n += copy(p[n:], s.object.tail[rest:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readLog copies bytes of the block that holds off, which lies in the log, and
// says how many. A block that fits p goes there without a copy.
func (s *objectSource) readLog(p []byte, off int64) (int, error) {
	start := off - off%BlockSize
	size := min(BlockSize, s.object.footer.LogSize()-start)
	if off == start && int64(len(p)) >= size {
		if err := s.check(p[:size], start); err != nil {
			return 0, err
		}
		return int(size), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.block != start {
		if s.buf == nil {
			s.buf = make([]byte, BlockSize)
		}
		s.block = -1
		if err := s.check(s.buf[:size], start); err != nil {
			return 0, err
		}
		s.block = start
	}
	return copy(p, s.buf[off-start:size]), nil
}

// check reads the block that starts at byte start into p and verifies it.
func (s *objectSource) check(p []byte, start int64) error {
	if err := readFull(s.object.sealed, s.object.path, p, start); err != nil {
		return err
	}
	return s.object.footer.verifyBlock(s.object.path, start, p, s.object.turns)
}
