// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"firn/internal/bulk"
	"firn/internal/vfs"
	"firn/tier/store"
)

// Options is how the cold tier works.
type Options struct {
	// Store holds the objects, without store.WithRetry around it: Open puts it
	// on. It must be set, and stays the caller's to close, after the Tier.
	Store store.Store
	// ClusterID and Prefix begin every key, see Root. ClusterID must be set.
	ClusterID, Prefix string
	// StoreID is the id in the data directory, durable there before Open. It
	// must be set.
	StoreID StoreID
	// StoreSeen says that the bucket was found to bear the id before: then one
	// without it is another bucket, or was emptied, and is not written to.
	StoreSeen bool
	// FS holds the local copies. It must be set.
	FS vfs.FS
	// IO is not used by the tier itself and may be nil: segments are read
	// through Sealed, and stores have their own.
	IO *vfs.IO
	// Logger is told of what an operator may want to know. nil: nobody is.
	Logger *slog.Logger
	// Uploaders is how many segments go up at once, over all partitions. 0: 2.
	Uploaders int
	// ControlWorkers is how many partitions take over, write a manifest or
	// delete at once. 0: 8.
	ControlWorkers int
	// ChunkBytes, CacheBytes, IndexCacheBytes, PrefetchBytes and MaxGets are
	// the ReaderOptions of these names.
	ChunkBytes, CacheBytes, IndexCacheBytes, PrefetchBytes int64
	MaxGets                                                int
	// Turns is as in ReaderOptions.
	Turns *bulk.Turns
	// DeleteGrace is how long an object stays after the manifest stopped
	// naming it. 0: 10 min.
	DeleteGrace time.Duration
	// RetryBackoffMin and RetryBackoffMax bound the wait after a step of a
	// partition failed; it doubles from one to the other. 0: 1 s and 1 min.
	RetryBackoffMin, RetryBackoffMax time.Duration
	// Retry is how single requests are repeated within a step. Its Attempts 0
	// stands for 3 here.
	Retry store.RetryOptions
	// ControlTimeout bounds a step that moves small objects only, retries
	// included. 0: 2 min.
	ControlTimeout time.Duration
	// UploadTimeout bounds the upload of one segment, retries included, on top
	// of three times what its bytes take at Retry.MinBytesPerSecond. 0: 10 min.
	UploadTimeout time.Duration
	// Held keeps all work on partitions back until Begin, so that it is not in
	// the way of a start.
	Held bool
	// Recheck is how often a partition is looked at although nothing woke it.
	// 0: 1 min.
	Recheck time.Duration
	// Registerer takes the metrics; only one Tier can be measured on it. nil:
	// none.
	Registerer prometheus.Registerer
	// Now is the wall clock. nil: time.Now.
	Now func() time.Time
}

// EnsureDefaults fills in what is zero.
func (o *Options) EnsureDefaults() {
	setDefault(&o.Uploaders, 2)
	setDefault(&o.ControlWorkers, 8)
	setDefault(&o.DeleteGrace, 10*time.Minute)
	setDefault(&o.RetryBackoffMin, time.Second)
	setDefault(&o.RetryBackoffMax, max(time.Minute, o.RetryBackoffMin))
	setDefault(&o.Retry.Attempts, 3)
	o.Retry.EnsureDefaults()
	setDefault(&o.ControlTimeout, 2*time.Minute)
	setDefault(&o.UploadTimeout, 10*time.Minute)
	setDefault(&o.Recheck, time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Validate reports every fault. It expects EnsureDefaults to have run.
func (o *Options) Validate() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("the tier has no store"))
	}
	if o.FS == nil {
		errs = append(errs, errors.New("the tier has no file system"))
	}
	if o.StoreID.IsZero() {
		errs = append(errs, errors.New("the tier has no store id"))
	}
	if _, err := Root(o.Prefix, o.ClusterID); err != nil {
		errs = append(errs, err)
	}
	if o.Uploaders < 1 || o.ControlWorkers < 1 {
		errs = append(errs, fmt.Errorf("%d uploaders and %d control workers, want 1 or more of each", o.Uploaders, o.ControlWorkers))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"delete grace", o.DeleteGrace}, {"shortest retry backoff", o.RetryBackoffMin}, {"control timeout", o.ControlTimeout},
		{"upload timeout", o.UploadTimeout}, {"recheck interval", o.Recheck},
	} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("the %s is %v, want more than 0", d.name, d.value))
		}
	}
	if o.RetryBackoffMax < o.RetryBackoffMin {
		errs = append(errs, fmt.Errorf("the longest retry backoff is %v, want at least the shortest, %v", o.RetryBackoffMax, o.RetryBackoffMin))
	}
	return errors.Join(append(errs, o.Retry.Validate())...)
}

// uploadLimit is how long the upload of an object of size bytes may take.
func (o *Options) uploadLimit(size int64) time.Duration {
	return o.UploadTimeout + 3*time.Duration(float64(size)/float64(o.Retry.MinBytesPerSecond)*float64(time.Second))
}

// readerOptions is the part that the reader takes.
func (o *Options) readerOptions(s store.Store) ReaderOptions {
	return ReaderOptions{
		Store: s, ChunkBytes: o.ChunkBytes, CacheBytes: o.CacheBytes, IndexCacheBytes: o.IndexCacheBytes,
		PrefetchBytes: o.PrefetchBytes, MaxGets: o.MaxGets, Turns: o.Turns, Logger: o.Logger,
	}
}
