// SPDX-License-Identifier: Apache-2.0

package record

import (
	"slices"
	"sort"
	"strconv"
)

// EpochEntry says that the records from StartOffset on, up to the next entry,
// were written under Epoch.
type EpochEntry struct {
	Epoch       Epoch
	StartOffset Offset
}

// Epochs is the history of a partition's leader epochs, ascending in both
// epoch and start offset. An Epochs is a value: its methods leave the receiver
// and its backing array as they are, so that it may be shared.
type Epochs []EpochEntry

// Last is the newest entry; false when there is none.
func (es Epochs) Last() (EpochEntry, bool) {
	if len(es) == 0 {
		return EpochEntry{}, false
	}
	return es[len(es)-1], true
}

// Append adds an entry at the end. It is a no-op when the newest entry has
// the same epoch and does not start later. Entries that would break the order
// (a later epoch or start than e's) are dropped first, as Kafka does: they
// belong to data that e's leader never had.
func (es Epochs) Append(e EpochEntry) Epochs {
	last, ok := es.Last()
	if ok && last.Epoch == e.Epoch && last.StartOffset <= e.StartOffset {
		return es
	}
	keep := len(es)
	for keep > 0 && (es[keep-1].Epoch >= e.Epoch || es[keep-1].StartOffset >= e.StartOffset) {
		keep--
	}
	return append(slices.Clone(es[:keep]), e)
}

// EndOffset answers where epoch ends, as OffsetForLeaderEpoch asks: the
// largest epoch known that is at most epoch, and the offset at which the next
// one starts, or logEnd for the newest. For an epoch below every known one it
// is that epoch and the first start; for one above, or NoEpoch, it is NoEpoch
// and NoOffset.
func (es Epochs) EndOffset(epoch Epoch, logEnd Offset) (Epoch, Offset) {
	last, ok := es.Last()
	switch {
	case !ok || epoch == NoEpoch || epoch > last.Epoch:
		return NoEpoch, NoOffset
	case epoch == last.Epoch:
		return epoch, logEnd
	}
	next := sort.Search(len(es), func(i int) bool { return es[i].Epoch > epoch })
	if next == 0 {
		return epoch, es[0].StartOffset
	}
	return es[next-1].Epoch, es[next].StartOffset
}

// For is the epoch under which the record at o was or would be written:
// NoEpoch below the first entry.
func (es Epochs) For(o Offset) Epoch {
	next := sort.Search(len(es), func(i int) bool { return es[i].StartOffset > o })
	if next == 0 {
		return NoEpoch
	}
	return es[next-1].Epoch
}

// TruncateFrom drops the entries that start at or after end, for a log that
// was cut to end there.
func (es Epochs) TruncateFrom(end Offset) Epochs {
	keep := sort.Search(len(es), func(i int) bool { return es[i].StartOffset >= end })
	return slices.Clone(es[:keep])
}

// TruncateTo drops the entries that ended at or before start and raises the
// start of the one that covers it, for a log that now begins at start.
func (es Epochs) TruncateTo(start Offset) Epochs {
	next := sort.Search(len(es), func(i int) bool { return es[i].StartOffset > start })
	if next == 0 {
		return slices.Clone(es)
	}
	out := slices.Clone(es[next-1:])
	out[0].StartOffset = start
	return out
}

// Marshal is the text of a leader-epoch-checkpoint file.
func (es Epochs) Marshal() []byte {
	b := appendCheckpointHead(nil, len(es))
	for _, e := range es {
		b = strconv.AppendInt(b, int64(e.Epoch), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(e.StartOffset), 10)
		b = append(b, '\n')
	}
	return b
}

// ParseEpochs reads a leader-epoch-checkpoint file; an empty file, which Kafka
// makes before the first epoch, has no entries. The error wraps
// ErrUnsupportedVersion or is a *CorruptionError.
func ParseEpochs(b []byte) (Epochs, error) {
	var es Epochs
	err := parseCheckpoint(b, 2, func(at int, fields []string) error {
		epoch, err := strconv.ParseInt(fields[0], 10, 32)
		if err != nil || epoch < 0 {
			return corrupt(at, "%q is not a leader epoch", fields[0])
		}
		start, err := ParseOffset(fields[1])
		if err != nil {
			return corrupt(at, "%q is not an offset", fields[1])
		}
		e := EpochEntry{Epoch: Epoch(epoch), StartOffset: start}
		if last, ok := es.Last(); ok && (e.Epoch <= last.Epoch || e.StartOffset <= last.StartOffset) {
			return corrupt(at, "epoch %d from offset %d does not follow epoch %d from offset %d", e.Epoch, e.StartOffset, last.Epoch, last.StartOffset)
		}
		es = append(es, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return es, nil
}
