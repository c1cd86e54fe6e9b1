// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"firn/record"
)

var update = flag.Bool("update", false, "write testdata anew")

const golden = "testdata/v1.db"

// goldenTime is when everything in the golden file was made.
var goldenTime = time.UnixMilli(1764547200000).UTC()

// writeGolden makes the golden file through the same calls as a broker.
func writeGolden(t *testing.T) {
	if err := os.RemoveAll(golden); err != nil {
		t.Fatal(err)
	}
	next := byte(0)
	ctx := context.Background()
	l, err := OpenLocal(ctx, LocalOptions{
		Path: golden, NodeID: 3,
		Now: func() time.Time { return goldenTime },
		NewID: func() (record.TopicID, error) {
			next++
			return record.TopicID{0: next, 15: 0xff}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	must := func(_ any, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(l.CreateTopic(ctx, CreateTopic{Name: "clicks", Partitions: 3, Config: map[string]string{"retention.ms": "3600000"}}))
	must(l.CreateTopic(ctx, CreateTopic{Name: "old.clicks", Partitions: 1}))
	must(l.CreateTopic(ctx, CreateTopic{Name: "going", Partitions: 2}))
	must(l.MarkDeleting(ctx, record.TopicID{0: 3, 15: 0xff}))
	must(l.ReleaseName(ctx, record.TopicID{0: 3, 15: 0xff}))
	must(l.MarkDeleting(ctx, record.TopicID{0: 4, 15: 0xff}))
	must(l.NextProducerIDs(ctx, 1000))
	must(l.RaiseBrokerEpoch(ctx, 6))
	must(nil, l.SetStoreID(ctx, "AAECAwQFBgcICQoLDA0ODw"))
	must(nil, l.Close())
}

// TestGolden opens a file of schema version 1 that was written long ago, on a
// copy, and wants every field of it.
func TestGolden(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	ctx := context.Background()
	path := copyFile(t, golden, filepath.Join(t.TempDir(), "firn.db"))
	l, err := OpenLocal(ctx, LocalOptions{Path: path, NodeID: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := l.Metadata()
	id := func(n byte) record.TopicID { return record.TopicID{0: n, 15: 0xff} }
	if m.ClusterID != id(1).String() || m.NodeID != 3 || m.Version != 6 || l.StoreID() != "AAECAwQFBgcICQoLDA0ODw" {
		t.Errorf("cluster %s, node %d, version %d, store %s", m.ClusterID, m.NodeID, m.Version, l.StoreID())
	}
	live := []Topic{{Name: "clicks", ID: id(2), Partitions: 3, Config: map[string]string{"retention.ms": "3600000"}, Created: goldenTime}}
	deleting := []Topic{
		{Name: "old.clicks", ID: id(3), Partitions: 1, State: TopicDeleting, NameReleased: true, Created: goldenTime},
		{Name: "going", ID: id(4), Partitions: 2, State: TopicDeleting, Created: goldenTime},
	}
	if got := m.Topics(); !reflect.DeepEqual(got, live) {
		t.Errorf("live: %+v, want %+v", got, live)
	}
	if got := m.Deleting(); !reflect.DeepEqual(got, deleting) {
		t.Errorf("deleting: %+v, want %+v", got, deleting)
	}
	if first, err := l.NextProducerIDs(ctx, 1); err != nil || first != 1000 {
		t.Errorf("next producer id %d, %v", first, err)
	}
	if epoch, err := l.RaiseBrokerEpoch(ctx, record.NoEpoch); err != nil || epoch != 8 {
		t.Errorf("next epoch %d, %v", epoch, err)
	}
}
