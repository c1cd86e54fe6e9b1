// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"testing"
)

func TestDirectoryMetadata(t *testing.T) {
	id := TopicID{9, 8, 7}
	want := DirectoryMetadata{ClusterID: "AAAAAAAAAAAAAAAAAAAAAQ", NodeID: 3, DirectoryID: id, Firn: true}
	if got, err := ParseDirectoryMetadata(want.Marshal()); err != nil || got != want {
		t.Fatalf("read back: %+v, %v", got, err)
	}
	// As Kafka 4 writes it, and as Kafka 3 with ZooKeeper did.
	kafka := "#\n#Tue Dec 01 01:35:15 UTC 2026\nnode.id=1\ndirectory.id=HQ034bZwmO5iIZC8FcMPMA\nversion=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
	got, err := ParseDirectoryMetadata([]byte(kafka))
	if err != nil || got.NodeID != 1 || got.ClusterID != "AAAAAAAAAAAAAAAAAAAAAQ" || got.DirectoryID.String() != "HQ034bZwmO5iIZC8FcMPMA" || got.Firn {
		t.Errorf("Kafka's: %+v, %v", got, err)
	}
	old, err := ParseDirectoryMetadata([]byte("broker.id=7\nversion=0\ncluster.id=a\\=b\n"))
	if err != nil || old.NodeID != 7 || old.ClusterID != "a=b" || !old.DirectoryID.IsZero() {
		t.Errorf("an old one: %+v, %v", old, err)
	}
	if got, err := ParseDirectoryMetadata(nil); err != nil || got.NodeID != -1 {
		t.Errorf("an empty one: %+v, %v", got, err)
	}
	if _, err := ParseDirectoryMetadata([]byte("version=2\n")); !errors.Is(err, ErrUnsupportedVersion) {
		t.Errorf("a version that is not known: %v", err)
	}
	for _, bad := range []string{"node.id=x\n", "directory.id=short\n", "version=\n", "no sense\n", "node.id=4294967297\n"} {
		var damage *CorruptionError
		if _, err := ParseDirectoryMetadata([]byte(bad)); !errors.As(err, &damage) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// What is read and written again reads the same.
func FuzzParseDirectoryMetadata(f *testing.F) {
	f.Add([]byte("version=1\ncluster.id=x\nnode.id=1\ndirectory.id=HQ034bZwmO5iIZC8FcMPMA\nfirn.metadata=firn.db\n"))
	f.Add([]byte("#\nbroker.id=-1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseDirectoryMetadata(b)
		if err != nil {
			return
		}
		if again, err := ParseDirectoryMetadata(m.Marshal()); err != nil || again != m {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}
