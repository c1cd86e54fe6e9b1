// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"firn/cluster"
	"firn/partition"
	"firn/record"
)

// changeConfig gives a live topic another config: durable first, then in force
// in its open partitions, then in the bucket. change makes it from the topic
// as it is. With validateOnly nothing is changed. A config that is in force
// already is put in force once more, so that a change that failed halfway may
// be repeated.
func (b *Broker) changeConfig(ctx context.Context, name string, change func(*topic) (map[string]string, error), validateOnly bool) error {
	b.changeMu.Lock()
	defer b.changeMu.Unlock()
	old, ok := b.topics.byName(name)
	if !ok {
		return fmt.Errorf("topic %q: %w", name, errUnknownTopic)
	}
	set, err := change(old)
	if err != nil {
		return err
	}
	config, err := cluster.ParseTopicConfig(name, set, b.options.TopicDefaults)
	if err == nil {
		err = b.checkTiering(old.config, config)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errInvalidConfig, err)
	}
	if validateOnly {
		return nil
	}
	t := old.Topic
	if !maps.Equal(t.Config, set) {
		if t, err = b.cluster.SetTopicConfig(ctx, old.ID, set); err != nil {
			return err
		}
	}
	next := &topic{Topic: t, config: config, partitions: old.partitions, offline: old.offline}
	ctx = context.WithoutCancel(ctx) // it is durable: a client that leaves does not stop it
	err = b.putInForce(ctx, next)
	b.topics.add(next)
	b.saveTopic(ctx, next, false)
	b.logger.Info("topic config changed", "event", "topic_config_changed", "topic", name, "topic_id", t.ID.String(), "config", t.Config)
	return err
}

// checkTiering refuses what no running topic can do: a tiered one cannot leave
// the store, where its history is.
func (b *Broker) checkTiering(old, next cluster.TopicConfig) error {
	if b.tiered(old) && !b.tiered(next) {
		return errors.New("remote.storage.enable cannot be turned off: the topic's history lies in the object store, " +
			"and deleting it there (remote.log.delete.on.disable) is not supported; remote.log.copy.disable=true stops the copying and keeps the history readable")
	}
	return nil
}

// putInForce brings the open partitions of a topic to its config.
func (b *Broker) putInForce(ctx context.Context, t *topic) error {
	var errs []error
	for _, p := range t.open() {
		o := b.partitionOptions(t.Topic, t.config, p.TopicPartition().Partition)
		p.Log().SetOptions(o.Log)
		p.SetRetention(o.Retention)
		if o.Tier == nil {
			continue
		}
		if err := p.EnableTier(ctx, o.Tier, o.CopyDisabled); err != nil {
			errs = append(errs, fmt.Errorf("%w: the config is stored, but not in force in every partition: send it again: %w", record.ErrStorage, err))
		}
	}
	return errors.Join(errs...)
}

// growTopic gives a live topic more partitions, so many in all. Their
// directories are made before the change is durable: until then nobody can
// write to them, and what a crash leaves of them is taken over by the next
// try. With validateOnly nothing is changed.
func (b *Broker) growTopic(ctx context.Context, name string, partitions int32, validateOnly bool) error {
	b.changeMu.Lock()
	defer b.changeMu.Unlock()
	old, ok := b.topics.byName(name)
	if !ok {
		return fmt.Errorf("topic %q: %w", name, errUnknownTopic)
	}
	if err := b.cluster.Metadata().CheckGrow(old.ID, partitions); err != nil || validateOnly {
		return err
	}
	more := int(partitions - old.Partitions)
	next := &topic{
		Topic: old.Topic, config: old.config,
		partitions: append(slices.Clip(old.partitions), make([]*partition.Partition, more)...),
		offline:    append(slices.Clip(old.offline), make([]error, more)...),
	}
	next.Partitions = partitions
	errs := b.openEach(ctx, next, old.Partitions, nil, make(chan struct{}, b.options.OpenThreads))
	err := errors.Join(errs...)
	if err != nil {
		err = fmt.Errorf("%w: %w", record.ErrStorage, err)
	} else {
		next.Topic, err = b.cluster.GrowTopic(ctx, old.ID, partitions)
	}
	if err != nil {
		return errors.Join(err, dropPartitions(context.WithoutCancel(ctx), next.partitions[old.Partitions:]))
	}
	b.topics.add(next)
	b.saveTopic(ctx, next, false)
	b.logger.Info("topic has more partitions", "event", "topic_grown", "topic", name, "topic_id", next.ID.String(), "partitions", partitions, "before", old.Partitions)
	return nil
}

// dropPartitions deletes new partitions that nobody saw.
func dropPartitions(ctx context.Context, partitions []*partition.Partition) error {
	var errs []error
	for _, p := range partitions {
		if p != nil {
			errs = append(errs, p.Delete(ctx))
		}
	}
	return errors.Join(errs...)
}
