// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"
	"sort"

	"firn/record"
)

// Manifest says where every offset of a partition's cold part lies. It is a
// value that nobody changes: the functions of change.go make new ones that
// share what stays the same, so that readers need no lock.
//
// The chain is the entries of Pages, oldest first, then those of Recent; of
// the first page only the entries from Start on are alive.
//
//	 Pages[0]            Pages[1]            Recent
//	├──dead──┼──alive───┼──────────────────┼───────────────┤
//	         Start                                         End
//
// Invariants, checked by check and checkSuccessor before every write:
//
//	M1  Alive entries are contiguous from Start to End; Start == End means
//	    that there is none.
//	M2  LogStart, Start and End never fall, and Start passes an entry only
//	    when it lies wholly below LogStart.
//	M3  An object that a manifest names is named by the next one, or has a
//	    tombstone there.
//	M4  No object is both named and under a tombstone.
//	M5  (Epoch, Seq) rises with every manifest, and Seq by itself as well.
//	M6  Bytes and Segments count the alive segment entries.
type Manifest struct {
	TopicID   record.TopicID
	Partition int32
	// Epoch, Seq and Writer are those of the head that holds the manifest.
	// Seq is 0 for the manifest before the first head.
	Epoch  record.Epoch
	Seq    uint64
	Writer WriterID
	// CreatedMs is the wall time of the head in ms since the Unix epoch.
	CreatedMs int64
	// LogStart is the partition's log start offset, as far as the archiver
	// was told: nothing below it is readable.
	LogStart record.Offset
	// Start and End bound the alive entries, End exclusive.
	Start, End record.Offset
	// Bytes is the log size of the alive segment entries, Segments their number.
	Bytes    int64
	Segments int64
	// Pages are the older entries, by reference.
	Pages []PageRef
	// Recent are the newest entries.
	Recent []Entry
	// Tombstones are objects that will be deleted.
	Tombstones []Tombstone
}

// PageRef names an immutable page object and sums up what is in it.
type PageRef struct {
	// From and To bound the offsets of the page's entries, To exclusive.
	From, To record.Offset
	// Epoch is the leader epoch under which the page was written, part of its
	// key, as is Hash, over the page's content.
	Epoch record.Epoch
	Hash  Hash
	// Count is the number of entries, Segments that of segment entries.
	Count, Segments int32
	// Bytes is the log size of the segment entries.
	Bytes int64
	// MaxTimestamp is the highest timestamp of the segment entries in ms since
	// the Unix epoch, and MaxTimestampOffset its offset; both are -1 for a
	// page without a segment entry.
	MaxTimestamp       int64
	MaxTimestampOffset record.Offset
}

// Tombstone marks an object that no manifest from here on names, and that is
// deleted when the grace has passed.
type Tombstone struct {
	// Kind is KeySegment or KeyPage.
	Kind KeyKind
	// Base, Epoch and Hash are the parts of the object's key.
	Base  record.Offset
	Epoch record.Epoch
	Hash  Hash
	// Size is the size of the object in bytes, 0 when it is not known.
	Size int64
	// AtMs is the wall time at which the tombstone was set, in ms since the
	// Unix epoch.
	AtMs int64
}

// objectID is what distinguishes the objects of a partition's chain.
type objectID struct {
	kind  KeyKind
	base  record.Offset
	epoch record.Epoch
	hash  Hash
}

func (e Entry) object() objectID     { return objectID{KeySegment, e.From, e.Epoch, e.Hash} }
func (p PageRef) object() objectID   { return objectID{KeyPage, p.From, p.Epoch, p.Hash} }
func (t Tombstone) object() objectID { return objectID{t.Kind, t.Base, t.Epoch, t.Hash} }

// key is the object's key under root.
func (o objectID) key(root string, id record.TopicID, tp record.TopicPartition) string {
	return Key{Kind: o.kind, TopicID: id, TP: tp, Base: o.base, Epoch: o.epoch, Hash: o.hash}.String(root)
}

// after orders heads: the higher epoch, then the higher sequence, is newer.
func (m *Manifest) after(epoch record.Epoch, seq uint64) bool {
	return m.Epoch > epoch || m.Epoch == epoch && m.Seq > seq
}

// empty says whether no entry is alive.
func (m *Manifest) empty() bool { return m.Start == m.End }

// recentStart is the first offset of Recent, or End when it is empty.
func (m *Manifest) recentStart() record.Offset {
	if len(m.Recent) == 0 {
		return m.End
	}
	return m.Recent[0].From
}

// pageFor is the index of the page that holds o, which must lie in [Start,
// End); ok is false when o lies in Recent.
func (m *Manifest) pageFor(o record.Offset) (i int, ok bool) {
	if o >= m.recentStart() {
		return 0, false
	}
	return sort.Search(len(m.Pages), func(i int) bool { return m.Pages[i].To > o }), true
}

// covering is the entry of sorted, contiguous entries that covers o.
func covering(entries []Entry, o record.Offset) (Entry, bool) {
	i := sort.Search(len(entries), func(i int) bool { return entries[i].To > o })
	if i == len(entries) || !entries[i].Covers(o) {
		return Entry{}, false
	}
	return entries[i], true
}

// check tests everything that one manifest says by itself.
func (m *Manifest) check() error {
	if m.Partition < 0 || m.Epoch < 0 || m.LogStart < 0 || m.Start < 0 || m.End < m.Start {
		return fmt.Errorf("partition %d, epoch %d, log start %d, start %d or end %d is impossible", m.Partition, m.Epoch, m.LogStart, m.Start, m.End)
	}
	at, sums, err := m.checkPages()
	if err != nil {
		return err
	}
	recent, err := m.checkRecent(at)
	if err != nil {
		return err
	}
	if err := m.checkSums(sums, recent); err != nil {
		return err
	}
	return m.checkTombstones()
}

// totals counts segment entries and their log bytes.
type totals struct{ segments, bytes int64 }

// checkPages returns the end of the last page and the totals of all.
func (m *Manifest) checkPages() (at record.Offset, sum totals, err error) {
	at = m.Start
	for i, p := range m.Pages {
		if err := p.check(); err != nil {
			return 0, sum, err
		}
		if i == 0 && (m.Start < p.From || m.Start >= p.To) {
			return 0, sum, fmt.Errorf("start %d lies outside of the first page [%d, %d)", m.Start, p.From, p.To)
		}
		if i > 0 && p.From != at {
			return 0, sum, fmt.Errorf("page [%d, %d) follows offset %d", p.From, p.To, at)
		}
		at = p.To
		sum.segments += int64(p.Segments)
		sum.bytes += p.Bytes
	}
	return at, sum, nil
}

func (p PageRef) check() error {
	if p.From < 0 || p.To <= p.From || p.Epoch < 0 || p.Count <= 0 || p.Segments < 0 || p.Segments > p.Count || p.Bytes < 0 {
		return fmt.Errorf("page [%d, %d) of epoch %d with %d entries, %d segments, %d bytes is impossible", p.From, p.To, p.Epoch, p.Count, p.Segments, p.Bytes)
	}
	return nil
}

// checkRecent tests that the recent entries go from at to the end.
func (m *Manifest) checkRecent(at record.Offset) (sum totals, err error) {
	for _, e := range m.Recent {
		if err := e.check(); err != nil {
			return sum, err
		}
		if e.From != at {
			return sum, fmt.Errorf("%v follows offset %d", e, at)
		}
		at = e.To
		sum.add(e)
	}
	if at != m.End {
		return sum, fmt.Errorf("the entries end at %d, the end is %d", at, m.End)
	}
	return sum, nil
}

func (t *totals) add(e Entry) {
	if e.Kind == KindSegment {
		t.segments++
		t.bytes += e.LogSize
	}
}

// checkSums compares the counts with what the entries sum up to. Of the first
// page some entries may be dead, so that there is a range to lie in.
func (m *Manifest) checkSums(pages, recent totals) error {
	high := totals{pages.segments + recent.segments, pages.bytes + recent.bytes}
	low := high
	if len(m.Pages) > 0 && m.Start > m.Pages[0].From {
		low.segments -= int64(m.Pages[0].Segments)
		low.bytes -= m.Pages[0].Bytes
	}
	if m.Segments < low.segments || m.Segments > high.segments || m.Bytes < low.bytes || m.Bytes > high.bytes {
		return fmt.Errorf("%d segments of %d bytes are counted, the entries have %d to %d of %d to %d bytes",
			m.Segments, m.Bytes, low.segments, high.segments, low.bytes, high.bytes)
	}
	return nil
}

func (m *Manifest) checkTombstones() error {
	named := m.named()
	seen := make(map[objectID]bool, len(m.Tombstones))
	for _, t := range m.Tombstones {
		id := t.object()
		switch {
		case t.Kind != KeySegment && t.Kind != KeyPage, t.Base < 0, t.Epoch < 0, t.Size < 0:
			return fmt.Errorf("tombstone of kind %d, base %d, epoch %d, size %d is impossible", t.Kind, t.Base, t.Epoch, t.Size)
		case named[id]:
			return fmt.Errorf("object at %d of epoch %d is named and under a tombstone", t.Base, t.Epoch)
		case seen[id]:
			return fmt.Errorf("object at %d of epoch %d has two tombstones", t.Base, t.Epoch)
		}
		seen[id] = true
	}
	return nil
}

// named is every object that the head itself names.
func (m *Manifest) named() map[objectID]bool {
	named := make(map[objectID]bool, len(m.Recent)+len(m.Pages))
	for _, e := range m.Recent {
		if e.Kind == KindSegment {
			named[e.object()] = true
		}
	}
	for _, p := range m.Pages {
		named[p.object()] = true
	}
	return named
}

// checkSuccessor tests that m may follow prev, beyond what check tests.
func (m *Manifest) checkSuccessor(prev *Manifest) error {
	switch {
	case m.TopicID != prev.TopicID || m.Partition != prev.Partition:
		return fmt.Errorf("manifest of partition %d of topic %v follows one of partition %d of topic %v", m.Partition, m.TopicID, prev.Partition, prev.TopicID)
	case m.Epoch < prev.Epoch || m.Seq <= prev.Seq:
		return fmt.Errorf("head (%d, %d) follows (%d, %d)", m.Epoch, m.Seq, prev.Epoch, prev.Seq)
	case m.LogStart < prev.LogStart || m.Start < prev.Start || m.End < prev.End:
		return fmt.Errorf("log start %d, start %d or end %d fell; they were %d, %d and %d", m.LogStart, m.Start, m.End, prev.LogStart, prev.Start, prev.End)
	case m.Start > prev.Start && m.Start > m.LogStart:
		return fmt.Errorf("the start rose from %d to %d, beyond the log start %d", prev.Start, m.Start, m.LogStart)
	}
	kept := m.named()
	for _, t := range m.Tombstones {
		kept[t.object()] = true
	}
	for _, e := range prev.Recent {
		if e.Kind == KindSegment && !kept[e.object()] && !m.inPages(e) {
			return fmt.Errorf("%v was dropped without a tombstone", e)
		}
	}
	for _, p := range prev.Pages {
		if !kept[p.object()] {
			return fmt.Errorf("page [%d, %d) was dropped without a tombstone", p.From, p.To)
		}
	}
	return nil
}

// inPages says whether a page covers all of the entry.
func (m *Manifest) inPages(e Entry) bool {
	i := sort.Search(len(m.Pages), func(i int) bool { return m.Pages[i].To > e.From })
	return i < len(m.Pages) && m.Pages[i].From <= e.From && e.To <= m.Pages[i].To && e.From >= m.Start
}
