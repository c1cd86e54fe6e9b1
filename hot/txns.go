// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"firn/record"
)

// Origin says on whose word batches are appended.
type Origin uint8

const (
	// Client: what a producer sent. Control batches are refused, and a
	// transactional batch is taken only into the transaction that its producer
	// has under way in this partition already.
	Client Origin = iota
	// VerifiedClient: as Client, and the transaction coordinator knows that
	// the producer's transaction holds this partition, so that it may begin
	// here.
	VerifiedClient
	// Coordinator: the markers of the transaction coordinator, and batches of
	// its own.
	Coordinator
)

// txnBook knows the transactions of a log that end what consumers of committed
// records may see: those that are open, and those whose marker may not be
// visible yet. It is safe for concurrent use; nothing in it is I/O.
//
// Invariants:
//
//	T1  A transaction is in the book before the end of the log passes its first
//	    batch, and leaves it only for a high watermark above its marker.
//	T2  While busy is false the book is empty.
type txnBook struct {
	busy atomic.Bool

	mu       sync.Mutex
	open     []record.OpenTxn // by first offset
	settling []settling       // by marker
}

// settling is a transaction that has ended, by a marker that may not be visible.
type settling struct{ first, marker record.Offset }

// reset begins the book anew, for a log of which all is visible.
func (b *txnBook) reset(open []record.OpenTxn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open, b.settling = open, nil
	b.busy.Store(len(open) > 0)
}

// note takes in what a batch did to the transactions.
func (b *txnBook) note(h record.Header, t applied) {
	if !t.began && !t.hasEnded {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy.Store(true)
	if t.began {
		b.open = append(b.open, record.OpenTxn{ProducerID: h.ProducerID, FirstOffset: h.BaseOffset})
		return
	}
	b.open = slices.DeleteFunc(b.open, func(o record.OpenTxn) bool { return o.ProducerID == t.ended.ProducerID })
	b.settling = append(b.settling, settling{t.ended.FirstOffset, t.ended.LastOffset})
}

// firstUnstable is the first offset of the oldest transaction that is not over
// for a reader who sees what lies below high. high never falls, but for a reset.
func (b *txnBook) firstUnstable(high record.Offset) record.Offset {
	if !b.busy.Load() {
		return maxOffset
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	gone := 0
	for gone < len(b.settling) && b.settling[gone].marker < high {
		gone++
	}
	b.settling = append(b.settling[:0], b.settling[gone:]...)
	first := maxOffset
	if len(b.open) > 0 {
		first = b.open[0].FirstOffset
	}
	for _, s := range b.settling {
		first = min(first, s.first)
	}
	b.busy.Store(len(b.open)+len(b.settling) > 0)
	return first
}

// FirstUnstable is the first offset of the oldest transaction that is not over
// as of the high watermark high: open, or ended by a marker at or above it. It
// is above every offset when there is none. What lies below both is stable.
// The high watermark of a log may not fall between two calls, but for ResetTo.
func (l *Log) FirstUnstable(high record.Offset) record.Offset { return l.txns.firstUnstable(high) }

// AbortedTxns are the aborted transactions that overlap the offsets from from
// up to, and without, to, in the order of their markers, wherever these lie.
// They are all of them when to is at or below the last stable offset.
//
// The error wraps record.ErrOffsetOutOfRange when from lies below StartOffset,
// record.ErrClosed after the log was closed or deleted, and record.ErrStorage or
// a *record.CorruptionError otherwise. A damaged index is rebuilt on the way.
func (l *Log) AbortedTxns(from, to record.Offset) ([]record.AbortedTxn, error) {
	if !l.aborts.Load() {
		return nil, nil
	}
	for {
		list := l.list()
		if from < list[0].base {
			return nil, fmt.Errorf("aborted transactions of %s from %d: %w: the local log begins at %d", l.tp, from, record.ErrOffsetOutOfRange, list[0].base)
		}
		txns, err := abortedIn(list[segmentOf(list, from):], from, to)
		switch {
		case err == nil:
			return txns, nil
		case l.closed.Load():
			return nil, fmt.Errorf("aborted transactions of %s: %w", l.tp, record.ErrClosed)
		case errors.Is(err, record.ErrClosed) && from < l.StartOffset():
			continue // dropped meanwhile
		case errors.Is(err, record.ErrClosed):
			return nil, fmt.Errorf("aborted transactions of %s: %w: the log is being begun anew", l.tp, record.ErrStorage)
		}
		return nil, fmt.Errorf("aborted transactions of %s: %w", l.tp, asStorage(err))
	}
}

// abortedIn goes through the segments until one tells that everything that
// began below to has ended.
func abortedIn(list []*Segment, from, to record.Offset) ([]record.AbortedTxn, error) {
	var out []record.AbortedTxn
	for _, s := range list {
		txns, err := s.markersFrom(from, to)
		if err != nil {
			return nil, err
		}
		for _, t := range txns {
			if t.FirstOffset < to {
				out = append(out, t)
			}
		}
		if n := len(txns); n > 0 && txns[n-1].LastStableOffset >= to {
			break
		}
	}
	return out, nil
}

// markersFrom are the entries of the segment's transaction index whose markers
// lie at or above from, up to the first that says that nothing below to is open
// any more.
func (s *Segment) markersFrom(from, to record.Offset) ([]record.AbortedTxn, error) {
	s.mu.Lock()
	mem, known := s.mem, s.onDisk[txnIndex]
	var b []byte
	if mem != nil {
		b = mem.aborted
	}
	s.mu.Unlock()
	if mem != nil {
		return markersIn(b, from, to, nil)
	}
	if known == 0 {
		return nil, nil
	}
	txns, err := s.markersInFile(from, to)
	if !repairable(err) {
		return txns, err
	}
	if err := s.rebuildIndex(txnIndex, err); err != nil {
		return nil, err
	}
	return s.markersInFile(from, to)
}

func (s *Segment) markersInFile(from, to record.Offset) ([]record.AbortedTxn, error) {
	entries, err := s.countEntries(txnIndex)
	if err != nil {
		return nil, err
	}
	pages := (entries + pageEntries - 1) / pageEntries
	var failed error
	first := sort.Search(pages, func(i int) bool {
		if failed != nil {
			return true
		}
		var b []byte
		if b, failed = s.page(txnIndex, i, entries); failed != nil {
			return true
		}
		last, err := record.ParseAbortedTxn(b[len(b)-record.AbortedTxnSize:])
		failed = err
		return err != nil || last.LastOffset >= from
	})
	var out []record.AbortedTxn
	for i := first; i < pages && failed == nil; i++ {
		var b []byte
		if b, failed = s.page(txnIndex, i, entries); failed == nil {
			out, failed = markersIn(b, from, to, out)
		}
		if n := len(out); n > 0 && out[n-1].LastStableOffset >= to {
			break
		}
	}
	if failed != nil {
		return nil, failed
	}
	return out, nil
}

// markersIn appends to out what markersFrom wants of the entries in b.
func markersIn(b []byte, from, to record.Offset, out []record.AbortedTxn) ([]record.AbortedTxn, error) {
	for ; len(b) > 0; b = b[record.AbortedTxnSize:] {
		t, err := record.ParseAbortedTxn(b)
		if err != nil {
			return nil, err
		}
		if t.LastOffset < from {
			continue
		}
		out = append(out, t)
		if t.LastStableOffset >= to {
			break
		}
	}
	return out, nil
}

// checkTxnIndex says whether b can be a part of the transaction index of a
// segment that starts at base and ends at next.
func checkTxnIndex(b []byte, base, next record.Offset) error {
	txns, err := record.ParseTxnIndex(b, base)
	if err != nil {
		return err
	}
	if n := len(txns); n > 0 && txns[n-1].LastOffset >= next {
		return &record.CorruptionError{Position: int64(len(b) - record.AbortedTxnSize),
			Reason: fmt.Sprintf("marker at offset %d, the segment ends at %d", txns[n-1].LastOffset, next)}
	}
	return nil
}

// producersAtBase is the state of the producers at the segment's start.
func (s *Segment) producersAtBase() (*record.Producers, error) {
	inv, err := s.log.takeInventory()
	if err != nil {
		return nil, err
	}
	return s.log.rebuildProducers(inv, s.base)
}

// setProducers makes p the state of the log's producers. Everything in the log
// is visible.
func (l *Log) setProducers(p *record.Producers) {
	l.producers = p
	l.maxPID.Store(max(l.maxPID.Load(), p.MaxProducerID()))
	l.txns.reset(p.Open())
}

// applied is what a batch did to the transactions of its log.
type applied struct {
	began    bool // one began with it
	hasEnded bool
	ended    record.EndedTxn
}

// apply takes the batch whose header the cursor has just read, at position at,
// into the state of the producers. A control batch without a marker that we
// know changes nothing: a transaction that it may have ended stays open, which
// shows no record to anybody who must not see it. An error is one of reading.
func (c *cursor) apply(p *record.Producers, h record.Header, at int64) (applied, error) {
	if !h.HasProducer() {
		return applied{}, nil
	}
	if !h.IsControl() {
		return applied{began: p.Apply(h)}, nil
	}
	if h.Size() > len(c.buf) {
		return applied{}, nil
	}
	b, err := c.bytes(at, h.Size())
	if err != nil {
		return applied{}, err
	}
	// The marker lies in the body, which may have been read before and checked,
	// and read again since.
	if err := record.Batch(b).CheckCRC(); err != nil {
		return applied{}, c.corruptAt(at, err.Error())
	}
	m, err := h.Marker(record.Batch(b).Section())
	if err != nil {
		return applied{}, nil
	}
	ended, ok := p.ApplyMarker(h, m)
	return applied{hasEnded: ok, ended: ended}, nil
}
