// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/cluster"
	"firn/internal/vfs/faultfs"
	"firn/partition"
	"firn/record"
	"firn/record/recordtest"
)

// newDisksSite is a site with two log directories of equal size.
func newDisksSite(t *testing.T) *site {
	s := newSite(t)
	s.dirs = []string{"/a", "/b"}
	s.free = map[string]uint64{"/a": 1 << 30, "/b": 1 << 30}
	return s
}

// dirsOf tells where the partitions of a topic are.
func dirsOf(t *testing.T, b *Broker, topic string) []string {
	t.Helper()
	one, ok := b.topics.byName(topic)
	if !ok {
		t.Fatalf("no topic %s", topic)
	}
	var dirs []string
	for _, p := range one.opened() {
		dirs = append(dirs, p.Store().Dir())
	}
	return dirs
}

func below(dir string) func(faultfs.Call) bool {
	return func(c faultfs.Call) bool { return c.Path == dir || strings.HasPrefix(c.Path, dir+"/") }
}

// kill has a disk answer every operation with EIO.
func (s *site) kill(dir string) *faultfs.Injection {
	return s.diskFaults.Inject(faultfs.Rule{Match: below(dir), Times: -1, Fault: faultfs.IOError()})
}

// produce asks for an append and answers its code.
func produceCode(t *testing.T, b *Broker, topic string, number int32) int16 {
	t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 5000
	one, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	one.Topic, p.Partition, p.Records = topic, number, recordtest.Batch(0, recordtest.Count(10))
	one.Partitions = append(one.Partitions, p)
	req.Topics = append(req.Topics, one)
	return call[*kmsg.ProduceResponse](t, b, req).Topics[0].Partitions[0].ErrorCode
}

func metadataOf(t *testing.T, b *Broker, topic string) []kmsg.MetadataResponseTopicPartition {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = &topic
	req.Topics = append(req.Topics, one)
	got := call[*kmsg.MetadataResponse](t, b, req).Topics[0]
	if got.ErrorCode != 0 {
		t.Fatalf("metadata of %s: %v", topic, kerr.ErrorForCode(got.ErrorCode))
	}
	return got.Partitions
}

func logDirs(t *testing.T, b *Broker) []kmsg.DescribeLogDirsResponseDir {
	t.Helper()
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Version = 4
	return call[*kmsg.DescribeLogDirsResponse](t, b, req).Dirs
}

// New partitions go where they have most free space to themselves, and the
// reserve of each directory counts.
func TestPlacement(t *testing.T) {
	s := newDisksSite(t)
	s.free["/b"] = 4 << 30
	b := s.start(func(o *Options) { o.DiskReserve = func(uint64) uint64 { return 1 << 29 } })
	makeTopic(t, b, "clicks", 16, nil)
	count := map[string]int{}
	for _, dir := range dirsOf(t, b, "clicks") {
		count[dir]++
	}
	if count["/a"] != 2 || count["/b"] != 14 { // 0.5 GiB and 3.5 GiB above the reserve
		t.Errorf("16 partitions are placed %v", count)
	}
	s.free["/b"] = 1 << 29
	got := call[*kmsg.CreatePartitionsResponse](t, b, growRequest("clicks", 18)).Topics[0]
	wantAnswer(t, "grow", got.ErrorCode, got.ErrorMessage, nil)
	if dirs := dirsOf(t, b, "clicks"); !slices.Equal(dirs[16:], []string{"/a", "/a"}) {
		t.Errorf("with no room above the reserve of the other they are in %v", dirs[16:])
	}
	b.checkDisks()
	s.free["/b"]-- // below the reserve
	b.checkDisks()
	dirs := dirsOf(t, b, "clicks")
	full, room := int32(slices.Index(dirs, "/b")), int32(slices.Index(dirs, "/a"))
	if code := produceCode(t, b, "clicks", full); code != kerr.KafkaStorageError.Code {
		t.Errorf("produce below the reserve: %v", kerr.ErrorForCode(code))
	}
	if code := produceCode(t, b, "clicks", room); code != 0 {
		t.Errorf("produce to the other disk: %v", kerr.ErrorForCode(code))
	}
	s.free["/b"] = 1 << 30
	b.checkDisks()
	if code := produceCode(t, b, "clicks", full); code != 0 {
		t.Errorf("produce when there is room again: %v", kerr.ErrorForCode(code))
	}
}

// A disk that fails takes its partitions offline, and no others.
func TestAFailedDisk(t *testing.T) {
	s := newDisksSite(t)
	b := s.start()
	makeTopic(t, b, "clicks", 4, nil)
	for number := range int32(4) {
		if code := produceCode(t, b, "clicks", number); code != 0 {
			t.Fatal(kerr.ErrorForCode(code))
		}
	}
	bad, good := onDisk(t, b, "clicks", "/a"), onDisk(t, b, "clicks", "/b")
	if len(bad) != 2 || len(good) != 2 {
		t.Fatalf("the partitions are in %v", dirsOf(t, b, "clicks"))
	}
	parked := make(chan struct{}, 1)
	lost, _ := b.partition("clicks", bad[0])
	defer lost.Watch(parked)()

	s.kill("/a")
	if code := produceCode(t, b, "clicks", bad[0]); code != kerr.KafkaStorageError.Code {
		t.Errorf("produce to a failed disk: %v", kerr.ErrorForCode(code))
	}
	<-lost.Store().Lost()
	<-parked
	wantOffline(t, b, bad, good)
	if _, _, err := lost.Locate(0); !errors.Is(err, record.ErrStorage) {
		t.Errorf("a fetch that was parked there: %v", err)
	}
	b.checkDisks() // ends the uploads
	makeTopic(t, b, "views", 3, nil)
	if got := onDisk(t, b, "views", "/b"); len(got) != 3 {
		t.Errorf("new partitions are in %v", dirsOf(t, b, "views"))
	}

	// A topic that is deleted meanwhile is gone for good, its name is free, and
	// what is left of it goes when the disk is back.
	old, _ := b.topics.byName("clicks")
	if err := b.deleteTopic(t.Context(), old.ID); err != nil {
		t.Fatal(err)
	}
	makeTopic(t, b, "clicks", 1, nil)
	b.sweepOnce(t)
	if _, known := b.cluster.Metadata().DeletingTopic(old.ID); !known {
		t.Error("the deleted topic was forgotten while a directory is offline")
	}
	b = s.start()
	if dirs := dirsOf(t, b, "clicks"); !slices.Equal(dirs, []string{"/b"}) || len(b.foundLogs()) > 0 || len(b.Offline()) > 0 {
		t.Errorf("after the disk came back: %v, left over: %v, offline: %v", dirs, b.foundLogs(), b.Offline())
	}
	b.sweepOnce(t)
	b.sweepOnce(t)
	if _, known := b.cluster.Metadata().DeletingTopic(old.ID); known {
		t.Error("the deleted topic is still known")
	}
}

// sweepOnce takes every deletion as far as it goes when its grace is over.
func (b *Broker) sweepOnce(t *testing.T) {
	t.Helper()
	first := make(map[record.TopicID]time.Time)
	for range 2 { // the removal of the objects, and the last look after the grace
		for _, one := range b.cluster.Metadata().Deleting() {
			if err := b.sweep(t.Context(), one, first); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func onDisk(t *testing.T, b *Broker, topic, dir string) []int32 {
	t.Helper()
	var numbers []int32
	for i, d := range dirsOf(t, b, topic) {
		if d == dir {
			numbers = append(numbers, int32(i))
		}
	}
	return numbers
}

// wantOffline wants the partitions of clicks that are in bad to be offline in
// every way that a client can ask, and those in good to be served.
func wantOffline(t *testing.T, b *Broker, bad, good []int32) {
	t.Helper()
	partitions := metadataOf(t, b, "clicks")
	for _, number := range bad {
		if code := produceCode(t, b, "clicks", number); code != kerr.KafkaStorageError.Code {
			t.Errorf("produce to %d: %v", number, kerr.ErrorForCode(code))
		}
		trim := call[*kmsg.DeleteRecordsResponse](t, b, deleteRecordsRequest("clicks", map[int32]int64{number: 1})).Topics[0].Partitions[0]
		if trim.ErrorCode != kerr.KafkaStorageError.Code {
			t.Errorf("delete records of %d: %v", number, kerr.ErrorForCode(trim.ErrorCode))
		}
		p := partitions[number]
		if p.ErrorCode != kerr.LeaderNotAvailable.Code || p.Leader != -1 || !slices.Equal(p.OfflineReplicas, []int32{1}) || !slices.Equal(p.Replicas, []int32{1}) || len(p.ISR) > 0 {
			t.Errorf("metadata of %d: %+v", number, p)
		}
		tp := record.TopicPartition{Topic: "clicks", Partition: number}
		if b.Offline()[tp] == nil {
			t.Errorf("%d is not among those offline", number)
		}
	}
	for _, number := range good {
		if code := produceCode(t, b, "clicks", number); code != 0 {
			t.Errorf("produce to %d: %v", number, kerr.ErrorForCode(code))
		}
		if p := partitions[number]; p.ErrorCode != 0 || p.Leader != 1 || len(p.OfflineReplicas) > 0 {
			t.Errorf("metadata of %d: %+v", number, p)
		}
	}
	if len(b.Offline()) != len(bad) {
		t.Errorf("offline: %v", b.Offline())
	}
	dirs := logDirs(t, b)
	if len(dirs) != 2 || dirs[0].Dir != "/a" || dirs[0].ErrorCode != kerr.KafkaStorageError.Code || len(dirs[0].Topics) > 0 || dirs[0].TotalBytes != -1 || dirs[0].UsableBytes != -1 {
		t.Errorf("the failed directory: %+v", dirs[0])
	}
	if d := dirs[1]; d.Dir != "/b" || d.ErrorCode != 0 || d.TotalBytes <= 0 || d.UsableBytes != 1<<30 || len(d.Topics) != 1 || len(d.Topics[0].Partitions) != len(good) {
		t.Errorf("the other one: %+v", d)
	}
}

// A disk that is not there at the start takes its partitions offline. They are
// not begun anew elsewhere, and are as they were when it is back.
func TestADiskIsMissingAtTheStart(t *testing.T) {
	s := newDisksSite(t)
	b := s.start()
	makeTopic(t, b, "clicks", 4, nil)
	for number := range int32(4) {
		appendTo(t, b, "clicks", number, 2)
	}
	bad, good := onDisk(t, b, "clicks", "/a"), onDisk(t, b, "clicks", "/b")
	s.stop()
	s.dead = "/a"
	b = s.start()
	wantOffline(t, b, bad, good)
	s.dead = ""
	b = s.start()
	for _, number := range bad {
		if p := appendTo(t, b, "clicks", number, 1); p.EndOffset() != 30 || p.Store().Dir() != "/a" {
			t.Errorf("partition %d is in %s and ends at %d", number, p.Store().Dir(), p.EndOffset())
		}
	}
}

// The order of the directories means nothing. One that is not named any more is
// given up: its partitions begin anew, and when it is named again they are in
// two directories, offline, and nothing of either is touched.
func TestDirectoriesChange(t *testing.T) {
	s := newDisksSite(t)
	b := s.start()
	makeTopic(t, b, "local", 2, nil)
	for number := range int32(2) {
		appendTo(t, b, "local", number, 2)
	}
	dirs := dirsOf(t, b, "local")
	slices.Reverse(s.dirs)
	b = s.start()
	if got := dirsOf(t, b, "local"); !slices.Equal(got, dirs) || len(b.Offline()) > 0 {
		t.Fatalf("in another order: %v, were in %v", got, dirs)
	}
	gone, stays := int32(slices.Index(dirs, "/a")), int32(slices.Index(dirs, "/b"))
	s.dirs = []string{"/b"}
	b = s.start()
	if p := appendTo(t, b, "local", gone, 1); p.EndOffset() != 10 || p.Store().Dir() != "/b" {
		t.Errorf("without its directory: %d in %s", p.EndOffset(), p.Store().Dir())
	}
	if p := appendTo(t, b, "local", stays, 1); p.EndOffset() != 30 {
		t.Errorf("the other partition ends at %d", p.EndOffset())
	}
	s.dirs = []string{"/a", "/b", "/c"}
	s.free["/c"] = 1 << 30
	b = s.start()
	why := b.Offline()[record.TopicPartition{Topic: "local", Partition: gone}]
	if why == nil || !strings.Contains(why.Error(), "/a/local-") || !strings.Contains(why.Error(), "/b/local-") || len(b.Offline()) != 1 {
		t.Fatalf("in two directories: %v", b.Offline())
	}
	if code := produceCode(t, b, "local", gone); code != kerr.KafkaStorageError.Code {
		t.Errorf("produce to it: %v", kerr.ErrorForCode(code))
	}
	makeTopic(t, b, "new", 1, nil)
	if got := dirsOf(t, b, "new"); !slices.Equal(got, []string{"/c"}) {
		t.Errorf("a new directory does not get a new partition: %v", got)
	}
	s.stop()
	if err := s.disk.Rename("/b/local-"+string('0'+gone), "/elsewhere"); err != nil {
		t.Fatal(err)
	}
	b = s.start()
	if p := appendTo(t, b, "local", gone, 0); p.EndOffset() != 20 || p.Store().Dir() != "/a" {
		t.Errorf("after the operator chose: %d in %s", p.EndOffset(), p.Store().Dir())
	}
}

// A partition that a growth cut short by a crash has made is taken over where
// it is, though another place would be better now.
func TestGrowAfterACrashWithTwoDisks(t *testing.T) {
	s := newDisksSite(t)
	s.free["/a"] = 1 << 40
	b := s.start()
	makeTopic(t, b, "clicks", 1, nil)
	one, _ := b.topics.byName("clicks")
	next := one.Topic
	next.Partitions = 2
	half := &topic{Topic: next, config: one.config, partitions: make([]*partition.Partition, 2)}
	if err := errors.Join(b.openEach(t.Context(), half, 1, nil, make(chan struct{}, 1))...); err != nil {
		t.Fatal(err)
	}
	s.free["/a"], s.free["/b"] = 1<<30, 1<<40
	b = s.start()
	got := call[*kmsg.CreatePartitionsResponse](t, b, growRequest("clicks", 3)).Topics[0]
	wantAnswer(t, "grow", got.ErrorCode, got.ErrorMessage, nil)
	if dirs := dirsOf(t, b, "clicks"); !slices.Equal(dirs, []string{"/a", "/a", "/b"}) {
		t.Errorf("the partitions are in %v", dirs)
	}
	if b = s.start(); len(b.Offline()) > 0 {
		t.Errorf("offline: %v", b.Offline())
	}
}

// Nothing can be made when no disk takes it.
func TestNoDiskIsLeft(t *testing.T) {
	s := newDisksSite(t)
	b := s.start()
	s.kill("/a")
	s.kill("/b")
	for _, d := range b.options.Logs.Dirs() {
		<-d.Store().Lost()
	}
	<-b.options.Logs.NoneLeft()
	_, err := b.createTopic(t.Context(), cluster.CreateTopic{Name: "clicks", Partitions: 1})
	if !errors.Is(err, record.ErrStorage) {
		t.Errorf("create: %v", err)
	}
	if _, ok := b.topics.byName("clicks"); ok {
		t.Error("the topic is there")
	}
}
