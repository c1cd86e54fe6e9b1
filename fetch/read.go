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

// warmReadSize is the size of one uncached read. 256 KiB keeps a foreground
// read beside it under 1 ms, where 1 MiB costs it 8 ms.
const warmReadSize = 256 << 10

// read is one warm or cold read of a partition: under way, or ready and
// waiting for the next fetch. Its Consumer's lock guards it; the worker that
// runs it hands its result over through Consumer.finish.
type read struct {
	from     record.Offset // as the fetch asked for it
	class    Class
	cancel   context.CancelFunc
	reserved int64

	call    uint64 // the last fetch that asked for it
	ready   bool
	dropped bool
	since   time.Time // when it became ready
	bytes   []byte
	release func() // gives bytes back; nil when there is nothing to give
	err     error
}

// readWarm finds and reads batches past the page cache and checks each.
func (f *Fetcher) readWarm(ctx context.Context, s start) (bytes []byte, release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", s.partition.TopicPartition(), err)
	}
	region, err := s.partition.ReadLocal(s.at, s.limit, s.maxBytes, true, true)
	if err != nil || region == nil {
		return nil, nil, err
	}
	defer region.Release()
	buf := f.buffer(int(region.Len()))
	if err := readRegion(ctx, region, buf); err != nil {
		f.recycle(buf)
		return nil, nil, err
	}
	return buf, func() { f.recycle(buf) }, nil
}

func readRegion(ctx context.Context, region *hot.Region, buf []byte) error {
	name := region.File().Name()
	for done := 0; done < len(buf); {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		n, err := region.ReadUncachedAt(buf[done:min(done+warmReadSize, len(buf))], int64(done))
		done += n
		if err != nil && done < len(buf) {
			return fmt.Errorf("%w: read %s: %w", record.ErrStorage, name, err)
		}
	}
	if position, err := checkBatches(buf); err != nil {
		corrupt := &record.CorruptionError{Path: name, Position: region.Offset() + int64(position), Reason: err.Error()}
		return fmt.Errorf("%w: %w", record.ErrStorage, corrupt)
	}
	return nil
}

// checkBatches checks the CRC of every batch in b and returns the position of
// the first bad one.
func checkBatches(b []byte) (int, error) {
	rest := b
	for len(rest) > 0 {
		batch, after, err := record.SplitBatch(rest)
		if err == nil {
			err = batch.CheckCRC()
		}
		if err != nil {
			return len(b) - len(rest), err
		}
		rest = after
	}
	return len(b), nil
}

// readCold reads from the cold tier, for at most ReadTimeout. Where the chain
// has a gap up to the local start, it goes on there.
func (f *Fetcher) readCold(ctx context.Context, s start) (bytes []byte, release func(), err error) {
	bounded, cancel := context.WithTimeout(ctx, f.options.ReadTimeout)
	defer cancel()
	for {
		data, err := s.partition.ReadCold(bounded, s.at, s.limit, s.maxBytes, true)
		if errors.Is(err, record.ErrNotReady) || errors.Is(err, context.DeadlineExceeded) {
			// The request outlived its patience, not the object: it may ask
			// again.
			return nil, nil, fmt.Errorf("%w: %w", record.ErrStorage, err)
		}
		if err != nil {
			return nil, nil, err
		}
		if len(data.Bytes) > 0 || data.Next <= s.at || data.Next >= s.limit {
			return data.Bytes, data.Release, nil
		}
		data.Release()
		cold, at, err := s.partition.Locate(data.Next)
		if err != nil {
			return nil, nil, err
		}
		s.at = at
		if !cold {
			return f.readWarm(ctx, s)
		}
	}
}
