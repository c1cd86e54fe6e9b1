// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"fmt"

	"firn/record"
)

// snapshot is a chainView of one manifest, for one read.
type snapshot struct {
	l *Log
	m *Manifest
	// floor lets entryAt pass over pages whose records are all older, in ms
	// since the Unix epoch.
	floor int64
}

// noFloor passes over nothing.
const noFloor = -1 << 63

func (s *snapshot) keyOf(e Entry) string {
	return SegmentKey(s.l.t.root, s.l.o.TopicID, s.l.o.TopicPartition, e)
}

func (s *snapshot) entryAt(ctx context.Context, o record.Offset) (Entry, record.Offset, bool, error) {
	for at := max(o, s.m.Start); at < s.m.End; {
		i, paged := s.m.pageFor(at)
		if paged && s.m.Pages[i].MaxTimestamp < s.floor {
			at = s.m.Pages[i].To
			continue
		}
		e, err := s.l.entry(ctx, s.m, at)
		if err != nil {
			return Entry{}, 0, false, err
		}
		if e.Kind == KindSegment {
			return e, max(o, e.From), true, nil
		}
		at = e.To
	}
	return Entry{}, max(o, s.m.End), false, nil
}

// reload takes the manifest that is newest now; when that is still the one at
// hand, the bucket's newest head, for this read alone.
func (s *snapshot) reload(ctx context.Context) error {
	if m := s.l.manifest.Load(); m != s.m {
		s.m = m
		return nil
	}
	c, err := s.l.listControl(ctx, record.NoEpoch)
	if err != nil {
		return err
	}
	newest, ok := c.newest()
	if !ok || newest.headRef == s.m.ref() || s.m.after(newest.epoch, newest.seq) {
		return nil
	}
	m, err := s.l.readHead(ctx, newest)
	if err != nil {
		return err
	}
	s.m = m
	return nil
}

// loadedSnapshot is the chain for a read, or ErrStorage while none is known.
func (l *Log) loadedSnapshot(floor int64) (*snapshot, error) {
	l.mu.Lock()
	loaded := l.loaded
	l.mu.Unlock()
	if !loaded {
		return nil, fmt.Errorf("%w: the manifest of %v is not loaded yet", record.ErrStorage, l.o.TopicPartition)
	}
	return &snapshot{l: l, m: l.manifest.Load(), floor: floor}, nil
}

// Read returns whole batches from the one that holds from on, that end at or
// below limit and fit maxBytes together, but with minOne at least one, however
// large. It waits for the store as long as ctx allows, then answers
// record.ErrNotReady while the GET goes on, for the next read. Where no object
// has the offset the answer is empty and says in Next where to go on: the next
// entry or, above the chain, the start of the local log.
//
// The error wraps record.ErrOffsetOutOfRange only when a manifest is loaded and
// from lies below its log start; anything else is for the caller to repeat.
// The caller releases the Data.
func (l *Log) Read(ctx context.Context, from, limit record.Offset, maxBytes int, minOne bool) (Data, error) {
	s, err := l.loadedSnapshot(noFloor)
	if err != nil {
		return Data{}, err
	}
	if from < s.m.LogStart || from < 0 {
		return Data{}, fmt.Errorf("%w: offset %d is below the log start %d of %v", record.ErrOffsetOutOfRange, from, s.m.LogStart, l.o.TopicPartition)
	}
	if from >= s.m.End {
		return Data{Next: max(from, l.o.Local.StartOffset())}, nil
	}
	d, err := l.t.reader.read(ctx, s, from, limit, maxBytes, minOne)
	if err != nil {
		return Data{}, fmt.Errorf("read %v in the tier: %w", l.o.TopicPartition, err)
	}
	if len(d.Bytes) == 0 && d.Next >= s.m.End {
		d.Next = max(d.Next, l.o.Local.StartOffset())
	}
	return d, nil
}

// OffsetForTimestamp finds the first record at the log start or above, and
// below an offset, whose timestamp is at least ts (ms since the Unix epoch).
// Without decode it answers by batches: their base offset and largest
// timestamp. Errors are those of Read.
func (l *Log) OffsetForTimestamp(ctx context.Context, ts int64, below record.Offset, decode Decode) (TimestampOffset, bool, error) {
	s, err := l.loadedSnapshot(ts)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	return l.t.reader.offsetForTimestamp(ctx, s, ts, l.currentLogStart(), below, decode)
}

// MaxTimestamp finds the record with the largest timestamp, the first of them,
// at the log start or above and below an offset. Errors are those of Read.
func (l *Log) MaxTimestamp(ctx context.Context, below record.Offset, decode Decode) (TimestampOffset, bool, error) {
	s, err := l.loadedSnapshot(noFloor)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	logStart := l.currentLogStart() // the manifest's follows it
	s.floor = s.m.highTimestamp(logStart, below)
	return l.t.reader.maxTimestamp(ctx, s, logStart, below, decode)
}

// highTimestamp is a timestamp that some record at or above a log start and
// below an offset is known to reach, by the head alone; noFloor when it knows
// none.
func (m *Manifest) highTimestamp(logStart, below record.Offset) int64 {
	high := int64(noFloor)
	for _, p := range m.Pages {
		if p.From >= max(m.Start, logStart) && p.To <= below && p.Segments > 0 {
			high = max(high, p.MaxTimestamp)
		}
	}
	for _, e := range m.Recent {
		if e.Kind == KindSegment && e.From >= logStart && e.To <= below {
			high = max(high, e.MaxTimestamp)
		}
	}
	return high
}

// Entries are up to limit alive entries of the chain from the one that covers
// an offset on, in order: a bounded view for retention and for listings. It may
// load pages of the manifest from the store.
func (l *Log) Entries(ctx context.Context, from record.Offset, limit int) ([]Entry, error) {
	s, err := l.loadedSnapshot(noFloor)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for at := max(from, s.m.Start); at < s.m.End && len(entries) < limit; {
		e, err := l.entry(ctx, s.m, at)
		if err != nil {
			return nil, fmt.Errorf("list entries of %v: %w", l.o.TopicPartition, err)
		}
		entries = append(entries, e)
		at = e.To
	}
	return entries, nil
}

// Key is the object key of a segment entry.
func (l *Log) Key(e Entry) string {
	return SegmentKey(l.t.root, l.o.TopicID, l.o.TopicPartition, e)
}
