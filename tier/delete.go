// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"fmt"
	"slices"
	"time"

	"firn/record"
)

const (
	// deleteBatch is how many objects are deleted for one head. A store without
	// a bulk delete can do that many within the deadline.
	deleteBatch = 250
	// minDeleteTime is the deadline of a deletion under a grace that is too
	// short to be one.
	minDeleteTime = 5 * time.Second
)

// dropBelowStart brings the log start into the manifest and turns entries
// wholly below it, and orphans, into tombstones. It writes one head, or none
// when nothing would change.
func (l *Log) dropBelowStart(ctx context.Context) error {
	cur := l.manifest.Load()
	logStart := l.currentLogStart()
	if a := l.work.attempt; a != nil && a.To <= logStart {
		l.giveUpAttempt()
	}
	// An empty chain without a past needs no head for its log start.
	next := *cur
	if !cur.empty() {
		next = cur.withLogStart(logStart)
	}
	next = next.condemn(l.stamped())
	if !l.keeps(&next, next.LogStart) {
		var err error
		if next, err = l.drop(ctx, next); err != nil {
			return fmt.Errorf("drop below the log start %d: %w", logStart, err)
		}
	}
	if next.LogStart == cur.LogStart && next.Start == cur.Start && len(next.Tombstones) == len(cur.Tombstones) {
		return nil
	}
	return l.commit(ctx, next)
}

// drop gives up entries below the log start as long as there is room for
// tombstones, and notes the oldest one left.
func (l *Log) drop(ctx context.Context, m Manifest) (Manifest, error) {
	for m.droppable() {
		var page []Entry
		if len(m.Pages) > 0 {
			var err error
			if page, err = l.pageEntries(ctx, &m, 0); err != nil {
				return m, err
			}
		}
		room := max(0, l.t.shape.tombstones-len(m.Tombstones))
		next, dropped, err := m.drop(page, l.t.nowMs(), room)
		if err != nil {
			return m, err
		}
		m = next
		if dropped == 0 {
			break
		}
	}
	if m.empty() || m.LogStart <= m.Start {
		return m, nil
	}
	oldest, err := l.entry(ctx, &m, m.Start)
	if err != nil {
		return m, err
	}
	l.oldest.Store(&offsetRange{oldest.From, oldest.To})
	return m, nil
}

// grace is how long a tombstone must look old before its object is deleted:
// the time is stamped before the head is durable.
func (l *Log) grace() time.Duration { return l.t.o.DeleteGrace + l.work.slowest }

// nextDue is how long until the first tombstone may be acted upon.
func (l *Log) nextDue() (time.Duration, bool) {
	m := l.manifest.Load()
	if len(m.Tombstones) == 0 {
		return 0, false
	}
	oldest := slices.MinFunc(m.Tombstones, func(a, b Tombstone) int { return int(min(1, max(-1, a.AtMs-b.AtMs))) })
	return max(0, l.grace()-l.age(oldest)), true
}

// age is how long ago a tombstone was set. A wall clock that was set back
// since makes it younger, never older.
func (l *Log) age(t Tombstone) time.Duration {
	return time.Duration(l.t.nowMs()-t.AtMs) * time.Millisecond
}

// deleteDue deletes the objects whose tombstones have been in a durable head
// for the grace, after a LIST that shows nobody above us, and writes a head
// without them.
func (l *Log) deleteDue(ctx context.Context) error {
	m := l.manifest.Load()
	var due []Tombstone
	var keys []string
	for _, t := range m.Tombstones {
		if l.age(t) >= l.grace() && len(due) < deleteBatch {
			due = append(due, t)
			keys = append(keys, t.object().key(l.t.root, l.o.TopicID, l.o.TopicPartition))
		}
	}
	if len(due) == 0 {
		return nil
	}
	if _, err := l.checkFence(ctx, m.ref()); err != nil {
		return fmt.Errorf("delete objects: %w", err)
	}
	// The deadline is shorter than the grace, so that a deletion that hangs
	// has ended before anything could be named again.
	deleteCtx, cancel := context.WithTimeout(ctx, max(l.t.o.DeleteGrace, minDeleteTime))
	err := l.t.store.Delete(deleteCtx, keys)
	cancel()
	if err != nil {
		return fmt.Errorf("delete objects: %w", err)
	}
	return l.commit(ctx, m.forget(due))
}

// pageEntries loads the entries of the i-th page.
func (l *Log) pageEntries(ctx context.Context, m *Manifest, i int) ([]Entry, error) {
	ref := m.Pages[i]
	return l.t.pages.entries(ctx, ref.object().key(l.t.root, l.o.TopicID, l.o.TopicPartition), m, ref)
}

// entry is the entry that covers o, which must lie in [Start, End).
func (l *Log) entry(ctx context.Context, m *Manifest, o record.Offset) (Entry, error) {
	entries := m.Recent
	if i, ok := m.pageFor(o); ok {
		var err error
		if entries, err = l.pageEntries(ctx, m, i); err != nil {
			return Entry{}, err
		}
	}
	e, ok := covering(entries, o)
	if !ok {
		return Entry{}, fmt.Errorf("manifest (%d, %d) has no entry for offset %d", m.Epoch, m.Seq, o)
	}
	return e, nil
}
