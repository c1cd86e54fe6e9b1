// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"firn/config"
	"firn/record"
)

// diskLab starts and stops brokers over directories of one test.
type diskLab struct {
	t    *testing.T
	root string
}

func (l diskLab) path(name string) string { return filepath.Join(l.root, name) }

// start starts a broker with the directories of these names, in this order.
func (l diskLab) start(names ...string) (*node, error) {
	l.t.Helper()
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = l.path(name)
	}
	return l.startWith("log.dirs=" + strings.Join(paths, ","))
}

func (l diskLab) startWith(sets ...string) (*node, error) {
	l.t.Helper()
	c, _, err := config.Load(config.LoadOptions{Flags: append([]string{"listeners=PLAINTEXT://127.0.0.1:0", "admin.listeners=none"}, sets...)})
	if err != nil {
		l.t.Fatal(err)
	}
	return startNode(l.t.Context(), c, nodeOptions{logger: slog.New(slog.DiscardHandler)})
}

// run starts a broker that has to come up, has look at it, and stops it.
func (l diskLab) run(look func(n *node), names ...string) {
	l.t.Helper()
	n, err := l.start(names...)
	if err != nil {
		l.t.Fatalf("with %v: %v", names, err)
	}
	look(n)
	if err := n.Close(context.WithoutCancel(l.t.Context())); err != nil {
		l.t.Fatalf("stop: %v", err)
	}
}

// refused wants a start to fail for a reason.
func (l diskLab) refused(why string, names ...string) {
	l.t.Helper()
	n, err := l.start(names...)
	if err == nil {
		err = n.Close(context.WithoutCancel(l.t.Context()))
		l.t.Fatalf("with %v the broker starts, wanted %q (%v)", names, why, err)
	}
	if !strings.Contains(err.Error(), why) {
		l.t.Errorf("with %v: %v, wanted %q", names, err, why)
	}
}

func (l diskLab) move(from, to string) {
	l.t.Helper()
	if err := os.Rename(l.path(from), l.path(to)); err != nil {
		l.t.Fatal(err)
	}
}

func (l diskLab) edit(file string, change func(string) string) {
	l.t.Helper()
	b, err := os.ReadFile(l.path(file))
	if err == nil {
		err = os.WriteFile(l.path(file), []byte(change(string(b))), 0o644)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// topicOnDisks makes the topic t of 4 partitions with a record in each.
func topicOnDisks(t *testing.T) func(n *node) {
	return func(n *node) {
		t.Helper()
		_, addr, _ := strings.Cut(n.addresses[0], "://")
		client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 4, 1, nil, "t"); err != nil {
			t.Fatal(err)
		}
		for p := range int32(4) {
			if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: p, Value: []byte("x")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// whole wants all partitions of the topic to be there with their record.
func whole(t *testing.T) func(n *node) {
	return func(n *node) {
		t.Helper()
		partitions, ok := n.broker.Partitions("t")
		if !ok || len(partitions) != 4 {
			t.Fatalf("%d partitions, offline: %v", len(partitions), n.broker.Offline())
		}
		for _, p := range partitions {
			if p.EndOffset() != 1 {
				t.Errorf("%s ends at %d", p.TopicPartition(), p.EndOffset())
			}
		}
	}
}

// half wants those partitions to be offline that lie in one of two directories.
func half(t *testing.T, why string) func(n *node) {
	return func(n *node) {
		t.Helper()
		if partitions, _ := n.broker.Partitions("t"); len(partitions) != 2 || len(n.broker.Offline()) != 2 {
			t.Errorf("%d partitions, offline: %v", len(partitions), n.broker.Offline())
		}
		if err := n.logs.Offline(); err == nil || !strings.Contains(err.Error(), why) || !errors.Is(err, record.ErrStorage) {
			t.Errorf("offline: %v, wanted %q", err, why)
		}
		s, err := (*view)(n).Status(t.Context())
		if err != nil || len(s.LogDirs) != 2 || (s.LogDirs[0].Offline == "") == (s.LogDirs[1].Offline == "") || len(s.Attention) != 2 || s.Disk.Total == 0 {
			t.Errorf("status: %+v, %v", s, err)
		}
	}
}

// The order of the directories does not matter, nor where they are mounted; the
// metadata stays where it is.
func TestDirectoriesInAnyOrder(t *testing.T) {
	l := diskLab{t, t.TempDir()}
	l.run(topicOnDisks(t), "a", "b")
	l.run(whole(t), "b", "a")
	if _, err := os.Stat(l.path("b/firn.db")); err == nil {
		t.Error("the metadata is in two directories")
	}
	l.move("a", "c")
	l.run(whole(t), "b", "c")
	l.run(whole(t), "new", "c", "b")
}

// A disk that is not mounted leaves an empty directory. It is not taken for a
// new one: its partitions are offline, nothing is put there, and all is as it
// was when the disk is back. The same holds for one that cannot be opened.
func TestADiskIsNotMounted(t *testing.T) {
	l := diskLab{t, t.TempDir()}
	l.run(topicOnDisks(t), "a", "b")
	l.move("b", "real")
	for range 2 {
		l.run(half(t, "is its disk mounted?"), "a", "b")
		entries, err := os.ReadDir(l.path("b"))
		if err != nil || len(entries) != 1 || entries[0].Name() != ".lock" {
			t.Fatalf("the empty directory has %v, %v", entries, err)
		}
	}
	if err := os.RemoveAll(l.path("b")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.path("b"), nil, 0o644); err != nil { // no directory at all
		t.Fatal(err)
	}
	l.run(half(t, l.path("b")), "a", "b")
	if err := os.Remove(l.path("b")); err != nil {
		t.Fatal(err)
	}
	l.move("real", "b")
	l.run(whole(t), "a", "b")

	// Without its meta.properties, but with its partitions, it is the same disk.
	if err := os.Remove(l.path("b/meta.properties")); err != nil {
		t.Fatal(err)
	}
	l.run(whole(t), "a", "b")
}

// Without the metadata nothing can be served, and nothing begins anew.
func TestTheMetadataIsMissing(t *testing.T) {
	l := diskLab{t, t.TempDir()}
	l.run(topicOnDisks(t), "a", "b")
	l.refused("none holds its firn.db", "b")
	l.refused("none holds its firn.db", "b", "new")
	l.move("a", "real")
	if err := os.WriteFile(l.path("a"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l.refused("not all are in use", "a", "b")
	l.refused("not all are in use", "a", "other")
	l.refused(l.path("a"), "a") // the only one
	if err := os.Remove(l.path("a")); err != nil {
		t.Fatal(err)
	}
	l.move("real", "a")
	if err := copyFile(l.path("a/firn.db"), l.path("b/firn.db")); err != nil {
		t.Fatal(err)
	}
	l.refused("the metadata is in two log directories", "a", "b")
	if err := os.Remove(l.path("b/firn.db")); err != nil {
		t.Fatal(err)
	}
	l.run(whole(t), "a", "b")
}

// A directory of another cluster or node, or the copy of one, is refused, and
// is left as it is.
func TestADirectoryOfSomebodyElse(t *testing.T) {
	l := diskLab{t, t.TempDir()}
	l.run(topicOnDisks(t), "a", "b")
	l.run(func(*node) {}, "other")
	l.move("other", "gone")
	l.run(func(*node) {}, "other", "more")
	before := list(t, l.path("more"))
	l.refused("belongs to cluster", "a", "b", "more")
	if after := list(t, l.path("more")); !maps.Equal(before, after) {
		t.Errorf("the other cluster's directory changed from %v to %v", before, after)
	}
	keep, err := os.ReadFile(l.path("b/meta.properties"))
	if err != nil {
		t.Fatal(err)
	}
	l.edit("b/meta.properties", func(s string) string { return strings.Replace(s, "node.id=1", "node.id=7", 1) })
	l.refused("belongs to node 7", "a", "b")
	l.edit("b/meta.properties", func(string) string { return string(keep) })
	if err := os.Mkdir(l.path("copy"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.path("copy/meta.properties"), keep, 0o644); err != nil {
		t.Fatal(err)
	}
	l.refused("have the same id", "a", "b", "copy")
	l.run(whole(t), "a", "b")

	// One that Kafka wrote brings its cluster with it, and must be of the node.
	if err := os.Mkdir(l.path("kafka"), 0o755); err != nil {
		t.Fatal(err)
	}
	kafka := "#\n#Tue Dec 01 01:35:15 UTC 2026\nnode.id=1\ndirectory.id=HQ034bZwmO5iIZC8FcMPMA\nversion=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
	if err := os.WriteFile(l.path("kafka/meta.properties"), []byte(kafka), 0o644); err != nil {
		t.Fatal(err)
	}
	l.run(func(n *node) {
		m := n.logs.Dirs()[0].Store().Metadata()
		if n.metadata.Metadata().ClusterID != "AAAAAAAAAAAAAAAAAAAAAQ" || m.DirectoryID.String() != "HQ034bZwmO5iIZC8FcMPMA" || !m.Firn {
			t.Errorf("of cluster %s, marked %+v", n.metadata.Metadata().ClusterID, m)
		}
	}, "kafka")
}

func list(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != "firn.ballast" {
			sizes[e.Name()] = info.Size()
		}
	}
	return sizes
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Losing the last directory stops the broker with an error that says so.
func TestServeStopsWithoutADirectory(t *testing.T) {
	l := diskLab{t, t.TempDir()}
	c, _, err := config.Load(config.LoadOptions{Flags: []string{"listeners=PLAINTEXT://127.0.0.1:0", "admin.listeners=none", "log.dirs=" + l.path("a") + "," + l.path("b")}})
	if err != nil {
		t.Fatal(err)
	}
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- runServe(t.Context(), c, false, write)
		_ = write.Close()
	}()
	buffer := make([]byte, 64<<10)
	for said := ""; !strings.Contains(said, "event=serving"); {
		n, err := read.Read(buffer)
		if err != nil {
			t.Fatalf("%v after %s", err, said)
		}
		said += string(buffer[:n])
	}
	l.move("a", "a.gone")
	l.move("b", "b.gone")
	if _, err := io.Copy(io.Discard, read); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, errDisksLost) || !strings.Contains(err.Error(), l.path("a")) || !strings.Contains(err.Error(), l.path("b")) {
		t.Errorf("the broker stopped with %v", err)
	}
}
