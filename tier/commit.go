// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"firn/record"
	"firn/tier/store"
)

// keptHeads is how many heads, and how many claims, stay in the bucket.
const keptHeads = 8

// pendingHead is a head on its way. Its bytes never change: whether an earlier
// attempt arrived or not, the next one writes the same content to the same key.
type pendingHead struct {
	manifest *Manifest
	bytes    []byte
	key      string
	since    time.Time
}

// commit makes next the partition's manifest: durable in the bucket, unfenced,
// durable in the local copy, and only then visible. After an error the head is
// pending, or nothing happened.
func (l *Log) commit(ctx context.Context, next Manifest) error {
	next, p, spilled := next.spill(l.t.shape, l.work.epoch)
	cur := l.manifest.Load()
	now := l.t.o.Now()
	next.Epoch, next.Seq, next.Writer, next.CreatedMs = l.work.epoch, cur.Seq+1, l.writer, now.UnixMilli()
	if err := errors.Join(next.check(), next.checkSuccessor(cur)); err != nil {
		return fmt.Errorf("write manifest: refused a change: %w", err)
	}
	if spilled {
		if err := l.putPage(ctx, p); err != nil {
			return fmt.Errorf("write manifest: %w", err)
		}
	}
	l.work.pending = &pendingHead{
		manifest: &next, bytes: next.encode(), since: now,
		key: next.ref().key(l.t.root, l.o.TopicID, l.o.TopicPartition),
	}
	return l.finishPending(ctx)
}

// putPage writes a page. Its key names its content, so that writing it twice
// is harmless.
func (l *Log) putPage(ctx context.Context, p page) error {
	key := p.ref.object().key(l.t.root, l.o.TopicID, l.o.TopicPartition)
	if err := l.put(ctx, key, p.bytes, false); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// put writes a small object with its checksum.
func (l *Log) put(ctx context.Context, key string, b []byte, ifNoneMatch bool) error {
	crc := record.CRC32C(b)
	return l.t.store.Put(ctx, key, store.BytesSource(b), store.PutOptions{IfNoneMatch: ifNoneMatch, CRC32C: &crc})
}

// finishPending takes the pending head through its steps. Each may be repeated.
func (l *Log) finishPending(ctx context.Context) error {
	p := l.work.pending
	err := l.put(ctx, p.key, p.bytes, true)
	if errors.Is(err, store.ErrExists) {
		err = l.compare(ctx, p.key, p.bytes)
	}
	if err != nil {
		return fmt.Errorf("write head: %w", err)
	}
	c, err := l.checkFence(ctx, p.manifest.ref())
	if err != nil {
		return fmt.Errorf("write head: %w", err)
	}
	if err := l.saveCopy(p.manifest, p.bytes); err != nil {
		return fmt.Errorf("write head: %w", err)
	}
	l.work.pending = nil
	l.work.slowest = max(l.work.slowest, l.t.o.Now().Sub(p.since))
	l.manifest.Store(p.manifest)
	l.settle(p.manifest)
	l.changed()
	l.trimHeads(ctx, c.heads)
	return nil
}

// settle forgets what the new manifest took care of.
func (l *Log) settle(m *Manifest) {
	known := m.named()
	for _, t := range m.Tombstones {
		known[t.object()] = true
	}
	var left []Tombstone
	for _, o := range l.work.orphans {
		if !known[o.object()] {
			left = append(left, o)
		}
	}
	l.work.orphans = left
	if a := l.work.attempt; a != nil && (known[a.object()] || m.inPages(*a)) {
		l.work.attempt = nil
	}
}

// compare reads an object back that was there already: the same bytes are an
// earlier attempt of ours.
func (l *Log) compare(ctx context.Context, key string, want []byte) error {
	info, err := l.t.store.Head(ctx, key)
	if err != nil {
		return err
	}
	got, err := readObject(ctx, l.t.store, key, info.Size)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return halted(ReasonFenced, "%s holds what another writer wrote", key)
	}
	return nil
}

// checkFence lists who else writes. It halts when ours is not the newest head,
// or when somebody claimed a higher epoch: then ours counts for nothing, since
// whoever claimed may have read the heads before it was there.
func (l *Log) checkFence(ctx context.Context, ours headRef) (control, error) {
	c, err := l.listControl(ctx, l.work.epoch)
	if err != nil {
		return control{}, err
	}
	if len(c.claims) > 0 {
		return control{}, halted(ReasonFenced, "epoch %d was claimed, ours is %d", c.claims[len(c.claims)-1], l.work.epoch)
	}
	found := ours.seq == 0
	for _, h := range c.heads {
		switch {
		case h.headRef == ours:
			found = true
		case h.above(ours), h.epoch == ours.epoch && h.seq == ours.seq:
			return control{}, halted(ReasonFenced, "head (%d, %d) of writer %v is there, ours is (%d, %d)", h.epoch, h.seq, h.writer, ours.epoch, ours.seq)
		}
	}
	if !found {
		return control{}, &store.Error{Op: store.OpList, Key: l.prefix, Kind: store.Retriable, Err: fmt.Errorf("head (%d, %d) was written but is not listed", ours.epoch, ours.seq)}
	}
	return c, nil
}

// trimHeads removes heads beyond the newest ones. What fails is done next time.
func (l *Log) trimHeads(ctx context.Context, heads []headInfo) {
	extra := len(heads) - keptHeads
	if extra <= 0 {
		return
	}
	keys := make([]string, extra)
	for i := range keys {
		keys[i] = heads[i].key
	}
	if err := l.t.store.Delete(ctx, keys); err != nil {
		l.t.o.Logger.Warn("old heads could not be removed", "event", "tier_trim_failed", "partition", l.name(), "error", err)
	}
}
