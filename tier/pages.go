// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"firn/record"
	"firn/tier/store"
)

const (
	// pageCacheSize is how many decoded pages are kept, over all partitions:
	// about 160 KiB each, 10 MiB together.
	pageCacheSize = 64
	// pageLoads is how many pages are loaded at once.
	pageLoads = 8
	// pageTimeout bounds one load, retries included.
	pageTimeout = time.Minute
)

// pageCache keeps the pages used last, and loads each missing one once however
// many want it. A load outlives the request that began it, so that the next
// one finds the page. Pages are immutable: nothing is ever invalidated. It may
// be used concurrently. Its goroutines, one for each load, end by close.
type pageCache struct {
	store   store.Store
	ctx     context.Context
	cancel  context.CancelFunc
	slots   chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	order  *list.List // of *cachedPage, used last in front
	byKey  map[string]*list.Element
	loads  map[string]*pageLoad
}

type cachedPage struct {
	key     string
	entries []Entry
}

// pageLoad is a load under way. entries and err are set before done is closed.
type pageLoad struct {
	done    chan struct{}
	entries []Entry
	err     error
}

func newPageCache(s store.Store) *pageCache {
	c := &pageCache{
		store: s, slots: make(chan struct{}, pageLoads),
		order: list.New(), byKey: make(map[string]*list.Element), loads: make(map[string]*pageLoad),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// close cancels the loads under way and waits for them.
func (c *pageCache) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
}

// entries are those of the page that ref names in the manifest m. The caller
// must not change them. The error wraps record.ErrNotReady when ctx ended
// first, and record.ErrStorage otherwise; it is a *record.CorruptionError or
// wraps record.ErrUnsupportedVersion for a page that cannot be read.
func (c *pageCache) entries(ctx context.Context, key string, m *Manifest, ref PageRef) ([]Entry, error) {
	entries, load := c.get(key, m, ref)
	if load == nil {
		return entries, nil
	}
	select {
	case <-load.done:
		return load.entries, load.err
	case <-ctx.Done():
		return nil, fmt.Errorf("load page: %w: %w", record.ErrNotReady, ctx.Err())
	}
}

// get finds the page, or the load that will bring it.
func (c *pageCache) get(key string, m *Manifest, ref PageRef) ([]Entry, *pageLoad) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.order.MoveToFront(e)
		return e.Value.(*cachedPage).entries, nil
	}
	if load, ok := c.loads[key]; ok {
		return nil, load
	}
	load := &pageLoad{done: make(chan struct{})}
	if c.closed {
		load.err = record.ErrClosed
		close(load.done)
		return nil, load
	}
	c.loads[key] = load
	c.running.Go(func() {
		load.entries, load.err = c.load(key, m.TopicID, m.Partition, ref)
		c.finish(key, load)
	})
	return nil, load
}

func (c *pageCache) load(key string, id record.TopicID, partition int32, ref PageRef) ([]Entry, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-c.ctx.Done():
		return nil, fmt.Errorf("load page: %w", record.ErrClosed)
	}
	ctx, cancel := context.WithTimeout(c.ctx, pageTimeout)
	defer cancel()
	b, err := readObject(ctx, c.store, key, pageObjectSize(int(ref.Count)))
	if err != nil {
		return nil, fmt.Errorf("load page: %w: %w", record.ErrStorage, err)
	}
	entries, err := parsePage(key, b, id, partition, ref)
	if err != nil {
		return nil, fmt.Errorf("load page: %w: %w", record.ErrStorage, err)
	}
	return entries, nil
}

func (c *pageCache) finish(key string, load *pageLoad) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(load.done)
	delete(c.loads, key)
	if load.err != nil {
		return
	}
	c.byKey[key] = c.order.PushFront(&cachedPage{key: key, entries: load.entries})
	if c.order.Len() > pageCacheSize {
		oldest := c.order.Remove(c.order.Back()).(*cachedPage)
		delete(c.byKey, oldest.key)
	}
}
