// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"fmt"

	"firn/tier"
)

// EnableTier gives a running partition a cold tier, as Open does with
// Options.Tier. It does not wait for the object store. A partition that has
// one keeps it: only copyDisabled is changed.
func (p *Partition) EnableTier(ctx context.Context, t *tier.Tier, copyDisabled bool) error {
	if cold := p.Tier(); cold != nil {
		cold.SetCopyDisabled(copyDisabled)
		return nil
	}
	// A retention that began without a tier must not end with one: what it
	// has decided knows nothing of the manifest.
	p.retentionMu.Lock()
	defer p.retentionMu.Unlock()
	if p.Tier() != nil {
		return nil // another call was first
	}
	if err := p.openTier(ctx, t, copyDisabled, false); err != nil {
		return err
	}
	p.onSeal()
	return nil
}

// openTier opens the cold tier of a partition that has none.
func (p *Partition) openTier(ctx context.Context, t *tier.Tier, copyDisabled, lost bool) error {
	cold, err := t.OpenLog(ctx, tier.LogOptions{
		TopicPartition: p.tp,
		TopicID:        p.id,
		Epoch:          p.LeaderEpoch(),
		Dir:            p.log.Dir(),
		Local:          (*localLog)(p),
		OnChange:       p.watchers.notify,
		CopyDisabled:   copyDisabled,
		Lost:           lost,
	})
	if err != nil {
		return fmt.Errorf("open the cold tier of partition %s: %w", p.tp, err)
	}
	p.cold.Store(cold)
	return nil
}
