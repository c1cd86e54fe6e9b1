// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"firn/internal/vfs"
	"firn/record"
)

// inventory is what a partition directory holds.
type inventory struct {
	segments  map[record.Offset]fs.FileInfo
	bases     []record.Offset // of segments, ascending
	snapshots []record.Offset // ascending
	aborts    bool            // a segment has a transaction index
	leftovers []string        // names of unfinished work, to be removed
}

// takeInventory lists the directory. What it does not know it leaves alone.
func (l *Log) takeInventory() (*inventory, error) {
	entries, err := l.store.fs.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	inv := &inventory{segments: map[record.Offset]fs.FileInfo{}}
	var indexes []string
	for _, e := range entries {
		name := e.Name()
		switch suffix := filepath.Ext(name); suffix {
		case logSuffix:
			base, ok := parseSegmentFile(name, logSuffix)
			if !ok {
				continue
			}
			if inv.segments[base], err = e.Info(); err != nil {
				return nil, err
			}
			inv.bases = append(inv.bases, base)
		case snapshotSuffix:
			if at, ok := parseSegmentFile(name, snapshotSuffix); ok {
				inv.snapshots = append(inv.snapshots, at)
			}
		case indexSuffix, timeIndexSuffix, txnIndexSuffix:
			indexes = append(indexes, name)
		case tempSuffix, deletedSuffix, cleanedSuffix:
			inv.leftovers = append(inv.leftovers, name)
		case swapSuffix:
			return nil, fmt.Errorf("%s is a compaction that Kafka did not finish; start and stop Kafka once so that it does", filepath.Join(l.dir, name))
		}
	}
	slices.Sort(inv.bases)
	slices.Sort(inv.snapshots)
	for _, name := range indexes {
		base, ok := parseSegmentFile(name, filepath.Ext(name))
		if _, there := inv.segments[base]; ok && !there {
			inv.leftovers = append(inv.leftovers, name)
		} else if filepath.Ext(name) == txnIndexSuffix {
			inv.aborts = true
		}
	}
	return inv, nil
}

// load brings a log that is on disk into memory. After a clean stop it reads
// the end of the active segment and the newest producer snapshot; else it
// recovers.
func (l *Log) load(ctx context.Context) error {
	inv, err := l.takeInventory()
	if err != nil {
		return err
	}
	lost := l.loadEpochs()
	if lost != nil && !isDamage(lost) {
		return lost
	}
	if len(inv.bases) == 0 {
		return l.begin(inv)
	}
	list := make([]*Segment, len(inv.bases))
	for i, base := range inv.bases {
		list[i] = foundSegment(l, base, inv.segments[base])
		if i > 0 {
			list[i-1].next, list[i-1].sealed, list[i-1].complete = base, true, true
		}
	}
	l.mu.Lock()
	l.setSegmentsLocked(list)
	l.mu.Unlock()
	l.aborts.Store(inv.aborts)
	if lost != nil {
		if err := l.remakeEpochs(lost); err != nil {
			return err
		}
	}
	if l.trusted(inv) {
		for _, at := range inv.snapshots {
			if inv.segments[at] == nil {
				l.strays = append(l.strays, at)
			}
		}
	} else if err := l.recover(ctx, inv); err != nil {
		return err
	}
	l.end.Store(int64(l.active().next))
	l.durable.Store(l.end.Load())
	if l.EndOffset() < l.LogStartOffset() {
		return l.beginAtLogStart()
	}
	return l.loadFirstBatch()
}

// beginAtLogStart begins a log anew whose last records were deleted and then
// lost: the offsets below the log start must not be given out again.
func (l *Log) beginAtLogStart() error {
	start := l.LogStartOffset()
	l.logger.Warn("log ends below its start and begins anew there", "event", "log_below_start",
		"end", int64(l.EndOffset()), "log_start", int64(start))
	if err := l.store.beginWriting(); err != nil {
		return err
	}
	l.store.recoveryPoints.set(l.tp, 0)
	if err := l.store.recoveryPoints.write(); err != nil {
		return err
	}
	return l.replaceAll(start, l.epochs, l.producers)
}

// begin starts a log without any segment: one that is new, or one whose files
// ResetTo had removed when the process ended. Offsets that were given out once
// are not given out again, as far as the checkpoints know them.
func (l *Log) begin(inv *inventory) error {
	base := max(l.LogStartOffset(), l.store.recoveryPoints.get(l.tp))
	if err := l.store.beginWriting(); err != nil {
		return err
	}
	if err := l.removeAll(inv.leftovers); err != nil {
		return err
	}
	if err := l.removeSnapshots(inv.snapshots, func(record.Offset) bool { return false }); err != nil {
		return err
	}
	return l.beginAt(base, l.epochs.TruncateFrom(base), record.NewProducers())
}

// beginAt makes base the first offset of a log without segments, durably, with
// the given epochs and producers.
func (l *Log) beginAt(base record.Offset, epochs record.Epochs, producers *record.Producers) error {
	s, err := l.createSegment(base)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if !slices.Equal(l.epochs, epochs) {
		l.epochs = epochs
		l.epochsChanged++
	}
	l.mu.Unlock()
	err = l.writeEpochs()
	if err == nil {
		err = l.store.fs.SyncDir(l.dir)
	}
	if err != nil {
		l.store.files.drop(&s.handle)
		s.letGo()
		return err
	}
	l.setProducers(producers)
	l.store.recoveryPoints.set(l.tp, base)
	l.mu.Lock()
	l.generation++
	l.setSegmentsLocked([]*Segment{s})
	l.end.Store(int64(base))
	l.durable.Store(int64(base))
	l.signalLocked()
	l.mu.Unlock()
	return nil
}

// trusted says whether the log needs no recovery: the store was stopped clean,
// all that there is lies below the recovery point, and the files agree.
func (l *Log) trusted(inv *inventory) bool {
	if !l.store.clean || l.store.wasRefused(l.tp) {
		return false
	}
	active := l.active()
	var producers *record.Producers
	next, err := l.lastOffset(active)
	if err == nil && next != l.store.recoveryPoints.get(l.tp) {
		err = fmt.Errorf("the log ends at offset %d, the recovery point is %d", next, l.store.recoveryPoints.get(l.tp))
	}
	if err == nil {
		active.next = next
		producers, err = l.rebuildProducers(inv, next)
	}
	if err != nil {
		l.logger.Warn("log needs recovery though it was closed clean", "event", "log_not_trusted", "cause", err)
		active.next = active.base
		return false
	}
	l.setProducers(producers)
	return true
}

// lastOffset finds where the active segment ends, from its last index entry
// on.
func (l *Log) lastOffset(s *Segment) (record.Offset, error) {
	if s.size == 0 {
		return s.base, nil
	}
	f, err := s.acquire()
	if err != nil {
		return 0, err
	}
	defer s.release()
	e, err := s.lastInFile(offsetIndex, func([]byte) bool { return true })
	if err != nil {
		return 0, err
	}
	var c cursor
	if err := s.walkFrom(&c, f, e, s.size); err != nil {
		return 0, err
	}
	defer c.done()
	for {
		if _, _, err := c.header(); errors.Is(err, io.EOF) {
			return c.next, nil
		} else if err != nil {
			return 0, err
		}
	}
}

// loadFirstBatch reads what rolling by time needs of the active segment.
func (l *Log) loadFirstBatch() error {
	s := l.active()
	if s.size == 0 {
		return nil
	}
	f, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release()
	var c cursor
	s.walk(&c, f, 0, s.size)
	defer c.done()
	h, _, err := c.header()
	if errors.Is(err, record.ErrCorruptBatch) {
		l.logger.Error("the first batch of the active segment is damaged", "event", "batch_damaged", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	s.firstStamp = h.MaxTimestamp
	if first := time.UnixMilli(h.MaxTimestamp); h.MaxTimestamp >= 0 && first.Before(s.modified) {
		s.firstAppend = first
	}
	return nil
}

// loadEpochs reads leader-epoch-checkpoint.
func (l *Log) loadEpochs() error {
	path := filepath.Join(l.dir, epochsName)
	b, err := vfs.ReadFile(l.store.fs, path, maxSmallFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		l.epochs, err = record.ParseEpochs(b)
		err = record.InFile(err, path)
	}
	return err
}

// rebuildProducers is the producer state at offset at: the newest snapshot at
// or below it that can be read, and the batches from there on.
func (l *Log) rebuildProducers(inv *inventory, at record.Offset) (*record.Producers, error) {
	p, from := record.NewProducers(), record.Offset(0)
	for _, o := range slices.Backward(inv.snapshots) {
		if o > at {
			continue
		}
		b, err := vfs.ReadFile(l.store.fs, segmentFile(l.dir, o, snapshotSuffix), maxSmallFile)
		if err != nil {
			return nil, err
		}
		if found, err := record.ParseProducers(b); err == nil {
			p, from = found, o
			break
		}
		l.repaired(repairSnapshot, "producer snapshot is damaged, an older one and the batches serve", "event", "snapshot_damaged", "offset", int64(o))
	}
	for _, s := range l.list() {
		v := s.view()
		if v.next <= from || s.base >= at || v.size == 0 {
			continue
		}
		if err := s.replay(p, from, at, v.size); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// replay applies the batches of the segment in [from, to) to p.
func (s *Segment) replay(p *record.Producers, from, to record.Offset, size int64) error {
	f, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release()
	var c cursor
	if err := s.walkTo(&c, f, from, size); err != nil {
		return err
	}
	defer c.done()
	for {
		h, at, err := c.header()
		if errors.Is(err, io.EOF) || err == nil && h.BaseOffset >= to {
			return nil
		}
		if err != nil {
			return err
		}
		if !h.HasProducer() || h.BaseOffset < from {
			continue
		}
		// A wrong sequence number would double a batch, or lose it.
		if err := c.checkCRC(h, at); err != nil {
			return err
		}
		if _, err := c.apply(p, h, at); err != nil {
			return err
		}
	}
}

// removeAll removes files of the directory by name.
func (l *Log) removeAll(names []string) error {
	for _, name := range names {
		if err := l.store.fs.Remove(filepath.Join(l.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeSnapshots removes the snapshots at the given offsets but for those to
// keep.
func (l *Log) removeSnapshots(at []record.Offset, keep func(record.Offset) bool) error {
	var names []string
	for _, o := range at {
		if !keep(o) {
			names = append(names, o.FileName()+snapshotSuffix)
		}
	}
	return l.removeAll(names)
}
