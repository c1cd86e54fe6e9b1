// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"firn/record"
	"firn/tier/store"
)

// Reader reads history back for all partitions. A read goes
//
//	chain entry ──► sections (indexes, block CRCs) ──► chunks ──► batches
//
// and every byte of it was verified against the footer that the object's key
// names. Safe for concurrent use.
//
// Invariants:
//
//	R1  What a read returns are whole batches, byte for byte as they lay in the
//	    log, from the one that holds the offset asked for; in a gap from the
//	    next one after it.
//	R2  A read waits for the chunks of its first batch only. What is in memory
//	    behind that is added, up to maxBytes; the rest is the next read's.
//	R3  A request that ends costs its own answer and no GET.
//	R4  An error is the caller's to repeat: record.ErrNotReady when its time was
//	    up, record.ErrStorage when the store or the object failed.
type Reader struct {
	load    *loader
	streams streams
	lent    atomic.Int64
}

// Data is the answer of a read.
type Data struct {
	// Bytes are whole, verified batches. They may be shared with other reads:
	// nobody may change them. Empty when nothing fits the limits.
	Bytes []byte
	// Next is the offset at which reading goes on. When Bytes is empty and
	// Next lies above the offset asked for, there was a gap.
	Next record.Offset
	// Need is the size of the first batch, when Bytes is empty because it is
	// over maxBytes alone and minOne was not asked for.
	Need int
	// Aborted are the aborted transactions that overlap the batches.
	Aborted []record.AbortedTxn

	lease *lease
}

// lease counts the bytes of an answer until they are given back.
type lease struct {
	reader *Reader
	n      int64
	chunk  *chunk // that the bytes lie in; nil when they are the answer's own
	done   atomic.Bool
}

// Release says that the caller is done with Bytes, whose memory will soon hold
// other data. More calls do nothing. Data that is never released costs its
// memory until the garbage collector finds it, and is counted in
// ReaderStats.Lent for good.
func (d Data) Release() {
	if d.lease == nil || !d.lease.done.CompareAndSwap(false, true) {
		return
	}
	d.lease.reader.lent.Add(-d.lease.n)
	if d.lease.chunk != nil {
		d.lease.chunk.release()
	}
}

// chainReloader is a chainView that can read its head from the bucket again,
// once, when an object was missing or damaged: another writer may have
// replaced it. No other call is under way meanwhile.
type chainReloader interface {
	reload(ctx context.Context) error
}

// sharedChain is the chain of one read. Read-ahead looks into it beside the
// read, and may still do so when the read finds that it must reload it: turn
// keeps the two apart. A channel, since the wait must end with the context.
type sharedChain struct {
	chainView
	turn chan struct{}
}

func (c *sharedChain) entryAt(ctx context.Context, o record.Offset) (Entry, record.Offset, bool, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return Entry{}, 0, false, fmt.Errorf("%w: look up offset %d: %w", record.ErrNotReady, o, context.Cause(ctx))
	}
	defer func() { <-c.turn }()
	return c.chainView.entryAt(ctx, o)
}

func (c *sharedChain) reload(ctx context.Context) error {
	chain, ok := c.chainView.(chainReloader)
	if !ok {
		return errors.New("this chain cannot be read again")
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	return chain.reload(ctx)
}

// newReader makes a Reader, whose owner must close it.
func newReader(o ReaderOptions) (*Reader, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("tier reader options: %w", err)
	}
	load, err := newLoader(o)
	if err != nil {
		return nil, err
	}
	return &Reader{load: load}, nil
}

// close ends every GET and every read under way and waits for the GETs. Reads
// that come later fail with record.ErrClosed.
func (r *Reader) close() { r.load.close() }

// Stats tells what the Reader has done and what it holds.
func (r *Reader) Stats() ReaderStats {
	s := r.load.stats()
	s.Lent = r.lent.Load()
	return s
}

// read returns whole batches of the chain v from the one that holds from on:
// those that end at or below limit and fit maxBytes together, but with minOne
// at least the first one, however large. It does not cross an object. In a gap
// it answers the batches after it; when the chain ends in the gap, no bytes and
// the gap's end as Next.
//
// The caller has seen to it that from lies inside the chain. Errors: R4.
func (r *Reader) read(ctx context.Context, v chainView, from, limit record.Offset, maxBytes int, minOne bool) (Data, error) {
	var d Data
	err := withReload(ctx, v, func(v chainView) (err error) {
		d, err = r.readOnce(ctx, v, from, limit, maxBytes, minOne)
		return err
	})
	if err != nil {
		return Data{}, fmt.Errorf("read from offset %d: %w", from, err)
	}
	return d, nil
}

// withReload repeats what failed on a missing or damaged object once with a
// fresh chain.
func withReload(ctx context.Context, v chainView, do func(chainView) error) error {
	chain := &sharedChain{v, make(chan struct{}, 1)}
	err := do(chain)
	var bad *record.CorruptionError
	if err == nil || !errors.Is(err, store.ErrNotFound) && !errors.As(err, &bad) {
		return err
	}
	if reloadErr := chain.reload(ctx); reloadErr != nil {
		return fmt.Errorf("%w (and the manifest could not be read again: %v)", err, reloadErr)
	}
	return do(chain)
}

func (r *Reader) readOnce(ctx context.Context, v chainView, from, limit record.Offset, maxBytes int, minOne bool) (Data, error) {
	e, next, ok, err := v.entryAt(ctx, from)
	if err != nil {
		return Data{}, err
	}
	if !ok || next >= limit {
		return Data{Next: next}, nil
	}
	object := &objectRef{key: v.keyOf(e), entry: e}
	stream := r.streams.at(object.key, from)
	c, err := r.load.openCursor(ctx, object, next == e.From || e.LogSize <= r.load.o.ChunkBytes)
	if err != nil {
		return Data{}, err
	}
	s := span{from: next, limit: limit, maxBytes: int64(max(0, maxBytes)), minOne: minOne}
	defer func() { c.close(s.end) }()
	position := c.sections.seek(next)
	c.demand(c.chunkAt(position))
	r.readAhead(v, c, position, stream)
	if err := s.measure(ctx, c, position); err != nil {
		return Data{}, err
	}
	if s.end == s.start {
		return Data{Next: next, Need: s.need}, nil
	}
	b, inside, err := c.view(ctx, s.start, s.end)
	if err != nil {
		return Data{}, err
	}
	if int64(len(b)) < r.load.o.ChunkBytes/8 || inside != nil && !inside.retain() {
		// A small answer to a slow client would keep the whole chunk alive.
		b, inside = bytes.Clone(b), nil
	}
	r.streams.advance(stream, s.next, r.load.o.ChunkBytes, r.load.o.PrefetchBytes)
	r.lent.Add(int64(len(b)))
	return Data{
		Bytes: b, Next: s.next, Aborted: c.sections.abortedIn(s.first, s.next),
		lease: &lease{reader: r, n: int64(len(b)), chunk: inside},
	}, nil
}

// span is the run of batches that one read answers.
type span struct {
	from, limit record.Offset
	maxBytes    int64
	minOne      bool

	start, end  int64         // bytes of the log
	first, next record.Offset // of the batches in it
	need        int           // the size of the first batch, if it is too large
}

// measure finds the span, from the batch at position or later that holds from.
// It waits for the first batch and takes what is in memory of the others.
func (s *span) measure(ctx context.Context, c *cursor, position int64) error {
	position, h, err := c.seek(ctx, position, s.from)
	if err != nil {
		return err
	}
	s.start, s.end, s.first, s.next = position, position, h.BaseOffset, s.from
	if h.NextOffset() <= s.limit && !s.fits(h) {
		s.need = h.Size()
	}
	aligned := *s // the part of the span that lies in one chunk
	for s.fits(h) {
		end := s.end + int64(h.Size())
		if s.end > s.start && !c.ready(s.end, end) {
			break
		}
		s.end, s.next = end, h.NextOffset()
		if s.end <= c.end(c.chunkAt(s.start)) {
			aligned = *s
		}
		if header := s.end + record.HeaderSize; header > c.object.entry.LogSize || !c.ready(s.end, header) {
			break
		}
		if h, err = c.header(ctx, s.end); err != nil {
			return err
		}
	}
	// Bytes of one chunk need no copy. A shorter answer is worth that as long
	// as it is not much shorter.
	if 2*(aligned.end-aligned.start) >= s.end-s.start {
		*s = aligned
	}
	return nil
}

// fits says whether the batch can be added to the span.
func (s *span) fits(h record.Header) bool {
	if h.NextOffset() > s.limit {
		return false
	}
	if s.end == s.start && s.minOne {
		return true
	}
	return s.end-s.start+int64(h.Size()) <= s.maxBytes
}
