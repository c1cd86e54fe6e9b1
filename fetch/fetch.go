// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"firn/hot"
	"firn/record"
)

// Request is one Fetch request with its topics resolved.
type Request struct {
	Partitions []PartitionRequest
	// MinBytes and MaxWait are the long poll: answer when so much is there or
	// so much time has passed.
	MinBytes int
	MaxWait  time.Duration
	// MaxBytes bounds the answer, except that its first batch always fits.
	MaxBytes int
	// ReadCommitted ends reads at the last stable offset.
	ReadCommitted bool
}

// PartitionRequest asks for one partition. A nil Partition is answered empty:
// its error is known to the caller already.
type PartitionRequest struct {
	Partition Partition
	Offset    record.Offset
	MaxBytes  int
}

// Result is the answer to a Request. It pins files and memory until Release.
type Result struct {
	// Partitions are in the order of the request.
	Partitions []PartitionResult
	// Bulk says that the answer is not one of the tail and has to be sent
	// under the bulk discipline.
	Bulk bool

	release []func()
}

// Release gives back what the result pins. Call it exactly once, when the
// answer was sent or given up.
func (r *Result) Release() {
	for _, release := range r.release {
		release()
	}
	r.release = nil
}

// PartitionResult is one partition's part of the answer. Data is in Region or
// in Bytes, never in both.
type PartitionResult struct {
	Err              error
	HighWatermark    record.Offset
	LastStableOffset record.Offset
	LogStartOffset   record.Offset
	Class            Class
	Region           *hot.Region
	Bytes            []byte
}

// Fetch reads all partitions of the request and waits as it asks. The error
// wraps record.ErrClosed or ctx's; what concerns one partition alone is in its
// result.
func (c *Consumer) Fetch(ctx context.Context, req *Request) (*Result, error) {
	started := time.Now()
	c.newCall()
	defer c.fetcher.memory.leave(c.wake)
	call := &call{consumer: c, request: req, failed: make([]error, len(req.Partitions))}
	watching := false
	for {
		if err := errors.Join(c.closedError(), ctx.Err()); err != nil {
			return nil, err
		}
		round := call.collect()
		left := call.patience(round) - time.Since(started)
		if round.enough || left <= 0 || c.fetcher.draining.Err() != nil {
			return call.answer(round), nil
		}
		round.result.Release()
		if !watching {
			// Watch first and read again, or an append between the two
			// would go unnoticed until the wait is over.
			watching = true
			defer call.watch()()
			continue
		}
		if err := c.park(ctx, left); err != nil {
			return nil, err
		}
	}
}

// park waits for a wake-up, at most for the given time.
func (c *Consumer) park(ctx context.Context, left time.Duration) error {
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-c.wake:
	case <-timer.C:
	case <-c.fetcher.draining.Done():
	case <-ctx.Done():
		return fmt.Errorf("fetch: %w", ctx.Err())
	case <-c.ctx.Done():
		return c.closedError()
	}
	return nil
}

// call is one Fetch under way.
type call struct {
	consumer *Consumer
	request  *Request
	// failed keeps the storage error of a partition for the rest of the call:
	// a read that failed is tried again by the next fetch, not by this one.
	failed []error
}

// round is one pass over all partitions.
type round struct {
	result  *Result
	total   int  // bytes of data
	enough  bool // answer now
	urgent  bool // a partition has an answer that must not wait
	pending int  // warm and cold reads under way
	starts  []start
}

func (c *call) watch() (cancel func()) {
	cancels := make([]func(), 0, len(c.request.Partitions))
	for _, p := range c.request.Partitions {
		if p.Partition != nil {
			cancels = append(cancels, p.Partition.Watch(c.consumer.wake))
		}
	}
	return func() {
		for _, cancel := range cancels {
			cancel()
		}
	}
}

// patience is how long the call may take in all.
func (c *call) patience(r *round) time.Duration {
	if r.pending > 0 {
		return max(c.request.MaxWait, c.consumer.fetcher.options.ColdWait)
	}
	return c.request.MaxWait
}

// collect reads what is hot, takes what is ready and starts what is neither.
func (c *call) collect() *round {
	r := &round{result: &Result{Partitions: make([]PartitionResult, len(c.request.Partitions))}}
	for i := range c.request.Partitions {
		if c.request.Partitions[i].Partition != nil {
			c.collectOne(r, i)
		}
	}
	r.pending += c.consumer.begin(r.starts)
	r.enough = r.urgent || r.total > 0 && r.total >= c.request.MinBytes || r.pending == 0 && c.request.MinBytes <= 0
	return r
}

func (c *call) collectOne(r *round, i int) {
	want, got := &c.request.Partitions[i], &r.result.Partitions[i]
	p := want.Partition
	got.LogStartOffset = p.LogStartOffset()
	got.LastStableOffset = p.LastStableOffset()
	got.HighWatermark = p.HighWatermark()
	if got.Err = c.failed[i]; got.Err != nil {
		return
	}
	limit := got.HighWatermark
	if c.request.ReadCommitted {
		limit = got.LastStableOffset
	}
	// The local start may pass the offset between the two steps: then the
	// second look finds it in the cold tier.
	for range 2 {
		got.Err = c.read(r, i, limit)
		if !errors.Is(got.Err, errMoved) {
			break
		}
	}
	switch {
	case got.Err == nil:
	case errors.Is(got.Err, errMoved), errors.Is(got.Err, record.ErrStorage):
		// A store that is away must not make clients spin: such an answer
		// waits like an empty one.
		got.Err = fmt.Errorf("%w: %w", record.ErrStorage, got.Err)
		c.failed[i] = got.Err
	default:
		r.urgent = true
	}
}

// errMoved says that the local part moved on between two looks at it.
var errMoved = errors.New("the local start has moved")

// read finds the data of one partition below limit.
func (c *call) read(r *round, i int, limit record.Offset) error {
	want := &c.request.Partitions[i]
	cold, at, err := want.Partition.Locate(want.Offset)
	if err != nil {
		return err
	}
	if at >= limit {
		return nil
	}
	room := max(c.request.MaxBytes-r.total, 0)
	maxBytes := min(want.MaxBytes, room)
	if maxBytes <= 0 && r.total > 0 {
		return nil
	}
	s := start{partition: want.Partition, from: want.Offset, at: at, limit: limit, maxBytes: max(maxBytes, 1), class: ClassCold}
	if !cold {
		resident, bytesToEnd, err := want.Partition.LocalResident(at, s.maxBytes)
		if err != nil {
			return moved(err)
		}
		tail := isTail(bytesToEnd, c.consumer.fetcher.options.TailBytes)
		if resident {
			region, err := want.Partition.ReadLocal(at, limit, maxBytes, r.total == 0, false)
			if err != nil {
				return moved(err)
			}
			if region != nil {
				r.add(i, region, tail)
			}
			return nil
		}
		s.class, s.nearEnd = ClassWarm, tail
	}
	return c.readAside(r, i, s, room)
}

// moved turns the local part's word that it has no such offset into errMoved.
func moved(err error) error {
	if errors.Is(err, record.ErrOffsetOutOfRange) {
		return errMoved
	}
	return err
}

// isTail is the rule that tells a read of the tail from a replay: it begins
// near the log's end.
func isTail(bytesToEnd, tailBytes int64) bool { return bytesToEnd <= tailBytes }

// readAside takes the result of a warm or cold read, or plans to start one.
func (c *call) readAside(r *round, i int, s start, room int) error {
	if r.total == 0 {
		room = math.MaxInt // the first batch is answered whatever its size
	}
	done, pending := c.consumer.take(keyOf(s.partition), s.from, room)
	switch {
	case pending:
		r.pending++
	case done == nil:
		r.starts = append(r.starts, s)
	case done.err != nil:
		c.consumer.fetcher.giveBack(done)
		return moved(done.err)
	default:
		r.take(i, done, c.consumer.fetcher)
	}
	return nil
}

// add puts local data from the page cache into the answer.
func (r *round) add(i int, region *hot.Region, tail bool) {
	got := &r.result.Partitions[i]
	got.Class, got.Region = ClassHot, region
	r.total += int(region.Len())
	r.result.release = append(r.result.release, region.Release)
	r.result.Bulk = r.result.Bulk || !tail
}

// take puts the result of a warm or cold read into the answer, which then goes
// out at once: it is off the tail, where waiting for more bytes means nothing.
func (r *round) take(i int, done *read, f *Fetcher) {
	got := &r.result.Partitions[i]
	got.Class, got.Bytes = done.class, done.bytes
	r.total += len(done.bytes)
	r.result.release = append(r.result.release, func() { f.giveBack(done) })
	r.result.Bulk = true
	r.urgent = r.urgent || len(done.bytes) > 0
}

// answer counts what goes out.
func (c *call) answer(r *round) *Result {
	for i := range r.result.Partitions {
		got := &r.result.Partitions[i]
		n := int64(len(got.Bytes))
		if got.Region != nil {
			n = got.Region.Len()
		}
		c.consumer.fetcher.bytes[got.Class].Add(n)
	}
	return r.result
}
