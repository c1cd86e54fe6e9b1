// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"fmt"

	"firn/record"
)

// Location is where a batch lies in the bucket.
type Location struct {
	Entry Entry
	// Key is the object's key, Position the batch's first byte in it, Size the
	// batch's bytes.
	Key            string
	Position, Size int64
	// BaseOffset, NextOffset and Epoch are the batch's.
	BaseOffset, NextOffset record.Offset
	Epoch                  record.Epoch
	// InMemory says whether all of the batch is in memory already, so that a
	// read of it would not ask the store.
	InMemory bool
}

// Locate finds the batch that a read from an offset would begin with, reading
// the indexes of its object and as much of the log as it takes to find it. Where
// no object has the offset, ok is false and next is where a read would go on.
// Errors are those of Read.
func (l *Log) Locate(ctx context.Context, from record.Offset) (at Location, next record.Offset, ok bool, err error) {
	s, err := l.loadedSnapshot(noFloor)
	if err != nil {
		return Location{}, 0, false, err
	}
	if from < s.m.LogStart || from < 0 {
		return Location{}, 0, false, fmt.Errorf("%w: offset %d is below the log start %d of %v", record.ErrOffsetOutOfRange, from, s.m.LogStart, l.o.TopicPartition)
	}
	err = withReload(ctx, s, func(v chainView) error {
		var e Entry
		if e, next, ok, err = v.entryAt(ctx, from); err != nil || !ok {
			return err
		}
		at, err = l.t.reader.locate(ctx, &objectRef{key: v.keyOf(e), entry: e}, next)
		return err
	})
	if err != nil {
		return Location{}, 0, false, fmt.Errorf("locate offset %d of %v: %w", from, l.o.TopicPartition, err)
	}
	return at, next, ok, nil
}

// locate finds the batch of the object that holds o.
func (r *Reader) locate(ctx context.Context, object *objectRef, o record.Offset) (Location, error) {
	c, err := r.load.openCursor(ctx, object, false)
	if err != nil {
		return Location{}, err
	}
	defer c.close(0)
	position := c.sections.seek(o)
	// Asked before the search, which brings the first chunk into memory.
	cached := c.ready(position, position+1)
	position, h, err := c.seek(ctx, position, o)
	if err != nil {
		return Location{}, err
	}
	return Location{
		Entry: object.entry, Key: object.key, Position: position, Size: int64(h.Size()),
		BaseOffset: h.BaseOffset, NextOffset: h.NextOffset(), Epoch: h.LeaderEpoch,
		InMemory: cached && c.ready(position, position+int64(h.Size())),
	}, nil
}
