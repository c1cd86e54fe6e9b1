// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"

	"firn/hot"
	"firn/record"
	"firn/tier"
)

// Acks says when an append counts as done.
type Acks int16

// The values of Kafka's acks setting.
const (
	AcksNone   Acks = 0
	AcksLeader Acks = 1
	AcksAll    Acks = -1
)

// Ticket is an append that was made and may still have to become durable.
type Ticket struct {
	hot.Appended
	// LogStartOffset is the partition's log start at the time of the append.
	LogStartOffset record.Offset

	partition *Partition
	acks      Acks
}

// Append appends one client's batches and writes offsets and epoch into them
// in place. It returns when they are in the page cache; Ticket.Wait tells when
// they are as safe as acks asks. The error wraps one of record's kinds, and
// then nothing was appended.
//
// Appends of one caller keep their order.
func (p *Partition) Append(batches []byte, acks Acks) (Ticket, error) {
	return p.AppendFrom(hot.Client, batches, acks)
}

// AppendFrom is Append of what comes from the given origin: markers of the
// transaction coordinator, or batches that may begin a transaction here.
func (p *Partition) AppendFrom(origin hot.Origin, batches []byte, acks Acks) (Ticket, error) {
	if err := p.writable(); err != nil {
		return Ticket{}, fmt.Errorf("append to %s: %w", p.tp, err)
	}
	p.appendMu.Lock()
	done, err := p.log.AppendFrom(origin, batches, p.LeaderEpoch())
	rose := false
	if err == nil && !done.Duplicate {
		p.mu.Lock()
		rose = p.mu.watermark.append(offsetRange{done.FirstOffset, done.NextOffset}, acks == AcksAll)
		p.mu.Unlock()
	}
	p.tellRefusal(err)
	p.appendMu.Unlock()
	if err != nil {
		return Ticket{}, fmt.Errorf("append to %s: %w", p.tp, err)
	}
	if rose {
		p.watchers.notify()
	}
	if acks == AcksAll {
		p.log.RequestSync()
	}
	return Ticket{Appended: done, LogStartOffset: p.LogStartOffset(), partition: p, acks: acks}, nil
}

// tellRefusal logs when the disk begins to refuse appends and when it takes
// them again, not each of them: producers repeat what was refused. The caller
// holds appendMu.
func (p *Partition) tellRefusal(err error) {
	switch refused := errors.Is(err, record.ErrStorage); {
	case refused && !p.refusing:
		p.logger.Warn("the disk refuses appends", "event", "append_refused", "error", err)
		p.refusing = true
	case err == nil && p.refusing:
		p.logger.Info("the disk takes appends again", "event", "append_resumed")
		p.refusing = false
	}
}

// writable says why nothing may be written although the disk would take it:
// the local log and the bucket disagree.
func (p *Partition) writable() error {
	if cold := p.Tier(); cold != nil {
		if phase, reason := cold.Phase(); phase == tier.ReadOnly {
			return fmt.Errorf("%w: %s", record.ErrReadOnly, reason)
		}
	}
	return nil
}

// Wait returns when the append is as durable as its acks asks: at once for
// AcksNone and AcksLeader, after the sync for AcksAll, a duplicate's original
// included. After an error the records may or may not be there.
func (t Ticket) Wait(ctx context.Context) error {
	if t.acks != AcksAll {
		return nil
	}
	p := t.partition
	if err := p.log.WaitDurable(ctx, t.NextOffset); err != nil {
		return fmt.Errorf("wait for the sync of %s up to %d: %w", p.tp, t.NextOffset, err)
	}
	// The hook that says the same may come after this: whoever was told that
	// the record is safe must find it.
	p.raise(p.log.DurableOffset())
	return nil
}
