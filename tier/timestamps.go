// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"fmt"

	"firn/record"
)

// TimestampOffset is a record found by its timestamp.
type TimestampOffset struct {
	Timestamp int64 // ms since the Unix epoch
	Offset    record.Offset
	Epoch     record.Epoch // the leader epoch of its batch
}

// Decode finds the first record in a batch whose timestamp is at least ts; ok is
// false when there is none. It decompresses, which the cold tier does not.
type Decode func(b record.Batch, ts int64) (offset record.Offset, timestamp int64, ok bool)

// offsetForTimestamp finds the first record of the chain between the offsets
// from and below (exclusive) whose timestamp is at least ts. Without decode it
// answers the base offset and the maximum timestamp of the record's batch.
// Errors are those of read.
func (r *Reader) offsetForTimestamp(ctx context.Context, v chainView, ts int64, from, below record.Offset, decode Decode) (found TimestampOffset, ok bool, err error) {
	err = withReload(ctx, v, func(v chainView) (err error) {
		found, ok, err = r.searchChain(ctx, v, ts, from, below, decode)
		return err
	})
	if err != nil {
		return TimestampOffset{}, false, fmt.Errorf("find timestamp %d from offset %d: %w", ts, from, err)
	}
	return found, ok, nil
}

func (r *Reader) searchChain(ctx context.Context, v chainView, ts int64, from, below record.Offset, decode Decode) (TimestampOffset, bool, error) {
	for at := from; ; {
		e, _, ok, err := v.entryAt(ctx, at)
		if err != nil || !ok || e.From >= below {
			return TimestampOffset{}, false, err
		}
		if e.MaxTimestamp >= ts {
			found, ok, err := r.searchObject(ctx, &objectRef{v.keyOf(e), e}, ts, from, below, decode)
			if err != nil || ok {
				return found, ok, err
			}
		}
		at = e.To
	}
}

// searchObject looks for the timestamp in one object.
func (r *Reader) searchObject(ctx context.Context, o *objectRef, ts int64, from, below record.Offset, decode Decode) (TimestampOffset, bool, error) {
	c, err := r.load.openCursor(ctx, o, false)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	defer c.close(0)
	position := max(c.sections.seek(from), c.sections.seekTime(ts))
	for position < o.entry.LogSize {
		h, err := c.header(ctx, position)
		if err != nil || h.BaseOffset >= below {
			return TimestampOffset{}, false, err
		}
		if h.NextOffset() > from && h.MaxTimestamp >= ts {
			found, ok, err := c.searchBatch(ctx, position, h, ts, decode)
			if err != nil {
				return TimestampOffset{}, false, err
			}
			if ok && found.Offset < below {
				// The log start may lie inside the batch.
				found.Offset = max(found.Offset, from)
				return found, true, nil
			}
		}
		position += int64(h.Size())
	}
	return TimestampOffset{}, false, nil
}

// searchBatch looks for the timestamp in the batch at position.
func (c *cursor) searchBatch(ctx context.Context, position int64, h record.Header, ts int64, decode Decode) (TimestampOffset, bool, error) {
	found := TimestampOffset{Timestamp: h.MaxTimestamp, Offset: h.BaseOffset, Epoch: h.LeaderEpoch}
	if decode == nil {
		return found, true, nil
	}
	b, _, err := c.view(ctx, position, position+int64(h.Size()))
	if err != nil {
		return TimestampOffset{}, false, err
	}
	var ok bool
	found.Offset, found.Timestamp, ok = decode(record.Batch(b), ts)
	return found, ok, nil
}

// maxTimestamp finds the first record with the largest timestamp of the chain
// between the offsets from and below (exclusive). ok is false when no record
// there has a timestamp. A batch that reaches below from, and an entry that
// reaches above below, count whole: the latter has nothing that is not also
// found where below comes from.
func (r *Reader) maxTimestamp(ctx context.Context, v chainView, from, below record.Offset, decode Decode) (found TimestampOffset, ok bool, err error) {
	err = withReload(ctx, v, func(v chainView) (err error) {
		found, ok, err = r.searchMax(ctx, v, from, below, decode)
		return err
	})
	if err != nil {
		return TimestampOffset{}, false, fmt.Errorf("find the largest timestamp from offset %d: %w", from, err)
	}
	return found, ok, nil
}

func (r *Reader) searchMax(ctx context.Context, v chainView, from, below record.Offset, decode Decode) (TimestampOffset, bool, error) {
	// cut is an entry whose largest timestamp lies below from.
	best, cut := Entry{MaxTimestamp: record.NoTimestamp}, Entry{MaxTimestamp: record.NoTimestamp}
	for at := from; ; {
		e, _, ok, err := v.entryAt(ctx, at)
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if !ok || e.From >= below {
			break
		}
		switch {
		case e.MaxTimestampOffset < from:
			cut = e
		case e.MaxTimestamp > best.MaxTimestamp:
			best = e
		}
		at = e.To
	}
	if cut.MaxTimestamp > record.NoTimestamp && cut.MaxTimestamp >= best.MaxTimestamp {
		rest, err := r.maxOfRest(ctx, &objectRef{v.keyOf(cut), cut}, from)
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if rest.MaxTimestamp >= best.MaxTimestamp {
			best = rest
		}
	}
	if best.MaxTimestamp == record.NoTimestamp {
		return TimestampOffset{}, false, nil
	}
	c, err := r.load.openCursor(ctx, &objectRef{v.keyOf(best), best}, false)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	defer c.close(0)
	position, h, err := c.seek(ctx, c.sections.seek(best.MaxTimestampOffset), best.MaxTimestampOffset)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	return c.searchBatch(ctx, position, h, best.MaxTimestamp, decode)
}

// maxOfRest is an object's entry with the largest timestamp of the batches from
// the one that holds an offset on. The indexes only know that of the batches
// up to an offset, so that it looks at every batch.
func (r *Reader) maxOfRest(ctx context.Context, o *objectRef, from record.Offset) (Entry, error) {
	rest := o.entry
	rest.MaxTimestamp = record.NoTimestamp
	c, err := r.load.openCursor(ctx, o, false)
	if err != nil {
		return Entry{}, err
	}
	defer c.close(0)
	for position := c.sections.seek(from); position < o.entry.LogSize; {
		h, err := c.header(ctx, position)
		if err != nil {
			return Entry{}, err
		}
		if h.NextOffset() > from && h.MaxTimestamp > rest.MaxTimestamp {
			rest.MaxTimestamp, rest.MaxTimestampOffset = h.MaxTimestamp, h.LastOffset()
		}
		position += int64(h.Size())
	}
	return rest, nil
}
