// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/internal/testutil"
	"firn/record/recordtest"
)

// detachable is a directory on a disk of its own, which can be taken away and
// comes back with all that was written to it.
type detachable struct {
	t          *testing.T
	real, path string
}

func newDetachable(t *testing.T, disk, name string) detachable {
	t.Helper()
	d := detachable{t, filepath.Join(disk, "real-"+name), filepath.Join(disk, name)}
	for _, dir := range []string{d.real, d.path} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.attach()
	return d
}

func (d detachable) attach() {
	d.t.Helper()
	if err := syscall.Mount(d.real, d.path, "", syscall.MS_BIND, ""); err != nil {
		d.t.Fatalf("attach the disk: %v", err)
	}
}

// detach takes the disk away under whoever uses it.
func (d detachable) detach() {
	d.t.Helper()
	if err := syscall.Unmount(d.path, syscall.MNT_DETACH); err != nil {
		d.t.Fatalf("take the disk away: %v", err)
	}
}

// produceCode produces a batch by a bare request.
func produceCode(t *testing.T, b *testutil.Broker, topic string, partition int32) int16 {
	t.Helper()
	c := dialRaw(t, b.Addr)
	defer c.conn.Close()
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 10_000
	one, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	one.Topic, p.Partition, p.Records = topic, partition, recordtest.Batch(0)
	one.Partitions = append(one.Partitions, p)
	req.Topics = append(req.Topics, one)
	return ask[*kmsg.ProduceResponse](c, req).Topics[0].Partitions[0].ErrorCode
}

// inDirs tells which partitions of a topic are in each directory, and the
// directories' error codes.
func inDirs(t *testing.T, b *testutil.Broker, topic string) (partitions map[string][]int32, codes map[string]int16) {
	t.Helper()
	c := dialRaw(t, b.Addr)
	defer c.conn.Close()
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Version = 4
	partitions, codes = map[string][]int32{}, map[string]int16{}
	for _, d := range ask[*kmsg.DescribeLogDirsResponse](c, req).Dirs {
		codes[d.Dir] = d.ErrorCode
		if known := d.TotalBytes > 0 && d.UsableBytes > 0; known == (d.ErrorCode != 0) {
			t.Errorf("%s: code %d, %d of %d bytes free", d.Dir, d.ErrorCode, d.UsableBytes, d.TotalBytes)
		}
		for _, found := range d.Topics {
			for _, p := range found.Partitions {
				if found.Topic == topic {
					partitions[d.Dir] = append(partitions[d.Dir], p.Partition)
				}
			}
		}
	}
	return partitions, codes
}

// A disk is taken away under a running broker: its partitions go offline, the
// others are served, also when the metadata lay on the lost one. A start
// without it changes nothing, and when it is back nothing that was acknowledged
// is missing.
func TestADiskIsTakenAway(t *testing.T) {
	disk, inside := withSmallDisk(t, "64m")
	if !inside {
		return
	}
	for _, home := range []bool{false, true} {
		name := fmt.Sprintf("home-%v", home)
		lost := newDetachable(t, disk, "lost-"+name)
		defer lost.detach()
		stays := filepath.Join(disk, "stays-"+name)
		dirs := stays + "," + lost.path
		if home {
			dirs = lost.path + "," + stays
		}
		b := testutil.StartBroker(t, map[string]string{"log.dirs": dirs, "firn.disk.reserve.bytes": "0"})
		topic := "spread-" + name
		createTopic(t, b, topic, 6)
		ledgers := make([]*ledger, 6)
		for p := range ledgers {
			ledgers[p] = newLedger(topic, int32(p))
			ledgers[p].fill(t, b, 20, 1000)
		}
		partitions, _ := inDirs(t, b, topic)
		bad, good := partitions[lost.path], partitions[stays]
		if len(bad) != 3 || len(good) != 3 {
			t.Fatalf("the partitions are in %v", partitions)
		}
		lost.detach()
		wantLostDisk(t, b, topic, lost.path, bad)
		for _, p := range good {
			ledgers[p].fill(t, b, 20, 1000)
			ledgers[p].check(t, b, 0)
		}
		b.Kill()
		if home {
			// Without the metadata there is no start: nothing begins anew.
			b.Launch()
			if e := b.WaitExit(patience); e.Code == 0 || !strings.Contains(b.Logs(), "firn.db") {
				t.Errorf("without its metadata the broker ends with %d", e.Code)
			}
		} else {
			b.Start()
			wantLostDisk(t, b, topic, lost.path, bad)
			for _, p := range good {
				ledgers[p].check(t, b, 0)
			}
			if e := b.Stop(); e.Code != 0 {
				t.Errorf("a stop with a disk offline: exit code %d", e.Code)
			}
		}
		if entries, err := os.ReadDir(lost.path); err != nil || len(entries) > 1 {
			t.Errorf("the place of the lost disk was written to: %v, %v", entries, err)
		}
		lost.attach()
		b.Start()
		for _, l := range ledgers {
			l.check(t, b, 0)
		}
		if s := statusOf(t, b); len(s.Attention) > 0 {
			t.Errorf("when the disk is back: %+v", s.Attention)
		}
		b.Kill()
	}
}

// wantLostDisk waits until a directory is offline, and wants its partitions to
// be offline wherever one looks.
func wantLostDisk(t *testing.T, b *testutil.Broker, topic, dir string, bad []int32) {
	t.Helper()
	waitFor(t, "the disk to be missed", func() (bool, any) {
		_, codes := inDirs(t, b, topic)
		return codes[dir] == kerr.KafkaStorageError.Code, codes
	})
	for _, p := range bad {
		if code := produceCode(t, b, topic, p); code != kerr.KafkaStorageError.Code {
			t.Errorf("produce to %s-%d: %v", topic, p, kerr.ErrorForCode(code))
		}
	}
	c := dialRaw(t, b.Addr)
	defer c.conn.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = &topic
	req.Topics = append(req.Topics, one)
	offline := 0
	for _, p := range ask[*kmsg.MetadataResponse](c, req).Topics[0].Partitions {
		if p.ErrorCode == kerr.LeaderNotAvailable.Code && len(p.OfflineReplicas) == 1 {
			offline++
		}
	}
	if offline != len(bad) {
		t.Errorf("%d partitions are offline in the metadata, want %d", offline, len(bad))
	}
	status := testutil.RunFirn(t, "status", "--admin", b.AdminURL)
	if status.Code != 6 || !strings.Contains(string(status.Stdout), dir) || !strings.Contains(string(status.Stdout), "offline") {
		t.Errorf("firn status ends with %d:\n%s%s", status.Code, status.Stdout, status.Stderr)
	}
	if s := statusOf(t, b); len(s.Attention) != len(bad) {
		t.Errorf("%d partitions need attention, want %d", len(s.Attention), len(bad))
	}
}

// A disk that others have filled to its last block while the broker was down:
// the start, the take-over of the partitions and retention have the ballast, and
// make room for everything else, with nobody's help.
func TestStartOnADiskWithoutABlock(t *testing.T) {
	dir, inside := withSmallDisk(t, "48m")
	if !inside {
		return
	}
	g := testutil.StartGateway(t)
	settings := tiered(g, "minio", gracefully)
	data := filepath.Join(dir, "data")
	maps.Copy(settings, map[string]string{"log.dirs": data, "firn.disk.reserve.bytes": "0"})
	b := testutil.StartBroker(t, settings)
	ledgers := make([]*ledger, 3)
	createTopic(t, b, "crammed", 3, "segment.bytes=1048576")
	for p := range ledgers {
		ledgers[p] = newLedger("crammed", int32(p))
		ledgers[p].fill(t, b, 80, 64<<10)
		waitInStore(t, b, "crammed", int32(p), ledgers[p].end)
	}
	waitFor(t, "the ballast", func() (bool, any) {
		_, err := os.Stat(filepath.Join(data, "firn.ballast"))
		return err == nil, err
	})
	b.Kill()
	f := filler{t, filepath.Join(dir, "filler")}
	f.fill(0)
	if free := freeSpace(t, dir); free > 4096 {
		t.Fatalf("%d bytes are free", free)
	}
	b.Set("log.local.retention.ms", "1")
	b.Start()
	for p, l := range ledgers {
		waitOffLocal(t, b, "crammed", int32(p), l.end)
	}
	waitFor(t, "produce to go on", func() (bool, any) {
		code := produceCode(t, b, "crammed", 0)
		return code == 0, code
	})
	waitFor(t, "the ballast to be back", func() (bool, any) {
		_, err := os.Stat(filepath.Join(data, "firn.ballast"))
		return err == nil, err
	})
	createTopic(t, b, "new", 2)
	for _, l := range ledgers[1:] {
		l.fill(t, b, 5, 1000)
		l.check(t, b, 0)
	}
	for _, event := range []string{"event=ballast_dropped", "event=ballast_made"} {
		b.WaitLog(event, time.Second)
	}
	if s := statusOf(t, b); len(s.Attention) > 0 {
		t.Errorf("partitions need attention: %+v", s.Attention)
	}
}
