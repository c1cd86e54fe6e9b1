// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"
	"slices"

	"firn/record"
)

// shape is how large the parts of a manifest get.
type shape struct {
	// page is the number of entries in a page.
	page int
	// keep is how many of the newest entries stay in the head when a page is
	// written.
	keep int
	// tombstones is how many a head holds before dropping entries waits for
	// earlier ones to be deleted.
	tombstones int
}

// defaultShape keeps a head under about 250 KiB however long the history is:
// an update is one small PUT, and a page is one for every 1,000 segments.
var defaultShape = shape{page: 1000, keep: 64, tombstones: 1000}

// The functions below are the only way to another manifest. They are pure:
// they leave the receiver as it is. None sets Epoch, Seq, Writer or CreatedMs;
// that is done when the head is written.

// reach makes the next append at base contiguous: it fills the offsets from
// the chain's end to base with a gap. An empty chain simply begins at base,
// or with a gap at its log start when that lies below.
func (m Manifest) reach(base record.Offset, reason GapReason) Manifest {
	from := m.End
	if m.empty() {
		from = max(m.End, m.LogStart)
	}
	if from >= base {
		return m
	}
	return m.push(Gap(from, base, reason))
}

// append adds a segment at the chain's end. An empty chain may begin anywhere
// above what it once held, up to the log start; reach sees to it.
func (m Manifest) append(e Entry) (Manifest, error) {
	if err := e.check(); err != nil {
		return m, fmt.Errorf("append to the manifest: %w", err)
	}
	begins := m.empty() && e.From >= m.End && e.From <= max(m.End, m.LogStart)
	if e.From != m.End && !begins {
		return m, fmt.Errorf("append to the manifest: %v does not follow offset %d", e, m.End)
	}
	return m.push(e), nil
}

func (m Manifest) push(e Entry) Manifest {
	if m.empty() {
		m.Start = e.From
	}
	m.End = e.To
	m.Recent = append(slices.Clip(m.Recent), e)
	if e.Kind == KindSegment {
		m.Segments++
		m.Bytes += e.LogSize
	}
	return m
}

// withLogStart raises the log start. A lower one changes nothing.
func (m Manifest) withLogStart(o record.Offset) Manifest {
	m.LogStart = max(m.LogStart, o)
	return m
}

// droppable says whether the oldest entry that is alive may lie wholly below
// the log start, and drop would find something to do. In doubt, inside the
// first page, it says yes.
func (m *Manifest) droppable() bool {
	switch {
	case m.empty() || m.Start >= m.LogStart:
		return false
	case len(m.Pages) > 0:
		return true
	}
	return m.Recent[0].To <= m.LogStart
}

// drop gives up the oldest entries that lie wholly below the log start: those
// of the first page, whose entries the caller loaded, or without pages those
// of Recent. At most room objects get a tombstone. Call it again while it
// drops something and there is room.
func (m Manifest) drop(page []Entry, atMs int64, room int) (next Manifest, dropped int, err error) {
	entries := m.Recent
	if len(m.Pages) > 0 {
		ref := m.Pages[0]
		if len(page) == 0 || page[0].From != ref.From || page[len(page)-1].To != ref.To {
			return m, 0, fmt.Errorf("drop from the manifest: these are not the entries of page [%d, %d)", ref.From, ref.To)
		}
		entries = page
	}
	m.Tombstones = slices.Clip(m.Tombstones)
	for _, e := range entries {
		if e.From < m.Start {
			continue
		}
		if e.To > m.LogStart || e.Kind == KindSegment && room == 0 {
			break
		}
		if e.Kind == KindSegment {
			m = m.bury(e, atMs)
			room--
		}
		m.Start = e.To
		dropped++
	}
	if len(m.Pages) == 0 {
		m.Recent = m.Recent[dropped:]
	} else if m.Start == m.Pages[0].To {
		m.Tombstones = append(m.Tombstones, m.Pages[0].tombstone(atMs))
		m.Pages = m.Pages[1:]
	}
	return m, dropped, nil
}

// bury moves a segment from the counts to the tombstones.
func (m Manifest) bury(e Entry, atMs int64) Manifest {
	m.Segments--
	m.Bytes -= e.LogSize
	m.Tombstones = append(m.Tombstones, e.tombstone(atMs))
	return m
}

func (e Entry) tombstone(atMs int64) Tombstone {
	return Tombstone{Kind: KeySegment, Base: e.From, Epoch: e.Epoch, Hash: e.Hash, Size: e.ObjectSize, AtMs: atMs}
}

func (p PageRef) tombstone(atMs int64) Tombstone {
	return Tombstone{Kind: KeyPage, Base: p.From, Epoch: p.Epoch, Hash: p.Hash, Size: pageObjectSize(int(p.Count)), AtMs: atMs}
}

// spill moves the oldest recent entries into a page once there are enough.
// The page must be in the bucket before the manifest is written.
func (m Manifest) spill(s shape, epoch record.Epoch) (next Manifest, p page, ok bool) {
	if len(m.Recent) < s.page+s.keep {
		return m, page{}, false
	}
	p = m.newPage(m.Recent[:s.page:s.page], epoch)
	m.Pages = append(slices.Clip(m.Pages), p.ref)
	m.Recent = slices.Clone(m.Recent[s.page:])
	return m, p, true
}

func (m *Manifest) newPage(entries []Entry, epoch record.Epoch) page {
	return makePage(m.TopicID, m.Partition, epoch, entries)
}

// replace puts one entry in the place of the recent entries that cover exactly
// its offsets, and buries their objects.
func (m Manifest) replace(e Entry, atMs int64) (Manifest, error) {
	recent, old, err := splice(m.Recent, e)
	if err != nil {
		return m, err
	}
	m.Recent = recent
	return m.exchange(e, old, atMs), nil
}

// replaceInPage does the same inside the i-th page, whose entries the caller
// loaded. The new page must be in the bucket before the manifest is written.
func (m Manifest) replaceInPage(i int, entries []Entry, e Entry, epoch record.Epoch, atMs int64) (Manifest, page, error) {
	if i < 0 || i >= len(m.Pages) || e.From < m.Start {
		return m, page{}, fmt.Errorf("replace in the manifest: %v is not alive in page %d of %d", e, i, len(m.Pages))
	}
	spliced, old, err := splice(entries, e)
	if err != nil {
		return m, page{}, err
	}
	p := m.newPage(spliced, epoch)
	gone := m.Pages[i]
	if p.ref.From != gone.From || p.ref.To != gone.To {
		return m, page{}, fmt.Errorf("replace in the manifest: these are not the entries of page [%d, %d)", gone.From, gone.To)
	}
	m.Pages = slices.Clone(m.Pages)
	m.Pages[i] = p.ref
	m = m.exchange(e, old, atMs)
	m.Tombstones = append(m.Tombstones, gone.tombstone(atMs))
	return m, p, nil
}

// splice replaces the entries that cover exactly [e.From, e.To) by e.
func splice(entries []Entry, e Entry) (spliced, old []Entry, err error) {
	if err := e.check(); err != nil {
		return nil, nil, fmt.Errorf("replace in the manifest: %w", err)
	}
	a := slices.IndexFunc(entries, func(x Entry) bool { return x.From == e.From })
	b := slices.IndexFunc(entries, func(x Entry) bool { return x.To == e.To })
	if a < 0 || b < a {
		return nil, nil, fmt.Errorf("replace in the manifest: no entries cover exactly %v", e)
	}
	old = entries[a : b+1]
	if slices.ContainsFunc(old, func(x Entry) bool { return x.Kind == KindSegment && x.object() == e.object() }) {
		return nil, nil, fmt.Errorf("replace in the manifest: %v is there already", e)
	}
	return slices.Replace(slices.Clone(entries), a, b+1, e), old, nil
}

// exchange adjusts counts and tombstones for entries that e replaced.
func (m Manifest) exchange(e Entry, old []Entry, atMs int64) Manifest {
	m.Tombstones = slices.Clip(m.Tombstones)
	for _, o := range old {
		if o.Kind == KindSegment {
			m = m.bury(o, atMs)
		}
	}
	if e.Kind == KindSegment {
		m.Segments++
		m.Bytes += e.LogSize
	}
	return m
}

// condemn sets tombstones for objects that no head ever named, left by an
// upload whose manifest was never written. Those that are named or condemned
// already are left as they are.
func (m Manifest) condemn(orphans []Tombstone) Manifest {
	known := m.named()
	for _, t := range m.Tombstones {
		known[t.object()] = true
	}
	m.Tombstones = slices.Clip(m.Tombstones)
	for _, t := range orphans {
		if !known[t.object()] {
			known[t.object()] = true
			m.Tombstones = append(m.Tombstones, t)
		}
	}
	return m
}

// forget takes away the tombstones of objects that were deleted.
func (m Manifest) forget(deleted []Tombstone) Manifest {
	gone := make(map[objectID]bool, len(deleted))
	for _, t := range deleted {
		gone[t.object()] = true
	}
	m.Tombstones = slices.DeleteFunc(slices.Clone(m.Tombstones), func(t Tombstone) bool { return gone[t.object()] })
	return m
}
