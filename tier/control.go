// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"fmt"

	"firn/record"
	"firn/tier/store"
)

// control is what a LIST shows of who writes to a partition: claims and heads,
// both in rising order.
type control struct {
	claims []record.Epoch
	heads  []headInfo
}

type headInfo struct {
	headRef
	key  string
	size int64
}

// newest is the highest head; false when there is none.
func (c control) newest() (headInfo, bool) {
	if len(c.heads) == 0 {
		return headInfo{}, false
	}
	return c.heads[len(c.heads)-1], true
}

// controlPage is how many keys a LIST for claims and heads asks for. They come
// first in a partition's keys, so that few of others are in the answer.
const controlPage = 64

// listControl lists all heads and the claims above an epoch (NoEpoch: all).
// Keys in the two directories that are not ours are an error: a format that
// this code does not know must not be taken for nothing.
func (l *Log) listControl(ctx context.Context, above record.Epoch) (control, error) {
	var c control
	end := l.prefix + "head0" // "0" follows "/": above every head
	after := l.prefix
	if above >= 0 {
		after = Key{Kind: KeyClaim, TopicID: l.o.TopicID, TP: l.o.TopicPartition, Epoch: above}.String(l.t.root)
	}
	for {
		infos, more, err := l.t.store.List(ctx, l.prefix, after, controlPage)
		if err != nil {
			return control{}, fmt.Errorf("list claims and heads: %w", err)
		}
		for _, info := range infos {
			if info.Key >= end {
				return c, nil
			}
			if err := c.add(l.t.root, info); err != nil {
				return control{}, fmt.Errorf("list claims and heads: %w", err)
			}
			after = info.Key
		}
		if !more || len(infos) == 0 {
			return c, nil
		}
	}
}

func (c *control) add(root string, info store.Info) error {
	k, err := ParseKey(root, info.Key)
	if err != nil {
		return err
	}
	switch k.Kind {
	case KeyClaim:
		c.claims = append(c.claims, k.Epoch)
	case KeyHead:
		c.heads = append(c.heads, headInfo{headRef: headRef{k.Epoch, k.Seq, k.Writer}, key: info.Key, size: info.Size})
	default:
		return fmt.Errorf("%w: %q among claims and heads", ErrInvalidKey, info.Key)
	}
	return nil
}

// readHead reads and checks one head.
func (l *Log) readHead(ctx context.Context, h headInfo) (*Manifest, error) {
	b, err := readObject(ctx, l.t.store, h.key, h.size)
	if err != nil {
		return nil, fmt.Errorf("read head: %w", err)
	}
	m, err := DecodeHead(h.key, b)
	if err != nil {
		return nil, err
	}
	if m.ref() != h.headRef || m.TopicID != l.o.TopicID || m.Partition != l.o.TopicPartition.Partition {
		return nil, corrupt(h.key, frameHeadSize, "head (%d, %d) of partition %d of topic %v stands under another's key", m.Epoch, m.Seq, m.Partition, m.TopicID)
	}
	return m, nil
}

// readClaim reads whose claim the epoch's is.
func (l *Log) readClaim(ctx context.Context, epoch record.Epoch) (claim, error) {
	key := l.claimKey(epoch)
	b, err := readObject(ctx, l.t.store, key, claimObjectSize)
	if err != nil {
		return claim{}, fmt.Errorf("read claim: %w", err)
	}
	c, err := decodeClaim(key, b)
	if err != nil {
		return claim{}, err
	}
	if c.epoch != epoch || c.topicID != l.o.TopicID || c.partition != l.o.TopicPartition.Partition {
		return claim{}, corrupt(key, frameHeadSize, "claim of epoch %d, partition %d, topic %v stands under another's key", c.epoch, c.partition, c.topicID)
	}
	return c, nil
}

func (l *Log) claimKey(epoch record.Epoch) string {
	return Key{Kind: KeyClaim, TopicID: l.o.TopicID, TP: l.o.TopicPartition, Epoch: epoch}.String(l.t.root)
}
