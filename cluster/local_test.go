// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"firn/record"
)

func TestMain(m *testing.M) {
	if actAsVictim() {
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, path string) *Local {
	t.Helper()
	l, err := OpenLocal(context.Background(), LocalOptions{Path: path, NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// reopen closes l and opens its file again, as a restart does.
func reopen(t *testing.T, l *Local) *Local {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, l.o.Path)
}

func create(t *testing.T, l *Local, name string) Topic {
	t.Helper()
	topic, err := l.CreateTopic(context.Background(), CreateTopic{Name: name, Partitions: 2, Config: map[string]string{"retention.ms": "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

func TestNewFile(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "firn.db"))
	m := l.Metadata()
	if err := CheckClusterID(m.ClusterID); err != nil {
		t.Error(err)
	}
	if m.NodeID != 1 || m.Version != 0 || m.Len() != 0 || l.StoreID() != "" {
		t.Errorf("new file: %+v, store %q", m, l.StoreID())
	}
	if again := reopen(t, l).Metadata(); again.ClusterID != m.ClusterID {
		t.Errorf("cluster id changed from %s to %s", m.ClusterID, again.ClusterID)
	}
}

func TestLifeOfATopicI3(t *testing.T) {
	ctx := context.Background()
	l := open(t, filepath.Join(t.TempDir(), "firn.db"))
	before := l.Metadata()
	topic := create(t, l, "clicks")
	if before.Len() != 0 || before.Version != 0 {
		t.Error("I1: an old snapshot changed")
	}
	l = reopen(t, l)
	got, ok := l.Metadata().Topic("clicks")
	if !ok || got.ID != topic.ID || got.Partitions != 2 || got.Config["retention.ms"] != "1000" || got.Created.UnixMilli() != topic.Created.UnixMilli() {
		t.Fatalf("after a restart: %+v, want %+v", got, topic)
	}
	if _, err := l.SetTopicConfig(ctx, topic.ID, map[string]string{"retention.bytes": "5"}); err != nil {
		t.Fatal(err)
	}
	if err := l.RemoveTopic(ctx, topic.ID); err == nil {
		t.Error("a live topic was removed")
	}
	if _, err := l.ReleaseName(ctx, topic.ID); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("release the name of a live topic: %v", err)
	}
	for range 2 { // twice is once
		if _, err := l.MarkDeleting(ctx, topic.ID); err != nil {
			t.Fatal(err)
		}
	}
	l = reopen(t, l)
	m := l.Metadata()
	if _, ok := m.Topic("clicks"); ok {
		t.Error("a deleting topic is still live by name")
	}
	if _, ok := m.TopicByID(topic.ID); ok {
		t.Error("a deleting topic is still live by id")
	}
	if d, ok := m.DeletingTopic(topic.ID); !ok || d.Config["retention.bytes"] != "5" || len(m.Deleting()) != 1 {
		t.Errorf("deleting: %+v, %v", d, ok)
	}
	if _, err := l.CreateTopic(ctx, CreateTopic{Name: "clicks", Partitions: 1}); !errors.Is(err, ErrTopicExists) {
		t.Errorf("the name of a deleting topic was given out: %v", err)
	}
	if _, err := l.SetTopicConfig(ctx, topic.ID, nil); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("config of a deleting topic: %v", err)
	}
	if _, err := l.ReleaseName(ctx, topic.ID); err != nil {
		t.Fatal(err)
	}
	second := create(t, l, "clicks")
	if second.ID == topic.ID {
		t.Error("I2: an id was used twice")
	}
	l = reopen(t, l)
	for range 2 {
		if err := l.RemoveTopic(ctx, topic.ID); err != nil {
			t.Fatal(err)
		}
	}
	if m := reopen(t, l).Metadata(); len(m.Deleting()) != 0 || m.Len() != 1 {
		t.Errorf("after the removal: %d deleting, %d live", len(m.Deleting()), m.Len())
	}
}

func TestCheckCreate(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "firn.db"))
	create(t, l, "a.b")
	create(t, l, "plain")
	for _, c := range []struct {
		create CreateTopic
		want   error
	}{
		{CreateTopic{Name: "", Partitions: 1}, record.ErrInvalidTopicName},
		{CreateTopic{Name: "a/b", Partitions: 1}, record.ErrInvalidTopicName},
		{CreateTopic{Name: "a_b", Partitions: 1}, ErrTopicCollision},
		{CreateTopic{Name: "a_b", Partitions: 1}, record.ErrInvalidTopicName},
		{CreateTopic{Name: "plain", Partitions: 1}, ErrTopicExists},
		{CreateTopic{Name: "x", Partitions: 0}, ErrInvalidPartitions},
		{CreateTopic{Name: "x", Partitions: MaxPartitions + 1}, ErrInvalidPartitions},
		{CreateTopic{Name: "ab", Partitions: 1}, nil},
	} {
		if err := l.Metadata().CheckCreate(c.create); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.create, err, c.want)
		}
	}
}

func TestNumbersGivenOutOnceI4(t *testing.T) {
	ctx := context.Background()
	l := open(t, filepath.Join(t.TempDir(), "firn.db"))
	for want := int64(0); want < 3000; want += 1000 {
		first, err := l.NextProducerIDs(ctx, 1000)
		if err != nil || first != want {
			t.Fatalf("block at %d, %v, want %d", first, err, want)
		}
		l = reopen(t, l)
	}
	for _, seen := range []int64{10_000, 5} {
		if err := l.RaiseProducerIDs(ctx, seen); err != nil {
			t.Fatal(err)
		}
	}
	if first, err := l.NextProducerIDs(ctx, 1); err != nil || first != 10_001 {
		t.Errorf("after raising: %d, %v", first, err)
	}
	if _, err := l.NextProducerIDs(ctx, 0); err == nil {
		t.Error("an empty block was given out")
	}
	if _, err := l.NextProducerIDs(ctx, math.MaxInt64); !errors.Is(err, ErrExhausted) {
		t.Errorf("beyond the last id: %v", err)
	}
	for i, c := range []struct{ atLeast, want record.Epoch }{{record.NoEpoch, 0}, {record.NoEpoch, 1}, {7, 8}, {3, 9}} {
		if got, err := l.RaiseBrokerEpoch(ctx, c.atLeast); err != nil || got != c.want {
			t.Errorf("epoch %d: %d, %v, want %d", i, got, err, c.want)
		}
		l = reopen(t, l)
	}
	if _, err := l.RaiseBrokerEpoch(ctx, math.MaxInt32); !errors.Is(err, ErrExhausted) {
		t.Errorf("beyond the last epoch: %v", err)
	}
}

func TestStoreID(t *testing.T) {
	ctx := context.Background()
	l := open(t, filepath.Join(t.TempDir(), "firn.db"))
	if err := l.SetStoreSeen(ctx); err == nil || l.StoreSeen() {
		t.Errorf("an unbound directory has seen its store: %v", err)
	}
	if err := l.SetStoreID(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, l)
	if l.StoreSeen() {
		t.Error("a store was seen that was not")
	}
	for range 2 {
		if err := l.SetStoreSeen(ctx); err != nil || !l.StoreSeen() {
			t.Errorf("the store was seen: %v", err)
		}
		l = reopen(t, l)
	}
	if err := l.SetStoreID(ctx, "one"); err != nil || l.StoreID() != "one" {
		t.Errorf("the same id again: %v, %q", err, l.StoreID())
	}
	if err := l.SetStoreID(ctx, "two"); !errors.Is(err, ErrMismatch) {
		t.Errorf("another id: %v", err)
	}
	if err := l.SetStoreID(ctx, ""); err == nil {
		t.Error("an empty id was taken")
	}
}

func TestRefusals(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "firn.db")
	l := open(t, path)
	if _, err := OpenLocal(ctx, LocalOptions{Path: path, NodeID: 1, LockWait: time.Millisecond}); !errors.Is(err, ErrInUse) {
		t.Errorf("second user: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLocal(ctx, LocalOptions{Path: path, NodeID: 2}); !errors.Is(err, ErrMismatch) {
		t.Errorf("another node: %v", err)
	}
	other, err := NewClusterID()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLocal(ctx, LocalOptions{Path: path, NodeID: 1, ClusterID: other}); !errors.Is(err, ErrMismatch) {
		t.Errorf("another cluster: %v", err)
	}
	if _, err := l.CreateTopic(ctx, CreateTopic{Name: "x", Partitions: 1}); !errors.Is(err, record.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := OpenLocal(cancelled, LocalOptions{Path: path, NodeID: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled open: %v", err)
	}
	l = open(t, path)
	if _, err := l.CreateTopic(cancelled, CreateTopic{Name: "x", Partitions: 1}); !errors.Is(err, context.Canceled) || l.Metadata().Len() != 0 {
		t.Errorf("cancelled change: %v, %d topics", err, l.Metadata().Len())
	}
	var o LocalOptions
	o.NodeID, o.ClusterID, o.LockWait = -1, "x", -1
	if err := o.Validate(); err == nil || len(err.(interface{ Unwrap() []error }).Unwrap()) != 4 {
		t.Errorf("want four faults at once, got %v", err)
	}
}

// TestConcurrentChangesI1 lets writers race; readers must see whole snapshots
// whose version only rises.
func TestConcurrentChangesI1(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "firn.db"))
	const writers, each = 4, 5
	stop := make(chan struct{})
	var readers, wg sync.WaitGroup
	readers.Go(func() {
		last := int64(-1)
		for {
			m := l.Metadata()
			if m.Version < last || int64(m.Len()) != m.Version {
				t.Errorf("version %d after %d with %d topics", m.Version, last, m.Len())
				return
			}
			last = m.Version
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				name := string(rune('a'+w)) + string(rune('a'+i))
				if _, err := l.CreateTopic(context.Background(), CreateTopic{Name: name, Partitions: 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	readers.Wait()
	live := l.Metadata().Topics()
	if again := reopen(t, l).Metadata().Topics(); len(live) != writers*each || !reflect.DeepEqual(names(live), names(again)) {
		t.Errorf("%d topics before and %d after a restart", len(live), len(again))
	}
}

func names(topics []Topic) []string {
	var out []string
	for _, t := range topics {
		out = append(out, t.Name)
	}
	return out
}
