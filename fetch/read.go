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

// read is one warm or cold read of a partition: queued, under way, or ready
// and waiting for the next fetch. Its Consumer's lock guards it; the worker
// that runs it hands its outcome over through Consumer.finish.
type read struct {
	from      record.Offset // as the fetch asked for it
	committed bool          // as far as the last stable offset
	class     Class
	tail      bool // begins near the end of the log
	cancel    context.CancelFunc
	reserved  int64 // of its lane's memory

	asked   uint64 // the last round that asked for it
	running bool
	ready   bool
	dropped bool
	passed  bool      // ready, and there was no room for it in an answer
	since   time.Time // when it became ready
	outcome
}

// outcome is what a worker brings back.
type outcome struct {
	// bytes are whole, verified batches. They hold held bytes of memory until
	// release, which is nil when there is nothing to give back.
	bytes   []byte
	held    int64
	release func()
	// aborted are the aborted transactions that overlap the batches, of a
	// committed read.
	aborted []record.AbortedTxn
	// need is the size of the first batch when it is more than was reserved
	// and no more was to be had; nothing was read then.
	need int
	err  error
}

// extend takes n more bytes for the read that calls it; false means that it
// cannot have them now.
type extend func(n int64) bool

// readWarm finds and reads batches past the page cache and checks each.
func (f *Fetcher) readWarm(ctx context.Context, s start, more extend) outcome {
	if err := ctx.Err(); err != nil {
		return outcome{err: fmt.Errorf("read %s: %w", s.partition.TopicPartition(), err)}
	}
	region, err := s.partition.ReadLocal(s.at, s.limit, s.maxBytes, true, true)
	if err != nil || region == nil {
		return outcome{err: err}
	}
	defer region.Release()
	n := int(region.Len())
	if n > s.maxBytes && !more(int64(n-s.maxBytes)) {
		return outcome{need: n}
	}
	var aborted []record.AbortedTxn
	if s.committed {
		if aborted, err = s.partition.AbortedTxns(region.First(), region.Next()); err != nil {
			return outcome{err: err}
		}
	}
	b := f.buffers.get(n, max(n, s.maxBytes))
	if err := readRegion(ctx, region, b); err != nil {
		f.buffers.put(b)
		return outcome{err: err}
	}
	return outcome{bytes: b, aborted: aborted, held: int64(cap(b)), release: func() { f.buffers.put(b) }}
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
func (f *Fetcher) readCold(ctx context.Context, s start, more extend) outcome {
	bounded, cancel := context.WithTimeout(ctx, f.options.ReadTimeout)
	defer cancel()
	minOne := false
	for {
		data, err := s.partition.ReadCold(bounded, s.at, s.limit, s.maxBytes, minOne)
		if errors.Is(err, record.ErrNotReady) || errors.Is(err, context.DeadlineExceeded) {
			// The request outlived its patience, not the object: it may ask
			// again.
			return outcome{err: fmt.Errorf("%w: %w", record.ErrStorage, err)}
		}
		switch {
		case err != nil:
			return outcome{err: err}
		case len(data.Bytes) > 0:
			return outcome{bytes: data.Bytes, aborted: data.Aborted, held: int64(len(data.Bytes)), release: data.Release}
		}
		data.Release()
		switch {
		case data.Need > 0:
			if !more(int64(data.Need - s.maxBytes)) {
				return outcome{need: data.Need}
			}
			s.maxBytes, minOne = data.Need, true
			continue
		case data.Next <= s.at || data.Next >= s.limit:
			return outcome{}
		}
		cold, at, err := s.partition.Locate(data.Next)
		if err != nil {
			return outcome{err: err}
		}
		s.at = at
		if !cold {
			return f.readWarm(ctx, s, more)
		}
	}
}
