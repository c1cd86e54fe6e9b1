// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/wire"
)

// InitProducerId (key 22), versions 0 to 4.
//
// Gives an idempotent producer an id that nobody had before, at epoch 0. A
// producer that names the id it had (KIP-360, version 3) gets a new one, as
// Kafka gives it outside of transactions. A transactional id is refused:
// there is no transaction coordinator.

const (
	// producerIDBlock is how many ids are made durable at once.
	producerIDBlock = 1000
	// producerIDJump bounds how many ids a start skips before its first block.
	producerIDJump = 1 << 40
	// maxProducerID is above every id that was ever given out here: 16 million
	// starts do not come so far.
	maxProducerID = 1 << 62
)

// producerIDs gives ids out of durable blocks. The first one begins at a random
// distance from the last one of the start before: a data directory that was
// set back or copied would otherwise give the ids of its other life once more,
// and records of the new producers would be taken for duplicates of the old.
type producerIDs struct {
	mu        sync.Mutex
	jumped    bool
	next, end int64
}

// take gives out one id, after making the next block durable if need be.
func (p *producerIDs) take(ctx context.Context, block func(ctx context.Context, n int64) (int64, error)) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == p.end {
		skipped := int64(0)
		if !p.jumped {
			skipped = rand.Int64N(producerIDJump)
		}
		first, err := block(ctx, skipped+producerIDBlock)
		if err != nil {
			return 0, fmt.Errorf("reserve producer ids: %w", err)
		}
		p.jumped, p.next, p.end = true, first+skipped, first+skipped+producerIDBlock
	}
	p.next++
	return p.next - 1, nil
}

func (b *Broker) handleInitProducerID(ctx context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.InitProducerIDRequest)
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID != nil {
		resp.ErrorCode = errorCode(errUnsupportedVersion)
		return reply(resp), nil
	}
	id, err := b.producerIDs.take(ctx, b.cluster.NextProducerIDs)
	if err != nil {
		b.logger.Error("no producer id to give", "event", "producer_id_failed", "error", err)
		resp.ErrorCode = errorCode(err)
		return reply(resp), nil
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return reply(resp), nil
}
