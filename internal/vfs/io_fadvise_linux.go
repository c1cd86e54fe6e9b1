// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// windowBytes is the unit of dropping. It must be several times the
	// largest folio (dropping a part of one does nothing), and no smaller than
	// half of what read-ahead runs before a reader.
	windowBytes = 8 << 20
	// windowsAhead is how many windows before the reader are judged: read-ahead
	// has up to two of its own sizes under way and would make them look as if
	// somebody else had wanted them.
	windowsAhead = 2
	// windowsKept bounds the judgements remembered.
	windowsKept = 4096
	// judgementAge is when a judgement is made anew: a reader that comes later
	// is another reader, and the window may have become somebody's.
	judgementAge = time.Minute
)

// windows remembers which windows were not resident when a bulk reader came
// near them: those it brought in, and those it takes out again.
//
// Rejected: judging each read on its own (its neighbours' read-ahead makes
// everything resident), and dropping after each read (of 2 GiB of hot data
// nothing was left).
type windows struct {
	mu     sync.Mutex
	judged map[windowKey]judgement
}

type windowKey struct {
	lanes *lanes // the file system
	ino   uint64
	index int64
}

type judgement struct {
	ours bool // may be dropped
	at   time.Time
}

// readInWindows is a buffered read that judges the windows it comes near and
// drops those it has finished.
func (p *platform) readInWindows(t target, b []byte, off int64) (int, error) {
	last := min(off+int64(len(b))-1, t.size-1)
	for i := off / windowBytes; i <= last/windowBytes+windowsAhead && i*windowBytes < t.size; i++ {
		p.judge(t, i)
	}
	n, err := t.file.ReadAt(b, off)
	end := off + int64(n)
	for i := off / windowBytes; i*windowBytes < end; i++ {
		if (i+1)*windowBytes > end && end < t.size {
			break // not finished
		}
		if p.seen.take(windowKey{t.lanes, t.ino, i}) {
			// A hint: what stays costs memory that the kernel takes back.
			_ = p.calls.fadvise(t.fd, i*windowBytes, windowBytes, unix.FADV_DONTNEED)
		}
	}
	return n, err
}

// judge decides whether a window may be dropped once it is read: when less
// than an eighth of it is resident now. A few pages are often there already,
// where an index lookup peeked into the log.
func (p *platform) judge(t target, index int64) {
	key := windowKey{t.lanes, t.ino, index}
	now := time.Now()
	if p.seen.fresh(key, now) {
		return
	}
	found, want, known := p.residentIn(t, index*windowBytes, windowBytes)
	p.seen.put(key, judgement{ours: known && found*8 < want, at: now})
}

func (w *windows) fresh(key windowKey, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	j, ok := w.judged[key]
	if ok && now.Sub(j.at) > judgementAge {
		delete(w.judged, key)
		return false
	}
	return ok
}

// put remembers a judgement, unless a reader beside this one was first: it may
// have read in between, and its judgement is the true one.
func (w *windows) put(key windowKey, j judgement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.judged[key]; ok {
		return
	}
	if w.judged == nil || len(w.judged) >= windowsKept {
		// Forgetting everything leaves the windows being read in the cache
		// once, and needs no order to be kept.
		w.judged = make(map[windowKey]judgement)
	}
	w.judged[key] = j
}

// take forgets a window and tells whether it may be dropped.
func (w *windows) take(key windowKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.judged[key]
	delete(w.judged, key)
	return j.ours
}
