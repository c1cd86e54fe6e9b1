// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"crypto/sha256"
	"fmt"

	"firn/record"
)

// page is an immutable object with older entries of a manifest, ready for its
// upload: the reference that the head will hold, and the object's bytes.
type page struct {
	ref   PageRef
	bytes []byte
}

// pageHeadSize is what lies in a page's body before the entries.
const pageHeadSize = 16 + 4 + 4

// pageObjectSize is the size in bytes of a page object with n entries.
func pageObjectSize(n int) int64 { return frameOverhead + pageHeadSize + int64(n)*entrySize }

// makePage encodes entries, which are contiguous and at least one.
func makePage(id record.TopicID, partition int32, epoch record.Epoch, entries []Entry) page {
	body := make([]byte, 0, pageObjectSize(len(entries)))
	body = append(body, id[:]...)
	body = appendU32(body, uint32(partition))
	body = appendCount(body, len(entries))
	for _, e := range entries {
		body = appendEntry(body, e)
	}
	encoded := appendFrame(nil, magicPage, body)
	ref := sumUp(entries)
	ref.Epoch, ref.Hash = epoch, contentHash(encoded)
	return page{ref: ref, bytes: encoded}
}

// sumUp is what a reference says of a page's entries, without Epoch and Hash.
func sumUp(entries []Entry) PageRef {
	ref := PageRef{
		From: entries[0].From, To: entries[len(entries)-1].To,
		Count:        int32(len(entries)),
		MaxTimestamp: record.NoTimestamp, MaxTimestampOffset: record.NoOffset,
	}
	for _, e := range entries {
		if e.Kind != KindSegment {
			continue
		}
		ref.Segments++
		ref.Bytes += e.LogSize
		if ref.MaxTimestampOffset == record.NoOffset || e.MaxTimestamp > ref.MaxTimestamp {
			ref.MaxTimestamp, ref.MaxTimestampOffset = e.MaxTimestamp, e.MaxTimestampOffset
		}
	}
	return ref
}

// contentHash is the first 16 bytes of SHA-256 over b.
func contentHash(b []byte) Hash {
	sum := sha256.Sum256(b)
	return Hash(sum[:len(Hash{})])
}

// parsePage reads the page object that ref names and checks that it is the one
// that ref means. The error is a *record.CorruptionError or wraps
// record.ErrUnsupportedVersion.
func parsePage(path string, b []byte, id record.TopicID, partition int32, ref PageRef) ([]Entry, error) {
	if got := contentHash(b); got != ref.Hash {
		return nil, corrupt(path, 0, "hash of the page is %v, the head says %v", got, ref.Hash)
	}
	pageID, pagePartition, entries, err := decodePage(path, b)
	if err != nil {
		return nil, err
	}
	if pageID != id || pagePartition != partition {
		return nil, corrupt(path, frameHeadSize, "page of partition %d of topic %v, want partition %d of topic %v", pagePartition, pageID, partition, id)
	}
	want := sumUp(entries)
	want.Epoch, want.Hash = ref.Epoch, ref.Hash
	if want != ref {
		return nil, corrupt(path, frameHeadSize, "the page sums up to %+v, the head says %+v", want, ref)
	}
	return entries, nil
}

// decodePage reads a page object as far as it stands by itself.
func decodePage(path string, b []byte) (id record.TopicID, partition int32, entries []Entry, err error) {
	body, err := openFrame(path, magicPage, b)
	if err != nil {
		return id, 0, nil, fmt.Errorf("read page: %w", err)
	}
	r := newBodyReader(path, body)
	id, partition = r.id(), int32(r.u32())
	n := r.count(entrySize)
	if n == 0 {
		r.fail("a page without entries")
	}
	entries = r.entries(n)
	if partition < 0 {
		r.fail("partition is %d", partition)
	}
	if err := r.end(); err != nil {
		return id, 0, nil, fmt.Errorf("read page: %w", err)
	}
	return id, partition, entries, nil
}

// entries reads n contiguous entries.
func (r *bodyReader) entries(n int) []Entry {
	entries := make([]Entry, 0, n)
	for i := range n {
		e := r.entry()
		if r.err != nil {
			return nil
		}
		if i > 0 && e.From != entries[i-1].To {
			r.fail("%v follows offset %d", e, entries[i-1].To)
			return nil
		}
		entries = append(entries, e)
	}
	return entries
}
