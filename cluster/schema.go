// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"

	"firn/record"
)

// SchemaVersion is the version of the metadata file that this code reads and
// writes. docs/format/metadata.md describes it.
const SchemaVersion = 1

// The buckets and keys of firn.db. All values of the meta bucket are text.
var (
	bucketMeta   = []byte("meta")
	bucketTopics = []byte("topics")

	keySchema      = []byte("schema.version")
	keyClusterID   = []byte("cluster.id")
	keyNodeID      = []byte("node.id")
	keyStoreID     = []byte("store.id")
	keyStoreSeen   = []byte("store.seen")
	keyLogDirs     = []byte("log.dirs")
	keyVersion     = []byte("metadata.version")
	keyBrokerEpoch = []byte("broker.epoch")
	keyProducerID  = []byte("producer.id.next")
)

// topicRecord is the value of a topic in the topics bucket, as JSON. The key
// is the 16 bytes of the topic id.
type topicRecord struct {
	Name         string            `json:"name"`
	Partitions   int32             `json:"partitions"`
	Config       map[string]string `json:"config,omitempty"`
	State        string            `json:"state"`
	NameReleased bool              `json:"name_released,omitempty"`
	CreatedMs    int64             `json:"created_ms"`
}

func marshalTopic(t Topic) ([]byte, error) {
	b, err := json.Marshal(topicRecord{
		Name:         t.Name,
		Partitions:   t.Partitions,
		Config:       t.Config,
		State:        t.State.String(),
		NameReleased: t.NameReleased,
		CreatedMs:    t.Created.UnixMilli(),
	})
	if err != nil {
		return nil, fmt.Errorf("encode topic %s: %w", t.Name, err)
	}
	return b, nil
}

// parseTopic reads one entry of the topics bucket. Both slices stay the
// caller's.
func parseTopic(key, value []byte) (Topic, error) {
	var id record.TopicID
	if len(key) != len(id) {
		return Topic{}, fmt.Errorf("a topic key has %d bytes, want %d", len(key), len(id))
	}
	copy(id[:], key)
	var r topicRecord
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return Topic{}, fmt.Errorf("topic %s: %w", id, err)
	}
	t := Topic{
		Name:         r.Name,
		ID:           id,
		Partitions:   r.Partitions,
		Config:       r.Config,
		NameReleased: r.NameReleased,
		Created:      time.UnixMilli(r.CreatedMs).UTC(),
	}
	switch r.State {
	case TopicLive.String():
	case TopicDeleting.String():
		t.State = TopicDeleting
	default:
		return Topic{}, fmt.Errorf("topic %s: state %q, want live or deleting", id, r.State)
	}
	if t.NameReleased && t.State == TopicLive {
		return Topic{}, fmt.Errorf("topic %s: live, yet its name is released", id)
	}
	if id.IsZero() {
		return Topic{}, errors.New("a topic has the zero id")
	}
	if err := record.CheckTopicName(t.Name); err != nil {
		return Topic{}, fmt.Errorf("topic %s: %w", id, err)
	}
	if t.Partitions < 1 || t.Partitions > MaxPartitions {
		return Topic{}, fmt.Errorf("topic %s: %d partitions, want 1 to %d", id, t.Partitions, MaxPartitions)
	}
	return t, nil
}

// loadTopics reads the topics bucket and checks that no name is held twice.
func loadTopics(b *bolt.Bucket) (map[record.TopicID]Topic, error) {
	topics := make(map[record.TopicID]Topic)
	holders := make(map[string]record.TopicID)
	err := b.ForEach(func(k, v []byte) error {
		t, err := parseTopic(k, v)
		if err != nil {
			return err
		}
		topics[t.ID] = t
		if t.NameReleased {
			return nil
		}
		if other, ok := holders[t.Name]; ok {
			return fmt.Errorf("topics %s and %s both hold the name %s", other, t.ID, t.Name)
		}
		holders[t.Name] = t.ID
		return nil
	})
	return topics, err
}

// getInt reads a number of the meta bucket, which must be there.
func getInt(meta *bolt.Bucket, key []byte, lo, hi int64) (int64, error) {
	v := meta.Get(key)
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < lo || n > hi {
		return 0, fmt.Errorf("%s is %q, want a number from %d to %d", key, v, lo, hi)
	}
	return n, nil
}

func putInt(meta *bolt.Bucket, key []byte, n int64) error {
	return meta.Put(key, strconv.AppendInt(nil, n, 10))
}

// cloneConfig copies a config so that the snapshot shares nothing with the
// caller; an empty one becomes nil.
func cloneConfig(c map[string]string) map[string]string {
	if len(c) == 0 {
		return nil
	}
	return maps.Clone(c)
}
