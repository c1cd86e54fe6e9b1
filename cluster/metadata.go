// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"firn/record"
)

// MaxPartitions bounds the partitions of one topic. It keeps a mistyped count
// from opening files until the process dies.
const MaxPartitions = 100_000

// TopicState is where a topic is in its life.
type TopicState int8

const (
	// TopicLive: the topic takes reads and writes.
	TopicLive TopicState = iota
	// TopicDeleting: the topic is gone for clients; its data is being removed.
	TopicDeleting
)

// String is the state as it stands in the metadata file.
func (s TopicState) String() string {
	if s == TopicDeleting {
		return "deleting"
	}
	return "live"
}

// Topic is one topic. Values are shared between all readers of a snapshot:
// nobody may write to Config.
type Topic struct {
	Name       string
	ID         record.TopicID
	Partitions int32
	// Config holds only what was set on the topic, by Kafka's names.
	Config  map[string]string
	State   TopicState
	Created time.Time
	// NameReleased says of a deleting topic that another topic may have its
	// name by now.
	NameReleased bool
}

// Metadata is a snapshot of the cluster. It is immutable and safe for any
// number of readers.
type Metadata struct {
	// Version rises by one with every change to topics; 0 says that the
	// cluster never had one.
	Version int64
	// ClusterID is a UUID in Kafka's base64 form.
	ClusterID string
	// NodeID is the id of this broker.
	NodeID int32

	byName   map[string]Topic // live only
	byID     map[record.TopicID]Topic
	names    []string // live, sorted
	deleting []Topic  // by id
}

// Topics lists the live topics by name.
func (m *Metadata) Topics() []Topic {
	out := make([]Topic, len(m.names))
	for i, n := range m.names {
		out[i] = m.byName[n]
	}
	return out
}

// Len is the number of live topics.
func (m *Metadata) Len() int { return len(m.names) }

// Topic finds a live topic by name.
func (m *Metadata) Topic(name string) (Topic, bool) {
	t, ok := m.byName[name]
	return t, ok
}

// TopicByID finds a live topic by id.
func (m *Metadata) TopicByID(id record.TopicID) (Topic, bool) {
	t, ok := m.byID[id]
	return t, ok && t.State == TopicLive
}

// Deleting lists the topics whose deletion has begun and is not over, in the
// order of their ids.
func (m *Metadata) Deleting() []Topic { return slices.Clone(m.deleting) }

// DeletingTopic finds a topic that is being deleted.
func (m *Metadata) DeletingTopic(id record.TopicID) (Topic, bool) {
	t, ok := m.byID[id]
	return t, ok && t.State == TopicDeleting
}

// CheckCreate says whether the topic could be created as things stand: the
// name, the partition count and that the name is free. It does not judge the
// config; see ParseTopicConfig. The error wraps record.ErrInvalidTopicName,
// ErrTopicCollision, ErrInvalidPartitions or ErrTopicExists.
func (m *Metadata) CheckCreate(c CreateTopic) error {
	if err := record.CheckTopicName(c.Name); err != nil {
		return err
	}
	if c.Partitions < 1 || c.Partitions > MaxPartitions {
		return fmt.Errorf("%w: topic %s asks for %d, want 1 to %d", ErrInvalidPartitions, c.Name, c.Partitions, MaxPartitions)
	}
	if _, ok := m.byName[c.Name]; ok {
		return fmt.Errorf("%w: %s", ErrTopicExists, c.Name)
	}
	for _, t := range m.deleting {
		if t.Name == c.Name && !t.NameReleased {
			return fmt.Errorf("%w: %s is being deleted", ErrTopicExists, c.Name)
		}
	}
	if strings.ContainsAny(c.Name, "._") {
		folded := foldName(c.Name)
		for _, n := range m.names {
			if foldName(n) == folded {
				return fmt.Errorf("%w: %s and %s", ErrTopicCollision, c.Name, n)
			}
		}
	}
	return nil
}

// CheckGrow says whether the live topic may have so many partitions in all:
// more than it has, at most MaxPartitions. The error wraps ErrUnknownTopic or
// ErrInvalidPartitions.
func (m *Metadata) CheckGrow(id record.TopicID, partitions int32) error {
	t, ok := m.TopicByID(id)
	switch {
	case !ok:
		return fmt.Errorf("add partitions to topic %s: %w", id, ErrUnknownTopic)
	case partitions == t.Partitions:
		return fmt.Errorf("%w: topic %s has %d already", ErrInvalidPartitions, t.Name, partitions)
	case partitions < t.Partitions:
		return fmt.Errorf("%w: topic %s has %d, of which none can be taken away: %d would be fewer", ErrInvalidPartitions, t.Name, t.Partitions, partitions)
	case partitions > MaxPartitions:
		return fmt.Errorf("%w: topic %s asks for %d, at most %d are allowed", ErrInvalidPartitions, t.Name, partitions, MaxPartitions)
	}
	return nil
}

// foldName maps names that metrics cannot tell apart to one.
func foldName(name string) string { return strings.ReplaceAll(name, ".", "_") }

// newMetadata builds a snapshot, which takes over topics.
func newMetadata(version int64, clusterID string, nodeID int32, topics map[record.TopicID]Topic) *Metadata {
	m := &Metadata{
		Version:   version,
		ClusterID: clusterID,
		NodeID:    nodeID,
		byName:    make(map[string]Topic, len(topics)),
		byID:      topics,
	}
	for _, t := range topics {
		if t.State == TopicLive {
			m.byName[t.Name] = t
		} else {
			m.deleting = append(m.deleting, t)
		}
	}
	m.names = slices.Sorted(maps.Keys(m.byName))
	slices.SortFunc(m.deleting, func(a, b Topic) int { return strings.Compare(string(a.ID[:]), string(b.ID[:])) })
	return m
}

// with gives the next snapshot, in which t stands in for the topic of its id.
func (m *Metadata) with(t Topic) *Metadata {
	topics := maps.Clone(m.byID)
	topics[t.ID] = t
	return newMetadata(m.Version+1, m.ClusterID, m.NodeID, topics)
}

// without gives the next snapshot, which lacks the topic.
func (m *Metadata) without(id record.TopicID) *Metadata {
	topics := maps.Clone(m.byID)
	delete(topics, id)
	return newMetadata(m.Version+1, m.ClusterID, m.NodeID, topics)
}
