// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"firn/internal/bulk"
	"firn/tier/store"
)

// ReaderOptions is how the read side of the cold tier works. One Reader serves
// all partitions.
type ReaderOptions struct {
	// Store holds the objects. It must be set, and stays the caller's to close,
	// after the Reader.
	Store store.Store
	// ChunkBytes is what one GET brings of a log, a multiple of BlockSize.
	// 0: 1 MiB.
	ChunkBytes int64
	// CacheBytes bounds the chunk cache. 0: 64 MiB, negative: no cache.
	CacheBytes int64
	// IndexCacheBytes bounds the cache of index sections. 0: 16 MiB, negative:
	// no cache.
	IndexCacheBytes int64
	// PrefetchBytes is how far ahead of a sequential reader chunks are loaded.
	// 0: 16 MiB, negative: no read-ahead.
	PrefetchBytes int64
	// MaxGets bounds the GETs under way. 0: 32.
	MaxGets int
	// HoldBytes bounds the bytes in flight and held until they are used, apart
	// from the caches. 0: twice PrefetchBytes and a chunk for each GET.
	HoldBytes int64
	// HoldFor is how long a part that was loaded and not used up stays out of
	// the cache's hands. 0: 10 s.
	HoldFor time.Duration
	// GetTimeout is the longest a part may take in all, retries of the store
	// included. 0: 1 min.
	GetTimeout time.Duration
	// Turns are taken by the checksums over what came. nil: none.
	Turns *bulk.Turns
	// Logger is told of damage. nil: nobody is.
	Logger *slog.Logger
}

// EnsureDefaults fills in what is zero.
func (o *ReaderOptions) EnsureDefaults() {
	setDefault(&o.ChunkBytes, 1<<20)
	setDefault(&o.CacheBytes, 64<<20)
	setDefault(&o.IndexCacheBytes, 16<<20)
	setDefault(&o.PrefetchBytes, 16<<20)
	setDefault(&o.MaxGets, 32)
	setDefault(&o.HoldBytes, 2*max(0, o.PrefetchBytes)+int64(o.MaxGets)*o.ChunkBytes)
	setDefault(&o.HoldFor, 10*time.Second)
	setDefault(&o.GetTimeout, time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Validate reports every fault. It expects EnsureDefaults to have run.
func (o *ReaderOptions) Validate() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("the reader has no store"))
	}
	if o.ChunkBytes <= 0 || o.ChunkBytes%BlockSize != 0 || o.ChunkBytes > maxLogSize {
		errs = append(errs, fmt.Errorf("the chunk size is %d bytes, want a multiple of %d up to 2 GiB", o.ChunkBytes, BlockSize))
	}
	if o.MaxGets < 1 {
		errs = append(errs, fmt.Errorf("the GETs under way are bounded to %d, want 1 or more", o.MaxGets))
	}
	if o.HoldBytes < o.ChunkBytes {
		errs = append(errs, fmt.Errorf("the bytes in flight are bounded to %d, want at least a chunk of %d", o.HoldBytes, o.ChunkBytes))
	}
	// The janitor looks twice in that time.
	if o.HoldFor < time.Millisecond {
		errs = append(errs, fmt.Errorf("parts are held for %v, want 1ms or more", o.HoldFor))
	}
	if o.GetTimeout <= 0 {
		errs = append(errs, fmt.Errorf("the timeout of a GET is %v, want more than 0", o.GetTimeout))
	}
	return errors.Join(errs...)
}

// reserve is the slots that read-ahead leaves to demand.
func (o *ReaderOptions) reserve() int { return max(1, o.MaxGets/4) }

func (o *ReaderOptions) aheadGets() int { return o.MaxGets - o.reserve() }

func (o *ReaderOptions) aheadBytes() int64 {
	return o.HoldBytes - int64(o.reserve())*o.ChunkBytes
}

// ReaderStats counts what a Reader has done since it was made, and tells what
// it holds. Bytes are those of GETs.
type ReaderStats struct {
	Gets, GetBytes int64
	// Hits and Misses are wishes for a part that was in memory, or was not and
	// had no GET under way.
	Hits, Misses int64
	// ReadAhead counts the GETs of parts before anybody wanted them.
	ReadAhead int64
	// Refetched counts ranges that came damaged at first, Corrupt those that
	// came damaged twice.
	Refetched, Corrupt int64
	// Abandoned counts GETs that never started, since everybody had left.
	Abandoned int64
	// Held is the bytes in flight and held, now; Lent those of answers that
	// were not yet released.
	Held, Lent int64
}

type counters struct {
	gets, getBytes, hits, misses, readAhead, refetched, corrupt, abandoned atomic.Int64
}

func (l *loader) stats() ReaderStats {
	l.mu.Lock()
	held := l.used
	l.mu.Unlock()
	return ReaderStats{
		Gets: l.count.gets.Load(), GetBytes: l.count.getBytes.Load(),
		Hits: l.count.hits.Load(), Misses: l.count.misses.Load(),
		ReadAhead: l.count.readAhead.Load(),
		Refetched: l.count.refetched.Load(), Corrupt: l.count.corrupt.Load(),
		Abandoned: l.count.abandoned.Load(), Held: held,
	}
}
