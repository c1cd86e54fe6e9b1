// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
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
	// ReadCommitted ends reads at the last stable offset, and has the aborted
	// transactions among what is read named.
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
	// Appended, if not zero, is when the oldest batch of an answer of the tail
	// was appended: the consumer had everything before it.
	Appended time.Time

	consumer *Consumer
	reads    []*read // whose bytes are in Partitions
}

// Release gives back what the result pins. Call it exactly once, when the
// answer was sent or given up; nothing of the result may be used afterwards.
func (r *Result) Release() {
	for i := range r.Partitions {
		if region := r.Partitions[i].Region; region != nil {
			region.Release()
			r.Partitions[i].Region = nil
		}
	}
	for _, one := range r.reads {
		r.consumer.settle(one)
	}
	r.reads = nil
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
	// Aborted are the aborted transactions that overlap the batches, in the
	// order of their markers; set under ReadCommitted only. The consumer leaves
	// their records out: the batches are what is in the log.
	Aborted []record.AbortedTxn
}

// Fetch reads all partitions of the request and waits as it asks. The error
// wraps record.ErrClosed or ctx's; what concerns one partition alone is in its
// result.
func (c *Consumer) Fetch(ctx context.Context, req *Request) (*Result, error) {
	started := time.Now()
	seen := c.begin() // when it last had everything; zero when it had not
	defer func() { c.end(seen) }()
	call := call{consumer: c, request: req}
	watching := false
	for {
		if err := errors.Join(c.closedError(), ctx.Err()); err != nil {
			return nil, err
		}
		round := call.collect()
		left := call.patience(&round) - time.Since(started)
		if round.enough || left <= 0 || c.fetcher.draining.Err() != nil {
			return call.answer(&round, &seen), nil
		}
		if round.total == 0 && call.exhausts(&round) {
			seen = time.Now()
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
