// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"firn/record"
)

// victimEnv makes this test binary the process that gets killed.
const victimEnv = "TEST_CLUSTER_VICTIM"

// actAsVictim creates topics and takes numbers for ever, and says each on
// standard output once it is acknowledged.
func actAsVictim() bool {
	path := os.Getenv(victimEnv)
	if path == "" {
		return false
	}
	ctx := context.Background()
	l, err := OpenLocal(ctx, LocalOptions{Path: path, NodeID: 1})
	if err != nil {
		fmt.Println("error", err)
		return true
	}
	for i := 0; ; i++ {
		t, err := l.CreateTopic(ctx, CreateTopic{Name: fmt.Sprintf("t%d", i), Partitions: 1})
		first, err2 := l.NextProducerIDs(ctx, 10)
		epoch, err3 := l.RaiseBrokerEpoch(ctx, record.NoEpoch)
		if err := errors.Join(err, err2, err3); err != nil {
			fmt.Println("error", err)
			return true
		}
		fmt.Println("ack", t.Name, t.ID, first, epoch)
	}
}

// TestKilledWhileWriting kills a process in the middle of its commits: all
// that it acknowledged is there, and no number comes a second time.
func TestKilledWhileWritingI4(t *testing.T) {
	path := filepath.Join(t.TempDir(), "firn.db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	type ack struct {
		name, id string
		first    int64
		epoch    int32
	}
	var acks []ack
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var a ack
		if _, err := fmt.Sscanf(lines.Text(), "ack %s %s %d %d", &a.name, &a.id, &a.first, &a.epoch); err != nil {
			t.Fatalf("the victim says %q", lines.Text())
		}
		acks = append(acks, a)
		if len(acks) == 20 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the victim was not killed")
	}
	l := open(t, path)
	for _, a := range acks {
		topic, ok := l.Metadata().Topic(a.name)
		if !ok || topic.ID.String() != a.id {
			t.Errorf("acknowledged topic %s %s: %v, %v", a.name, a.id, topic.ID, ok)
		}
	}
	last := acks[len(acks)-1]
	if first, err := l.NextProducerIDs(context.Background(), 1); err != nil || first < last.first+10 {
		t.Errorf("producer id %d, %v after a block at %d", first, err, last.first)
	}
	if epoch, err := l.RaiseBrokerEpoch(context.Background(), record.NoEpoch); err != nil || int32(epoch) <= last.epoch {
		t.Errorf("epoch %d, %v after %d", epoch, err, last.epoch)
	}
}

// TestSnapshotOfALiveFile opens a copy that was taken between two commits.
func TestSnapshotOfALiveFile(t *testing.T) {
	dir := t.TempDir()
	l := open(t, filepath.Join(dir, "firn.db"))
	create(t, l, "before")
	snapshot := copyFile(t, l.o.Path, filepath.Join(dir, "copy.db"))
	create(t, l, "after")
	m := open(t, snapshot).Metadata()
	if _, ok := m.Topic("before"); !ok || m.Len() != 1 || m.Version != 1 {
		t.Errorf("the copy has %d topics at version %d", m.Len(), m.Version)
	}
}

// TestTornCommit damages the newest of bbolt's two meta pages, as a power cut
// in the middle of a commit does: the file opens as it was one commit before.
func TestTornCommit(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "firn.db"))
	create(t, l, "first")
	create(t, l, "second")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b := readFile(t, l.o.Path)
	page := os.Getpagesize()
	const header, txid = 16, 48 // a page's header; the commit's number in meta
	number := func(p int) uint64 { return binary.NativeEndian.Uint64(b[p*page+header+txid:]) }
	newest := 0
	if number(1) > number(0) {
		newest = 1
	}
	b[newest*page+header+txid] ^= 0xff
	writeFile(t, l.o.Path, b)
	m := open(t, l.o.Path).Metadata()
	if _, ok := m.Topic("first"); !ok || m.Len() != 1 {
		t.Errorf("after a torn commit there are %d topics", m.Len())
	}
}

// TestDamagedFiles wants an error, never a panic or a wrong answer, from
// files that are cut, scribbled over or something else.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	l := open(t, filepath.Join(dir, "firn.db"))
	for i := range 50 {
		create(t, l, fmt.Sprintf("topic%d", i))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole := readFile(t, l.o.Path)
	page := os.Getpagesize()
	damaged := filepath.Join(dir, "damaged.db")
	attempt := func(what string, b []byte) {
		writeFile(t, damaged, b)
		l, err := OpenLocal(context.Background(), LocalOptions{Path: damaged, NodeID: 1})
		if err == nil {
			if n := l.Metadata().Len(); n > 50 {
				t.Errorf("%s: %d topics", what, n)
			}
			if err := l.Close(); err != nil {
				t.Errorf("%s: close: %v", what, err)
			}
			return
		}
		if !errors.Is(err, record.ErrCorruptBatch) && !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v is no corruption error", what, err)
		}
	}
	attempt("text", []byte("this is no database, but it is longer than a few bytes"))
	for _, n := range []int{1, page, 2 * page, 3 * page, len(whole) / 2} {
		attempt(fmt.Sprintf("cut to %d bytes", n), whole[:n])
	}
	for p := 0; p < len(whole)/page && p < 16; p++ {
		for _, at := range []int{0, 8, 10, 16, 64, page / 2, page - 40} {
			b := append([]byte(nil), whole...)
			for i := range 8 {
				b[p*page+at+i] ^= 0x5a
			}
			attempt(fmt.Sprintf("page %d scribbled at %d", p, at), b)
		}
	}
}

func TestUnknownSchemaI5(t *testing.T) {
	path := filepath.Join(t.TempDir(), "firn.db")
	l := open(t, path)
	if err := l.db.Update(func(tx *bolt.Tx) error { return putInt(tx.Bucket(bucketMeta), keySchema, SchemaVersion+1) }); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	before := readFile(t, path)
	if _, err := OpenLocal(context.Background(), LocalOptions{Path: path, NodeID: 1}); !errors.Is(err, ErrSchema) {
		t.Errorf("a newer schema: %v", err)
	}
	if string(before) != string(readFile(t, path)) {
		t.Error("the refused file was changed")
	}
}

func copyFile(t *testing.T, from, to string) string {
	t.Helper()
	writeFile(t, to, readFile(t, from))
	return to
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
