// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"
	"sync"

	"github.com/dgraph-io/ristretto/v2"
)

// cache keeps values under string keys in at most a given number of bytes. It
// is ristretto behind a gate: set is asynchronous and may be refused (TinyLFU
// admits what is asked for often, so that one long replay does not wash out what
// many readers share), a value set may not be found for a moment, and nothing
// ever blocks on a full cache. Safe for concurrent use, also with close. A nil
// cache holds nothing.
type cache[V any] struct {
	// mu gates ristretto, which panics when it is used while it closes.
	mu     sync.RWMutex
	closed bool
	inner  *ristretto.Cache[string, cached[V]]
}

// cached is a value with its key: ristretto compares hashes only.
type cached[V any] struct {
	key   string
	value V
}

// newCache makes a cache of maxBytes for values of about typical bytes; with
// maxBytes of 0 or less it is nil.
func newCache[V any](maxBytes, typical int64) (*cache[V], error) {
	if maxBytes <= 0 {
		return nil, nil
	}
	inner, err := ristretto.NewCache(&ristretto.Config[string, cached[V]]{
		// Ten counters for each value that fits, as ristretto advises.
		NumCounters:        max(1000, 10*maxBytes/max(1, typical)),
		MaxCost:            maxBytes,
		BufferItems:        64,
		IgnoreInternalCost: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make a cache of %d bytes: %w", maxBytes, err)
	}
	return &cache[V]{inner: inner}, nil
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
	if e, found := c.inner.Get(key); found && e.key == key {
		return e.value, true
	}
	return v, false
}

// set offers a value that holds cost bytes.
func (c *cache[V]) set(key string, v V, cost int64) {
	if c == nil {
		return
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.closed {
		c.inner.Set(key, cached[V]{key, v}, cost)
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
