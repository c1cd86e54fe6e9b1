// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"firn/internal/bulk"
	"firn/record"
	"firn/tier/store"
)

// Object is a segment object that is ready for its upload: everything behind
// the log in memory, the log itself still in the sealed segment's file. It is
// immutable and may be used by many goroutines; the segment must stay pinned as
// long as the Object's Source is read.
type Object struct {
	turns  *bulk.Turns
	sealed Sealed
	path   string // of the log, for errors
	footer *Footer
	hash   Hash
	tail   []byte // the sections behind the log, and the footer
	crc    uint32
}

// BuildObject is pass one of an upload. It reads the sealed segment's log once,
// past the page cache, checks every batch (see logScan) and makes the index
// sections and the footer from what it read. The caller keeps s pinned from
// before the call until it is done with the Object.
//
// The error is a *record.CorruptionError when the segment is not what was
// written, an error of s, or ctx's. Memory: one block, and the index sections
// (about 20 bytes for each 4 KiB of log).
func BuildObject(ctx context.Context, s Sealed, turns *bulk.Turns) (*Object, error) {
	b := newObjectBuilder(s)
	b.turns = turns
	if err := b.readLog(ctx); err != nil {
		return nil, fmt.Errorf("check segment %s: %w", b.path, err)
	}
	o, err := b.finish()
	if err != nil {
		return nil, fmt.Errorf("build the object of segment %s: %w", b.path, err)
	}
	return o, nil
}

// Footer is the object's footer, which the caller must not change.
func (o *Object) Footer() *Footer { return o.footer }

// Hash is what stands in the object's key.
func (o *Object) Hash() Hash { return o.hash }

// Size is the size of the whole object in bytes.
func (o *Object) Size() int64 { return o.footer.ObjectSize() }

// CRC32C is the CRC-32C of the whole object, for store.PutOptions.
func (o *Object) CRC32C() uint32 { return o.crc }

// Entry is the object's entry for the chain. Its Epoch, SealedMs and UploadedMs
// are the caller's to fill in.
func (o *Object) Entry() Entry { return o.footer.entry(o.hash) }

// entry is the chain's entry for the object that f ends.
func (f *Footer) entry(hash Hash) Entry {
	return Entry{
		Kind:               KindSegment,
		From:               f.BaseOffset,
		To:                 f.NextOffset,
		FirstEpoch:         f.FirstEpoch,
		LastEpoch:          f.LastEpoch,
		Hash:               hash,
		ObjectSize:         f.ObjectSize(),
		LogSize:            f.LogSize(),
		FooterSize:         int32(f.Size()),
		FirstTimestamp:     f.FirstTimestamp,
		MaxTimestamp:       f.MaxTimestamp,
		MaxTimestampOffset: f.MaxTimestampOffset,
		Records:            f.Records,
		HasAborted:         f.Section(SectionAbortedTxns).Length > 0,
	}
}

// objectBuilder is what BuildObject knows while it reads.
type objectBuilder struct {
	turns     *bulk.Turns
	sealed    Sealed
	path      string
	scan      *logScan
	index     *indexer
	blockCRCs []uint32
	digest    hash.Hash // SHA-256 of the log
	crc       uint32    // of the object so far
}

func newObjectBuilder(s Sealed) *objectBuilder {
	path := s.BaseOffset().FileName() + ".log"
	index := newIndexer(s.BaseOffset())
	return &objectBuilder{
		sealed: s,
		path:   path,
		scan:   newLogScan(path, s.BaseOffset(), s.NextOffset(), index.add),
		index:  index,
		digest: sha256.New(),
	}
}

// readLog takes in the whole log, block by block.
func (b *objectBuilder) readLog(ctx context.Context) error {
	size := b.sealed.Size()
	if size < record.HeaderSize || size > maxLogSize {
		return &record.CorruptionError{Path: b.path, Reason: fmt.Sprintf("log has %d bytes, want %d to %d", size, record.HeaderSize, maxLogSize)}
	}
	if span := int64(b.sealed.NextOffset()) - int64(b.sealed.BaseOffset()); span < 1 || span-1 > record.MaxRelativeOffset {
		return &record.CorruptionError{Path: b.path, Reason: fmt.Sprintf("segment holds the offsets from %d to %d", b.sealed.BaseOffset(), b.sealed.NextOffset())}
	}
	buf := make([]byte, min(size, BlockSize))
	for position := int64(0); position < size; position += BlockSize {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := buf[:min(BlockSize, size-position)]
		if err := readFull(b.sealed, b.path, block, position); err != nil {
			return err
		}
		if err := b.take(block); err != nil {
			return err
		}
	}
	b.index.finish()
	return b.scan.finish()
}

// take checks a block and adds it to every sum, in turns.
func (b *objectBuilder) take(block []byte) error {
	var blockCRC uint32
	var err error
	b.turns.Each(block, func(piece []byte) {
		if err == nil {
			err = b.scan.feed(piece)
		}
		blockCRC = record.UpdateCRC32C(blockCRC, piece)
		b.crc = record.UpdateCRC32C(b.crc, piece)
		b.digest.Write(piece)
	})
	b.blockCRCs = append(b.blockCRCs, blockCRC)
	return err
}

// readFull fills p from the log of s; a log that ends inside p is corrupt.
func readFull(s Sealed, path string, p []byte, off int64) error {
	n, err := s.ReadUncachedAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &record.CorruptionError{Path: path, Position: off + int64(n), Reason: fmt.Sprintf("file ends, want %d bytes from %d on", len(p), off)}
	}
	return fmt.Errorf("read log at byte %d: %w", off, err)
}

// finish lays the sections behind the log and closes with the footer.
func (b *objectBuilder) finish() (*Object, error) {
	snapshot, err := b.producerState()
	if err != nil {
		return nil, err
	}
	f := &Footer{
		BaseOffset: b.sealed.BaseOffset(), NextOffset: b.sealed.NextOffset(),
		FirstEpoch: b.index.firstEpoch, LastEpoch: b.index.lastEpoch,
		FirstTimestamp: b.index.firstTimestamp,
		MaxTimestamp:   b.index.maxTimestamp, MaxTimestampOffset: b.index.maxTimestampOffset,
		Records: b.index.records, Batches: b.index.batches,
		BlockCRCs: b.blockCRCs,
	}
	aborted, err := b.abortedTxns()
	if err != nil {
		return nil, err
	}
	size := b.sealed.Size()
	f.Sections[0] = Section{Kind: SectionLog, Length: size, Digest: [sha256.Size]byte(b.digest.Sum(nil))}
	var tail []byte
	for i, content := range [...][]byte{
		b.index.offsets, b.index.times, aborted, snapshot, b.epochs(),
	} {
		f.Sections[i+1] = Section{
			Kind:     SectionKind(i + 2),
			Position: size + int64(len(tail)),
			Length:   int64(len(content)),
			Digest:   sha256.Sum256(content),
		}
		tail = append(tail, content...)
	}
	if err := f.check(f.ObjectSize()); err != nil {
		return nil, err
	}
	encoded := f.Marshal()
	tail = append(tail, encoded...)
	return &Object{
		turns: b.turns, sealed: b.sealed, path: b.path, footer: f, hash: footerHash(encoded), tail: tail,
		crc: record.UpdateCRC32C(b.crc, tail),
	}, nil
}

// producerState is the segment's producer snapshot, once it is known to be
// whole.
func (b *objectBuilder) producerState() ([]byte, error) {
	snapshot, err := b.sealed.ProducerSnapshot()
	if err != nil {
		return nil, fmt.Errorf("read producer snapshot: %w", err)
	}
	if _, err := record.ParseProducers(snapshot); err != nil {
		return nil, fmt.Errorf("check producer snapshot: %w", err)
	}
	return snapshot, nil
}

// abortedTxns is the section of the transactions that overlap the segment, in
// the order of their markers, whatever order the segment told them in.
func (b *objectBuilder) abortedTxns() ([]byte, error) {
	told, err := b.sealed.AbortedTxns()
	if err != nil {
		return nil, fmt.Errorf("list aborted transactions: %w", err)
	}
	txns := slices.Clone(told)
	slices.SortFunc(txns, func(x, y record.AbortedTxn) int { return cmp.Compare(x.LastOffset, y.LastOffset) })
	var out []byte
	for _, t := range txns {
		if t.FirstOffset < b.sealed.NextOffset() && t.LastOffset >= b.sealed.BaseOffset() {
			out = record.AppendAbortedTxn(out, t)
		}
	}
	if _, err := record.ParseTxnIndex(out, 0); err != nil {
		return nil, fmt.Errorf("check aborted transactions: %w", err)
	}
	return out, nil
}

// epochs is the lineage of leader epochs up to the segment's end.
func (b *objectBuilder) epochs() []byte {
	return b.sealed.Epochs().TruncateFrom(b.sealed.NextOffset()).Marshal()
}

// Source is pass two of an upload: the bytes of the object, in which every
// block of the log is read again, past the page cache, and compared with the
// CRC of pass one before any of it leaves. Each call gives a reader of its own,
// with a buffer of one block; its ReadAt may be called concurrently but then
// reads blocks more than once.
//
// ReadAt fails with a *record.CorruptionError when the file has changed.
func (o *Object) Source() store.Source { return &objectSource{object: o, block: -1} }

// verifyBlock compares the block that starts at byte position with its CRC,
// which is reckoned in turns.
func (f *Footer) verifyBlock(path string, position int64, block []byte, turns *bulk.Turns) error {
	want := f.BlockCRCs[position/BlockSize]
	var got uint32
	turns.Each(block, func(piece []byte) { got = record.UpdateCRC32C(got, piece) })
	if got != want {
		return &record.CorruptionError{Path: path, Position: position, Reason: fmt.Sprintf("CRC-32C of the block of %d bytes is %08x, want %08x", len(block), got, want)}
	}
	return nil
}

// ReadFooter gets the footer of an object that the chain or an upload says is
// there, and checks everything that can be checked without its sections: the
// footer itself, that its hash is the one in e and in key, and that it says
// what e says. The error is a *record.CorruptionError, wraps
// record.ErrUnsupportedVersion, or is the store's.
func ReadFooter(ctx context.Context, s store.Store, key string, e Entry) (*Footer, error) {
	if e.FooterSize < minFooterSize || e.FooterSize > maxFooterSize || e.ObjectSize < int64(e.FooterSize) {
		return nil, fmt.Errorf("read footer of %s: entry says %d of %d bytes", key, e.FooterSize, e.ObjectSize)
	}
	b := make([]byte, e.FooterSize)
	if _, err := s.GetRange(ctx, key, b, e.ObjectSize-int64(len(b))); err != nil {
		return nil, fmt.Errorf("read footer: %w", err)
	}
	return checkFooter(key, b, e)
}

// checkFooter parses the footer at the end of tail and holds it against the
// entry and the key.
func checkFooter(key string, tail []byte, e Entry) (*Footer, error) {
	f, err := ParseFooter(key, tail, e.ObjectSize)
	if err != nil {
		return nil, err
	}
	hash := footerHash(tail[int64(len(tail))-f.Size():])
	if got, want := f.entry(hash), e.described(); got != want {
		return nil, &record.CorruptionError{Path: key, Position: e.ObjectSize - f.Size(), Reason: fmt.Sprintf("footer describes %+v, the chain %+v", got, want)}
	}
	if err := checkKeyHash(key, hash); err != nil {
		return nil, err
	}
	return f, nil
}

// described is the part of e that an object's footer says.
func (e Entry) described() Entry {
	e.Epoch, e.SealedMs, e.UploadedMs = 0, 0, 0
	return e
}

// checkKeyHash says whether key is one of an object whose footer has this hash.
func checkKeyHash(key string, hash Hash) error {
	if want := "-" + hash.String() + segmentSuffix; !strings.HasSuffix(key, want) {
		return &record.CorruptionError{Path: key, Reason: fmt.Sprintf("key does not end with %s, its footer's hash", want)}
	}
	return nil
}
