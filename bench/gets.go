// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// RangeGetter reads ranges of objects: what Gets needs of an object store, as
// store.Store has it.
type RangeGetter interface {
	GetRange(ctx context.Context, key string, p []byte, off int64) (n int, err error)
}

// Object is an object by its key, with its size in bytes.
type Object struct {
	Key  string
	Size int64
}

// Gets reads every object once, in their order, by GETs of rangeBytes of which
// parallel are under way at a time, and looks at nothing that it reads: the
// most that a reader of the store could reach. Latency is that of a GET. The
// result has no Records.
func Gets(ctx context.Context, s RangeGetter, objects []Object, rangeBytes, parallel int) (Throughput, error) {
	latencies := NewSeries(time.Now())
	var bytes atomic.Int64
	buffers := make(chan []byte, parallel)
	for range parallel {
		buffers <- make([]byte, rangeBytes)
	}
	group, ctx := errgroup.WithContext(ctx)
	get := func(o Object, off int64) {
		buffer := <-buffers
		group.Go(func() error {
			defer func() { buffers <- buffer }()
			since := time.Now()
			n, err := s.GetRange(ctx, o.Key, buffer[:min(int64(rangeBytes), o.Size-off)], off)
			if err != nil {
				return fmt.Errorf("get %s at byte %d: %w", o.Key, off, err)
			}
			bytes.Add(int64(n))
			now := time.Now()
			latencies.Record(now, now.Sub(since))
			return nil
		})
	}
	for _, o := range objects {
		for off := int64(0); off < o.Size && ctx.Err() == nil; off += int64(rangeBytes) {
			get(o, off)
		}
	}
	if err := group.Wait(); err != nil {
		return Throughput{}, err
	}
	return throughput(0, bytes.Load(), time.Since(latencies.Start()), latencies), nil
}
