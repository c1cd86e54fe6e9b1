// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"encoding/binary"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/record"
)

// segmentEntry is a valid entry for [from, to), unlike every other with
// another n.
func segmentEntry(from, to record.Offset, n uint64) Entry {
	e := Entry{
		Kind: KindSegment, From: from, To: to, Epoch: 3, FirstEpoch: 1, LastEpoch: 2,
		ObjectSize: 1500 + int64(n), LogSize: 1000 + int64(n), FooterSize: 400,
		FirstTimestamp: int64(from), MaxTimestamp: int64(to), MaxTimestampOffset: to - 1,
		Records: int64(to - from), HasAborted: n%2 == 0, SealedMs: 5, UploadedMs: 6,
	}
	binary.BigEndian.PutUint64(e.Hash[:], n+1)
	return e
}

// manifestModel is a chain as a plain list, and the objects that exist.
type manifestModel struct {
	m     Manifest
	pages map[objectID][]Entry // page objects that were written

	alive    []Entry
	end      record.Offset
	logStart record.Offset
	next     uint64            // of the next entry's hash
	named    map[objectID]bool // segments alive or dropped but not deleted, and pages
	shape    shape
}

// become takes a new manifest after checking that it may follow the old one.
func (d *manifestModel) become(rt *rapid.T, next Manifest) {
	next.Epoch, next.Seq = d.m.Epoch, d.m.Seq+1
	if err := next.check(); err != nil {
		rt.Fatalf("check: %v", err)
	}
	if err := next.checkSuccessor(&d.m); err != nil {
		rt.Fatalf("checkSuccessor: %v", err)
	}
	decoded, err := DecodeHead("head", next.encode())
	if err != nil {
		rt.Fatalf("decode what was encoded: %v", err)
	}
	if !reflect.DeepEqual(normal(*decoded), normal(next)) {
		rt.Fatalf("decoded %+v, want %+v", *decoded, next)
	}
	d.m = next
}

// normal makes empty and missing lists equal.
func normal(m Manifest) Manifest {
	m.Pages, m.Recent, m.Tombstones = append([]PageRef{}, m.Pages...), append([]Entry{}, m.Recent...), append([]Tombstone{}, m.Tombstones...)
	return m
}

// pageOf is the entries of the i-th page, by its key, through its object.
func (d *manifestModel) pageOf(rt *rapid.T, i int) []Entry {
	entries, ok := d.pages[d.m.Pages[i].object()]
	if !ok {
		rt.Fatalf("page %d was never written", i)
	}
	return entries
}

// write keeps a page as its object says it is.
func (d *manifestModel) write(rt *rapid.T, p page) {
	entries, err := parsePage("page", p.bytes, d.m.TopicID, d.m.Partition, p.ref)
	if err != nil {
		rt.Fatalf("parse what was encoded: %v", err)
	}
	if int64(len(p.bytes)) != pageObjectSize(len(entries)) {
		rt.Fatalf("page of %d bytes, want %d", len(p.bytes), pageObjectSize(len(entries)))
	}
	d.pages[p.ref.object()] = entries
	d.named[p.ref.object()] = true
}

// flat is every alive entry of the manifest.
func (d *manifestModel) flat(rt *rapid.T) []Entry {
	var all []Entry
	for i := range d.m.Pages {
		all = append(all, d.pageOf(rt, i)...)
	}
	all = append(all, d.m.Recent...)
	return slices.DeleteFunc(all, func(e Entry) bool { return e.From < d.m.Start })
}

func (d *manifestModel) append(rt *rapid.T) {
	base := d.end
	if rapid.Bool().Draw(rt, "gap before") {
		base += record.Offset(rapid.IntRange(1, 20).Draw(rt, "gap"))
	}
	e := segmentEntry(base, base+record.Offset(rapid.IntRange(1, 10).Draw(rt, "offsets")), d.next)
	d.next++
	next, err := d.m.reach(base, GapDropOldest).append(e)
	if err != nil {
		rt.Fatal(err)
	}
	from := d.end
	if len(d.alive) == 0 {
		from = max(d.end, d.logStart)
	}
	if from < base {
		d.alive = append(d.alive, Gap(from, base, GapDropOldest))
	}
	d.alive = append(d.alive, e)
	d.end = e.To
	d.named[e.object()] = true
	next, p, ok := next.spill(d.shape, d.m.Epoch)
	if ok {
		d.write(rt, p)
	}
	d.become(rt, next)
}

func (d *manifestModel) raiseLogStart(rt *rapid.T) {
	d.logStart += record.Offset(rapid.IntRange(0, 30).Draw(rt, "rise"))
	next := d.m.withLogStart(d.logStart)
	room := rapid.IntRange(0, 6).Draw(rt, "room")
	for next.droppable() {
		var page []Entry
		if len(next.Pages) > 0 {
			page = d.pages[next.Pages[0].object()]
		}
		had := len(next.Tombstones)
		after, dropped, err := next.drop(page, 77, room)
		if err != nil {
			rt.Fatal(err)
		}
		if dropped == 0 {
			break
		}
		for _, t := range after.Tombstones[had:] {
			if t.Kind == KeySegment {
				room--
			}
		}
		next = after
	}
	if room < 0 {
		rt.Fatalf("drop set %d tombstones too many", -room)
	}
	for len(d.alive) > 0 && d.alive[0].To <= d.logStart && d.alive[0].From < next.Start {
		d.alive = d.alive[1:]
	}
	if room > 0 && len(d.alive) > 0 && d.alive[0].To <= d.logStart {
		rt.Fatalf("%v was not dropped, the log start is %d", d.alive[0], d.logStart)
	}
	d.become(rt, next)
}

func (d *manifestModel) replace(rt *rapid.T) {
	if len(d.alive) == 0 {
		rt.Skip("nothing alive")
	}
	a := rapid.IntRange(0, len(d.alive)-1).Draw(rt, "a")
	b := rapid.IntRange(a, min(a+3, len(d.alive)-1)).Draw(rt, "b")
	e := segmentEntry(d.alive[a].From, d.alive[b].To, d.next)
	d.next++
	i, paged := d.m.pageFor(e.From)
	var next Manifest
	var err error
	if paged {
		var p page
		if next, p, err = d.m.replaceInPage(i, d.pageOf(rt, i), e, d.m.Epoch, 78); err == nil {
			d.write(rt, p)
		} else if e.To <= d.m.Pages[i].To {
			rt.Fatalf("replace in page: %v", err)
		}
	} else if next, err = d.m.replace(e, 78); err != nil {
		rt.Fatalf("replace: %v", err)
	}
	if err != nil {
		return // across a page's end: refused
	}
	d.named[e.object()] = true
	d.alive = slices.Replace(slices.Clone(d.alive), a, b+1, e)
	d.become(rt, next)
}

func (d *manifestModel) condemn(rt *rapid.T) {
	e := segmentEntry(d.end, d.end+1, d.next)
	d.next++
	d.named[e.object()] = true
	next := d.m.condemn([]Tombstone{e.tombstone(1), e.tombstone(2)})
	for _, a := range d.m.Recent { // objects in use are left alone
		if a.Kind == KindSegment {
			next = next.condemn([]Tombstone{a.tombstone(3)})
		}
	}
	d.become(rt, next)
}

func (d *manifestModel) forget(rt *rapid.T) {
	n := rapid.IntRange(0, len(d.m.Tombstones)).Draw(rt, "deleted")
	for _, t := range d.m.Tombstones[:n] {
		if !d.named[t.object()] {
			rt.Fatalf("tombstone of an object that was never there: %+v", t)
		}
		delete(d.named, t.object())
	}
	d.become(rt, d.m.forget(d.m.Tombstones[:n]))
}

// check compares the manifest with the list, and the objects it names or
// condemned with those that exist (M1, M3, M4, M6).
func (d *manifestModel) check(rt *rapid.T) {
	if got := d.flat(rt); !slices.Equal(got, d.alive) {
		rt.Fatalf("alive entries\n%v\nwant\n%v", got, d.alive)
	}
	var sum totals
	exist := d.m.named()
	for _, e := range d.alive {
		sum.add(e)
		if e.Kind == KindSegment {
			exist[e.object()] = true
		}
	}
	for _, t := range d.m.Tombstones {
		exist[t.object()] = true
	}
	if sum != (totals{d.m.Segments, d.m.Bytes}) {
		rt.Fatalf("%d segments of %d bytes are counted, want %+v", d.m.Segments, d.m.Bytes, sum)
	}
	if !maps.Equal(exist, d.named) {
		rt.Fatalf("%d objects are named or condemned, %d exist", len(exist), len(d.named))
	}
	for o := d.m.Start; o < d.m.End; o++ {
		entries := d.m.Recent
		if i, ok := d.m.pageFor(o); ok {
			entries = d.pageOf(rt, i)
		}
		got, ok := covering(entries, o)
		want, _ := covering(d.alive, o)
		if !ok || got != want {
			rt.Fatalf("offset %d is covered by %v, want %v", o, got, want)
		}
	}
}

func TestManifestAgainstAList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := &manifestModel{
			m:     Manifest{TopicID: testTopicID, Partition: 4, Epoch: 2, Writer: WriterID{1}, CreatedMs: 9},
			pages: make(map[objectID][]Entry), named: make(map[objectID]bool),
			shape: shape{page: rapid.IntRange(1, 4).Draw(rt, "page"), keep: rapid.IntRange(0, 3).Draw(rt, "keep")},
		}
		rt.Repeat(map[string]func(*rapid.T){
			"":          d.check,
			"append":    d.append,
			"log start": d.raiseLogStart,
			"replace":   d.replace,
			"condemn":   d.condemn,
			"forget":    d.forget,
		})
	})
}

// eightSegments is a chain of eight segments, and the same with a page.
func eightSegments(t *testing.T) (base, paged Manifest) {
	t.Helper()
	base = Manifest{TopicID: testTopicID, Epoch: 2, Seq: 1}
	for i := range 8 {
		var err error
		if base, err = base.append(segmentEntry(record.Offset(10*i), record.Offset(10*i+10), uint64(i))); err != nil {
			t.Fatal(err)
		}
	}
	paged, _, ok := base.spill(shape{page: 4, keep: 2}, 2)
	if !ok || paged.check() != nil {
		t.Fatal("no page was made")
	}
	return base, paged
}

func TestManifestCheck(t *testing.T) {
	_, paged := eightSegments(t)
	for name, damage := range map[string]func(m *Manifest){
		"hole":                      func(m *Manifest) { m.Recent = slices.Delete(slices.Clone(m.Recent), 2, 3) },
		"hole behind the pages":     func(m *Manifest) { m.Pages[0].To -= 10 },
		"end":                       func(m *Manifest) { m.End++ },
		"start in no page":          func(m *Manifest) { m.Start = 50 },
		"bytes":                     func(m *Manifest) { m.Bytes++ },
		"segments":                  func(m *Manifest) { m.Segments-- },
		"named and condemned":       func(m *Manifest) { m.Tombstones = []Tombstone{m.Recent[1].tombstone(0)} },
		"page named and condemned":  func(m *Manifest) { m.Tombstones = []Tombstone{m.Pages[0].tombstone(0)} },
		"condemned twice":           func(m *Manifest) { m.Tombstones = slices.Repeat([]Tombstone{segmentEntry(0, 1, 99).tombstone(0)}, 2) },
		"tombstone of unknown kind": func(m *Manifest) { m.Tombstones = []Tombstone{{Kind: KeyHead}} },
		"unknown kind":              func(m *Manifest) { m.Recent[0].Kind = 9 },
		"segment with a reason":     func(m *Manifest) { m.Recent[0].Reason = GapExpired },
		"footer beyond the object":  func(m *Manifest) { m.Recent[0].FooterSize = 1 << 20 },
		"negative log start":        func(m *Manifest) { m.LogStart = -1 },
	} {
		m := paged
		m.Pages, m.Recent = slices.Clone(m.Pages), slices.Clone(m.Recent)
		damage(&m)
		if m.check() == nil {
			t.Errorf("%s: passed", name)
		}
	}
}

func TestManifestCheckSuccessor(t *testing.T) {
	_, paged := eightSegments(t)
	for name, change := range map[string]func(m *Manifest){
		"same sequence":             func(m *Manifest) { m.Seq-- },
		"lower epoch":               func(m *Manifest) { m.Epoch-- },
		"another topic":             func(m *Manifest) { m.TopicID[0]++ },
		"lower log start":           func(m *Manifest) { m.LogStart = 4 },
		"shorter":                   func(m *Manifest) { m.Recent = m.Recent[:len(m.Recent)-1]; m.End -= 10 },
		"start above the log start": func(m *Manifest) { m.Start = 10 },
		"page lost":                 func(m *Manifest) { m.Pages = nil; m.Start = 40; m.LogStart = 40 },
		"segment exchanged":         func(m *Manifest) { m.Recent[0] = segmentEntry(40, 50, 500) },
	} {
		prev := paged
		prev.LogStart = 5
		m := prev
		m.Recent = slices.Clone(m.Recent)
		m.Seq++
		if err := m.checkSuccessor(&prev); err != nil {
			t.Fatal(err)
		}
		change(&m)
		if m.checkSuccessor(&prev) == nil {
			t.Errorf("%s: passed", name)
		}
	}
}

func TestManifestChangesAreRefused(t *testing.T) {
	base, paged := eightSegments(t)
	if _, err := base.append(segmentEntry(90, 100, 50)); err == nil {
		t.Error("a segment behind a hole was appended")
	}
	if _, err := base.append(segmentEntry(70, 90, 50)); err == nil {
		t.Error("a segment over the end was appended")
	}
	if _, err := base.replace(segmentEntry(15, 30, 50), 0); err == nil {
		t.Error("a replacement that begins inside an entry was made")
	}
	if _, err := base.replace(segmentEntry(10, 20, 1), 0); err == nil {
		t.Error("an entry was replaced by itself, and its object condemned")
	}
	if _, _, err := paged.drop(base.Recent[1:4], 0, 9); err == nil {
		t.Error("entries of another page were taken for the page's")
	}
	if _, _, err := paged.replaceInPage(1, base.Recent[:4], segmentEntry(0, 10, 50), 2, 0); err == nil {
		t.Error("a page that is not there was replaced")
	}
}
