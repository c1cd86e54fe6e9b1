// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"crypto/sha256"
	"fmt"

	"firn/record"
	"firn/tier/store"
)

// ObjectFile is a segment object in the bucket, opened by its key with nothing
// else at hand: no manifest, no topic. Tools inspect objects through it, and a
// partition that restarts at the end of its chain takes its state from it. It
// may be used by many goroutines. It keeps the footer, nothing else.
type ObjectFile struct {
	Key    string
	Size   int64 // bytes
	Hash   Hash
	Footer *Footer

	store store.Store
}

// OpenObject reads the footer of the object at key, with a HEAD and a GET, and
// checks that the key ends with its hash. The error is a
// *record.CorruptionError, wraps record.ErrUnsupportedVersion, or is the
// store's.
func OpenObject(ctx context.Context, s store.Store, key string) (*ObjectFile, error) {
	info, err := s.Head(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("open object: %w", err)
	}
	tail := make([]byte, min(info.Size, maxFooterSize))
	if _, err := s.GetRange(ctx, key, tail, info.Size-int64(len(tail))); err != nil {
		return nil, fmt.Errorf("open object: %w", err)
	}
	f, err := ParseFooter(key, tail, info.Size)
	if err != nil {
		return nil, fmt.Errorf("open object: %w", err)
	}
	o := &ObjectFile{Key: key, Size: info.Size, Footer: f, store: s}
	o.Hash = footerHash(tail[int64(len(tail))-f.Size():])
	if err := checkKeyHash(key, o.Hash); err != nil {
		return nil, fmt.Errorf("open object: %w", err)
	}
	return o, nil
}

// Entry is the chain's entry for the object, as far as the object itself knows
// it: without Epoch, which is in its key, SealedMs and UploadedMs.
func (o *ObjectFile) Entry() Entry { return o.Footer.entry(o.Hash) }

// Block reads and verifies block i of the log, BlockSize bytes or the rest.
func (o *ObjectFile) Block(ctx context.Context, i int) ([]byte, error) {
	if i < 0 || i >= len(o.Footer.BlockCRCs) {
		return nil, fmt.Errorf("read block %d of %s: it has %d", i, o.Key, len(o.Footer.BlockCRCs))
	}
	position := int64(i) * BlockSize
	b := make([]byte, min(BlockSize, o.Footer.LogSize()-position))
	if _, err := o.store.GetRange(ctx, o.Key, b, position); err != nil {
		return nil, fmt.Errorf("read block %d: %w", i, err)
	}
	if err := o.Footer.verifyBlock(o.Key, position, b, nil); err != nil {
		return nil, fmt.Errorf("read block %d: %w", i, err)
	}
	return b, nil
}

// Section reads and verifies one section behind the log; the log is read by
// Block.
func (o *ObjectFile) Section(ctx context.Context, k SectionKind) ([]byte, error) {
	s := o.Footer.Section(k)
	if k == SectionLog || s.Length == 0 {
		return nil, nil
	}
	b := make([]byte, s.Length)
	if _, err := o.store.GetRange(ctx, o.Key, b, s.Position); err != nil {
		return nil, fmt.Errorf("read %v: %w", k, err)
	}
	if err := s.verify(o.Key, b); err != nil {
		return nil, fmt.Errorf("read %v: %w", k, err)
	}
	return b, nil
}

// State reads what a log that begins at the object's end starts from: the
// leader epochs up to there and the producer snapshot.
func (o *ObjectFile) State(ctx context.Context) (record.Epochs, []byte, error) {
	text, err := o.Section(ctx, SectionLeaderEpochs)
	if err != nil {
		return nil, nil, err
	}
	epochs, err := record.ParseEpochs(text)
	if err != nil {
		return nil, nil, fmt.Errorf("parse leader epochs of %s: %w", o.Key, err)
	}
	snapshot, err := o.Section(ctx, SectionProducerState)
	if err != nil {
		return nil, nil, err
	}
	return epochs, snapshot, nil
}

// verify compares a section's content with its digest.
func (s Section) verify(path string, content []byte) error {
	if got := sha256.Sum256(content); got != s.Digest {
		return &record.CorruptionError{Path: path, Position: s.Position, Reason: fmt.Sprintf("SHA-256 of the %v is %x, the footer says %x", s.Kind, got, s.Digest)}
	}
	return nil
}
