// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"firn/record"
	"firn/tier/store"
)

// keptTopicVersions is how many versions of a topic's description stay.
const keptTopicVersions = 4

// TopicState describes a topic in the bucket, so that the bucket alone is
// enough to make it again.
type TopicState struct {
	Name       string
	ID         record.TopicID
	Partitions int32
	// Config is what was set for the topic, by Kafka's names.
	Config map[string]string
	// Deleting says that the topic's objects are being removed; nobody may
	// restore it.
	Deleting bool
}

// Topic states in the object.
const (
	topicLive     = 1
	topicDeleting = 2
)

// encode is the object's content. It has no time in it, so that equal states
// give equal bytes.
func (t TopicState) encode() []byte {
	b := append([]byte(nil), t.ID[:]...)
	state := uint8(topicLive)
	if t.Deleting {
		state = topicDeleting
	}
	b = append(b, state, 0, 0, 0)
	b = appendU32(b, uint32(t.Partitions))
	b = appendText(b, t.Name)
	b = appendCount(b, len(t.Config))
	for _, name := range slices.Sorted(maps.Keys(t.Config)) {
		b = appendText(b, name)
		b = appendText(b, t.Config[name])
	}
	return appendFrame(nil, magicTopic, b)
}

// DecodeTopic reads a topic object. path names it in errors. The error is a
// *record.CorruptionError or wraps record.ErrUnsupportedVersion.
func DecodeTopic(path string, b []byte) (TopicState, error) {
	body, err := openFrame(path, magicTopic, b)
	if err != nil {
		return TopicState{}, fmt.Errorf("read topic: %w", err)
	}
	r := newBodyReader(path, body)
	t := TopicState{ID: r.id()}
	state := r.u8()
	r.zero(3)
	t.Partitions, t.Name = int32(r.u32()), r.text()
	last := ""
	for i := range r.count(8) {
		name, value := r.text(), r.text()
		if i > 0 && name <= last {
			r.fail("config %q follows %q", name, last)
		}
		if r.err != nil {
			break
		}
		if t.Config == nil {
			t.Config = make(map[string]string)
		}
		t.Config[name], last = value, name
	}
	if err := r.end(); err != nil {
		return TopicState{}, fmt.Errorf("read topic: %w", err)
	}
	t.Deleting = state == topicDeleting
	if err := t.check(); err != nil || state != topicLive && state != topicDeleting {
		return TopicState{}, fmt.Errorf("read topic: %w", corrupt(path, frameHeadSize, "state %d, %v", state, err))
	}
	return t, nil
}

func (t TopicState) check() error {
	if t.ID.IsZero() || t.Partitions <= 0 {
		return fmt.Errorf("topic %q has the id %v and %d partitions", t.Name, t.ID, t.Partitions)
	}
	return record.CheckTopicName(t.Name)
}

// PutTopic writes the state as the newest version of topics/<id>, durably. A
// state that is the newest already changes nothing, so that it may be called
// again after an error. Older versions beyond four are removed.
func (t *Tier) PutTopic(ctx context.Context, state TopicState) error {
	if err := state.check(); err != nil {
		return fmt.Errorf("put topic: %w", err)
	}
	if err := t.Verify(ctx); err != nil {
		return fmt.Errorf("put topic %s: %w", state.Name, err)
	}
	// One at a time: a version is the highest one that is there, plus one.
	select {
	case t.topicTurn <- struct{}{}:
		defer func() { <-t.topicTurn }()
	case <-ctx.Done():
		return fmt.Errorf("put topic %s: %w", state.Name, ctx.Err())
	}
	if err := t.putTopic(ctx, state.ID, state.encode()); err != nil {
		return fmt.Errorf("put topic %s: %w", state.Name, err)
	}
	return nil
}

func (t *Tier) putTopic(ctx context.Context, id record.TopicID, body []byte) error {
	for {
		versions, newest, err := t.topicVersions(ctx, id)
		if err != nil {
			return err
		}
		next := Key{Kind: KeyTopic, TopicID: id, Version: 1}
		if newest != nil {
			if bytes.Equal(newest, body) {
				return t.trimTopic(ctx, versions)
			}
			last, err := ParseKey(t.root, versions[len(versions)-1])
			if err != nil {
				return err
			}
			next.Version = last.Version + 1
		}
		key := next.String(t.root)
		err = t.store.Put(ctx, key, store.BytesSource(body), store.PutOptions{IfNoneMatch: true})
		if err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
		// Whether the Put won, an earlier attempt of it did, or another writer:
		// the next round reads what is there and decides.
	}
}

// topicVersions lists the keys of a topic's versions, oldest first, and reads
// the newest; newest is nil when there is none.
func (t *Tier) topicVersions(ctx context.Context, id record.TopicID) (keys []string, newest []byte, err error) {
	prefix := topicPrefix(t.root, id)
	infos, err := listAll(ctx, t.store, prefix, "")
	if err != nil {
		return nil, nil, err
	}
	for _, info := range infos {
		keys = append(keys, info.Key)
	}
	if len(infos) == 0 {
		return nil, nil, nil
	}
	last := infos[len(infos)-1]
	newest, err = readObject(ctx, t.store, last.Key, last.Size)
	return keys, newest, err
}

func (t *Tier) trimTopic(ctx context.Context, keys []string) error {
	if extra := len(keys) - keptTopicVersions; extra > 0 {
		return t.store.Delete(ctx, keys[:extra])
	}
	return nil
}

// DeleteTopicObjects removes every object of a topic, by LIST: the data of all
// partitions first, the description last, so that what is left of an
// interrupted call still says whose it is. All logs of the topic must be
// closed. It is idempotent; done is true when a LIST found nothing any more.
// An upload that was under way when its log was closed may still land, so call
// it once more after the grace.
func (t *Tier) DeleteTopicObjects(ctx context.Context, id record.TopicID, name string) (done bool, err error) {
	if err := record.CheckTopicName(name); err != nil {
		return false, fmt.Errorf("delete objects of topic: %w", err)
	}
	if err := t.Verify(ctx); err != nil {
		return false, fmt.Errorf("delete objects of topic %s: %w", name, err)
	}
	for _, prefix := range []string{topicDataPrefix(t.root, name, id), topicPrefix(t.root, id)} {
		if err := deleteAll(ctx, t.store, prefix); err != nil {
			return false, fmt.Errorf("delete objects of topic %s: %w", name, err)
		}
	}
	return true, nil
}

// deleteAll removes what begins with prefix until a LIST finds nothing.
func deleteAll(ctx context.Context, s store.Store, prefix string) error {
	for {
		infos, _, err := s.List(ctx, prefix, "", store.MaxList)
		if err != nil {
			return err
		}
		if len(infos) == 0 {
			return nil
		}
		keys := make([]string, len(infos))
		for i, info := range infos {
			keys[i] = info.Key
		}
		if err := s.Delete(ctx, keys); err != nil {
			return err
		}
	}
}

// listAll lists everything that begins with prefix and is above after.
func listAll(ctx context.Context, s store.Store, prefix, after string) ([]store.Info, error) {
	var all []store.Info
	for {
		infos, more, err := s.List(ctx, prefix, after, store.MaxList)
		if err != nil {
			return nil, err
		}
		all = append(all, infos...)
		if !more || len(infos) == 0 {
			return all, nil
		}
		after = infos[len(infos)-1].Key
	}
}

// readObject reads a whole small object of a known size.
func readObject(ctx context.Context, s store.Store, key string, size int64) ([]byte, error) {
	if size < 0 || size > maxFrame {
		return nil, corrupt(key, 0, "object has %d bytes, at most %d are expected", size, maxFrame)
	}
	b := make([]byte, size)
	if _, err := s.GetRange(ctx, key, b, 0); err != nil {
		return nil, err
	}
	return b, nil
}
