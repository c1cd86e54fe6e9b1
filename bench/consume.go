// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"firn/record"
)

// Consume reads all partitions from their beginning to where they ended when
// it started, over and over, until the duration is over. With fewer clients
// than partitions each client has its own partitions, with more they share.
// The bytes are those of the batches with raw frames, those of the values with
// a full client.
func Consume(ctx context.Context, o Options) (Throughput, error) {
	if err := o.prepare(); err != nil {
		return Throughput{}, err
	}
	ends, err := spans(ctx, &o)
	if err != nil {
		return Throughput{}, err
	}
	c := &consuming{Options: o, spans: ends, latencies: NewSeries(time.Now())}
	run := c.runClient
	if o.Raw {
		run = c.runRaw
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range o.Clients {
		group.Go(func() error { return run(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		return Throughput{}, err
	}
	return throughput(c.records.Load(), c.bytes.Load(), time.Since(c.latencies.Start()), c.latencies), nil
}

// span is what a partition holds.
type span struct{ from, to record.Offset }

// spans asks where the partitions begin and end.
func spans(ctx context.Context, o *Options) ([]span, error) {
	c, err := dial(ctx, o.Broker)
	if err != nil {
		return nil, err
	}
	defer c.close()
	all := make([]span, o.Partitions)
	empty := true
	for i := range all {
		if all[i].from, err = c.listOffset(o.Topic, int32(i), earliest); err != nil {
			return nil, err
		}
		if all[i].to, err = c.listOffset(o.Topic, int32(i), latest); err != nil {
			return nil, err
		}
		empty = empty && all[i].from == all[i].to
	}
	if empty {
		return nil, fmt.Errorf("topic %s holds no records", o.Topic)
	}
	return all, nil
}

type consuming struct {
	Options
	spans          []span
	latencies      *Series
	records, bytes atomic.Int64
}

func (c *consuming) over() bool { return time.Since(c.latencies.Start()) >= c.Duration }

func (c *consuming) runRaw(ctx context.Context, client int) error {
	connection, err := dial(ctx, c.Broker)
	if err != nil {
		return err
	}
	defer connection.close()
	for {
		for _, partition := range c.partitionsOf(client) {
			if err := c.readRaw(connection, partition); err != nil {
				return err
			}
			if c.over() {
				return nil
			}
		}
	}
}

// readRaw reads one partition to its end, or until the time is over.
func (c *consuming) readRaw(connection *conn, partition int32) error {
	f := fetchRequest{
		topic: c.Topic, partition: partition, offset: c.spans[partition].from,
		maxBytes: int32(c.FetchBytes), minBytes: 1, maxWait: 500 * time.Millisecond,
	}
	for f.offset < c.spans[partition].to && !c.over() {
		since := time.Now()
		got, err := connection.fetch(f)
		if err != nil {
			return err
		}
		err = eachBatch(got.batches, func(b record.Batch) error {
			h := b.Header()
			if f.offset < h.BaseOffset || f.offset >= h.NextOffset() {
				return fmt.Errorf("fetch %s-%d at offset %d: the batch has offsets %d to %d", c.Topic, partition, f.offset, h.BaseOffset, h.LastOffset())
			}
			f.offset = h.NextOffset()
			c.records.Add(int64(h.Count))
			return nil
		})
		if err != nil {
			return err
		}
		c.bytes.Add(int64(len(got.batches)))
		now := time.Now()
		c.latencies.Record(now, now.Sub(since))
	}
	return nil
}

func (c *consuming) runClient(ctx context.Context, client int) error {
	for !c.over() {
		if err := c.readClient(ctx, client); err != nil {
			return err
		}
	}
	return nil
}

// readClient reads a client's partitions once, or until the time is over.
func (c *consuming) readClient(ctx context.Context, client int) error {
	ctx, cancel := context.WithTimeout(ctx, c.Duration-time.Since(c.latencies.Start()))
	defer cancel()
	offsets, left := map[int32]kgo.Offset{}, map[int32]bool{}
	for _, p := range c.partitionsOf(client) {
		if c.spans[p].from < c.spans[p].to {
			offsets[p] = kgo.NewOffset().At(int64(c.spans[p].from))
			left[p] = true
		}
	}
	if len(left) == 0 {
		<-ctx.Done() // its partitions are empty
		return nil
	}
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(c.Broker), kgo.ClientID(clientID),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: offsets}),
		kgo.FetchMaxPartitionBytes(int32(c.FetchBytes)),
	)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	defer cl.Close()
	for len(left) > 0 {
		since := time.Now()
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil // the time is over, or another client has failed
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		now := time.Now()
		c.latencies.Record(now, now.Sub(since))
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				c.bytes.Add(int64(len(r.Value)))
			}
			c.records.Add(int64(len(p.Records)))
			if n := len(p.Records); n > 0 && record.Offset(p.Records[n-1].Offset) >= c.spans[p.Partition].to-1 {
				delete(left, p.Partition)
			}
		})
	}
	return nil
}
