// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"firn/record"
)

func TestGrowTopicI1(t *testing.T) {
	ctx := context.Background()
	l := open(t, filepath.Join(t.TempDir(), "firn.db"))
	topic, err := l.CreateTopic(ctx, CreateTopic{Name: "clicks", Partitions: 2, Config: map[string]string{"retention.ms": "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	before := l.Metadata()
	for _, n := range []int32{-1, 0, 1, 2, MaxPartitions + 1} {
		if _, err := l.GrowTopic(ctx, topic.ID, n); !errors.Is(err, ErrInvalidPartitions) {
			t.Errorf("%d partitions: %v, want ErrInvalidPartitions", n, err)
		}
	}
	if _, err := l.GrowTopic(ctx, record.TopicID{9}, 3); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("an unknown topic: %v, want ErrUnknownTopic", err)
	}
	if l.Metadata() != before {
		t.Error("a refused change made a new snapshot")
	}
	grown, err := l.GrowTopic(ctx, topic.ID, 5)
	if err != nil || grown.Partitions != 5 || grown.Config["retention.ms"] != "1000" {
		t.Fatalf("grown: %+v, %v", grown, err)
	}
	if old, _ := before.Topic("clicks"); old.Partitions != 2 || l.Metadata().Version != before.Version+1 {
		t.Errorf("the old snapshot has %d partitions; version %d follows %d", old.Partitions, l.Metadata().Version, before.Version)
	}
	l = reopen(t, l)
	if got, _ := l.Metadata().Topic("clicks"); got.Partitions != 5 || got.ID != topic.ID {
		t.Errorf("after a restart: %+v", got)
	}
	if _, err := l.MarkDeleting(ctx, topic.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := l.GrowTopic(ctx, topic.ID, 6); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("a deleting topic: %v, want ErrUnknownTopic", err)
	}
}
