// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"io"
	"sync/atomic"

	"firn/internal/vfs"
	"firn/record"
)

// Region is a run of whole batches in one segment's file, ready to be sent as
// it is. It keeps the file open: the bytes stay readable and do not change
// until Release, whatever happens to the segment meanwhile. Its methods may be
// called concurrently; nothing may be called after Release.
type Region struct {
	segment  *Segment
	file     vfs.File
	off, n   int64
	first    record.Offset
	next     record.Offset
	released atomic.Bool
}

// Len is the number of bytes.
func (r *Region) Len() int64 { return r.n }

// First is the base offset of the first batch, which may lie below the offset
// that was asked for.
func (r *Region) First() record.Offset { return r.first }

// Next is the offset at which the next read goes on.
func (r *Region) Next() record.Offset { return r.next }

// File is the segment's file, for a send by explicit offset. Its shared file
// position must not be used.
func (r *Region) File() vfs.File { return r.file }

// Offset is the position of the first byte in File.
func (r *Region) Offset() int64 { return r.off }

// Sealed says whether the segment is closed for appends.
func (r *Region) Sealed() bool { return r.segment.Sealed() }

// Resident says whether n bytes from off, counted from the start of the
// region, are in the page cache.
func (r *Region) Resident(off, n int64) bool {
	return r.segment.log.store.io.Resident(r.file, r.off+off, min(n, r.n-off))
}

// ReadAt reads as io.ReaderAt does, off counting from the start of the region.
func (r *Region) ReadAt(p []byte, off int64) (int, error) {
	return readWithin(p, off, r.n, func(p []byte) (int, error) { return r.file.ReadAt(p, r.off+off) })
}

// ReadUncachedAt is ReadAt beside the page cache.
func (r *Region) ReadUncachedAt(p []byte, off int64) (int, error) {
	return readWithin(p, off, r.n, func(p []byte) (int, error) {
		return r.segment.log.store.io.ReadUncached(r.file, p, r.off+off)
	})
}

// Release lets the file go. It must be called exactly once.
func (r *Region) Release() {
	if r.released.Swap(true) {
		panic("hot: a region was released twice")
	}
	r.segment.release()
}

// readWithin limits a read at off to the first size bytes of what read reads,
// with the errors of io.ReaderAt.
func readWithin(p []byte, off, size int64, read func([]byte) (int, error)) (int, error) {
	if off < 0 || off >= size {
		if len(p) == 0 && off == size {
			return 0, nil
		}
		return 0, io.EOF
	}
	short := int64(len(p)) > size-off
	if short {
		p = p[:size-off]
	}
	n, err := read(p)
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}
