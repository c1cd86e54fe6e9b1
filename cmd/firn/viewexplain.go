// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"firn/console"
	"firn/partition"
	"firn/record"
)

// Explain says where a read would go, by the steps that a fetch takes: Locate,
// then the page cache or the chain. It reads index and headers only, and those
// of local segments past the page cache, so that asking changes nothing.
func (v *view) Explain(ctx context.Context, q console.Question) (console.Explanation, error) {
	partitions, err := v.partitions(q.Topic, q.Partition)
	if err != nil {
		return console.Explanation{}, err
	}
	p := partitions[0]
	asked := record.Offset(q.Offset)
	if q.Offset < 0 {
		found, err := p.OffsetForTimestamp(ctx, q.TimeMs, partition.ReadUncommitted, nil)
		if err != nil {
			return console.Explanation{}, err
		}
		if found.Offset < 0 {
			return console.Explanation{}, fmt.Errorf("a record of %s at %s or later: %w", p.TopicPartition(), humanTime(q.TimeMs), console.ErrNotFound)
		}
		asked = found.Offset
	}
	x := console.Explanation{Topic: q.Topic, Partition: q.Partition, Asked: int64(asked)}
	// The local start may pass the offset between two steps: then the second
	// look finds it in the store.
	for range 2 {
		if err = v.explain(ctx, p, asked, &x); !errors.Is(err, errWentOn) {
			break
		}
	}
	if errors.Is(err, record.ErrOffsetOutOfRange) {
		return x, fmt.Errorf("offset %d of %s, which has %d to %d: %w", asked, p.TopicPartition(), p.LogStartOffset(), p.EndOffset(), console.ErrNotFound)
	}
	return x, err
}

// errWentOn says that the offset went from one tier to the other meanwhile.
var errWentOn = errors.New("the local start has moved")

func (v *view) explain(ctx context.Context, p *partition.Partition, asked record.Offset, x *console.Explanation) error {
	cold, at, err := p.Locate(asked)
	if err != nil {
		return err
	}
	if at >= p.EndOffset() {
		return record.ErrOffsetOutOfRange // nothing is there yet
	}
	if cold {
		located, next, ok, err := p.Tier().Locate(ctx, at)
		if err != nil {
			return err
		}
		if ok {
			x.Tier, x.Key = console.ReadCold, located.Key
			x.Position, x.Bytes = located.Position, located.Size
			x.From, x.To, x.Epoch = int64(located.BaseOffset), int64(located.NextOffset), int32(located.Epoch)
			x.Offset, x.InMemory, x.Visible = int64(next), located.InMemory, located.BaseOffset < p.HighWatermark()
			x.Why = fmt.Sprintf("below the local log, which starts at %d: read from the object store", p.LocalStartOffset())
			if x.InMemory {
				x.Why += "; its bytes are in memory at the moment"
			}
			return nil
		}
		at = max(next, p.LocalStartOffset()) // a gap up to the local log
	}
	return v.explainLocal(ctx, p, at, x)
}

// explainLocal looks at the batch in the local log that a read would begin with.
func (v *view) explainLocal(ctx context.Context, p *partition.Partition, at record.Offset, x *console.Explanation) error {
	region, err := p.ReadLocal(at, p.EndOffset(), 1, true, true)
	switch {
	case errors.Is(err, record.ErrOffsetOutOfRange):
		return errWentOn
	case err != nil:
		return err
	case region == nil:
		return record.ErrOffsetOutOfRange
	}
	defer region.Release()
	x.File, x.Position, x.Bytes = region.File().Name(), region.Offset(), region.Len()
	x.From, x.To, x.Offset = int64(region.First()), int64(region.Next()), int64(max(at, region.First()))
	x.Visible = region.First() < p.HighWatermark()
	header := make([]byte, record.HeaderSize)
	if _, err := region.ReadUncachedAt(header, 0); err != nil {
		return fmt.Errorf("read the header of the batch at offset %d: %w", region.First(), err)
	}
	h, err := record.ParseHeader(header)
	if err != nil {
		return err
	}
	x.Epoch = int32(h.LeaderEpoch)
	if region.Resident(0, region.Len()) {
		x.Tier, x.Why = console.ReadHot, "on the local disk and in the page cache: sent from there"
	} else {
		x.Tier, x.Why = console.ReadWarm, "on the local disk and not in the page cache: read past it"
	}
	if cold := p.Tier(); cold != nil && cold.Loaded() && at < cold.End() {
		entries, err := cold.Entries(ctx, at, 1)
		if err != nil {
			return err
		}
		if len(entries) > 0 && entries[0].Covers(at) && entries[0].LogSize > 0 {
			x.Key = cold.Key(entries[0])
			x.Why += "; the object store has it as well"
		}
	}
	return nil
}
