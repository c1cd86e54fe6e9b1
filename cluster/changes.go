// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"

	bolt "go.etcd.io/bbolt"

	"firn/record"
)

// CreateTopic says what topic to create.
type CreateTopic struct {
	Name string
	// Partitions is the number of partitions, 1 to MaxPartitions.
	Partitions int32
	// Config is what the topic is told, already checked by ParseTopicConfig.
	Config map[string]string
	// ID gives the topic an id of the caller's, as a restore does; zero makes
	// a random one.
	ID record.TopicID
}

// CreateTopic creates a topic. The error wraps those of Metadata.CheckCreate.
// The topic is durable when CreateTopic returns.
func (l *Local) CreateTopic(ctx context.Context, c CreateTopic) (Topic, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.Metadata()
	if err := m.CheckCreate(c); err != nil {
		return Topic{}, err
	}
	id, err := l.topicIDLocked(c)
	if err != nil {
		return Topic{}, err
	}
	t := Topic{
		Name:       c.Name,
		ID:         id,
		Partitions: c.Partitions,
		Config:     cloneConfig(c.Config),
		Created:    l.o.Now().UTC(),
	}
	if err := l.putTopicLocked(ctx, "create topic "+c.Name, t); err != nil {
		return Topic{}, err
	}
	l.o.Logger.Debug("topic created", "event", "metadata_topic_created", "topic", t.Name, "id", t.ID, "partitions", t.Partitions)
	return t, nil
}

// topicIDLocked takes the caller's id or makes one; neither may be in use.
func (l *Local) topicIDLocked(c CreateTopic) (record.TopicID, error) {
	m := l.Metadata()
	if !c.ID.IsZero() {
		if _, used := m.byID[c.ID]; used {
			return c.ID, fmt.Errorf("%w: topic id %s", ErrTopicExists, c.ID)
		}
		return c.ID, nil
	}
	id, err := l.o.NewID()
	if err != nil {
		return id, fmt.Errorf("create topic %s: %w", c.Name, err)
	}
	if _, used := m.byID[id]; used || id.IsZero() {
		return id, fmt.Errorf("create topic %s: the new id %s is not free", c.Name, id)
	}
	return id, nil
}

// SetTopicConfig replaces the whole config of a live topic, already checked
// by ParseTopicConfig. The error wraps ErrUnknownTopic.
func (l *Local) SetTopicConfig(ctx context.Context, id record.TopicID, config map[string]string) (Topic, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, ok := l.Metadata().TopicByID(id)
	if !ok {
		return Topic{}, fmt.Errorf("set the config of topic %s: %w", id, ErrUnknownTopic)
	}
	t.Config = cloneConfig(config)
	return t, l.putTopicLocked(ctx, "set the config of topic "+t.Name, t)
}

// GrowTopic gives a live topic more partitions: so many in all. The error wraps
// those of Metadata.CheckGrow.
func (l *Local) GrowTopic(ctx context.Context, id record.TopicID, partitions int32) (Topic, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.Metadata()
	if err := m.CheckGrow(id, partitions); err != nil {
		return Topic{}, err
	}
	t := m.byID[id]
	t.Partitions = partitions
	if err := l.putTopicLocked(ctx, "add partitions to topic "+t.Name, t); err != nil {
		return Topic{}, err
	}
	l.o.Logger.Debug("topic has more partitions", "event", "metadata_topic_grown", "topic", t.Name, "id", t.ID, "partitions", t.Partitions)
	return t, nil
}

// MarkDeleting takes the topic from the clients and remembers that its data
// must go. The name stays taken until ReleaseName. Marking a topic twice does
// nothing. The error wraps ErrUnknownTopic.
func (l *Local) MarkDeleting(ctx context.Context, id record.TopicID) (Topic, error) {
	return l.changeDeleting(ctx, id, "mark deleted", func(t *Topic) { t.State = TopicDeleting })
}

// ReleaseName lets another topic have the name of a deleting one. The caller
// does so once no directory of the old topic bears the name any more.
// Releasing twice does nothing. The error wraps ErrUnknownTopic, also for a
// live topic.
func (l *Local) ReleaseName(ctx context.Context, id record.TopicID) (Topic, error) {
	return l.changeDeleting(ctx, id, "release the name of", func(t *Topic) {
		if t.State == TopicDeleting {
			t.NameReleased = true
		}
	})
}

// changeDeleting applies one step of a deletion, which must leave the topic
// deleting, and skips the commit when the step was taken before.
func (l *Local) changeDeleting(ctx context.Context, id record.TopicID, doing string, step func(*Topic)) (Topic, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, ok := l.Metadata().byID[id]
	t := old
	step(&t)
	if !ok || t.State != TopicDeleting {
		return Topic{}, fmt.Errorf("%s topic %s: %w", doing, id, ErrUnknownTopic)
	}
	if old.State == t.State && old.NameReleased == t.NameReleased {
		return t, nil
	}
	if err := l.putTopicLocked(ctx, doing+" topic "+t.Name, t); err != nil {
		return Topic{}, err
	}
	l.o.Logger.Debug("topic deletion moved on", "event", "metadata_topic_deleting", "topic", t.Name, "id", t.ID, "name_released", t.NameReleased)
	return t, nil
}

// RemoveTopic forgets a deleting topic, once nothing of it is left anywhere.
// Removing one that is not there does nothing; a live one gives an error.
func (l *Local) RemoveTopic(ctx context.Context, id record.TopicID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.Metadata()
	t, ok := m.byID[id]
	if !ok {
		return nil
	}
	doing := "remove topic " + t.Name
	if t.State != TopicDeleting {
		return fmt.Errorf("%s: it is live", doing)
	}
	next := m.without(id)
	err := l.updateLocked(ctx, doing, func(tx *bolt.Tx) error {
		return errors.Join(
			tx.Bucket(bucketTopics).Delete(id[:]),
			putInt(tx.Bucket(bucketMeta), keyVersion, next.Version),
		)
	})
	if err != nil {
		return err
	}
	l.snapshot.Store(next)
	l.o.Logger.Debug("topic removed", "event", "metadata_topic_removed", "topic", t.Name, "id", id)
	return nil
}

// putTopicLocked commits t and publishes the snapshot that has it.
func (l *Local) putTopicLocked(ctx context.Context, doing string, t Topic) error {
	value, err := marshalTopic(t)
	if err != nil {
		return err
	}
	next := l.Metadata().with(t)
	err = l.updateLocked(ctx, doing, func(tx *bolt.Tx) error {
		return errors.Join(
			tx.Bucket(bucketTopics).Put(t.ID[:], value),
			putInt(tx.Bucket(bucketMeta), keyVersion, next.Version),
		)
	})
	if err != nil {
		return err
	}
	l.snapshot.Store(next)
	return nil
}

// NextProducerIDs gives out n producer ids, first to first+n-1, which nobody
// had before and nobody will get again: the block is durable before it is
// returned. n must be positive. The error wraps ErrExhausted at the end of
// the numbers.
func (l *Local) NextProducerIDs(ctx context.Context, n int64) (first int64, err error) {
	if n < 1 {
		return 0, fmt.Errorf("reserve producer ids: %d asked for, want 1 or more", n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.updateLocked(ctx, "reserve producer ids", func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		var err error
		if first, err = getInt(meta, keyProducerID, 0, math.MaxInt64); err != nil {
			return err
		}
		if first > math.MaxInt64-n {
			return ErrExhausted
		}
		return putInt(meta, keyProducerID, first+n)
	})
	if err != nil {
		return 0, err
	}
	return first, nil
}

// RaiseProducerIDs makes every later block start above seen, the highest
// producer id that was found in the logs. It does nothing when blocks start
// there already.
func (l *Local) RaiseProducerIDs(ctx context.Context, seen int64) error {
	if seen == math.MaxInt64 {
		return fmt.Errorf("raise producer ids above %d: %w", seen, ErrExhausted)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.updateLocked(ctx, "raise producer ids", func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		next, err := getInt(meta, keyProducerID, 0, math.MaxInt64)
		if err != nil || next > seen {
			return err
		}
		return putInt(meta, keyProducerID, seen+1)
	})
}

// RaiseBrokerEpoch gives out a new broker epoch, above every one given out
// before and above atLeast (record.NoEpoch when nothing is known). It is
// durable before it is returned. A start calls it once, and again when an
// epoch that is not lower turns up elsewhere. The error wraps ErrExhausted at
// the end of the numbers.
func (l *Local) RaiseBrokerEpoch(ctx context.Context, atLeast record.Epoch) (record.Epoch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var next int64
	err := l.updateLocked(ctx, "raise the broker epoch", func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		last, err := getInt(meta, keyBrokerEpoch, int64(record.NoEpoch), math.MaxInt32)
		if err != nil {
			return err
		}
		next = max(last, int64(atLeast)) + 1
		if next > math.MaxInt32 {
			return ErrExhausted
		}
		return putInt(meta, keyBrokerEpoch, next)
	})
	if err != nil {
		return record.NoEpoch, err
	}
	return record.Epoch(next), nil
}

// StoreID is the id of the object store's namespace that this data directory
// belongs to, or empty while it was never bound to one.
func (l *Local) StoreID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.storeID
}

// SetStoreID binds the data directory to a store's namespace, durably. A
// directory that is bound stays so: another id gives an error that wraps
// ErrMismatch.
func (l *Local) SetStoreID(ctx context.Context, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case id == "":
		return errors.New("set the store id: it is empty")
	case l.storeID == id:
		return nil
	case l.storeID != "":
		return fmt.Errorf("set the store id to %s: %w: it is bound to store %s", id, ErrMismatch, l.storeID)
	}
	err := l.updateLocked(ctx, "set the store id", func(tx *bolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(keyStoreID, []byte(id))
	})
	if err == nil {
		l.storeID = id
	}
	return err
}

// storeSeen is the value of keyStoreSeen, which is absent before.
const storeSeen = "true"

// StoreSeen says whether the store was ever found to bear the id: from then on
// one without it is another store.
func (l *Local) StoreSeen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.storeSeen
}

// SetStoreSeen notes, durably, that the store bears the id.
func (l *Local) SetStoreSeen(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.storeID == "":
		return errors.New("note that the store was seen: the data directory is not bound to one")
	case l.storeSeen:
		return nil
	}
	err := l.updateLocked(ctx, "note that the store was seen", func(tx *bolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(keyStoreSeen, []byte(storeSeen))
	})
	if err == nil {
		l.storeSeen = true
	}
	return err
}
