// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"errors"
	"fmt"
	"io"

	"firn/record"
)

// get loads the part: the GET, and for a chunk the wait for the sections that
// verify it. A range that came torn or damaged is asked for once more, since
// what lies in the store may be whole. The error wraps record.ErrStorage, and
// is a *record.CorruptionError when the second answer was damaged as well.
func (l *loader) get(ctx context.Context, p, needs *part) error {
	again, err := l.getOnce(ctx, p, needs)
	if again {
		l.count.refetched.Add(1)
		l.o.Logger.Warn("a range of an object came damaged, asking once more",
			"event", "tier_range_damaged", "key", p.id.object, "offset", p.position, "bytes", p.size, "error", err)
		if _, err = l.getOnce(ctx, p, needs); err != nil {
			l.count.corrupt.Add(1)
			l.o.Logger.Error("a range of an object is damaged",
				"event", "tier_range_corrupt", "key", p.id.object, "offset", p.position, "bytes", p.size, "error", err)
		}
	}
	switch {
	case err == nil, errors.Is(err, record.ErrStorage): // that of the sections
		return err
	case ctx.Err() != nil:
		// Our own deadline: it must not look like the end of a request.
		return fmt.Errorf("%w: get %s: %v", record.ErrStorage, p.id.object, err)
	default:
		return fmt.Errorf("%w: %w", record.ErrStorage, err)
	}
}

// getOnce is one GET and its verification; again says that another one may
// bring better bytes.
func (l *loader) getOnce(ctx context.Context, p, needs *part) (again bool, err error) {
	if p.id.n == sectionsPart {
		buf := make([]byte, p.size) // the sections go on using it
		if again, err = l.fill(ctx, p, buf); err != nil {
			return again, err
		}
		p.sections, err = parseSections(p.id.object, p.object.entry, buf)
		return err != nil && !errors.Is(err, record.ErrUnsupportedVersion), err
	}
	c := l.pool.get(p.size)
	if again, err = l.fill(ctx, p, c.b); err == nil {
		again, err = l.verify(ctx, p, needs, c.b)
	}
	if err != nil {
		c.release()
		return again, err
	}
	p.chunk = c
	return false, nil
}

// fill gets the part's bytes.
func (l *loader) fill(ctx context.Context, p *part, buf []byte) (again bool, err error) {
	l.count.gets.Add(1)
	n, err := l.o.Store.GetRange(ctx, p.id.object, buf, p.position)
	l.count.getBytes.Add(int64(n))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), err == nil && n != len(buf):
		return true, &record.CorruptionError{Path: p.id.object, Position: p.position + int64(n), Reason: fmt.Sprintf("object ends, want %d bytes from %d on", len(buf), p.position)}
	default:
		return false, err
	}
}

// verify waits for the sections of a chunk's object and compares the chunk's
// blocks with them.
func (l *loader) verify(ctx context.Context, p, needs *part, buf []byte) (again bool, err error) {
	select {
	case <-needs.done:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if needs.err != nil {
		return false, needs.err
	}
	for off := 0; off < len(buf); off += BlockSize {
		block := buf[off:min(off+BlockSize, len(buf))]
		if err := needs.sections.footer.verifyBlock(p.id.object, p.position+int64(off), block, l.o.Turns); err != nil {
			return true, err
		}
	}
	return false, nil
}
