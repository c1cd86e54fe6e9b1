// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"firn/record"
)

// partition is what the walk through one partition knows so far.
type partition struct {
	v   *verifier
	dir string
	tp  record.TopicPartition

	// loose says that the end of the log may be unfinished: a broker runs, or
	// was killed.
	loose bool
	// point is the recovery point: what lies below it was synced. It is 0
	// where it is not known.
	point record.Offset
	// gaps is the offset below which compaction may have taken records away.
	gaps record.Offset

	bases     []record.Offset // of segments, ascending
	files     map[string]bool // all names
	snapshots []record.Offset // ascending, those still to be looked at

	epochs     record.Epochs
	epochsRead bool
	epochSaid  record.Epoch // the last one that was found missing in epochs

	from      record.Offset // where the walk began
	next      record.Offset // where the next batch should begin
	epoch     record.Epoch  // of the last batch
	producers *record.Producers
	open      map[int64]record.Offset // first offsets of open transactions, by producer
	ended     map[int64]bool          // producers of which a marker was seen
	broken    bool                    // batches were lost, so that producers and open may be wrong
}

const everything = record.Offset(1<<63 - 1)

// partition verifies the directory of one partition.
func (v *verifier) partition(ctx context.Context, dir string) error {
	v.sum.Partitions++
	tp, err := record.ParseTopicPartition(filepath.Base(dir))
	named := err == nil
	if !named {
		if err := v.note(dir, 0, "the name is not that of a partition: what the checkpoints say is not looked at"); err != nil {
			return err
		}
	}
	p := &partition{
		v: v, dir: dir, tp: tp, loose: v.o.InUse || !v.top.clean, files: map[string]bool{},
		epoch: record.NoEpoch, epochSaid: record.NoEpoch, producers: record.NewProducers(), open: map[int64]record.Offset{}, ended: map[int64]bool{},
	}
	if named {
		p.point = v.top.points[tp]
		p.gaps = v.top.cleaned[tp]
	}
	if v.o.Gaps {
		p.gaps = everything
	}
	if err := p.names(); err != nil {
		return err
	}
	if err := p.small(); err != nil {
		return err
	}
	if err := p.log(ctx); err != nil {
		return err
	}
	if named {
		return p.checkpoints()
	}
	return nil
}

// names sorts the files by what they are.
func (p *partition) names() error {
	entries, err := p.v.o.FS.ReadDir(p.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(p.dir, name)
		k, base := kindOf(name)
		p.files[name] = true
		switch {
		case e.IsDir():
			err = p.v.note(path, 0, "not a file of a partition")
		case k == kindLog:
			p.bases = append(p.bases, base)
		case k == kindSnapshot:
			p.snapshots = append(p.snapshots, base)
		case k == kindCut:
			err = p.v.note(path, 0, "what recovery cut off the end of a segment")
		case k == kindUnfinished:
			err = p.v.note(path, 0, "unfinished work, which the next start removes")
		case k == kindSwap:
			err = p.v.fault(path, 0, "a compaction that Kafka did not finish: start and stop Kafka once so that it does")
		case k == kindOther && looksNamed(name):
			err = p.v.fault(path, 0, "the name is not an offset of 20 digits")
		case k == kindOther || k == kindCheckpoint || k == kindCleanMark:
			err = p.v.note(path, 0, "not a file of a partition")
		}
		if err != nil {
			return err
		}
	}
	slices.Sort(p.bases)
	slices.Sort(p.snapshots)
	for _, e := range entries {
		k, base := kindOf(e.Name())
		if _, found := slices.BinarySearch(p.bases, base); found || k != kindIndex && k != kindTimeIndex && k != kindTxnIndex {
			continue
		}
		if err := p.v.fault(filepath.Join(p.dir, e.Name()), 0, "there is no segment at offset %d", base); err != nil {
			return err
		}
	}
	return nil
}

// small reads the files that are not of one segment.
func (p *partition) small() error {
	path := filepath.Join(p.dir, metadataName)
	b, err := p.v.o.readSmall(path)
	if err == nil {
		_, err = record.ParsePartitionMetadata(b)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = p.v.fault(path, 0, "there is no such file: which life of the topic this is cannot be told")
	}
	if err := p.v.bad(path, err); err != nil {
		return err
	}
	path = filepath.Join(p.dir, epochsName)
	b, err = p.v.o.readSmall(path)
	if err == nil {
		p.epochs, err = record.ParseEpochs(b)
		p.epochsRead = err == nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		p.epochsRead, err = true, nil // as one without entries
	}
	return p.v.bad(path, err)
}

// log goes through the segments and looks at the snapshots on the way.
func (p *partition) log(ctx context.Context) error {
	if len(p.bases) == 0 {
		if p.v.o.InUse {
			return nil
		}
		return p.v.note(p.dir, 0, "no segment is there: the log begins anew at the next start")
	}
	p.from, p.next = p.bases[0], p.bases[0]
	if err := p.dropSnapshotsBelow(p.from); err != nil {
		return err
	}
	for i, base := range p.bases {
		if err := p.segment(ctx, i, base); err != nil && !p.v.gone(err) {
			return err
		}
	}
	if p.next == record.NoOffset {
		return nil // damage at the end, which was reported
	}
	if err := p.snapshotsUpTo(p.next); err != nil {
		return err
	}
	for _, at := range p.snapshots {
		path := fileOf(p.dir, at, ".snapshot")
		if err := p.late(at, path, 0, "the log ends at offset %d", p.next); err != nil {
			return err
		}
	}
	return p.epochsBeyondEnd()
}

// late reports what is wrong with a file of the log's end: a note where the
// end may be unfinished and at is not below the recovery point.
func (p *partition) late(at record.Offset, path string, position int64, format string, args ...any) error {
	if p.loose && at >= p.point {
		return p.v.note(path, position, format, args...)
	}
	return p.v.fault(path, position, format, args...)
}

func (p *partition) epochsBeyondEnd() error {
	last, ok := p.epochs.Last()
	if !ok || last.StartOffset <= p.next {
		return nil
	}
	return p.late(p.next, filepath.Join(p.dir, epochsName), 0, "epoch %d begins at offset %d, the log ends at %d", last.Epoch, last.StartOffset, p.next)
}

// checkpoints holds what the log directory says of the partition against the
// end of its log.
func (p *partition) checkpoints() error {
	if len(p.bases) == 0 || p.next == record.NoOffset {
		return nil
	}
	top := filepath.Dir(p.dir)
	if at, ok := p.v.top.starts[p.tp]; ok && at > p.next && !p.v.o.InUse {
		if err := p.late(p.next, filepath.Join(top, logStartName), 0, "%s starts at offset %d, its log ends at %d", p.tp, at, p.next); err != nil {
			return err
		}
	}
	at, ok := p.v.top.points[p.tp]
	path := filepath.Join(top, recoveryPointName)
	switch {
	case !ok || p.v.o.InUse:
		return nil
	case at > p.next:
		return p.v.fault(path, 0, "%s was synced up to offset %d, its log ends at %d", p.tp, at, p.next)
	case at < p.next && p.v.top.clean:
		return p.v.note(path, 0, "%s has its recovery point at offset %d and ends at %d after a clean stop: it will be scanned", p.tp, at, p.next)
	}
	return nil
}
