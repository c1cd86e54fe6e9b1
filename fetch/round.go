// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"firn/hot"
	"firn/record"
)

// call is one Fetch under way.
type call struct {
	consumer *Consumer
	request  *Request
	// failed keeps the storage error of a partition, by its place in the
	// request, for the rest of the call: a read that failed is tried again by
	// the next fetch, not by this one. Nil while there is none.
	failed map[int]error
}

// round is one pass over all partitions.
type round struct {
	result  *Result
	total   int            // bytes of data
	enough  bool           // answer now
	urgent  bool           // something in it must not wait
	pending int            // warm and cold reads under way
	starts  [lanes][]start // those to be started
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

// patience is how long the call may take in all. Reads under way are waited
// for when there is nothing else, also by a call that would not wait at all;
// what is hot does not wait for them. A call without a partition to read has
// nothing to wait for: clients end with one, and would be held up by it.
func (c *call) patience(r *round) time.Duration {
	wait := c.request.MaxWait
	if c.request.MinBytes <= 0 || !slices.ContainsFunc(c.request.Partitions, PartitionRequest.readable) {
		wait = 0
	}
	if r.pending > 0 && r.total == 0 {
		wait = max(wait, c.consumer.fetcher.options.ColdWait)
	}
	return wait
}

func (p PartitionRequest) readable() bool { return p.Partition != nil }

// collect reads what is hot, takes what is ready and starts what is neither.
func (c *call) collect() round {
	r := round{result: &Result{Partitions: make([]PartitionResult, len(c.request.Partitions)), consumer: c.consumer}}
	first := c.consumer.nextRound()
	for i := range c.request.Partitions {
		if p := c.request.Partitions[i].Partition; first != nil && p != nil && first[keyOf(p)] {
			c.collectOne(&r, i)
		}
	}
	for i := range c.request.Partitions {
		if p := c.request.Partitions[i].Partition; p != nil && (first == nil || !first[keyOf(p)]) {
			c.collectOne(&r, i)
		}
	}
	for lane, starts := range r.starts {
		r.pending += c.consumer.start(lane, starts)
	}
	r.enough = r.urgent || r.total > 0 && r.total >= c.request.MinBytes
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
	limit := c.limit(got)
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
	case errors.Is(got.Err, record.ErrOffsetOutOfRange), errors.Is(got.Err, record.ErrClosed):
		r.urgent = true // the client has to do something about it
	default:
		// Trying again may help, and a store that is away, or a bad sector,
		// must not make clients spin: such an answer waits like an empty one.
		got.Err = fmt.Errorf("%w: %w", record.ErrStorage, got.Err)
		if c.failed == nil {
			c.failed = make(map[int]error)
		}
		c.failed[i] = got.Err
	}
}

// limit is the end of what the request may see of a partition.
func (c *call) limit(got *PartitionResult) record.Offset {
	if c.request.ReadCommitted {
		return got.LastStableOffset
	}
	return got.HighWatermark
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
	s := start{
		index: i, partition: want.Partition, from: want.Offset, at: at, limit: limit, committed: c.request.ReadCommitted,
		maxBytes: max(min(want.MaxBytes, c.request.MaxBytes), 1), class: ClassCold,
	}
	room := max(c.request.MaxBytes-r.total, 0)
	if cold {
		return c.readAside(r, s, room)
	}
	maxBytes := min(want.MaxBytes, room)
	resident, bytesToEnd, err := want.Partition.LocalResident(at, max(maxBytes, 1))
	if err != nil {
		return moved(err)
	}
	tail := isTail(bytesToEnd, c.consumer.fetcher.options.TailBytes)
	if !resident {
		s.class, s.tail = ClassWarm, tail
		return c.readAside(r, s, room)
	}
	if maxBytes <= 0 && r.total > 0 {
		return nil
	}
	region, err := want.Partition.ReadLocal(at, limit, maxBytes, r.total == 0, false)
	if err != nil {
		return moved(err)
	}
	if region == nil {
		return nil
	}
	if c.request.ReadCommitted {
		if r.result.Partitions[i].Aborted, err = want.Partition.AbortedTxns(region.First(), region.Next()); err != nil {
			region.Release()
			return moved(err)
		}
	}
	r.add(i, region, tail)
	return nil
}

// moved turns the word of one tier that it has no such offset into errMoved:
// only Locate, which knows both, can tell.
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
func (c *call) readAside(r *round, s start, room int) error {
	if r.total == 0 {
		room = math.MaxInt // the first batch is answered whatever its size
	}
	one, standing := c.consumer.take(keyOf(s.partition), s.from, s.committed, room)
	switch standing {
	case pending:
		r.pending++
	case full:
		// The answer cannot become any better by waiting.
		r.urgent = true
	case absent:
		if one != nil {
			s.maxBytes, s.exact = one.need, true
		}
		lane := laneOf(s.class)
		r.starts[lane] = append(r.starts[lane], s)
	case done:
		if one.err != nil {
			c.consumer.settle(one)
			return moved(one.err)
		}
		r.take(s.index, one)
	}
	return nil
}

// add puts local data from the page cache into the answer.
func (r *round) add(i int, region *hot.Region, tail bool) {
	got := &r.result.Partitions[i]
	got.Class, got.Region = ClassHot, region
	r.total += int(region.Len())
	r.result.Bulk = r.result.Bulk || !tail
}

// take puts the result of a warm or cold read into the answer, which then goes
// out at once: it is off the tail, where waiting for more bytes means nothing.
func (r *round) take(i int, one *read) {
	r.result.reads = append(r.result.reads, one)
	if len(one.bytes) == 0 {
		return
	}
	got := &r.result.Partitions[i]
	got.Class, got.Bytes = one.class, one.bytes
	if one.committed {
		got.Aborted = one.aborted
	}
	r.total += len(one.bytes)
	r.result.Bulk = r.result.Bulk || !one.tail
	r.urgent = true
}

// answer counts what goes out. seen is when the consumer last had everything,
// zero when it had not; it is brought up to date.
func (c *call) answer(r *round, seen *time.Time) *Result {
	if !seen.IsZero() {
		r.result.stampTail(*seen)
	}
	*seen = time.Time{}
	if c.exhausts(r) {
		*seen = time.Now()
	}
	var sum [ClassCold + 1]int64
	for i := range r.result.Partitions {
		got := &r.result.Partitions[i]
		if got.Region != nil {
			sum[got.Class] += got.Region.Len()
		}
		sum[got.Class] += int64(len(got.Bytes))
	}
	for class, n := range sum {
		if n > 0 {
			c.consumer.fetcher.bytes[class].Add(n)
		}
	}
	return r.result
}
