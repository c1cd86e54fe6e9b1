// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"sync"
	"sync/atomic"
)

// chunk is the verified bytes of one part of a log, shared by whoever holds a
// reference: the part in the loader's map, the chunk cache, answers that were
// not yet released. With the last reference the memory goes back to the pool,
// while the chunk itself is never used again: a reader that comes too late
// finds a dead chunk and never another one's bytes. A chunk that nobody
// releases is the garbage collector's. Safe for concurrent use.
type chunk struct {
	b    []byte
	refs atomic.Int64
	pool *chunkPool
}

// retain adds a reference, unless the last one is gone.
func (c *chunk) retain() bool {
	for {
		n := c.refs.Load()
		if n <= 0 {
			return false
		}
		if c.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release gives a reference back.
func (c *chunk) release() {
	switch n := c.refs.Add(-1); {
	case n == 0:
		c.pool.put(c.b)
	case n < 0:
		panic("tier: a chunk was released more often than it was held")
	}
}

// chunkPool keeps the memory of chunks for those that follow. Fresh memory
// would be cleared for every chunk, faulted in page by page and collected
// again, which costs a replay as much as its checksums do, in stretches of
// milliseconds that no turn bounds.
type chunkPool struct {
	bytes int64 // the size of what is kept; anything else is allocated
	most  int   // how many are kept

	mu   sync.Mutex
	free [][]byte
}

// sparesKept is how many chunks' memory a loader keeps: between one that is let
// go and the GET that wants the next lies no more than a moment.
const sparesKept = 4

// get makes a chunk of n bytes of arbitrary content with one reference.
func (p *chunkPool) get(n int64) *chunk {
	c := &chunk{pool: p}
	c.refs.Store(1)
	if n == p.bytes {
		c.b = p.take()
	}
	if c.b == nil {
		c.b = make([]byte, n)
	}
	return c
}

func (p *chunkPool) take() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.free) - 1
	if last < 0 {
		return nil
	}
	b := p.free[last]
	p.free[last] = nil
	p.free = p.free[:last]
	return b
}

func (p *chunkPool) put(b []byte) {
	if int64(len(b)) != p.bytes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < p.most {
		p.free = append(p.free, b)
	}
}

// trim gives half of what is kept to the garbage collector: what an idle reader
// keeps fades away.
func (p *chunkPool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	half := len(p.free) / 2
	clear(p.free[half:])
	p.free = p.free[:half]
}
