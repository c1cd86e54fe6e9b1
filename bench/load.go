// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// LoadOptions say what history Load writes.
type LoadOptions struct {
	Broker     string
	Topic      string // its partition 0 must be empty
	Values     *Values
	Records    int64
	BatchBytes int // 0 means 1 MiB
	// Progress is called with the records acknowledged so far; nil for nobody.
	Progress func(records int64)
}

// loadInFlight is how many requests a load has on its way: all of them share a
// sync.
const loadInFlight = 30

// Load writes a history that a Replay can check, record n with value n, by raw
// frames at acks=all, and returns when all of it is acknowledged.
func Load(ctx context.Context, o LoadOptions) error {
	setDefault(&o.BatchBytes, 1<<20)
	c, err := dial(ctx, o.Broker)
	if err != nil {
		return err
	}
	defer c.close()
	builder, err := newBatchBuilder("none")
	if err != nil {
		return err
	}
	sent := make(chan int64, loadInFlight-1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for n := range sent {
			if err := c.receiveProduced(); err != nil {
				return err
			}
			if o.Progress != nil {
				o.Progress(n)
			}
		}
		return nil
	})
	group.Go(func() error {
		defer close(sent)
		for n := int64(0); n < o.Records; {
			builder.begin()
			for n < o.Records && (builder.count == 0 || builder.size()+o.Values.Size()+recordOverhead <= o.BatchBytes) {
				builder.add(o.Values.Size(), func(dst []byte) []byte { return o.Values.Append(dst, n) })
				n++
			}
			request := produceRequest(o.Topic, 0, -1, builder.finish(time.Now()))
			select {
			case sent <- n:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := c.send(request); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}
