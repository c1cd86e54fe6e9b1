// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"container/list"
	"sync"
)

// pageEntries is the number of index entries in one cached page.
const pageEntries = 512

// indexKind says which of a segment's indexes a page belongs to.
type indexKind uint8

const (
	offsetIndex indexKind = iota
	timeIndex
	txnIndex
	indexKinds
)

// pageKey names one page. Segments are never reused, so a dropped segment's
// pages cannot be taken for another's; they leave by age.
type pageKey struct {
	segment *Segment
	kind    indexKind
	page    int
}

type cachedPage struct {
	key   pageKey
	bytes []byte
}

// indexCache keeps the index pages of sealed segments that were used last, up
// to a number of bytes. Pages are immutable. It is safe for concurrent use.
type indexCache struct {
	limit int64

	mu    sync.Mutex
	size  int64
	pages map[pageKey]*list.Element
	order list.List // of cachedPage, least recently used last
}

func newIndexCache(limit int64) *indexCache {
	return &indexCache{limit: limit, pages: map[pageKey]*list.Element{}}
}

// get answers nil when the page is not there.
func (c *indexCache) get(k pageKey) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.pages[k]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(cachedPage).bytes
}

func (c *indexCache) put(k pageKey, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pages[k] != nil {
		return
	}
	c.pages[k] = c.order.PushFront(cachedPage{key: k, bytes: b})
	c.size += int64(cap(b))
	for c.size > c.limit {
		c.removeLocked(c.order.Back())
	}
}

// forget drops the pages of a segment, whose index was rebuilt or deleted.
func (c *indexCache) forget(s *Segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, e := range c.pages {
		if k.segment == s {
			c.removeLocked(e)
		}
	}
}

func (c *indexCache) removeLocked(e *list.Element) {
	p := c.order.Remove(e).(cachedPage)
	delete(c.pages, p.key)
	c.size -= int64(cap(p.bytes))
}
