// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"crypto/sha256"
	"fmt"

	"firn/record"
)

// Batches calls visit for every batch of the log with its position, in order,
// and verifies what it passes: the CRC of every block, the CRC and the offsets
// of every batch, and at the end the digest of the log and the numbers that the
// footer gives. The batch is valid during the call only. It holds one block and
// one batch in memory. The error is visit's, the store's, or a
// *record.CorruptionError; what was visited before it was sound.
func (o *ObjectFile) Batches(ctx context.Context, visit func(position int64, b record.Batch) error) error {
	w := objectWalk{o: o, next: o.Footer.BaseOffset}
	digest := sha256.New()
	for i := range o.Footer.BlockCRCs {
		block, err := o.Block(ctx, i)
		if err != nil {
			return err
		}
		digest.Write(block)
		w.pending = append(w.pending, block...)
		if err := w.split(visit); err != nil {
			return err
		}
	}
	log := o.Footer.Section(SectionLog)
	switch {
	case len(w.pending) > 0:
		return corrupt(o.Key, w.position, "log ends %d bytes into a batch", len(w.pending))
	case [sha256.Size]byte(digest.Sum(nil)) != log.Digest:
		return corrupt(o.Key, 0, "SHA-256 of the log is %x, the footer says %x", digest.Sum(nil), log.Digest)
	case w.batches != o.Footer.Batches || w.records != o.Footer.Records:
		return corrupt(o.Key, log.Length, "%d records in %d batches, the footer says %d in %d", w.records, w.batches, o.Footer.Records, o.Footer.Batches)
	}
	return nil
}

// Check verifies every byte of the object: all sections by their digests and
// contents, and the log as Batches does. It returns all that is wrong, joined.
func (o *ObjectFile) Check(ctx context.Context, visit func(position int64, b record.Batch) error) []error {
	var faults []error
	for _, s := range o.Footer.Sections {
		if err := o.checkSection(ctx, s.Kind); err != nil {
			faults = append(faults, err)
		}
	}
	if err := o.Batches(ctx, visit); err != nil {
		faults = append(faults, err)
	}
	return faults
}

// checkSection reads one section and takes it apart. The log is for Batches.
func (o *ObjectFile) checkSection(ctx context.Context, k SectionKind) error {
	b, err := o.Section(ctx, k)
	if err != nil {
		return err
	}
	f := o.Footer
	switch k {
	case SectionOffsetIndex:
		err = record.CheckIndex(b, f.BaseOffset, f.LogSize())
	case SectionTimeIndex:
		err = record.CheckTimeIndex(b, f.BaseOffset, f.NextOffset)
	case SectionAbortedTxns:
		_, err = record.ParseTxnIndex(b, 0)
	case SectionProducerState:
		_, err = record.ParseProducers(b)
	case SectionLeaderEpochs:
		_, err = record.ParseEpochs(b)
	}
	if err != nil {
		return sectionError(o.Key, f.Section(k), err)
	}
	return nil
}

// objectWalk cuts a log that comes block by block into batches.
type objectWalk struct {
	o                *ObjectFile
	pending          []byte // read and not visited
	position         int64  // of pending
	next             record.Offset
	batches, records int64
}

// split visits the whole batches in pending and keeps the rest.
func (w *objectWalk) split(visit func(position int64, b record.Batch) error) error {
	rest := w.pending
	for len(rest) >= record.HeaderSize {
		h, err := record.ParseHeader(rest)
		if err != nil {
			return corrupt(w.o.Key, w.position, "%v", err)
		}
		if w.position+int64(h.Size()) > w.o.Footer.LogSize() {
			return corrupt(w.o.Key, w.position, "batch of %d bytes reaches beyond the log", h.Size())
		}
		if h.Size() > len(rest) {
			break
		}
		batch, after, err := record.SplitBatch(rest)
		if err == nil {
			err = batch.CheckCRC()
		}
		if err != nil {
			return corrupt(w.o.Key, w.position, "%v", err)
		}
		if h.BaseOffset < w.next || h.NextOffset() > w.o.Footer.NextOffset {
			return corrupt(w.o.Key, w.position, "batch of the offsets %d to %d, want them between %d and %d", h.BaseOffset, h.NextOffset(), w.next, w.o.Footer.NextOffset)
		}
		if err := visit(w.position, batch); err != nil {
			return fmt.Errorf("batch at byte %d: %w", w.position, err)
		}
		w.next, w.position = h.NextOffset(), w.position+int64(h.Size())
		w.batches++
		w.records += int64(h.Count)
		rest = after
	}
	w.pending = append(w.pending[:0], rest...)
	return nil
}
