// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2"
)

// cache keeps values under string keys in at most a given number of bytes. It
// is ristretto behind a gate: set is asynchronous and may be refused (TinyLFU
// admits what is asked for often, so that one long replay does not wash out what
// many readers share), a value set may not be found for a moment, and nothing
// ever blocks on a full cache. Safe for concurrent use, also with close. A nil
// cache holds nothing.
//
// It holds what it keeps: hold is called before a value is handed out, and may
// refuse one that is on its way out; drop is called once for each value that was
// set, when it leaves or was not taken in at all.
type cache[V any] struct {
	hold func(V) bool
	drop func(V)
	// mu gates ristretto, which panics when it is used while it closes.
	mu     sync.RWMutex
	closed bool
	inner  *ristretto.Cache[string, *cached[V]]
}

// cached is a value with its key: ristretto compares hashes only. left makes
// sure that it leaves once, however often ristretto says so.
type cached[V any] struct {
	key   string
	value V
	left  atomic.Bool
}

// newCache makes a cache of maxBytes for values of about typical bytes; with
// maxBytes of 0 or less it is nil.
func newCache[V any](maxBytes, typical int64, hold func(V) bool, drop func(V)) (*cache[V], error) {
	if maxBytes <= 0 {
		return nil, nil
	}
	c := &cache[V]{hold: hold, drop: drop}
	inner, err := ristretto.NewCache(&ristretto.Config[string, *cached[V]]{
		// Ten counters for each value that fits, as ristretto advises.
		NumCounters:        max(1000, 10*maxBytes/max(1, typical)),
		MaxCost:            maxBytes,
		BufferItems:        64,
		IgnoreInternalCost: true,
		OnExit:             c.leave,
	})
	if err != nil {
		return nil, fmt.Errorf("make a cache of %d bytes: %w", maxBytes, err)
	}
	c.inner = inner
	return c, nil
}

// leave ends what set began. ristretto calls it with nil for some keys that it
// does not know.
func (c *cache[V]) leave(e *cached[V]) {
	if e != nil && e.left.CompareAndSwap(false, true) {
		c.drop(e.value)
	}
}

func (c *cache[V]) get(key string) (v V, ok bool) {
	if c == nil {
		return v, false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return v, false
	}
	if e, found := c.inner.Get(key); found && e.key == key && c.hold(e.value) {
		return e.value, true
	}
	return v, false
}

// set offers a value of cost bytes, which is the cache's from now on; what is
// not taken in is dropped.
func (c *cache[V]) set(key string, v V, cost int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := &cached[V]{key: key, value: v}
	if c.closed || !c.inner.Set(key, e, cost) {
		c.leave(e)
	}
}

// close empties the cache and stops its goroutines. More calls do nothing.
func (c *cache[V]) close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.inner.Close()
	}
}
