// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"firn/record"
	"firn/tier/store"
)

// maxClaims bounds how often one step raises the epoch before it backs off.
const maxClaims = 8

// maxOrphans bounds how many orphans one takeover condemns.
const maxOrphans = 1000

// takeOver makes this process the only writer of the partition and reconciles
// the local log with the chain. After an error it is done again from the start;
// every part may be repeated.
func (l *Log) takeOver(ctx context.Context) error {
	if err := l.t.Verify(ctx); err != nil {
		if errors.Is(err, ErrStoreMismatch) {
			return &halt{reason: ReasonStoreMismatch, err: err}
		}
		return fmt.Errorf("take over: %w", err)
	}
	c, err := l.claimEpoch(ctx)
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	m, seen, err := l.adopt(ctx, c)
	if err != nil {
		if errors.Is(err, record.ErrUnsupportedVersion) {
			return &halt{reason: ReasonUnknownVersion, err: err}
		}
		return fmt.Errorf("take over: %w", err)
	}
	if err := l.reconcile(ctx, m, seen); err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	if err := l.findOrphans(ctx, m); err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	l.manifest.Store(m)
	// A local copy that was higher than the bucket must be the bucket's before
	// anything is judged by it.
	if newest, ok := c.newest(); m.Seq > 0 && (!ok || newest.headRef != m.ref()) {
		if err := l.commit(ctx, *m); err != nil {
			return fmt.Errorf("take over: %w", err)
		}
	}
	l.work.reconciled = true
	l.t.o.Logger.Info("partition taken over in the tier", "event", "tier_taken_over", "partition", l.name(),
		"epoch", l.work.epoch, "start", m.Start, "end", m.End, "orphans", len(l.work.orphans))
	l.update(func() { l.phase, l.reason, l.loaded, l.lastError = Ready, "", true, nil })
	l.changed()
	return nil
}

// claimEpoch claims an epoch above every other claim and head, and returns
// what was listed after the claim: from then on a writer of a lower epoch finds
// the claim after each head that it writes.
func (l *Log) claimEpoch(ctx context.Context) (control, error) {
	// Whoever finds a head of ours in the bucket must know it for ours.
	l.work.writers = addWriter(l.work.writers, l.writer)
	if err := l.saveCopy(l.manifest.Load(), nil); err != nil {
		return control{}, err
	}
	for range maxClaims {
		ours, err := l.putClaim(ctx)
		if err != nil {
			return control{}, err
		}
		c, err := l.listControl(ctx, record.NoEpoch)
		if err != nil {
			return control{}, err
		}
		top := l.topForeign(c, ours)
		if ours && top < l.work.epoch {
			l.trimClaims(ctx, c.claims)
			return c, nil
		}
		if err := l.raiseEpoch(ctx, max(top, l.work.epoch)); err != nil {
			return control{}, err
		}
	}
	return control{}, &store.Error{Op: store.OpPut, Key: l.claimKey(l.work.epoch), Kind: store.Retriable,
		Err: fmt.Errorf("no epoch could be claimed in %d attempts", maxClaims)}
}

// putClaim writes the claim of the epoch; ours is false when another writer
// has it.
func (l *Log) putClaim(ctx context.Context) (ours bool, err error) {
	c := claim{topicID: l.o.TopicID, partition: l.o.TopicPartition.Partition, epoch: l.work.epoch, writer: l.writer, createdMs: l.t.nowMs()}
	err = l.put(ctx, l.claimKey(c.epoch), c.encode(), true)
	if err == nil && l.t.store.Capabilities().ConditionalPut {
		return true, nil
	}
	if err != nil && !errors.Is(err, store.ErrExists) {
		return false, fmt.Errorf("write claim: %w", err)
	}
	got, err := l.readClaim(ctx, c.epoch)
	return got.writer == l.writer, err
}

// topForeign is the highest epoch that somebody else claimed or wrote under.
func (l *Log) topForeign(c control, ours bool) record.Epoch {
	top := record.NoEpoch
	for _, epoch := range c.claims {
		if epoch != l.work.epoch || !ours {
			top = max(top, epoch)
		}
	}
	for _, h := range c.heads {
		if h.writer != l.writer {
			top = max(top, h.epoch)
		}
	}
	return top
}

func (l *Log) raiseEpoch(ctx context.Context, above record.Epoch) error {
	epoch, err := l.o.Local.RaiseEpoch(ctx, above)
	if err != nil {
		return fmt.Errorf("raise the leader epoch above %d: %w", above, err)
	}
	if epoch <= above {
		return fmt.Errorf("raise the leader epoch above %d: got %d", above, epoch)
	}
	l.work.epoch = epoch
	l.update(func() { l.epoch = epoch })
	return nil
}

// trimClaims removes claims beyond the newest ones. What fails is done at the
// next start.
func (l *Log) trimClaims(ctx context.Context, claims []record.Epoch) {
	extra := len(claims) - keptHeads
	if extra <= 0 {
		return
	}
	keys := make([]string, extra)
	for i := range keys {
		keys[i] = l.claimKey(claims[i])
	}
	if err := l.t.store.Delete(ctx, keys); err != nil {
		l.t.o.Logger.Warn("old claims could not be removed", "event", "tier_trim_failed", "partition", l.name(), "error", err)
	}
}

// adopt picks the newest manifest, of the bucket's heads and the local copy.
// seen says that this directory wrote it.
func (l *Log) adopt(ctx context.Context, c control) (m *Manifest, seen bool, err error) {
	local := l.manifest.Load() // of the local copy, or the empty one
	newest, ok := c.newest()
	if n := len(c.heads); n > 1 && c.heads[n-2].epoch == newest.epoch && c.heads[n-2].seq == newest.seq {
		return nil, false, halted(ReasonForeignWriter, "two writers wrote head (%d, %d)", newest.epoch, newest.seq)
	}
	switch {
	case !ok && local.Seq == 0:
		return local, true, nil
	case !ok, local.after(newest.epoch, newest.seq):
		return local, true, l.checkObjects(ctx, local)
	case newest.headRef == local.ref():
		return local, true, nil
	case newest.epoch == local.Epoch && newest.seq == local.Seq:
		return nil, false, halted(ReasonForeignWriter, "head (%d, %d) of writer %v is there, the local copy has it of writer %v", newest.epoch, newest.seq, newest.writer, local.Writer)
	}
	m, err = l.readHead(ctx, newest)
	if err != nil {
		return nil, false, err
	}
	return m, slices.Contains(l.work.writers, m.Writer), nil
}

// checkObjects looks for the newest objects of a local copy that is higher
// than what the bucket has. A bucket without them is not the one that was
// written to, or was set back.
func (l *Log) checkObjects(ctx context.Context, m *Manifest) error {
	var newest []objectID
	if n := len(m.Pages); n > 0 {
		newest = append(newest, m.Pages[n-1].object())
	}
	for _, e := range slices.Backward(m.Recent) {
		if e.Kind == KindSegment {
			newest = append(newest, e.object())
			break
		}
	}
	for _, o := range newest {
		key := o.key(l.t.root, l.o.TopicID, l.o.TopicPartition)
		switch _, err := l.t.store.Head(ctx, key); {
		case errors.Is(err, store.ErrNotFound):
			return halted(ReasonBucketBehind, "the local copy has head (%d, %d), the bucket lacks it and %s", m.Epoch, m.Seq, key)
		case err != nil:
			return fmt.Errorf("look for the newest object: %w", err)
		}
	}
	return nil
}

// reconcile compares the local log with the chain and does what follows.
func (l *Log) reconcile(ctx context.Context, m *Manifest, seen bool) error {
	local := viewOf(l.o.Local, l.o.Epoch)
	c, err := l.compareEpochs(ctx, m, local)
	if err == nil && c.made && m != l.manifest.Load() && c.offset >= local.start && c.offset < local.end {
		c.differ, err = l.compareBatches(ctx, m, c.offset)
	}
	if err != nil {
		return err
	}
	switch o := reconcile(local, m, seen, c); {
	case o.reason != "":
		// What the bucket has can still be read.
		l.manifest.Store(m)
		l.update(func() { l.loaded = true })
		return halted(o.reason, "local log [%d, %d), chain [%d, %d), at offset %d epoch %d here and %d there: %s",
			local.start, local.end, m.Start, m.End, c.offset, c.local, c.chain, o.detail)
	case o.reset:
		if err := l.resetLocal(ctx, m, local.end); err != nil {
			return err
		}
	}
	return l.saveCopy(m, nil)
}

// compareEpochs finds the highest offset that can be compared.
func (l *Log) compareEpochs(ctx context.Context, m *Manifest, local localView) (comparison, error) {
	below := min(local.end, m.End)
	e, ok, err := l.segmentBelow(ctx, m, below)
	if err != nil || !ok {
		return comparison{}, err
	}
	c := comparison{offset: min(below, e.To) - 1}
	c.local = local.epochs.For(c.offset)
	c.chain = e.LastEpoch
	if e.FirstEpoch != e.LastEpoch && c.offset != e.To-1 {
		object, err := OpenObject(ctx, l.t.store, SegmentKey(l.t.root, l.o.TopicID, l.o.TopicPartition, e))
		if err != nil {
			return comparison{}, err
		}
		epochs, _, err := object.State(ctx)
		if err != nil {
			return comparison{}, err
		}
		c.chain = epochs.For(c.offset)
	}
	c.made = c.local != record.NoEpoch && c.chain != record.NoEpoch
	return c, nil
}

// compareBatches says whether the chain and the local log have different
// batches at an offset that both cover.
func (l *Log) compareBatches(ctx context.Context, m *Manifest, o record.Offset) (differ bool, err error) {
	here, ok, err := l.o.Local.Header(o)
	if err != nil || !ok {
		return false, err
	}
	d, err := l.t.reader.read(ctx, &snapshot{l: l, m: m, floor: noFloor}, o, m.End, 1, true)
	if err != nil {
		return false, fmt.Errorf("compare the batch at %d: %w", o, err)
	}
	defer d.Release()
	there, err := record.ParseHeader(d.Bytes)
	if err != nil {
		return false, fmt.Errorf("compare the batch at %d: %w", o, err)
	}
	return here != there, nil
}

// segmentBelow finds the last segment that begins below an offset.
func (l *Log) segmentBelow(ctx context.Context, m *Manifest, below record.Offset) (Entry, bool, error) {
	for at := min(below, m.End) - 1; at >= m.Start; {
		e, err := l.entry(ctx, m, at)
		if err != nil {
			return Entry{}, false, err
		}
		if e.Kind == KindSegment {
			return e, true, nil
		}
		at = e.From - 1
	}
	return Entry{}, false, nil
}

// resetLocal makes the local log begin anew at the chain's end, with the state
// from the last object. Appends are shut off before, by the phase.
func (l *Log) resetLocal(ctx context.Context, m *Manifest, end record.Offset) error {
	l.update(func() { l.phase, l.reason = ReadOnly, ReasonLogBehind })
	r := Reset{IfEnd: end, Start: m.End}
	e, ok, err := l.segmentBelow(ctx, m, m.End)
	if err != nil {
		return err
	}
	if ok {
		object, err := OpenObject(ctx, l.t.store, SegmentKey(l.t.root, l.o.TopicID, l.o.TopicPartition, e))
		if err != nil {
			return err
		}
		if r.Epochs, r.Snapshot, err = object.State(ctx); err != nil {
			return err
		}
	}
	l.t.o.Logger.Warn("local log ends below the bucket, it begins anew there", "event", "tier_reset_local", "partition", l.name(), "local_end", end, "chain_end", m.End)
	if err := l.o.Local.ResetTo(ctx, r); err != nil {
		return fmt.Errorf("begin the local log anew at %d: %w", m.End, err)
	}
	return nil
}

// findOrphans looks for objects and pages that no head names. An earlier
// process wrote them and did not live to write its head, was fenced before, or
// its last request arrived when the one that followed it had looked already.
// No head will ever name them, since a lower epoch's cannot win. What lies below
// the newest page is not looked at: that would take time with the history.
func (l *Log) findOrphans(ctx context.Context, m *Manifest) error {
	var first record.Offset
	if n := len(m.Pages); n > 0 {
		first = m.Pages[n-1].To
	}
	segments, err := l.listOrphans(ctx, "seg/"+first.FileName(), "seg0")
	if err != nil {
		return err
	}
	pages, err := l.listOrphans(ctx, "page/", "page0")
	if err != nil {
		return err
	}
	known := m.named()
	for _, t := range m.Tombstones {
		known[t.object()] = true
	}
	if a := l.work.attempt; a != nil {
		known[a.object()] = true
	}
	l.work.orphans = slices.DeleteFunc(append(segments, pages...), func(t Tombstone) bool { return known[t.object()] })
	return nil
}

// listOrphans lists the objects above one name and below another.
func (l *Log) listOrphans(ctx context.Context, after, end string) ([]Tombstone, error) {
	var found []Tombstone
	for after, end := l.prefix+after, l.prefix+end; len(found) < maxOrphans; {
		infos, more, err := l.t.store.List(ctx, l.prefix, after, store.MaxList)
		if err != nil {
			return nil, fmt.Errorf("look for orphans: %w", err)
		}
		for _, info := range infos {
			after = info.Key
			if info.Key >= end {
				return found, nil
			}
			k, err := ParseKey(l.t.root, info.Key)
			if err != nil || k.Kind != KeySegment && k.Kind != KeyPage {
				continue // not ours to judge
			}
			found = append(found, Tombstone{Kind: k.Kind, Base: k.Base, Epoch: k.Epoch, Hash: k.Hash, Size: info.Size})
		}
		if !more || len(infos) == 0 {
			break
		}
	}
	return found, nil
}
