// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"firn/record"
)

// EndToEnd is a tail: a producer at a fixed rate and a consumer of partition 0
// that waits for what it writes. The latency of a record counts from when it
// was due to when the consumer has it.
type EndToEnd struct {
	options   Options
	clock     pace
	latencies *Series
	values    *Values

	produced atomic.Int64 // records handed to the broker; final once stopped
	consumed atomic.Int64
}

// EndToEndResult is what a tail has seen.
type EndToEndResult struct {
	Records   int64    `json:"records"`
	Latency   Latency  `json:"latency"`
	PerSecond []Second `json:"per_second"`
}

// defaultRate is the rate of a tail that is not told one.
const defaultRate = 5000

// NewEndToEnd checks the options; a Rate of 0 means 5,000.
func NewEndToEnd(o Options) (*EndToEnd, error) {
	setDefault(&o.Rate, defaultRate)
	if err := o.prepare(); err != nil {
		return nil, err
	}
	if o.Raw && o.Codec != "none" {
		return nil, fmt.Errorf("codec %s: the raw tail does not unpack batches", o.Codec)
	}
	values, err := NewValues(o.RecordBytes)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	return &EndToEnd{options: o, values: values, latencies: NewSeries(start), clock: pace{start, o.Rate}}, nil
}

// Latencies are those seen so far, by the time at which records came.
func (e *EndToEnd) Latencies() *Series { return e.latencies }

// Run runs the tail until the duration is over or ctx ends, which is no
// failure, and then waits for the records that are still to come: one that
// does not come is one.
func (e *EndToEnd) Run(ctx context.Context) (EndToEndResult, error) {
	until, stop := context.WithTimeout(ctx, e.options.Duration)
	defer stop()
	consuming, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	produce, consume := e.produceClient, e.consumeClient
	if e.options.Raw {
		produce, consume = e.produceRaw, e.consumeRaw
	}
	group, consuming := errgroup.WithContext(consuming)
	ready, all := make(chan struct{}), make(chan int64, 1)
	group.Go(func() error { return consume(consuming, ready, all) })
	group.Go(func() error {
		defer close(all)
		select {
		case <-ready:
		case <-consuming.Done():
			return nil // the consumer says why
		case <-until.Done():
			return nil
		}
		err := produce(consuming, until)
		all <- e.produced.Load()
		if err == nil {
			time.AfterFunc(drainTime, cancel) // the consumer ends before that, or is missing records
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return EndToEndResult{}, err
	}
	return EndToEndResult{e.consumed.Load(), e.latencies.Total().Summary(), e.latencies.Seconds()}, nil
}

// begin starts the clock. The consumer calls it: what is due before it is there
// would be late through no fault of the broker.
func (e *EndToEnd) begin(ready chan<- struct{}) {
	e.clock.start = time.Now()
	close(ready)
}

// seen takes one record off the tail.
func (e *EndToEnd) seen(now time.Time, value []byte) error {
	n := e.consumed.Load()
	if !e.values.Is(value, n) {
		got := int64(-1)
		if len(value) >= MinValueBytes {
			got = int64(binary.BigEndian.Uint64(value))
		}
		return fmt.Errorf("%w: record %d came to the tail where %d was due, or with other bytes", ErrRecords, got, n)
	}
	e.latencies.Record(now, now.Sub(e.clock.due(n)))
	e.consumed.Store(n + 1)
	return nil
}

// done tells whether the consumer has everything, once that is known.
func (e *EndToEnd) done(all <-chan int64, want *int64) bool {
	if *want < 0 {
		select {
		case n, ok := <-all:
			*want = n
			if !ok {
				*want = 0
			}
		default:
			return false
		}
	}
	return e.consumed.Load() >= *want
}

// produceRaw sends all records that are due in one batch, one connection,
// without waiting for answers.
func (e *EndToEnd) produceRaw(ctx, until context.Context) error {
	o := &e.options
	c, err := dial(ctx, o.Broker)
	if err != nil {
		return err
	}
	defer c.close()
	builder, err := newBatchBuilder(o.Codec)
	if err != nil {
		return err
	}
	sent := make(chan struct{}, 1<<16) // more than any broker leaves unanswered for long
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for range sent {
			if err := c.receiveProduced(); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		defer close(sent)
		for ctx.Err() == nil {
			n := e.produced.Load()
			if !sleepUntil(until, e.clock.due(n)) {
				return nil
			}
			builder.begin()
			for due := e.clock.dueBy(time.Now()); n < due && (builder.count == 0 || builder.size()+o.RecordBytes+recordOverhead <= o.BatchBytes); n++ {
				builder.add(o.RecordBytes, func(dst []byte) []byte { return e.values.Append(dst, n) })
			}
			if err := c.send(produceRequest(o.Topic, 0, o.Acks, builder.finish(time.Now()))); err != nil {
				return err
			}
			e.produced.Store(n)
			if o.Acks != 0 {
				select {
				case sent <- struct{}{}:
				case <-ctx.Done():
				}
			}
		}
		return nil
	})
	return group.Wait()
}

// consumeRaw waits at the end of the partition.
func (e *EndToEnd) consumeRaw(ctx context.Context, ready chan<- struct{}, all <-chan int64) error {
	o := &e.options
	c, err := dial(ctx, o.Broker)
	if err != nil {
		return err
	}
	defer c.close()
	f := fetchRequest{topic: o.Topic, maxBytes: int32(o.FetchBytes), minBytes: 1, maxWait: 100 * time.Millisecond}
	if f.offset, err = c.listOffset(o.Topic, 0, latest); err != nil {
		return err
	}
	e.begin(ready)
	check := NewVerifier(nil, f.offset)
	for want := int64(-1); !e.done(all, &want); {
		got, err := c.fetch(f)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %d of %d came to the tail", ErrRecords, e.consumed.Load(), e.produced.Load())
		}
		if err != nil {
			return err
		}
		now := time.Now()
		err = eachBatch(got.batches, func(b record.Batch) error {
			if err := check.Batch(b); err != nil {
				return err
			}
			for r, err := range b.Header().Records(b.Section()) {
				if err != nil {
					return err
				}
				if err := e.seen(now, r.Value); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		f.offset = check.Next()
	}
	return nil
}

func (e *EndToEnd) produceClient(ctx, until context.Context) error {
	p := &producing{Options: e.options}
	cl, err := kgo.NewClient(append(p.producerOptions(), kgo.ProducerLinger(0))...)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	defer cl.Close()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	for ctx.Err() == nil {
		n := e.produced.Load()
		if !sleepUntil(until, e.clock.due(n)) {
			break
		}
		cl.Produce(ctx, &kgo.Record{Value: e.values.Append(nil, n)}, func(_ *kgo.Record, err error) {
			if err != nil {
				fail(fmt.Errorf("produce: %w", err))
			}
		})
		e.produced.Store(n + 1)
	}
	if err := cl.Flush(ctx); err != nil && context.Cause(ctx) == nil {
		return fmt.Errorf("wait for the last answers: %w", err)
	}
	return context.Cause(ctx)
}

func (e *EndToEnd) consumeClient(ctx context.Context, ready chan<- struct{}, all <-chan int64) error {
	o := &e.options
	c, err := dial(ctx, o.Broker)
	if err != nil {
		return err
	}
	end, err := c.listOffset(o.Topic, 0, latest)
	c.close()
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(o.Broker), kgo.ClientID(clientID),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{o.Topic: {0: kgo.NewOffset().At(int64(end))}}),
	)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	defer cl.Close()
	e.begin(ready)
	for want := int64(-1); !e.done(all, &want); {
		poll, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		fetches := cl.PollFetches(poll)
		cancel()
		now := time.Now()
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %d of %d came to the tail", ErrRecords, e.consumed.Load(), e.produced.Load())
		}
		for r := range fetches.RecordsAll() {
			if err := e.seen(now, r.Value); err != nil {
				return err
			}
		}
		if err := fetches.Err(); err != nil && poll.Err() == nil {
			return fmt.Errorf("consume: %w", err)
		}
	}
	return nil
}
