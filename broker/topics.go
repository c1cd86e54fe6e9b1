// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"firn/cluster"
	"firn/partition"
	"firn/record"
)

// topic is a live topic with its partitions. But for saved it does not change
// once it is among the broker's topics.
type topic struct {
	cluster.Topic
	config cluster.TopicConfig
	// partitions are by number; one that could not be opened is nil, and the
	// reason is in offline.
	partitions []*partition.Partition
	offline    []error
	// saved says whether the bucket knows the topic as it is, or need not.
	saved atomic.Bool
}

func (t *topic) partition(number int32) (*partition.Partition, error) {
	if number < 0 || int(number) >= len(t.partitions) {
		return nil, fmt.Errorf("topic %q has no partition %d: %w", t.Name, number, errUnknownTopic)
	}
	if err := t.whyOffline(int(number)); err != nil {
		return nil, fmt.Errorf("partition %s-%d is offline: %w: %w", t.Name, number, record.ErrStorage, err)
	}
	return t.partitions[number], nil
}

// whyOffline is why a partition of the topic is not served; nil when it is. It
// could not be opened, or its log directory has failed since.
func (t *topic) whyOffline(number int) error {
	if p := t.partitions[number]; p != nil {
		return p.Offline()
	}
	return t.offline[number]
}

// open lists the partitions that are not offline.
func (t *topic) open() []*partition.Partition {
	open := make([]*partition.Partition, 0, len(t.partitions))
	for i, p := range t.partitions {
		if t.whyOffline(i) == nil {
			open = append(open, p)
		}
	}
	return open
}

// opened lists the partitions that were opened, those included whose log
// directory has failed since.
func (t *topic) opened() []*partition.Partition {
	return slices.DeleteFunc(slices.Clone(t.partitions), func(p *partition.Partition) bool { return p == nil })
}

// close closes the partitions and joins their errors.
func (t *topic) close(ctx context.Context) error {
	var errs []error
	for _, p := range t.opened() {
		errs = append(errs, p.Close(ctx))
	}
	return errors.Join(errs...)
}

// isInternal says whether Kafka's clients treat a topic of this name as one of
// the brokers' own.
func isInternal(name string) bool {
	return name == "__consumer_offsets" || name == "__transaction_state"
}

// topics are the topics that are open, by name and by id.
type topics struct {
	mu    sync.RWMutex
	names map[string]*topic
	ids   map[record.TopicID]*topic
}

func newTopics() topics {
	return topics{names: make(map[string]*topic), ids: make(map[record.TopicID]*topic)}
}

func (t *topics) byName(name string) (*topic, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	one, ok := t.names[name]
	return one, ok
}

func (t *topics) byID(id record.TopicID) (*topic, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	one, ok := t.ids[id]
	return one, ok
}

func (t *topics) add(one *topic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names[one.Name], t.ids[one.ID] = one, one
}

// remove takes the topic out and returns it; nil when it is not there.
func (t *topics) remove(id record.TopicID) *topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, ok := t.ids[id]
	if !ok {
		return nil
	}
	delete(t.ids, id)
	delete(t.names, one.Name)
	return one
}

func (t *topics) all() []*topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]*topic, 0, len(t.ids))
	for _, one := range t.ids {
		all = append(all, one)
	}
	return all
}

func (t *topics) close(ctx context.Context) error {
	var errs []error
	for _, one := range t.all() {
		errs = append(errs, one.close(ctx))
	}
	return errors.Join(errs...)
}
