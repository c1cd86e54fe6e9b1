// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"container/list"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"firn/record"
)

// objectRef is a segment object by its key, and what the chain says of it.
type objectRef struct {
	key   string
	entry Entry
}

// sectionsPart is the number of the part that holds everything behind the log;
// the log's chunks are numbered from 0.
const sectionsPart = -1

// partID names one part of one object: what one GET brings.
type partID struct {
	object string
	n      int32
}

// cacheKey is the part's key in the chunk cache.
func (id partID) cacheKey() string { return id.object + "#" + strconv.Itoa(int(id.n)) }

// partState says where a part stands.
type partState uint8

const (
	partQueued partState = iota // its GET waits for a slot
	partFlying                  // its GET is under way
	partHeld                    // loaded, and kept until it is used up or too old
	partGone                    // no longer in the loader's map: failed, abandoned, cached or dropped
)

// part is one part of an object, in memory or on its way. What stands above
// done is immutable; chunk, sections and err are set before done is closed and
// immutable from then on. The rest belongs to loader.mu.
//
// The part holds its chunk for all who wait for it: until it has left the map
// and the last of them has released it.
type part struct {
	id       partID
	object   *objectRef
	position int64 // the first byte of its GET in the object
	size     int64 // bytes of its GET
	done     chan struct{}

	chunk    *chunk // of a part of the log
	sections *sections
	err      error

	state   partState
	waiters int
	// needs is the sections part without which a chunk cannot be verified. The
	// chunk is one of its waiters until its own GET has ended.
	needs   *part
	ahead   bool // loaded by read-ahead
	expires time.Time
	element *list.Element // of loader.queue or loader.held
}

// loader brings parts of objects into memory: one GET for each part however
// many want it, within bounds on GETs and bytes. Safe for concurrent use.
//
//	demand ──► queue ──► GET ──► verify ──► held ──► chunk or index cache
//	                     ▲                   │
//	ahead ───────────────┘ if there is room  └─ used up, too old, or room needed
//
// Invariants:
//
//	L1  A part is in the map at most once, and only while it is queued, flying
//	    or held.
//	L2  A GET belongs to the loader: it ends by its own deadline or by close,
//	    never because a request ended. A queued GET that nobody waits for any
//	    more does not start.
//	L3  used is the bytes of the parts that are flying or held. It passes
//	    HoldBytes only by a single part that is larger, and then nothing else is
//	    in flight.
//	L4  Read-ahead never waits and never pushes a held part out; it leaves some
//	    of the slots and some of the bytes to demand.
//	L5  A flying chunk's sections part is flying or done, so that no GET ever
//	    waits for one that has no slot.
//	L6  No data leaves before its CRC was right, and its memory is not used
//	    again before the last reader has released it (see chunk).
//
// Goroutines: one for each GET under way, one for each object behind which
// read-ahead looks for the next, and the janitor, all ended by close; and those
// of the two caches.
type loader struct {
	o       ReaderOptions
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	pool    chunkPool
	chunks  *cache[*chunk]
	indexes *cache[*sections]
	count   counters

	mu      sync.Mutex
	closed  bool
	parts   map[partID]*part
	queue   list.List // of *part, first come first
	held    list.List // of *part, longest untouched first
	flying  int       // GETs under way
	ahead   int       // those of them that are read-ahead
	used    int64
	spawned map[string]bool
	dropped []offer // to the caches, once mu is free
}

func newLoader(o ReaderOptions) (*loader, error) {
	chunks, err := newCache(o.CacheBytes, o.ChunkBytes, (*chunk).retain, (*chunk).release)
	if err != nil {
		return nil, err
	}
	indexes, err := newCache(o.IndexCacheBytes, 64<<10, func(*sections) bool { return true }, func(*sections) {})
	if err != nil {
		chunks.close()
		return nil, err
	}
	l := &loader{o: o, chunks: chunks, indexes: indexes, parts: make(map[partID]*part), spawned: make(map[string]bool)}
	l.pool = chunkPool{bytes: o.ChunkBytes, most: sparesKept}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.running.Add(1)
	go l.janitor()
	return l, nil
}

// close ends the GETs under way, fails what waits and empties the caches. It
// returns when every goroutine has ended. No other call may be under way or
// follow, except release.
func (l *loader) close() {
	l.mu.Lock()
	l.closed = true
	for e := l.queue.Front(); e != nil; e = l.queue.Front() {
		p := l.queue.Remove(e).(*part)
		l.forget(p)
		p.err = errClosed(p.object)
		close(p.done)
	}
	l.mu.Unlock()
	l.cancel()
	l.running.Wait()
	l.chunks.close()
	l.indexes.close()
}

func errClosed(o *objectRef) error { return fmt.Errorf("read %s: %w", o.key, record.ErrClosed) }

// demand gives part n of the object, loaded or on its way, and counts the
// caller as one who waits for it until release. For a chunk, needs is the
// sections part, which the caller demanded before and has not released.
func (l *loader) demand(o *objectRef, n int32, needs *part) *part {
	id := partID{o.key, n}
	if p := l.join(id); p != nil {
		return p
	}
	if p := l.fromCache(o, id); p != nil {
		l.count.hits.Add(1)
		return p
	}
	l.mu.Lock()
	defer l.unlock()
	if p := l.joinLocked(id); p != nil { // somebody else came between
		return p
	}
	p := newPart(o, id, l.o.ChunkBytes)
	p.waiters = 1
	if l.closed {
		p.state, p.err = partGone, errClosed(o)
		close(p.done)
		return p
	}
	l.count.misses.Add(1)
	l.enter(p, needs)
	p.element = l.queue.PushBack(p)
	l.pump()
	return p
}

// enter puts a new part into the map and makes it wait for the sections part it
// needs. The caller holds mu.
func (l *loader) enter(p, needs *part) {
	l.parts[p.id] = p
	if needs != nil {
		p.needs = needs
		needs.waiters++
	}
}

// join is the part, when it is in the map.
func (l *loader) join(id partID) *part {
	l.mu.Lock()
	defer l.unlock()
	return l.joinLocked(id)
}

func (l *loader) joinLocked(id partID) *part {
	p := l.parts[id]
	if p == nil {
		return nil
	}
	p.waiters++
	if p.state == partHeld {
		l.count.hits.Add(1)
		p.expires = time.Now().Add(l.o.HoldFor)
		l.held.MoveToBack(p.element)
	}
	return p
}

// fromCache is the part, when a cache has it.
func (l *loader) fromCache(o *objectRef, id partID) *part {
	p := &part{id: id, object: o, state: partGone, waiters: 1}
	var ok bool
	if id.n == sectionsPart {
		p.sections, ok = l.indexes.get(id.object)
	} else {
		p.chunk, ok = l.chunks.get(id.cacheKey())
	}
	if !ok {
		return nil
	}
	p.done = make(chan struct{})
	close(p.done)
	return p
}

// resident is the part when it is in memory, as demand gives it, or nil.
func (l *loader) resident(o *objectRef, n int32) *part {
	id := partID{o.key, n}
	l.mu.Lock()
	if p := l.parts[id]; p != nil {
		if p.state != partHeld {
			p = nil
		} else {
			p = l.joinLocked(id)
		}
		l.unlock()
		return p
	}
	l.unlock()
	return l.fromCache(o, id)
}

// release ends one demand or resident. A GET that nobody waits for and that has
// not started never will.
func (l *loader) release(p *part) {
	l.mu.Lock()
	defer l.unlock()
	l.releaseLocked(p)
}

func (l *loader) releaseLocked(p *part) {
	p.waiters--
	if p.waiters > 0 {
		return
	}
	switch p.state {
	case partQueued:
		l.queue.Remove(p.element)
		l.forget(p)
		l.count.abandoned.Add(1)
	case partGone:
		p.letGo()
	}
}

// letGo gives up the part's chunk: nobody waits for it, and it is not in the
// map. The caller holds loader.mu.
func (p *part) letGo() {
	if p.chunk != nil {
		p.chunk.release()
	}
}

// usedUp says that a reader has passed the end of the part and wants it no more,
// so that it goes to the cache.
func (l *loader) usedUp(p *part) {
	l.mu.Lock()
	defer l.unlock()
	if p.state == partHeld {
		l.drop(p)
	}
}

// readAhead starts a GET for the part if there is room for it now, and says
// whether the part is in memory or on its way. needs is as in demand; without
// it the sections must be in memory or on their way.
func (l *loader) readAhead(o *objectRef, n int32, needs *part) bool {
	id := partID{o.key, n}
	l.mu.Lock()
	defer l.unlock()
	if p := l.parts[id]; p != nil {
		return p.state != partQueued
	}
	if n != sectionsPart && needs == nil {
		if needs = l.parts[partID{o.key, sectionsPart}]; needs == nil {
			if needs = l.fromCache(o, partID{o.key, sectionsPart}); needs == nil {
				return false
			}
		}
	}
	if needs != nil && needs.state == partQueued {
		return false // L5
	}
	if p := l.fromCache(o, id); p != nil {
		l.releaseLocked(p)
		return true
	}
	p := newPart(o, id, l.o.ChunkBytes)
	if l.closed || l.ahead >= l.o.aheadGets() || l.flying >= l.o.MaxGets || l.used+p.size > l.o.aheadBytes() {
		return false
	}
	p.ahead = true
	l.enter(p, needs)
	l.count.readAhead.Add(1)
	l.start(p)
	return true
}

func newPart(o *objectRef, id partID, chunkBytes int64) *part {
	p := &part{id: id, object: o, done: make(chan struct{})}
	if id.n == sectionsPart {
		p.position = o.entry.LogSize
		p.size = o.entry.ObjectSize - o.entry.LogSize
	} else {
		p.position = int64(id.n) * chunkBytes
		p.size = min(chunkBytes, o.entry.LogSize-p.position)
	}
	return p
}

// pump starts what waits, in order, as far as slots and bytes go. The caller
// holds mu.
func (l *loader) pump() {
	for e := l.queue.Front(); e != nil && l.flying < l.o.MaxGets; e = l.queue.Front() {
		p := e.Value.(*part)
		for l.used+p.size > l.o.HoldBytes && l.held.Len() > 0 {
			l.drop(l.held.Front().Value.(*part))
		}
		if l.used+p.size > l.o.HoldBytes && l.flying > 0 {
			return // L3; the GETs under way pump again
		}
		l.queue.Remove(e)
		l.start(p)
	}
}

// start begins the part's GET. The caller holds mu.
func (l *loader) start(p *part) {
	p.state, p.element = partFlying, nil
	l.flying++
	if p.ahead {
		l.ahead++
	}
	l.used += p.size
	l.running.Add(1)
	go l.run(p)
}

// run is the goroutine of one GET.
func (l *loader) run(p *part) {
	defer l.running.Done()
	ctx, cancel := context.WithTimeout(l.ctx, l.o.GetTimeout)
	defer cancel()
	err := l.get(ctx, p, p.needs)

	l.mu.Lock()
	defer l.unlock()
	l.flying--
	if p.ahead {
		l.ahead--
	}
	if err != nil {
		l.used -= p.size
		p.err = err
		if l.closed {
			p.err = errClosed(p.object)
		}
		l.forget(p)
	} else {
		l.leaveNeeds(p)
		p.state = partHeld
		p.expires = time.Now().Add(l.o.HoldFor)
		p.element = l.held.PushBack(p)
	}
	close(p.done)
	l.pump()
}

// drop takes a held part out; unlock offers it to a cache. The caller holds mu.
func (l *loader) drop(p *part) {
	l.held.Remove(p.element)
	l.used -= p.size
	switch {
	case p.sections != nil && l.indexes != nil:
		l.dropped = append(l.dropped, offer{id: p.id, sections: p.sections})
	case p.chunk != nil && l.chunks != nil && p.chunk.retain():
		l.dropped = append(l.dropped, offer{id: p.id, chunk: p.chunk})
	}
	l.forget(p)
	if p.waiters == 0 {
		p.letGo()
	}
}

// offer is what a part leaves to a cache, with the reference that goes along.
type offer struct {
	id       partID
	chunk    *chunk
	sections *sections
}

// forget takes a part out of the map. The caller holds mu.
func (l *loader) forget(p *part) {
	if l.parts[p.id] == p {
		delete(l.parts, p.id)
	}
	p.state, p.element = partGone, nil
	l.leaveNeeds(p)
}

// leaveNeeds ends a chunk's wait for its sections part. The caller holds mu.
func (l *loader) leaveNeeds(p *part) {
	if needs := p.needs; needs != nil {
		p.needs = nil
		l.releaseLocked(needs)
	}
}

// unlock frees mu and then offers what was dropped to the caches.
func (l *loader) unlock() {
	dropped := l.dropped
	l.dropped = nil
	l.mu.Unlock()
	for _, o := range dropped {
		if o.sections != nil {
			l.indexes.set(o.id.object, o.sections, o.sections.cost())
		} else {
			l.chunks.set(o.id.cacheKey(), o.chunk, int64(cap(o.chunk.b)))
		}
	}
}

// janitor moves what was held too long to the caches, so that an idle reader
// keeps no more than those.
func (l *loader) janitor() {
	defer l.running.Done()
	tick := time.NewTicker(l.o.HoldFor / 2)
	defer tick.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case now := <-tick.C:
			l.expire(now)
		}
	}
}

func (l *loader) expire(now time.Time) {
	l.mu.Lock()
	defer l.unlock()
	if l.flying == 0 {
		l.pool.trim()
	}
	for e := l.held.Front(); e != nil; e = l.held.Front() {
		p := e.Value.(*part)
		if p.expires.After(now) {
			return
		}
		l.drop(p)
	}
	// What was dropped made room.
	l.pump()
}
