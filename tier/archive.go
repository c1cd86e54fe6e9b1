// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"fmt"
	"slices"

	"firn/record"
	"firn/tier/store"
)

// misalignedError says that a local segment lies across the chain's end, which
// no log that wrote the chain can have.
type misalignedError struct{ end, base, start record.Offset }

func (e *misalignedError) Error() string {
	return fmt.Sprintf("the chain ends at %d, the next local segment begins at %d and the local log at %d", e.end, e.base, e.start)
}

// candidate is the segment that goes up next, or why there is none.
type candidate struct {
	segment Sealed // nil when there is none
	reason  string // why not, empty when everything is uploaded
}

// candidate applies the upload rule as far as it can be told without reading
// the segment: closed and synced (Sealed says so), not below the log start,
// and below the last stable offset. Offsets above the chain's end are passed
// over only when the local log has them no more.
func (l *Log) candidate() (candidate, error) {
	l.mu.Lock()
	disabled := l.copyDisabled
	l.mu.Unlock()
	if disabled {
		l.work.copyWasDisabled = true
		return candidate{reason: ReasonCopyDisabled}, nil
	}
	end := l.End()
	sealed := l.o.Local.Sealed(end)
	if len(sealed) == 0 {
		return candidate{}, nil
	}
	at := sealed[0].BaseOffset()
	if start := l.o.Local.StartOffset(); at > end && start < at {
		return candidate{}, &misalignedError{end, at, start}
	}
	logStart := l.currentLogStart()
	for _, s := range sealed {
		if s.BaseOffset() != at {
			break // one in between is not synced yet
		}
		at = s.NextOffset()
		if at <= logStart || at == s.BaseOffset() {
			continue // expired before it went up, or holds nothing
		}
		if at > l.o.Local.StableOffset() {
			return candidate{reason: ReasonOpenTransaction}, nil
		}
		return candidate{segment: s}, nil
	}
	return candidate{}, nil
}

// currentLogStart is the highest log start offset that anybody told.
func (l *Log) currentLogStart() record.Offset {
	return max(l.manifest.Load().LogStart, record.Offset(l.logStart.Load()), l.o.Local.LogStartOffset())
}

// uploadNext uploads one segment, verifies it and writes the manifest that
// names it.
func (l *Log) uploadNext(ctx context.Context) error {
	c, err := l.candidate()
	if err != nil || c.segment == nil {
		return err
	}
	e, err := l.upload(ctx, c.segment)
	if err != nil {
		return fmt.Errorf("upload segment at %d: %w", c.segment.BaseOffset(), err)
	}
	next := l.manifest.Load().withLogStart(l.currentLogStart()).condemn(l.stamped())
	if next, err = next.reach(e.From, l.gapReason(e.From)).append(e); err != nil {
		return fmt.Errorf("upload segment at %d: %w", e.From, err)
	}
	if err := l.commit(ctx, next); err != nil {
		return fmt.Errorf("upload segment at %d: %w", e.From, err)
	}
	l.work.copyWasDisabled = false
	return nil
}

// upload is the two passes over a segment: read, check and describe it, then
// send it, then look at what arrived. The entry it returns is verified.
func (l *Log) upload(ctx context.Context, s Sealed) (Entry, error) {
	if err := s.Pin(); err != nil {
		return Entry{}, fmt.Errorf("pin: %w", err)
	}
	defer s.Unpin()
	sealedMs := l.t.nowMs()
	o, err := BuildObject(ctx, s, l.t.o.Turns)
	if err != nil {
		return Entry{}, err
	}
	e := o.Entry()
	e.Epoch, e.SealedMs = l.work.epoch, sealedMs
	if a := l.work.attempt; a != nil && a.object() != e.object() {
		l.giveUpAttempt()
	}
	l.work.attempt = &e
	key := SegmentKey(l.t.root, l.o.TopicID, l.o.TopicPartition, e)
	crc := o.CRC32C()
	if err := l.t.store.Put(ctx, key, o.Source(), store.PutOptions{CRC32C: &crc}); err != nil {
		return Entry{}, err
	}
	info, err := l.t.store.Head(ctx, key)
	if err != nil {
		return Entry{}, fmt.Errorf("verify: %w", err)
	}
	if info.Size != e.ObjectSize {
		return Entry{}, fmt.Errorf("verify: %w", corrupt(key, info.Size, "object has %d bytes, want %d", info.Size, e.ObjectSize))
	}
	if _, err := ReadFooter(ctx, l.t.store, key, e); err != nil {
		return Entry{}, fmt.Errorf("verify: %w", err)
	}
	e.UploadedMs = l.t.nowMs()
	return e, nil
}

// giveUpAttempt makes an orphan of an upload that will not be finished, since
// it may have arrived.
func (l *Log) giveUpAttempt() {
	l.work.orphans = append(l.work.orphans, l.work.attempt.tombstone(0))
	l.work.attempt = nil
}

// stamped is the orphans, with their tombstones' time set to now. All of them
// go into the next head, whatever room there is: once the chain has grown over
// them no takeover would find them again.
func (l *Log) stamped() []Tombstone {
	stamped := slices.Clone(l.work.orphans)
	for i := range stamped {
		stamped[i].AtMs = l.t.nowMs()
	}
	return stamped
}

// gapReason says why the offsets up to one are in no object.
func (l *Log) gapReason(to record.Offset) GapReason {
	switch {
	case to <= l.currentLogStart():
		return GapExpired
	case l.work.copyWasDisabled:
		return GapCopyDisabled
	}
	return GapLateEnabling
}
