// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"firn/hot"
	"firn/record"
	"firn/tier"
)

// entriesAtOnce is how many manifest entries retention looks at in one go.
const entriesAtOnce = 256

// ApplyRetention deletes what the partition need not keep: by retention.ms and
// retention.bytes in both tiers, by local.retention.ms and
// local.retention.bytes on local disk what the cold tier has. While the
// manifest of a tiered partition is not reconciled it does nothing.
func (p *Partition) ApplyRetention(ctx context.Context) error {
	p.retentionMu.Lock()
	defer p.retentionMu.Unlock()
	if cold := p.Tier(); cold != nil {
		if phase, _ := cold.Phase(); phase != tier.Ready {
			return nil
		}
	}
	r, now := *p.retention.Load(), p.now()
	// One that fails does not keep the others from making room: a store that
	// is away must not fill the disk with what it has.
	return errors.Join(p.rollExpired(ctx, r, now), p.raiseLogStart(ctx, r, now), p.dropLocal(ctx, r, now))
}

// rollExpired seals the active segment when all it holds is too old, or lies
// below the log start, so that it can go: a topic that gets no more records,
// or whose records were all deleted, is to be empty in the end.
func (p *Partition) rollExpired(ctx context.Context, r Retention, now time.Time) error {
	segments := p.log.Segments()
	active := segments[len(segments)-1]
	deleted := active.NextOffset() <= p.LogStartOffset()
	if active.Size() == 0 || !deleted && !spanOf(active).expired(r.Age, now) {
		return nil
	}
	if err := p.log.Roll(ctx); err != nil {
		return fmt.Errorf("seal the last segment of %s: %w", p.tp, err)
	}
	return nil
}

// raiseLogStart moves the log start as far as retention.* says: durably here
// first, then in the manifest.
func (p *Partition) raiseLogStart(ctx context.Context, r Retention, now time.Time) error {
	before := p.LogStartOffset()
	var total int64
	at, cold := before, p.Tier()
	if cold != nil {
		// A segment that goes up in this moment is counted by neither; that
		// errs on the side of keeping more.
		total = cold.State().Bytes
		at = max(at, cold.End())
	}
	for _, s := range p.log.Segments() {
		if s.NextOffset() > at {
			total += s.Size()
		}
	}
	var failed error
	start := planLogStart(r, now, before, total, p.spans(ctx, before, &failed))
	if failed != nil {
		return fmt.Errorf("apply retention to %s: %w", p.tp, failed)
	}
	if start > p.log.LogStartOffset() {
		if err := p.log.SetLogStartOffset(ctx, start); err != nil {
			return fmt.Errorf("raise the log start of %s to %d: %w", p.tp, start, err)
		}
	}
	if start > before {
		p.logger.Info("retention raised the log start", "event", "log_start_raised", "from", int64(before), "to", int64(start))
	}
	if cold != nil {
		cold.SetLogStart(start)
	}
	return nil
}

// spans yields what may be deleted from the given offset on, ascending: the
// entries of the chain, then the sealed local segments above its end and not
// above the high watermark. A failure ends it and is left in failed.
func (p *Partition) spans(ctx context.Context, from record.Offset, failed *error) iter.Seq[span] {
	return func(yield func(span) bool) {
		at, cold := from, p.Tier()
		for cold != nil && at < cold.End() {
			entries, err := cold.Entries(ctx, at, entriesAtOnce)
			if err != nil || len(entries) == 0 {
				*failed = err
				return
			}
			for _, e := range entries {
				if !yield(spanOfEntry(e)) {
					return
				}
				at = e.To
			}
		}
		high := p.HighWatermark()
		for _, s := range p.log.Segments() {
			if !s.Sealed() || s.NextOffset() > high || s.NextOffset() > at && !yield(spanOf(s)) {
				return
			}
		}
	}
}

// dropLocal removes local segments as far as planLocalStart allows.
func (p *Partition) dropLocal(ctx context.Context, r Retention, now time.Time) error {
	var tierEnd record.Offset
	if cold := p.Tier(); cold != nil {
		tierEnd = cold.End()
	}
	var local []span
	for _, s := range p.log.Segments() {
		if s.Sealed() {
			local = append(local, spanOf(s))
		}
	}
	start := planLocalStart(r, now, p.log.LogStartOffset(), tierEnd, p.log.Size(), local)
	dropped, err := p.log.DropBefore(ctx, start)
	if err != nil {
		return fmt.Errorf("drop local segments of %s below %d: %w", p.tp, start, err)
	}
	if dropped > 0 {
		p.logger.Info("local segments dropped", "event", "local_dropped", "segments", dropped, "local_start", int64(p.log.StartOffset()))
	}
	return nil
}

// spanOfEntry is an entry of the chain. One whose records have no timestamp is
// as old as its file was, as in Kafka; a gap is older than anything.
func spanOfEntry(e tier.Entry) span {
	timestamp := e.MaxTimestamp
	if e.Kind == tier.KindSegment && timestamp < 0 {
		timestamp = e.SealedMs
	}
	return span{from: e.From, to: e.To, bytes: e.LogSize, maxTimestamp: time.UnixMilli(timestamp)}
}

func spanOf(s *hot.Segment) span {
	return span{from: s.BaseOffset(), to: s.NextOffset(), bytes: s.Size(), maxTimestamp: time.UnixMilli(s.MaxTimestamp())}
}
