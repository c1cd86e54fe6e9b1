// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"fmt"

	"firn/record"
)

// producer follows the producers: their sequences, their transactions and, at
// the offsets of the snapshots, their state as a whole.
func (s *segment) producer(at int64, h record.Header, marker *Marker) error {
	p := s.p
	if !h.HasProducer() {
		return nil
	}
	if err := s.sequence(at, h); err != nil {
		return err
	}
	if marker != nil {
		p.producers.ApplyMarker(h, record.Marker{Abort: marker.Type == "abort", CoordinatorEpoch: marker.CoordinatorEpoch})
	}
	p.producers.Apply(h)
	if !h.IsControl() {
		if _, open := p.open[h.ProducerID]; h.IsTransactional() && !open {
			p.open[h.ProducerID] = h.BaseOffset
		}
		return nil
	}
	first, open := p.open[h.ProducerID]
	// A transaction that began below the first offset that is here is seen from
	// its first record that is.
	exact := p.from == 0 || p.ended[h.ProducerID]
	delete(p.open, h.ProducerID)
	p.ended[h.ProducerID] = true
	if marker == nil || marker.Type != "abort" || p.broken {
		return nil
	}
	if !open {
		first = record.NoOffset
	}
	return s.txns.abort(h, first, exact)
}

// sequence finds batches that are there twice, and gaps.
func (s *segment) sequence(at int64, h record.Header) error {
	p := s.p
	if h.IsControl() || p.broken || h.BaseOffset < p.gaps {
		return nil
	}
	switch v, err := p.producers.Check(h, 0); {
	case v.Duplicate:
		return p.v.fault(s.path, at, "producer %d's sequence numbers %d to %d, at offset %d, are at offset %d already", h.ProducerID, h.BaseSequence, h.LastSequence(), h.BaseOffset, v.Base)
	case errors.Is(err, record.ErrInvalidProducerEpoch):
		return p.v.fault(s.path, at, "the batch at offset %d: %v", h.BaseOffset, err)
	case err != nil:
		// A producer that was forgotten meanwhile may begin with any number.
		return p.v.note(s.path, at, "the batch at offset %d: %v", h.BaseOffset, err)
	}
	return nil
}

// dropSnapshotsBelow passes over the snapshots below the first offset of the
// log, of which the log tells nothing; they are read all the same.
func (p *partition) dropSnapshotsBelow(first record.Offset) error {
	for len(p.snapshots) > 0 && p.snapshots[0] < first {
		at := p.snapshots[0]
		p.snapshots = p.snapshots[1:]
		if _, err := p.readSnapshot(at); err != nil {
			return err
		}
	}
	return nil
}

// snapshotsUpTo looks at the snapshots up to an offset at which a batch begins,
// or the log ends, with the producers as of there.
func (p *partition) snapshotsUpTo(end record.Offset) error {
	for len(p.snapshots) > 0 && p.snapshots[0] <= end {
		at := p.snapshots[0]
		p.snapshots = p.snapshots[1:]
		found, err := p.readSnapshot(at)
		if err != nil {
			return err
		}
		if found == nil || p.broken {
			continue
		}
		if at < p.next {
			if err := p.v.fault(fileOf(p.dir, at, ".snapshot"), 0, "no batch begins at offset %d", at); err != nil {
				return err
			}
			continue
		}
		if err := p.compare(at, found); err != nil {
			return err
		}
	}
	return nil
}

// readSnapshot reads a snapshot, and reports one that is damaged or knows of
// offsets behind it.
func (p *partition) readSnapshot(at record.Offset) ([]record.SnapshotEntry, error) {
	path := fileOf(p.dir, at, ".snapshot")
	b, err := p.v.o.readSmall(path)
	if p.v.gone(err) {
		return nil, nil
	}
	var entries []record.SnapshotEntry
	if err == nil {
		entries, err = record.ParseSnapshot(b)
	}
	if err := p.v.bad(path, err); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.LastOffset < at && e.TxnFirstOffset < at {
			continue
		}
		if err := p.v.fault(path, 0, "producer %d has an offset of %d, which is not below %d", e.ProducerID, max(e.LastOffset, e.TxnFirstOffset), at); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// compare holds a snapshot against what the batches since the start of the log
// tell. Producers that were last seen before that are not in the log; those
// that are only in the log may have expired.
func (p *partition) compare(at record.Offset, found []record.SnapshotEntry) error {
	rebuilt, err := record.ParseSnapshot(p.producers.Marshal(at))
	if err != nil {
		return err
	}
	byID := make(map[int64]record.SnapshotEntry, len(rebuilt))
	for _, e := range rebuilt {
		byID[e.ProducerID] = e
	}
	path := fileOf(p.dir, at, ".snapshot")
	for _, e := range found {
		want, ok := byID[e.ProducerID]
		// One that was forgotten meanwhile began without the coordinator's.
		want.CoordinatorEpoch = e.CoordinatorEpoch
		if e.TxnFirstOffset < p.from && want.TxnFirstOffset != record.NoOffset {
			want.TxnFirstOffset = e.TxnFirstOffset // it began before the log does
		}
		if e.LastOffset < p.from || ok && want == e {
			continue
		}
		if !ok {
			err = p.v.fault(path, 0, "producer %d's last batch ends at offset %d, where the log has none of its batches", e.ProducerID, e.LastOffset)
		} else {
			err = p.v.fault(path, 0, "producer %d is said to be at %s, the log says %s", e.ProducerID, standing(e), standing(want))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// standing tells what a snapshot has of a producer.
func standing(e record.SnapshotEntry) string {
	return fmt.Sprintf("epoch %d, sequence %d, offset %d, delta %d, timestamp %d, transaction from %d",
		e.ProducerEpoch, e.LastSequence, e.LastOffset, e.OffsetDelta, e.Timestamp, e.TxnFirstOffset)
}
