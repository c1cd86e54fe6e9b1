// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"firn/record"
)

func TestLogDirs(t *testing.T) {
	ctx := context.Background()
	l := open(t, filepath.Join(t.TempDir(), "firn.db"))
	if got := l.LogDirs(); len(got) != 0 {
		t.Errorf("a new file knows %v", got)
	}
	want := []LogDir{{record.TopicID{1}, "/a"}, {record.TopicID{2}, "/b c"}}
	for range 2 {
		if err := l.SetLogDirs(ctx, want); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.SetLogDirs(ctx, append(slices.Clone(want), LogDir{Path: "relative"})); err != nil {
		t.Fatal(err)
	}
	path := l.o.Path
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var damage *record.CorruptionError
	if _, err := OpenLocal(ctx, LocalOptions{Path: path, NodeID: 1}); !errors.As(err, &damage) {
		t.Errorf("a directory without id and path: %v", err)
	}
	rewrite(t, path, []byte(`[{"id":"AQAAAAAAAAAAAAAAAAAAAA","path":"/a","more":1}]`))
	if _, err := OpenLocal(ctx, LocalOptions{Path: path, NodeID: 1}); !errors.As(err, &damage) {
		t.Errorf("an unknown field: %v", err)
	}
	rewrite(t, path, []byte(`[{"id":"AQAAAAAAAAAAAAAAAAAAAA","path":"/a"}]`))
	if got := open(t, path).LogDirs(); !slices.Equal(got, []LogDir{{record.TopicID{1}, "/a"}}) {
		t.Errorf("read %v", got)
	}
}

func rewrite(t *testing.T, path string, value []byte) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyLogDirs, value) }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// When the disk of the file is lost nothing is changed any more, in the file or
// in memory, and what is known stays known.
func TestTheDiskOfTheFileIsLost(t *testing.T) {
	ctx := context.Background()
	var failed error
	l, err := OpenLocal(ctx, LocalOptions{Path: filepath.Join(t.TempDir(), "firn.db"), NodeID: 1, Healthy: func() error { return failed }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	topic := create(t, l, "clicks")
	failed = record.ErrStorage
	if _, err := l.CreateTopic(ctx, CreateTopic{Name: "views", Partitions: 1}); !errors.Is(err, record.ErrStorage) {
		t.Errorf("create: %v", err)
	}
	if _, err := l.MarkDeleting(ctx, topic.ID); !errors.Is(err, record.ErrStorage) {
		t.Errorf("delete: %v", err)
	}
	if m := l.Metadata(); m.Len() != 1 {
		t.Errorf("%d topics", m.Len())
	}
}
