// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"firn/cluster"
	"firn/hot"
	"firn/internal/vfs"
	"firn/partition"
	"firn/record"
	"firn/tier"
)

// openTopics opens the partitions of all topics, finishes deletions that a
// stop interrupted, and reports directories that belong to nobody.
func (b *Broker) openTopics(ctx context.Context) error {
	m := b.cluster.Metadata()
	found := make(map[record.TopicID]map[int32][]foundLog)
	for _, f := range b.foundLogs() {
		t, live := m.TopicByID(f.TopicID)
		if f.IDDamaged {
			// Names of directories are free only when nobody uses them: this
			// one is that of the topic that has the name.
			if t, live = m.Topic(f.TopicPartition.Topic); live {
				f.TopicID = t.ID
			}
		}
		switch _, deleting := m.DeletingTopic(f.TopicID); {
		case deleting:
			if err := f.delete(ctx); err != nil && f.store.Failed() == nil {
				return fmt.Errorf("finish the deletion of %s: %w", f.Dir, err)
			}
		case live && t.Name == f.TopicPartition.Topic && f.TopicPartition.Partition < t.Partitions:
			if found[f.TopicID] == nil {
				found[f.TopicID] = make(map[int32][]foundLog)
			}
			number := f.TopicPartition.Partition
			found[f.TopicID][number] = append(found[f.TopicID][number], f)
		default:
			b.logger.Warn("a directory belongs to no topic and is left alone",
				"event", "stray_directory", "dir", f.Dir, "topic_id", f.TopicID.String())
		}
	}
	for _, t := range m.Deleting() {
		if _, err := b.cluster.ReleaseName(ctx, t.ID); err != nil {
			return fmt.Errorf("finish the deletion of topic %q: %w", t.Name, err)
		}
	}
	limit := make(chan struct{}, b.options.OpenThreads)
	var opening errgroup.Group
	for _, t := range m.Topics() {
		config, err := cluster.ParseTopicConfig(t.Name, t.Config, b.options.TopicDefaults)
		if err != nil {
			b.logger.Warn("a stored topic config is not allowed any more and is ignored",
				"event", "topic_config_ignored", "topic", t.Name, "error", err)
		}
		if found[t.ID] == nil {
			found[t.ID] = make(map[int32][]foundLog) // all of them are lost
		}
		opening.Go(func() error {
			one, err := b.openPartitions(ctx, t, config, found[t.ID], limit)
			b.topics.add(one) // also after an error, to be closed
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		return err
	}
	return b.raiseProducerIDs(ctx)
}

// openPartitions opens those partitions of a topic that are among found and
// creates the others. One whose log is damaged, misplaced or on a disk that
// fails goes offline, and the others serve. After any other error the topic
// holds those that could be opened.
func (b *Broker) openPartitions(ctx context.Context, t cluster.Topic, config cluster.TopicConfig, found map[int32][]foundLog, limit chan struct{}) (*topic, error) {
	one := &topic{
		Topic: t, config: config,
		partitions: make([]*partition.Partition, t.Partitions),
		offline:    make([]error, t.Partitions),
	}
	errs := b.openEach(ctx, one, 0, found, limit)
	for i, err := range errs {
		if staysOffline(err, found == nil) {
			b.logger.Error("a partition's log cannot be opened: it stays offline", "event", "partition_offline", "topic", t.Name, "partition", i, "error", err)
			one.offline[i], errs[i] = err, nil
		}
	}
	if err := errors.Join(errs...); err != nil {
		return one, fmt.Errorf("open topic %q: %w", t.Name, err)
	}
	return one, nil
}

// staysOffline says whether err keeps one partition from being served, and
// nothing else: its log is damaged or misplaced, or the disk does not give it.
// A new partition that a disk refuses is not made at all, and a disk that is
// full is well.
func staysOffline(err error, isNew bool) bool {
	var damage *record.CorruptionError
	var place *misplaced
	return errors.As(err, &damage) || errors.As(err, &place) ||
		!isNew && errors.Is(err, record.ErrStorage) && !vfs.IsFull(err)
}

// openEach opens the partitions of a topic from number first on, those among
// found, and creates the others: new ones when found is nil, else ones that
// were lost. It answers the errors by number, from first on.
func (b *Broker) openEach(ctx context.Context, one *topic, first int32, found map[int32][]foundLog, limit chan struct{}) []error {
	options, errs := b.chooseStores(one, first, found)
	var opening sync.WaitGroup
	for i, o := range options {
		if errs[i] != nil {
			continue
		}
		limit <- struct{}{}
		opening.Go(func() {
			defer func() { <-limit }()
			one.partitions[int(first)+i], errs[i] = partition.Open(ctx, o)
		})
	}
	opening.Wait()
	return errs
}

func (b *Broker) partitionOptions(t cluster.Topic, config cluster.TopicConfig, number int32) partition.Options {
	o := partition.Options{
		TopicPartition: record.TopicPartition{Topic: t.Name, Partition: number},
		TopicID:        t.ID,
		Log: hot.LogOptions{
			SegmentBytes:    config.SegmentBytes,
			SegmentAge:      config.SegmentAge,
			SegmentJitter:   config.SegmentJitter,
			IndexInterval:   max(config.IndexInterval, 1),
			IndexBytes:      max(config.IndexBytes, record.TimeIndexEntrySize),
			MaxMessageBytes: max(config.MaxMessageBytes, record.HeaderSize), // no batch with a record is so small
			LogAppendTime:   config.LogAppendTime,
			TimestampBefore: max(config.TimestampBefore, 1), // 0 would be without limit there
			TimestampAfter:  max(config.TimestampAfter, 1),
			ProducerExpiry:  b.options.ProducerExpiry,
		},
		Epoch: b.epoch,
		Retention: partition.Retention{
			Age: config.Retention, Bytes: config.RetentionBytes,
			LocalAge: config.LocalRetention, LocalBytes: config.LocalRetentionBytes,
		},
		RaiseEpoch: b.cluster.RaiseBrokerEpoch,
		Logger:     b.logger,
		Now:        b.options.Now,
	}
	if b.tiered(config) {
		o.Tier = b.options.Tier
		o.CopyDisabled = config.RemoteCopyDisable
		o.Log.RollAfter = b.options.RollAfter
	}
	return o
}

// raiseProducerIDs makes sure that no id in a log is given out again, whatever
// became of the metadata file. An id that was never ours, since a client made it
// up, must not use up all others.
func (b *Broker) raiseProducerIDs(ctx context.Context) error {
	seen := int64(record.NoProducerID)
	for _, t := range b.topics.all() {
		for _, p := range t.open() {
			if id := p.Log().MaxProducerID(); id < maxProducerID {
				seen = max(seen, id)
			}
		}
	}
	if seen == record.NoProducerID {
		return nil
	}
	if err := b.cluster.RaiseProducerIDs(ctx, seen); err != nil {
		return fmt.Errorf("raise the producer ids above %d: %w", seen, err)
	}
	return nil
}

// createTopic creates a topic and opens its partitions. The error is one that
// errorCode knows.
func (b *Broker) createTopic(ctx context.Context, c cluster.CreateTopic) (*topic, error) {
	config, err := cluster.ParseTopicConfig(c.Name, c.Config, b.options.TopicDefaults)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalidConfig, err)
	}
	b.changeMu.Lock()
	defer b.changeMu.Unlock()
	t, err := b.cluster.CreateTopic(ctx, c)
	if err != nil {
		return nil, err
	}
	one, err := b.openPartitions(ctx, t, config, nil, make(chan struct{}, b.options.OpenThreads))
	if err != nil {
		// The disk refused: take the topic back, so that the client may try
		// again under the same name.
		return nil, errors.Join(fmt.Errorf("%w: %w", record.ErrStorage, err), b.withdraw(ctx, one))
	}
	b.topics.add(one)
	b.saveTopic(ctx, one, false)
	b.logger.Info("topic created", "event", "topic_created", "topic", t.Name, "topic_id", t.ID.String(), "partitions", t.Partitions)
	return one, nil
}

// withdraw deletes a topic whose partitions could not all be created.
func (b *Broker) withdraw(ctx context.Context, t *topic) error {
	if _, err := b.cluster.MarkDeleting(ctx, t.ID); err != nil {
		return fmt.Errorf("withdraw topic %q: %w", t.Name, err)
	}
	if err := b.dropLogs(ctx, t); err != nil {
		return fmt.Errorf("withdraw topic %q: %w", t.Name, err)
	}
	if _, err := b.cluster.ReleaseName(ctx, t.ID); err != nil {
		return fmt.Errorf("withdraw topic %q: %w", t.Name, err)
	}
	b.kickSweep()
	return nil
}

// dropLogs moves the local logs of a topic aside that is being deleted, those
// of offline partitions too. What lies in a directory that has failed goes when
// it is back: the topic stays known as deleted until then.
func (b *Broker) dropLogs(ctx context.Context, t *topic) error {
	var errs []error
	for _, p := range t.opened() {
		err := p.Delete(ctx)
		if p.Offline() == nil {
			errs = append(errs, err)
		}
	}
	for _, f := range b.foundLogs() {
		if f.TopicID == t.ID {
			errs = append(errs, f.delete(ctx))
		}
	}
	return errors.Join(errs...)
}

// deleteTopic takes a topic from the clients, moves its logs aside and frees
// its name. Its objects go in the background.
func (b *Broker) deleteTopic(ctx context.Context, id record.TopicID) error {
	b.changeMu.Lock()
	defer b.changeMu.Unlock()
	t, err := b.cluster.MarkDeleting(ctx, id)
	if err != nil {
		return err
	}
	if one := b.topics.remove(id); one != nil {
		b.saveTopic(ctx, one, true)
		if err := b.dropLogs(ctx, one); err != nil {
			// The name stays taken until the next start moves what is left.
			return fmt.Errorf("%w: delete topic %q: %w", record.ErrStorage, t.Name, err)
		}
	}
	if _, err := b.cluster.ReleaseName(ctx, id); err != nil {
		return err
	}
	b.logger.Info("topic deleted", "event", "topic_deleted", "topic", t.Name, "topic_id", id.String())
	b.kickSweep()
	return nil
}

// saveTopic writes a topic's state into the bucket. A store that does not
// answer in time does not hold up the topic: the sweep writes it later.
func (b *Broker) saveTopic(ctx context.Context, t *topic, deleting bool) {
	if !b.tiered(t.config) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, b.options.StoreTimeout)
	defer cancel()
	if err := b.putTopic(ctx, t, deleting); err != nil {
		b.logger.Warn("the topic's state did not reach the bucket yet", "event", "topic_state_late", "topic", t.Name, "error", err)
	}
}

// putTopic writes a topic's state, one at a time: one that has been changed
// meanwhile must not be written over its successor's.
func (b *Broker) putTopic(ctx context.Context, t *topic, deleting bool) error {
	select {
	case b.saving <- struct{}{}:
		defer func() { <-b.saving }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if now, ok := b.topics.byID(t.ID); !deleting && (!ok || now != t) {
		return nil
	}
	err := b.options.Tier.PutTopic(ctx, tier.TopicState{
		Name: t.Name, ID: t.ID, Partitions: t.Partitions, Config: t.Config, Deleting: deleting,
	})
	if err == nil {
		t.saved.Store(true)
	}
	return err
}

// tiered says whether a topic of this config has a cold tier here.
func (b *Broker) tiered(config cluster.TopicConfig) bool {
	return config.RemoteStorage && b.options.Tier != nil
}
