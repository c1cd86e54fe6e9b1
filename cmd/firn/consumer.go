// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/record"
	"firn/wire"
)

const (
	// consumeWait is how long a fetch waits at the end of a partition.
	consumeWait = 500 * time.Millisecond
	// consumeRetry is the pause after a failure that may pass.
	consumeRetry = 250 * time.Millisecond
	// consumeBytes and consumePartitionBytes bound one answer.
	consumeBytes          = 8 << 20
	consumePartitionBytes = 1 << 20
)

// consumer reads a topic by Fetch requests of its own. A consumer of the client
// library would do, were it not for --tiers: what a batch was read from is in
// the answer's tagged fields, which that one does not show.
type consumer struct {
	o        *consumeOptions
	app      *app
	cl       *kgo.Client
	adm      *kadm.Client
	topic    string
	id       [16]byte
	patience time.Duration // how long failures that may pass are borne
	format   *recordFormat
	decoder  kgo.Decompressor

	parts   []*consumePart
	printed int64
	out     []byte
	sums    tierSums
}

// consumePart is a partition and how far it was read.
type consumePart struct {
	partition int32
	leader    int32
	next      int64
	done      bool // at the end, with --exit
}

func (c *consumer) run(ctx context.Context, from start) error {
	c.decoder = kgo.DefaultDecompressor()
	if err := c.prepare(ctx, from); err != nil {
		return err
	}
	failing := time.Time{}
	for !c.finished() {
		err := c.round(ctx)
		switch {
		case ctx.Err() != nil:
			c.summary()
			return nil // the user has seen enough
		case err == nil:
			failing = time.Time{}
			continue
		case !kerr.IsRetriable(err) && codeOf(err) != exitUnreachable:
			return err
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) > c.patience:
			return err
		}
		select {
		case <-time.After(consumeRetry):
		case <-ctx.Done():
		}
		// What fails may be a leader that has moved; not to learn it now is
		// no other failure.
		_ = c.lookUp(ctx)
	}
	c.summary()
	return nil
}

// prepare finds the partitions and where they begin.
func (c *consumer) prepare(ctx context.Context, from start) error {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	if err := c.lookUp(ctx); err != nil {
		return err
	}
	numbers := make([]int32, len(c.parts))
	for i, p := range c.parts {
		numbers[i] = p.partition
	}
	offsets, err := from.offsets(ctx, c.adm, c.topic, numbers)
	if err != nil {
		return err
	}
	for _, p := range c.parts {
		p.next = offsets[p.partition]
	}
	return nil
}

// lookUp learns the topic's id and its partitions' leaders.
func (c *consumer) lookUp(ctx context.Context) error {
	topics, err := c.adm.ListTopicsWithInternal(ctx, c.topic)
	if err != nil {
		return err
	}
	t := topics[c.topic]
	if t.Err != nil {
		return topicError(c.topic, t.Err, "")
	}
	c.id = t.ID
	if c.parts == nil {
		wanted := c.o.partitions
		if len(wanted) == 0 {
			wanted = sortedKeys(t.Partitions)
		}
		for _, n := range slices.Compact(slices.Sorted(slices.Values(wanted))) {
			c.parts = append(c.parts, &consumePart{partition: n})
		}
	}
	for _, p := range c.parts {
		d, ok := t.Partitions[p.partition]
		if !ok {
			return exitf(exitNotFound, "topic %s has no partition %d", c.topic, p.partition)
		}
		p.leader = d.Leader
	}
	return nil
}

// finished says whether there is nothing more to read.
func (c *consumer) finished() bool {
	if c.o.count > 0 && c.printed >= c.o.count {
		return true
	}
	return !slices.ContainsFunc(c.parts, func(p *consumePart) bool { return !p.done })
}

// round asks every leader once, all at the same time, and prints what they
// answer.
func (c *consumer) round(ctx context.Context) error {
	byLeader := map[int32][]*consumePart{}
	for _, p := range c.parts {
		if !p.done {
			byLeader[p.leader] = append(byLeader[p.leader], p)
		}
	}
	type answer struct {
		resp *kmsg.FetchResponse
		err  error
	}
	answers := make(chan answer, len(byLeader))
	var asking sync.WaitGroup
	for leader, parts := range byLeader {
		req := c.request(parts)
		asking.Go(func() {
			resp, err := req.RequestWith(ctx, c.cl.Broker(int(leader)))
			answers <- answer{resp, err}
		})
	}
	asking.Wait()
	close(answers)
	var failed error
	for a := range answers {
		if a.err == nil {
			a.err = c.print(a.resp)
		}
		failed = firstError(failed, a.err)
	}
	return failed
}

func (c *consumer) request(parts []*consumePart) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(consumeWait / time.Millisecond)
	req.MinBytes, req.MaxBytes, req.IsolationLevel = 1, consumeBytes, 1
	req.SessionEpoch = -1
	if c.o.tiers {
		req.UnknownTags.Set(wire.TagTier, nil)
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = c.topic, c.id
	for _, p := range parts {
		one := kmsg.NewFetchRequestTopicPartition()
		one.Partition, one.FetchOffset, one.PartitionMaxBytes = p.partition, p.next, consumePartitionBytes
		t.Partitions = append(t.Partitions, one)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// print prints the records of one answer and moves the partitions on.
func (c *consumer) print(resp *kmsg.FetchResponse) error {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	var failed error
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			failed = firstError(failed, c.printPartition(&resp.Topics[i].Partitions[j]))
		}
	}
	if _, err := c.app.stdout.Write(c.out); err != nil {
		return fmt.Errorf("write the records: %w", err)
	}
	c.out = c.out[:0]
	return failed
}

func (c *consumer) printPartition(rp *kmsg.FetchResponseTopicPartition) error {
	at := slices.IndexFunc(c.parts, func(p *consumePart) bool { return p.partition == rp.Partition })
	if at < 0 {
		return fmt.Errorf("the broker answers partition %d, which it was not asked for", rp.Partition)
	}
	part := c.parts[at]
	if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
		if isOutOfRange(err) {
			return exitf(exitNotFound, "offset %d of %s/%d is not there: it has %d to %d", part.next, c.topic, part.partition, rp.LogStartOffset, rp.HighWatermark)
		}
		return topicError(c.topic, err, "")
	}
	tier := tierOf(rp)
	if c.o.tiers {
		c.mark(part, tier, rp.RecordBatches)
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: part.next, Topic: c.topic, Partition: part.partition, IsolationLevel: kgo.ReadCommitted(),
	}, rp, c.decoder, nil)
	for _, r := range fp.Records {
		if c.o.count > 0 && c.printed >= c.o.count {
			break
		}
		var err error
		if c.out, err = c.format.append(c.out, r, tier); err != nil {
			return err
		}
		c.printed++
	}
	if fp.Err != nil {
		return fmt.Errorf("read the records of %s/%d at offset %d: %w", c.topic, part.partition, next, fp.Err)
	}
	part.next = max(part.next, next)
	part.done = c.o.exit && part.next >= rp.LastStableOffset
	return nil
}

// tierOf is what the broker says of a partition's records, empty if it does
// not.
func tierOf(rp *kmsg.FetchResponseTopicPartition) (tier string) {
	rp.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == wire.TagTier {
			tier = string(value)
		}
	})
	return tier
}

// tierSums counts what was read in which way.
type tierSums struct {
	order []string
	count map[string]int64
	bytes map[string]int64
}

// mark writes a line for every batch that is news.
func (c *consumer) mark(p *consumePart, tier string, batches []byte) {
	if tier == "" {
		tier = "unknown" // not Firn
	}
	for len(batches) > 0 {
		b, rest, err := record.SplitBatch(batches)
		if err != nil {
			return // a part of a batch, as Kafka sends it; or what the decoder will refuse
		}
		batches = rest
		h := b.Header()
		if int64(h.NextOffset()) <= p.next {
			continue
		}
		fmt.Fprintf(c.app.stderr, "%-4s %s/%d offsets %d to %d, %s\n", tier, c.topic, p.partition, h.BaseOffset, h.LastOffset(), humanBytes(int64(h.Size())))
		c.sums.add(tier, int64(h.Size()))
	}
}

func (s *tierSums) add(tier string, bytes int64) {
	if s.count == nil {
		s.count, s.bytes = map[string]int64{}, map[string]int64{}
	}
	if s.count[tier] == 0 {
		s.order = append(s.order, tier)
	}
	s.count[tier]++
	s.bytes[tier] += bytes
}

// summary ends the marks.
func (c *consumer) summary() {
	for _, tier := range c.sums.order {
		n := c.sums.count[tier]
		noun := "batches"
		if n == 1 {
			noun = "batch"
		}
		fmt.Fprintf(c.app.stderr, "%s: %d %s, %s\n", tier, n, noun, humanBytes(c.sums.bytes[tier]))
	}
}
