// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"fmt"
	"time"

	"firn/cluster"
	"firn/record"
	"firn/tier"
)

// sweepInterval is how often the deletion of topics goes on when nothing asks
// for it.
const sweepInterval = 10 * time.Second

// retainLoop applies the retention of every partition from time to time.
func (b *Broker) retainLoop() {
	b.every(b.options.RetentionInterval, nil, func() {
		for _, t := range b.topics.all() {
			for _, p := range t.open() {
				if err := p.ApplyRetention(b.ctx); err != nil && b.ctx.Err() == nil {
					b.logger.Warn("retention failed", "event", "retention_failed",
						"topic", t.Name, "partition", p.TopicPartition().Partition, "error", err)
				}
			}
		}
	})
}

// every runs work at each interval, and when kicked, until the broker closes.
func (b *Broker) every(interval time.Duration, kick <-chan struct{}, work func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-kick:
		case <-b.ctx.Done():
			return
		}
		work()
	}
}

func (b *Broker) kickSweep() {
	select {
	case b.swept <- struct{}{}:
	default:
	}
}

// sweepLoop clears away what deleted topics left in the bucket, and writes the
// topic states that did not reach it before.
func (b *Broker) sweepLoop() {
	first := make(map[record.TopicID]time.Time)
	b.kickSweep()
	b.every(sweepInterval, b.swept, func() {
		for _, t := range b.topics.all() {
			if !t.saved.Load() && b.ctx.Err() == nil {
				b.saveTopic(b.ctx, t, false)
			}
		}
		for _, t := range b.cluster.Metadata().Deleting() {
			if err := b.sweep(b.ctx, t, first); err != nil && b.ctx.Err() == nil {
				b.logger.Warn("a deleted topic is not cleared away yet", "event", "topic_sweep_failed", "topic", t.Name, "topic_id", t.ID.String(), "error", err)
			}
		}
	})
}

// sweep takes the deletion of one topic as far as it goes now. first tells
// when its objects were removed for the first time: an upload that was under
// way then may land after it, so that they are removed once more after the
// grace.
func (b *Broker) sweep(ctx context.Context, t cluster.Topic, first map[record.TopicID]time.Time) error {
	if !t.NameReleased {
		return nil // its directories are not out of the way
	}
	if cold := b.options.Tier; cold != nil {
		removed, again := first[t.ID]
		if again && (b.options.Now().Sub(removed) < b.options.DeleteGrace || b.options.Logs.Offline() != nil) {
			return nil
		}
		if !again {
			state := tier.TopicState{Name: t.Name, ID: t.ID, Partitions: t.Partitions, Config: t.Config, Deleting: true}
			if err := cold.PutTopic(ctx, state); err != nil {
				return err
			}
		}
		if done, err := cold.DeleteTopicObjects(ctx, t.ID, t.Name); err != nil || !done {
			return err
		}
		if !again {
			first[t.ID] = b.options.Now()
			return nil
		}
	}
	if b.options.Logs.Offline() != nil {
		return nil // a directory that comes back may hold logs of it, and must find it deleted
	}
	if err := b.cluster.RemoveTopic(ctx, t.ID); err != nil {
		return fmt.Errorf("forget the topic: %w", err)
	}
	delete(first, t.ID)
	b.logger.Info("nothing is left of the topic", "event", "topic_swept", "topic", t.Name, "topic_id", t.ID.String())
	return nil
}
