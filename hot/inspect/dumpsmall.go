// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"firn/record"
)

// entries goes through the whole entries of an index and tells of a part that
// is left over. Zeros at the end, which Kafka leaves when it gives a file its
// size in advance, are one Damage and not many entries.
func (d *dumper) entries(path string, b []byte, size int, entry func(e []byte) error) error {
	used := len(b) - trailingZeros(b, size)
	for at := 0; at+size <= used; at += size {
		if err := entry(b[at : at+size]); err != nil {
			return err
		}
	}
	if rest := used % size; rest > 0 {
		return d.visit(&Damage{place{"damage", path}, int64(used - rest), fmt.Sprintf("%d bytes are left, an entry has %d", rest, size)})
	}
	if used < len(b) {
		return d.visit(&Padding{place{"padding", path}, int64(used), int64(len(b) - used)})
	}
	return nil
}

// trailingZeros is the number of bytes, in whole entries, at the end of b that
// are zeros.
func trailingZeros(b []byte, size int) int {
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	// The last entry that is not all zeros may end in some.
	n = (n + size - 1) / size * size
	return max(len(b)-n, 0)
}

func (d *dumper) index(path string, base record.Offset, b []byte) error {
	return d.entries(path, b, record.IndexEntrySize, func(e []byte) error {
		x := record.ParseIndexEntry(e, base)
		return d.visit(&IndexEntry{place{"index", path}, x.Offset, x.Position})
	})
}

func (d *dumper) timeIndex(path string, base record.Offset, b []byte) error {
	return d.entries(path, b, record.TimeIndexEntrySize, func(e []byte) error {
		x := record.ParseTimeIndexEntry(e, base)
		return d.visit(&TimeIndexEntry{place{"timeindex", path}, x.Timestamp, x.Offset})
	})
}

func (d *dumper) txnIndex(path string, _ record.Offset, b []byte) error {
	for at := 0; at < len(b); at += record.AbortedTxnSize {
		x, err := record.ParseAbortedTxn(b[at:])
		var bad *record.CorruptionError
		if errors.As(err, &bad) {
			return &record.CorruptionError{Path: path, Position: int64(at) + bad.Position, Reason: bad.Reason}
		}
		if err != nil {
			return err
		}
		if err := d.visit(&AbortedTxn{place{"txnindex", path}, x.ProducerID, x.FirstOffset, x.LastOffset, x.LastStableOffset}); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) snapshot(path string, _ record.Offset, b []byte) error {
	entries, err := record.ParseSnapshot(b)
	if err != nil {
		return err
	}
	for _, e := range entries {
		item := &Producer{
			place{"snapshot", path}, e.ProducerID, e.ProducerEpoch, e.CoordinatorEpoch, e.FirstSequence(), e.LastSequence,
			e.LastOffset, e.OffsetDelta, e.Timestamp, e.TxnFirstOffset,
		}
		if err := d.visit(item); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) epochs(path string, _ record.Offset, b []byte) error {
	epochs, err := record.ParseEpochs(b)
	if err != nil {
		return err
	}
	for _, e := range epochs {
		if err := d.visit(&Epoch{place{"leader-epoch", path}, e.Epoch, e.StartOffset}); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) metadata(path string, _ record.Offset, b []byte) error {
	m, err := record.ParsePartitionMetadata(b)
	if err != nil {
		return err
	}
	return d.visit(&Metadata{place{"partition-metadata", path}, m.TopicID.String()})
}

func (d *dumper) checkpoint(path string, _ record.Offset, b []byte) error {
	c, err := record.ParseOffsetCheckpoint(b)
	if err != nil {
		return err
	}
	for _, tp := range sortedPartitions(c) {
		if err := d.visit(&Checkpoint{place{"checkpoint", path}, tp.Topic, tp.Partition, c[tp]}); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) cleanMark(path string, _ record.Offset, b []byte) error {
	return d.visit(&CleanMark{place{"clean-shutdown", path}, string(b[:min(len(b), 1024)])})
}

// sortedPartitions are the keys of a checkpoint by topic and partition.
func sortedPartitions(c record.OffsetCheckpoint) []record.TopicPartition {
	return slices.SortedFunc(maps.Keys(c), func(a, b record.TopicPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}
