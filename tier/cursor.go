// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"fmt"

	"firn/record"
)

// spanAhead is how many chunks of one oversize batch are asked for at once.
const spanAhead = 4

// await waits until the part is loaded. When ctx ends first the error wraps
// record.ErrNotReady, and the GET goes on without the caller.
func await(ctx context.Context, p *part) error {
	select {
	case <-p.done:
		return p.err
	default:
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("%w: wait for %s: %w", record.ErrNotReady, p.id.object, context.Cause(ctx))
	}
}

// cursor reads the log section of one object at any position, for one call of
// the reader. It keeps every part that it asked for until close. Not safe for
// concurrent use.
type cursor struct {
	load     *loader
	object   *objectRef
	index    *part // the sections part
	sections *sections
	chunks   map[int32]*part
	scratch  [record.HeaderSize]byte
}

// openCursor gets the sections of the object. With guess, the first chunk is
// asked for in the same breath, so that a cold read takes one round trip. The
// caller must close the cursor.
func (l *loader) openCursor(ctx context.Context, o *objectRef, guess bool) (*cursor, error) {
	if err := o.entry.check(); err != nil {
		return nil, fmt.Errorf("%w: chain entry for %s: %w", record.ErrStorage, o.key, err)
	}
	if n := o.entry.ObjectSize - o.entry.LogSize; o.entry.LogSize > maxLogSize || n > maxIndexAreaSize {
		return nil, fmt.Errorf("%w: chain entry for %s: a log of %d bytes with %d behind it", record.ErrStorage, o.key, o.entry.LogSize, n)
	}
	c := &cursor{load: l, object: o, index: l.demand(o, sectionsPart, nil), chunks: make(map[int32]*part, 2)}
	if guess {
		c.demand(0)
	}
	if err := await(ctx, c.index); err != nil {
		c.close(0)
		return nil, err
	}
	c.sections = c.index.sections
	return c, nil
}

// close gives everything back. Chunks that end at or below passed, a byte of
// the log, have been used up.
func (c *cursor) close(passed int64) {
	for n, p := range c.chunks {
		if c.end(n) <= passed {
			c.load.usedUp(p)
		}
		c.load.release(p)
	}
	c.load.release(c.index)
}

// chunkAt is the number of the chunk that holds the byte at position.
func (c *cursor) chunkAt(position int64) int32 { return int32(position / c.load.o.ChunkBytes) }

// end is the byte at which chunk n ends.
func (c *cursor) end(n int32) int64 {
	return min(int64(n+1)*c.load.o.ChunkBytes, c.object.entry.LogSize)
}

// demand asks for a chunk without waiting for it.
func (c *cursor) demand(n int32) *part {
	p := c.chunks[n]
	if p == nil {
		p = c.load.demand(c.object, n, c.index)
		c.chunks[n] = p
	}
	return p
}

// ready says whether the bytes from position to end are in memory, and keeps
// them there until close.
func (c *cursor) ready(position, end int64) bool {
	for n := c.chunkAt(position); n <= c.chunkAt(end-1); n++ {
		p := c.chunks[n]
		if p == nil {
			if p = c.load.resident(c.object, n); p == nil {
				return false
			}
			c.chunks[n] = p
		}
		select {
		case <-p.done:
			if p.err != nil {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// view is the bytes of the log from position to end, which lie inside it. They
// alias from when one chunk holds them all, and are valid until close or as long
// as the caller retains from; otherwise they are a copy and from is nil. The
// caller must not change them.
func (c *cursor) view(ctx context.Context, position, end int64) (b []byte, from *chunk, err error) {
	n := c.chunkAt(position)
	if end <= c.end(n) {
		p := c.demand(n)
		if err := await(ctx, p); err != nil {
			return nil, nil, err
		}
		off := position - int64(n)*c.load.o.ChunkBytes
		return p.chunk.b[off : off+end-position : off+end-position], p.chunk, nil
	}
	out := make([]byte, end-position)
	return out, nil, c.copy(ctx, out, position)
}

// copy fills p with the log from position on. A batch may have many chunks: the
// next few are asked for before the first is waited for, and what has been
// copied is given back.
func (c *cursor) copy(ctx context.Context, p []byte, position int64) error {
	last := c.chunkAt(position + int64(len(p)) - 1)
	for n := c.chunkAt(position); len(p) > 0; n++ {
		for ahead := n; ahead <= min(last, n+spanAhead-1); ahead++ {
			c.demand(ahead)
		}
		chunk := c.demand(n)
		if err := await(ctx, chunk); err != nil {
			return err
		}
		m := copy(p, chunk.chunk.b[position-int64(n)*c.load.o.ChunkBytes:])
		p = p[m:]
		position += int64(m)
		if len(p) > 0 && position-int64(m) == int64(n)*c.load.o.ChunkBytes {
			// A chunk in the middle of a batch: nobody else begins in it.
			c.load.usedUp(chunk)
			c.load.release(chunk)
			delete(c.chunks, n)
		}
	}
	return nil
}

// header reads the header of the batch that starts at position and checks that
// the batch lies inside the log and the segment's offsets.
func (c *cursor) header(ctx context.Context, position int64) (record.Header, error) {
	end := position + record.HeaderSize
	if end > c.object.entry.LogSize {
		return record.Header{}, c.corrupt(position, "log ends %d bytes into a batch", c.object.entry.LogSize-position)
	}
	b := c.scratch[:]
	if n := c.chunkAt(position); end <= c.end(n) {
		var err error
		if b, _, err = c.view(ctx, position, end); err != nil {
			return record.Header{}, err
		}
	} else if err := c.copy(ctx, b, position); err != nil {
		return record.Header{}, err
	}
	h, err := record.ParseHeader(b)
	switch {
	case err != nil:
		return h, c.corrupt(position, "%v", err)
	case position+int64(h.Size()) > c.object.entry.LogSize:
		return h, c.corrupt(position, "batch of %d bytes reaches beyond the log", h.Size())
	case h.BaseOffset < c.object.entry.From || h.NextOffset() > c.object.entry.To:
		return h, c.corrupt(position, "batch at offset %d in an object of the offsets from %d to %d", h.BaseOffset, c.object.entry.From, c.object.entry.To)
	}
	return h, nil
}

// seek finds the first batch from position on that ends above o.
func (c *cursor) seek(ctx context.Context, position int64, o record.Offset) (int64, record.Header, error) {
	for {
		h, err := c.header(ctx, position)
		if err != nil || h.NextOffset() > o {
			return position, h, err
		}
		position += int64(h.Size())
	}
}

// corrupt is for what cannot be in an object that was checked as it was built:
// the blocks have their CRCs, but the batches in them make no sense.
func (c *cursor) corrupt(position int64, format string, args ...any) error {
	return fmt.Errorf("%w: %w", record.ErrStorage, &record.CorruptionError{
		Path: c.object.key, Position: position, Reason: fmt.Sprintf(format, args...),
	})
}
