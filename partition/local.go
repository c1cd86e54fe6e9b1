// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"

	"firn/record"
	"firn/tier"
)

// localLog is the partition as its cold tier sees it: tier.Local.
type localLog Partition

// Sealed returns the segments that may go up, from the given offset: none of a
// log that may hold what is not on the disk.
func (l *localLog) Sealed(from record.Offset) []tier.Sealed {
	if l.log.Poisoned() != nil {
		return nil
	}
	segments := l.log.Sealed(from)
	sealed := make([]tier.Sealed, len(segments))
	for i, s := range segments {
		sealed[i] = s
	}
	return sealed
}

func (l *localLog) StartOffset() record.Offset    { return l.log.StartOffset() }
func (l *localLog) EndOffset() record.Offset      { return l.log.EndOffset() }
func (l *localLog) LogStartOffset() record.Offset { return l.log.LogStartOffset() }
func (l *localLog) StableOffset() record.Offset   { return (*Partition)(l).LastStableOffset() }
func (l *localLog) Epochs() record.Epochs         { return l.log.Epochs() }

// Header reads the header of the batch that holds an offset.
func (l *localLog) Header(o record.Offset) (h record.Header, ok bool, err error) {
	r, err := l.log.ReadUncached(o, l.log.EndOffset(), 0, true)
	if errors.Is(err, record.ErrOffsetOutOfRange) || err == nil && r == nil {
		return record.Header{}, false, nil
	}
	if err != nil {
		return record.Header{}, false, err
	}
	defer r.Release()
	p := make([]byte, record.HeaderSize)
	if _, err := r.ReadUncachedAt(p, 0); err != nil {
		return record.Header{}, false, fmt.Errorf("read the batch at %d of %s: %w", o, l.tp, err)
	}
	h, err = record.ParseHeader(p)
	return h, err == nil && h.BaseOffset <= o && o < h.NextOffset(), err
}

// ResetTo drops the local log and begins it anew where the chain ends, unless
// something was appended since the two were compared.
func (l *localLog) ResetTo(ctx context.Context, r tier.Reset) error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if end := l.log.EndOffset(); end != r.IfEnd {
		return fmt.Errorf("begin the local log anew at %d: it ends at %d, not at %d", r.Start, end, r.IfEnd)
	}
	snapshot, err := decided(r)
	if err != nil {
		return err
	}
	if err := l.log.ResetTo(ctx, r.Start, r.Epochs, snapshot); err != nil {
		return err
	}
	l.mu.Lock()
	l.mu.watermark = newWatermark(l.log.EndOffset())
	l.mu.Unlock()
	l.logger.Warn("the local log ended below the bucket's and was begun anew at its end",
		"event", "local_log_reset", "from", int64(r.IfEnd), "offset", int64(r.Start))
	l.watchers.notify()
	return nil
}

// decided is the producer state at the end of the chain without its open
// transactions. What is in the chain lay below the last stable offset: each of
// them had ended, and the objects say how. Its marker is lost with the local log;
// one that is written again must not decide it anew.
func decided(r tier.Reset) ([]byte, error) {
	if r.Snapshot == nil {
		return nil, nil
	}
	p, err := record.ParseProducers(r.Snapshot)
	if err != nil {
		return nil, fmt.Errorf("producer state of the chain's end: %w", err)
	}
	p.ForgetTransactions()
	return p.Marshal(r.Start), nil
}

// RaiseEpoch moves the partition to an epoch of this broker above the given
// one.
func (l *localLog) RaiseEpoch(ctx context.Context, above record.Epoch) (record.Epoch, error) {
	epoch, err := l.raiseEpoch(ctx, above)
	if err != nil {
		return record.NoEpoch, err
	}
	l.epoch.Store(int32(epoch))
	return epoch, nil
}
