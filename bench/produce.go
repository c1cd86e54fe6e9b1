// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// drainTime bounds the wait for answers after the last request was sent.
const drainTime = 30 * time.Second

// Produce appends records until the duration is over and waits for the last
// answer. Client i writes to the partitions i, i+Clients and so on. The bytes
// are those of the values.
func Produce(ctx context.Context, o Options) (Throughput, error) {
	if err := o.prepare(); err != nil {
		return Throughput{}, err
	}
	p := &producing{Options: o, latencies: NewSeries(time.Now())}
	run := p.runClient
	if o.Raw {
		run = p.runRaw
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range o.Clients {
		group.Go(func() error { return run(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		return Throughput{}, err
	}
	took := time.Since(p.latencies.Start())
	return throughput(p.records.Load(), p.records.Load()*int64(o.RecordBytes), took, p.latencies), nil
}

type producing struct {
	Options
	latencies *Series
	records   atomic.Int64 // acknowledged, or sent with acks=0
}

func (p *producing) end() time.Time { return p.latencies.Start().Add(p.Duration) }

// partitionsOf are those that a client works on.
func (o *Options) partitionsOf(client int) []int32 {
	var all []int32
	for i := client % o.Partitions; i < o.Partitions; i += max(1, min(o.Clients, o.Partitions)) {
		all = append(all, int32(i))
	}
	return all
}

// frame is an encoded request with its number of records.
type frame struct {
	bytes   []byte
	records int64
}

// frames encodes a request for each partition of a client.
func (p *producing) frames(c *conn, client int) ([]frame, error) {
	values, err := NewValues(p.RecordBytes)
	if err != nil {
		return nil, err
	}
	builder, err := newBatchBuilder(p.Codec)
	if err != nil {
		return nil, err
	}
	var all []frame
	for _, partition := range p.partitionsOf(client) {
		builder.begin()
		for builder.count == 0 || builder.size()+p.RecordBytes+recordOverhead <= p.BatchBytes {
			number := int64(builder.count)
			builder.add(p.RecordBytes, func(dst []byte) []byte { return values.Append(dst, number) })
		}
		records := int64(builder.count)
		batch := builder.finish(time.Now())
		all = append(all, frame{c.encode(produceRequest(p.Topic, partition, p.Acks, batch)), records})
	}
	return all, nil
}

// runRaw is one connection: this goroutine sends, another receives.
func (p *producing) runRaw(ctx context.Context, client int) error {
	ctx, cancel := context.WithTimeout(ctx, p.Duration+drainTime)
	defer cancel()
	c, err := dial(ctx, p.Broker)
	if err != nil {
		return err
	}
	defer c.close()
	frames, err := p.frames(c, client)
	if err != nil {
		return err
	}
	type request struct {
		since   time.Time
		records int64
	}
	// As deep as what may be in flight: whoever sends waits here.
	inFlight := make(chan request, p.InFlight-1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for r := range inFlight {
			if err := c.receiveProduced(); err != nil {
				return err
			}
			now := time.Now()
			p.latencies.Record(now, now.Sub(r.since))
			p.records.Add(r.records)
		}
		return nil
	})
	group.Go(func() error {
		defer close(inFlight)
		clock := pace{p.latencies.Start(), p.Rate / float64(p.Clients) / float64(frames[0].records)}
		for n := int64(0); time.Now().Before(p.end()); n++ {
			f := frames[n%int64(len(frames))]
			since := time.Now()
			if p.Rate > 0 {
				since = clock.due(n)
				if !since.Before(p.end()) || !sleepUntil(ctx, since) {
					return ctx.Err()
				}
			}
			if p.Acks != 0 {
				select {
				case inFlight <- request{since, f.records}:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err := c.sendFrame(f.bytes); err != nil {
				return err
			}
			if p.Acks == 0 {
				p.records.Add(f.records)
			}
		}
		return nil
	})
	return group.Wait()
}

// runClient is one franz-go client.
func (p *producing) runClient(ctx context.Context, client int) error {
	values, err := NewValues(p.RecordBytes)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(p.producerOptions()...)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	defer cl.Close()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	partitions := p.partitionsOf(client)
	clock := pace{p.latencies.Start(), p.Rate / float64(p.Clients)}
	for n := int64(0); ctx.Err() == nil && time.Now().Before(p.end()); n++ {
		since := time.Now()
		if p.Rate > 0 {
			since = clock.due(n)
			if !since.Before(p.end()) || !sleepUntil(ctx, since) {
				break
			}
		}
		r := &kgo.Record{Partition: partitions[n%int64(len(partitions))], Value: values.Append(make([]byte, 0, p.RecordBytes), n)}
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				fail(fmt.Errorf("produce: %w", err))
				return
			}
			now := time.Now()
			p.latencies.Record(now, now.Sub(since))
			p.records.Add(1)
		})
	}
	drain, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if err := cl.Flush(drain); err != nil {
		return errors.Join(context.Cause(ctx), fmt.Errorf("wait for the last answers: %w", err))
	}
	return context.Cause(ctx)
}

// producerOptions make an idempotent producer at acks=all, as users have it; it
// keeps to the requests in flight that idempotence allows.
func (p *producing) producerOptions() []kgo.Opt {
	acks := map[int16]kgo.Acks{0: kgo.NoAck(), 1: kgo.LeaderAck(), -1: kgo.AllISRAcks()}[p.Acks]
	o := []kgo.Opt{
		kgo.SeedBrokers(p.Broker), kgo.ClientID(clientID), kgo.DefaultProduceTopic(p.Topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(acks), kgo.ProducerBatchCompression(codecs[p.Codec]()),
		kgo.ProducerBatchMaxBytes(int32(p.BatchBytes)),
		kgo.MaxBufferedBytes(max(p.BatchBytes*p.InFlight*2, p.RecordBytes)),
	}
	if p.Acks != -1 {
		o = append(o, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(p.InFlight))
	}
	return o
}
