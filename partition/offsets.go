// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"fmt"

	"firn/hot"
	"firn/record"
	"firn/tier"
)

// TimestampOffset is an offset with the timestamp and the leader epoch of its
// record.
type TimestampOffset struct {
	Timestamp int64 // ms since the Unix epoch, -1 for none
	Offset    record.Offset
	Epoch     record.Epoch
}

// notFound is Kafka's answer to a time after the last record.
var notFound = TimestampOffset{Timestamp: -1, Offset: record.NoOffset, Epoch: record.NoEpoch}

// FindFunc finds the first record of a batch, at or above an offset, whose
// timestamp is at least ts, in ms since the Unix epoch; ok is false when there
// is none. It decompresses, which the packages below do not.
type FindFunc func(batch record.Batch, from record.Offset, ts int64) (offset record.Offset, timestamp int64, ok bool)

// from is the function as the packages below take it, for records at or above
// an offset: the log start may lie inside a batch. Nil stays nil.
func (f FindFunc) from(start record.Offset) tier.Decode {
	if f == nil {
		return nil
	}
	return func(b record.Batch, ts int64) (record.Offset, int64, bool) { return f(b, start, ts) }
}

// EpochEnd finds the newest leader epoch at or below the given one and the
// offset at which its records end; record.NoEpoch and record.NoOffset when
// none is known.
func (p *Partition) EpochEnd(epoch record.Epoch) (record.Epoch, record.Offset) {
	end, epochs, leader := p.log.EndOffset(), p.log.Epochs(), p.LeaderEpoch()
	if last, ok := epochs.Last(); !ok || last.Epoch < leader {
		// This start's epoch has an entry only from its first append on. Until
		// then it begins at the end, as does what an epoch between the two
		// has lost: its consumers must hear where they have to go back to.
		epochs = epochs.Append(record.EpochEntry{Epoch: leader, StartOffset: end})
	}
	return epochs.EndOffset(epoch, end)
}

// At is the answer for an offset that was asked for by its place and not by a
// time.
func (p *Partition) At(o record.Offset) TimestampOffset {
	epoch := p.log.Epochs().For(o)
	if epoch == record.NoEpoch || o >= p.log.EndOffset() {
		epoch = p.LeaderEpoch()
	}
	return TimestampOffset{Timestamp: -1, Offset: o, Epoch: epoch}
}

// Earliest is the first offset of either tier. The error wraps
// record.ErrStorage while it is not known which that is.
func (p *Partition) Earliest() (TimestampOffset, error) {
	if cold := p.Tier(); cold != nil && p.log.StartOffset() > p.LogStartOffset() && !cold.Loaded() {
		return notFound, p.outside(p.LogStartOffset(), "locally starts at", p.log.StartOffset())
	}
	return p.At(p.LogStartOffset()), nil
}

// LatestTiered is the last offset in the cold tier, record.NoOffset when it
// has none.
func (p *Partition) LatestTiered() TimestampOffset {
	cold := p.Tier()
	if cold == nil || cold.End() <= p.LogStartOffset() {
		return notFound
	}
	return p.At(cold.End() - 1)
}

// EarliestPendingUpload is the first offset that the cold tier does not have,
// record.NoOffset without a tier.
func (p *Partition) EarliestPendingUpload() TimestampOffset {
	cold := p.Tier()
	if cold == nil {
		return notFound
	}
	return p.At(max(cold.End(), p.LogStartOffset(), min(p.log.StartOffset(), p.log.EndOffset())))
}

// Isolation says how far a consumer sees.
type Isolation int8

// The isolation levels of Kafka's protocol.
const (
	ReadUncommitted Isolation = 0 // up to the high watermark
	ReadCommitted   Isolation = 1 // up to the last stable offset
)

// VisibleEnd is the end of what consumers of an isolation level may see.
func (p *Partition) VisibleEnd(i Isolation) record.Offset {
	if i == ReadCommitted {
		return p.LastStableOffset()
	}
	return p.HighWatermark()
}

// OffsetForTimestamp finds the first record that is visible to an isolation
// level, in either tier, whose timestamp is at least ts, in ms since the Unix
// epoch. find may be nil. When there is none, timestamp, offset and epoch are
// -1.
func (p *Partition) OffsetForTimestamp(ctx context.Context, ts int64, level Isolation, find FindFunc) (TimestampOffset, error) {
	if err := p.settled(); err != nil {
		return notFound, err
	}
	for {
		// Records below the local start are looked for in the tier, the
		// others locally, whatever the tier has of them too: both ends meet
		// there. Should it rise meanwhile, what it passed was looked for in
		// neither.
		localStart, start := p.log.StartOffset(), p.LogStartOffset()
		if cold := p.Tier(); cold != nil && localStart > start {
			got, ok, err := cold.OffsetForTimestamp(ctx, ts, localStart, find.from(start))
			if err != nil {
				return notFound, fmt.Errorf("look up time %d in %s: %w", ts, p.tp, err)
			}
			if ok && got.Offset >= start {
				return p.withEpoch(got.Timestamp, got.Offset), nil
			}
		}
		got, ok, err := p.log.OffsetForTimestamp(ts, p.VisibleEnd(level), local(find.from(start)))
		switch {
		case err != nil:
			return notFound, fmt.Errorf("look up time %d in %s: %w", ts, p.tp, err)
		case p.log.StartOffset() != localStart:
			continue
		case !ok:
			return notFound, nil
		}
		return p.withEpoch(got.Timestamp, got.Offset), nil
	}
}

// MaxTimestamp finds the first record with the largest timestamp of both tiers
// among those that are visible to an isolation level. find may be nil. A batch, or a segment of the cold tier, in which
// the log start lies counts as a whole: when it is one of its deleted records
// that has the largest timestamp, the log start is answered.
func (p *Partition) MaxTimestamp(ctx context.Context, level Isolation, find FindFunc) (TimestampOffset, error) {
	if err := p.settled(); err != nil {
		return notFound, err
	}
	start := p.LogStartOffset()
	here, okHere, err := p.log.MaxTimestamp(p.VisibleEnd(level), local(find.from(0)))
	if err != nil {
		return notFound, fmt.Errorf("look up the largest time in %s: %w", p.tp, err)
	}
	if cold := p.Tier(); cold != nil && p.log.StartOffset() > start {
		there, ok, err := cold.MaxTimestamp(ctx, p.log.StartOffset(), find.from(0))
		if err != nil {
			return notFound, fmt.Errorf("look up the largest time in %s: %w", p.tp, err)
		}
		if ok && (!okHere || there.Timestamp >= here.Timestamp) {
			return p.withEpoch(there.Timestamp, max(there.Offset, start)), nil
		}
	}
	if !okHere {
		return notFound, nil
	}
	return p.withEpoch(here.Timestamp, max(here.Offset, start)), nil
}

// local is find as package hot takes it.
func local(find tier.Decode) hot.Decode {
	if find == nil {
		return nil
	}
	return func(b record.Batch, ts int64) (record.Offset, int64, bool, error) {
		offset, timestamp, ok := find(b, ts)
		return offset, timestamp, ok, nil
	}
}

// settled says whether an answer can come from the whole partition: the
// manifest of a tiered one must be loaded when there is anything below the
// local start.
func (p *Partition) settled() error {
	_, err := p.Earliest()
	return err
}

func (p *Partition) withEpoch(timestamp int64, o record.Offset) TimestampOffset {
	at := p.At(o)
	at.Timestamp = timestamp
	return at
}
