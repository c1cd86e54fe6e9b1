// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"
	"math"

	"firn/record"
)

// Sizes of the parts of a head's body, in bytes.
const (
	pageRefSize   = 72
	tombstoneSize = 56
)

// encode is the head object of the manifest. The caller checked it.
func (m *Manifest) encode() []byte {
	b := make([]byte, 0, 128+len(m.Pages)*pageRefSize+len(m.Recent)*entrySize+len(m.Tombstones)*tombstoneSize)
	b = append(b, m.TopicID[:]...)
	b = appendU32(b, uint32(m.Partition))
	b = appendEpoch(b, m.Epoch)
	b = appendU64(b, m.Seq)
	b = append(b, m.Writer[:]...)
	b = appendI64(b, m.CreatedMs)
	b = appendOffset(b, m.LogStart)
	b = appendOffset(b, m.Start)
	b = appendOffset(b, m.End)
	b = appendI64(b, m.Bytes)
	b = appendI64(b, m.Segments)
	b = appendCount(b, len(m.Pages))
	for _, p := range m.Pages {
		b = appendPageRef(b, p)
	}
	b = appendCount(b, len(m.Recent))
	for _, e := range m.Recent {
		b = appendEntry(b, e)
	}
	b = appendCount(b, len(m.Tombstones))
	for _, t := range m.Tombstones {
		b = appendTombstone(b, t)
	}
	return appendFrame(nil, magicHead, b)
}

func appendPageRef(b []byte, p PageRef) []byte {
	b = appendOffset(b, p.From)
	b = appendOffset(b, p.To)
	b = appendEpoch(b, p.Epoch)
	b = appendU32(b, uint32(p.Count))
	b = append(b, p.Hash[:]...)
	b = appendU32(b, uint32(p.Segments))
	b = appendU32(b, 0)
	b = appendI64(b, p.Bytes)
	b = appendI64(b, p.MaxTimestamp)
	return appendOffset(b, p.MaxTimestampOffset)
}

func (r *bodyReader) pageRef() PageRef {
	p := PageRef{From: r.offset(), To: r.offset(), Epoch: r.epoch(), Count: int32(r.u32()), Hash: r.id(), Segments: int32(r.u32())}
	r.zero(4)
	p.Bytes, p.MaxTimestamp, p.MaxTimestampOffset = r.i64(), r.i64(), r.offset()
	return p
}

func appendTombstone(b []byte, t Tombstone) []byte {
	b = append(b, uint8(t.Kind), 0, 0, 0)
	b = appendEpoch(b, t.Epoch)
	b = appendOffset(b, t.Base)
	b = append(b, t.Hash[:]...)
	b = appendI64(b, t.Size)
	b = appendI64(b, t.AtMs)
	return appendI64(b, 0)
}

func (r *bodyReader) tombstone() Tombstone {
	t := Tombstone{Kind: KeyKind(r.u8())}
	r.zero(3)
	t.Epoch, t.Base, t.Hash, t.Size, t.AtMs = r.epoch(), r.offset(), r.id(), r.i64(), r.i64()
	r.zero(8)
	return t
}

// DecodeHead reads a head object. path names it in errors. The error is a
// *record.CorruptionError or wraps record.ErrUnsupportedVersion. What it
// returns holds the invariants of a Manifest.
func DecodeHead(path string, b []byte) (*Manifest, error) {
	body, err := openFrame(path, magicHead, b)
	if err != nil {
		return nil, fmt.Errorf("read head: %w", err)
	}
	r := newBodyReader(path, body)
	m := &Manifest{TopicID: r.id(), Partition: int32(r.u32()), Epoch: r.epoch(), Seq: r.u64(), Writer: r.id(), CreatedMs: r.i64()}
	m.LogStart, m.Start, m.End = r.offset(), r.offset(), r.offset()
	m.Bytes, m.Segments = r.i64(), r.i64()
	m.Pages = readItems(r, pageRefSize, r.pageRef)
	m.Recent = r.entries(r.count(entrySize))
	m.Tombstones = readItems(r, tombstoneSize, r.tombstone)
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("read head: %w", err)
	}
	if err := m.checkBounds(); err != nil {
		return nil, fmt.Errorf("read head: %w", corrupt(path, frameHeadSize, "%v", err))
	}
	return m, nil
}

// readItems reads a count and that many items of size bytes each.
func readItems[T any](r *bodyReader, size int, item func() T) []T {
	n := r.count(size)
	items := make([]T, 0, n)
	for range n {
		items = append(items, item())
	}
	return items
}

// checkBounds is check for a manifest of unknown origin, whose sums could
// overflow.
func (m *Manifest) checkBounds() error {
	if m.Seq == 0 {
		return fmt.Errorf("sequence is 0")
	}
	var bytes int64
	for _, p := range m.Pages {
		if p.Bytes < 0 || p.Bytes > math.MaxInt64-bytes {
			return fmt.Errorf("page [%d, %d) has %d bytes", p.From, p.To, p.Bytes)
		}
		bytes += p.Bytes
	}
	for _, e := range m.Recent {
		if e.LogSize < 0 || e.LogSize > math.MaxInt64-bytes {
			return fmt.Errorf("%v has %d bytes", e, e.LogSize)
		}
		bytes += e.LogSize
	}
	return m.check()
}

// headRef names a head as its key does.
type headRef struct {
	epoch  record.Epoch
	seq    uint64
	writer WriterID
}

func (m *Manifest) ref() headRef { return headRef{m.Epoch, m.Seq, m.Writer} }

// above orders heads by (epoch, seq).
func (h headRef) above(o headRef) bool {
	return h.epoch > o.epoch || h.epoch == o.epoch && h.seq > o.seq
}

// key is the head's whole key.
func (h headRef) key(root string, id record.TopicID, tp record.TopicPartition) string {
	return Key{Kind: KeyHead, TopicID: id, TP: tp, Epoch: h.epoch, Seq: h.seq, Writer: h.writer}.String(root)
}
