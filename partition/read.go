// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"fmt"

	"firn/hot"
	"firn/record"
	"firn/tier"
)

// Locate says which tier a read from the given offset goes to, and at which
// offset it goes on: further on when from lies in a gap between the tiers. The
// error wraps record.ErrOffsetOutOfRange when neither tier has the offset,
// record.ErrStorage when that cannot be told yet (a client that is told out of
// range resets its position, which must never be for want of a manifest), and
// record.ErrClosed once the partition is closed.
func (p *Partition) Locate(from record.Offset) (isCold bool, at record.Offset, err error) {
	if err := p.Offline(); err != nil {
		return false, from, fmt.Errorf("read %s: %w", p.tp, err)
	}
	if p.closed.Load() {
		return false, from, fmt.Errorf("read %s: %w", p.tp, record.ErrClosed)
	}
	// The log start may lie inside the local log, or inside a batch.
	if start := p.log.LogStartOffset(); from < start {
		return false, from, fmt.Errorf("offset %d of %s, which starts at %d: %w", from, p.tp, start, record.ErrOffsetOutOfRange)
	}
	// The order matters: the local start only rises, and what it passes is
	// in the chain before it does.
	localStart := p.log.StartOffset()
	if from >= localStart {
		if end := p.log.EndOffset(); from > end {
			return false, from, p.outside(from, "ends at", end)
		}
		return false, from, nil
	}
	if start := p.LogStartOffset(); from < start {
		return false, from, p.outside(from, "starts at", start)
	}
	cold := p.Tier()
	if cold == nil {
		return false, from, p.outside(from, "starts at", localStart)
	}
	switch {
	case !cold.Loaded():
		return false, from, p.outside(from, "locally starts at", localStart)
	case from < cold.End():
		return true, from, nil
	}
	return false, p.log.StartOffset(), nil
}

// outside is the error for an offset that is not there, as far as it is known.
// Before a manifest was read, or the local log compared with the bucket,
// nothing is.
func (p *Partition) outside(from record.Offset, what string, bound record.Offset) error {
	kind := record.ErrOffsetOutOfRange
	if cold := p.Tier(); cold != nil {
		if phase, reason := cold.Phase(); phase == tier.Loading || reason == tier.ReasonLogBehind || !cold.Loaded() {
			kind = fmt.Errorf("%w: the bucket's manifest is not read yet", record.ErrStorage)
		}
	}
	return fmt.Errorf("offset %d of %s, which %s %d: %w", from, p.tp, what, bound, kind)
}

// LocalResident says whether about maxBytes of local log from the given offset
// lie in the page cache, and how many bytes of local log there are from there
// to the log's end. It reads nothing of the log itself. The error wraps
// record.ErrOffsetOutOfRange when the local part has no such offset.
func (p *Partition) LocalResident(from record.Offset, maxBytes int) (resident bool, bytesToEnd int64, err error) {
	return p.log.Resident(from, maxBytes)
}

// ReadLocal pins whole batches of one local segment, from the one that holds
// from up to limit, as hot.Log.Read does. uncached looks at the batch headers
// past the page cache.
func (p *Partition) ReadLocal(from, limit record.Offset, maxBytes int, minOne, uncached bool) (*hot.Region, error) {
	if uncached {
		return p.log.ReadUncached(from, limit, maxBytes, minOne)
	}
	return p.log.Read(from, limit, maxBytes, minOne)
}

// AbortedTxns are the aborted transactions that overlap the offsets [from, to)
// of the local log, as hot.Log.AbortedTxns tells them.
func (p *Partition) AbortedTxns(from, to record.Offset) ([]record.AbortedTxn, error) {
	return p.log.AbortedTxns(from, to)
}

// ReadCold reads whole, verified batches from the cold tier, as tier.Log.Read
// does.
func (p *Partition) ReadCold(ctx context.Context, from, limit record.Offset, maxBytes int, minOne bool) (tier.Data, error) {
	cold := p.Tier()
	if cold == nil {
		return tier.Data{}, fmt.Errorf("offset %d of %s, which is not tiered: %w", from, p.tp, record.ErrOffsetOutOfRange)
	}
	return cold.Read(ctx, from, limit, maxBytes, minOne)
}
