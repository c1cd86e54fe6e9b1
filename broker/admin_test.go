// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/cluster"
	"firn/fetch"
	"firn/hot"
	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/partition"
	"firn/record"
	"firn/record/recordtest"
	"firn/tier"
	"firn/tier/store/dirstore"
	"firn/wire"
)

// site is what a broker of a test stands on; it outlives its starts.
type site struct {
	t    *testing.T
	disk *vfs.Mem
	cold *vfs.Mem
	db   string
	id   tier.StoreID
	dirs []string
	dead string            // a directory whose disk does not answer at the start
	free map[string]uint64 // of directories, where it is not that of the memory
	// diskFaults and coldFaults stand before the two while a broker runs.
	diskFaults, coldFaults *faultfs.FS
	stop                   func()
}

func newSite(t *testing.T) *site {
	s := &site{t: t, disk: vfs.NewMem(), cold: vfs.NewMem(), db: filepath.Join(t.TempDir(), "firn.db"), id: tier.NewStoreID(), dirs: []string{"/firn"}, stop: func() {}}
	t.Cleanup(func() { s.stop() })
	return s
}

// sizedFS has directories with so much free space.
type sizedFS struct {
	vfs.FS
	free map[string]uint64
}

func (f sizedFS) Usage(path string) (vfs.DiskUsage, error) {
	u, err := f.FS.Usage(path)
	if free, ok := f.free[path]; ok {
		u.Free = free
	}
	return u, err
}

// start stops the broker that runs and opens one on the same data.
func (s *site) start(change ...func(*Options)) *Broker {
	t := s.t
	t.Helper()
	s.stop()
	ctx := context.WithoutCancel(t.Context())
	var closers []func() error
	must := func(err error, close func() error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		closers = append(closers, close)
	}
	s.diskFaults, s.coldFaults = faultfs.New(s.disk), faultfs.New(s.cold)
	if s.dead != "" {
		s.kill(s.dead)
	}
	logs, err := hot.OpenDisks(ctx, s.dirs, hot.Options{FS: sizedFS{s.diskFaults, s.free}, FileDeleteDelay: -1, WatchInterval: time.Millisecond})
	must(err, func() error { return logs.Close(ctx) })
	metadata, err := cluster.OpenLocal(ctx, cluster.LocalOptions{Path: s.db, NodeID: 1})
	must(err, func() error { return metadata.Close() })
	objects, err := dirstore.New(dirstore.Options{Path: "/store", FS: s.coldFaults})
	must(err, func() error { return objects.Close() })
	cold, err := tier.Open(ctx, tier.Options{
		Store: objects, ClusterID: metadata.Metadata().ClusterID, StoreID: s.id, FS: s.diskFaults, RetryBackoffMin: time.Millisecond,
	})
	must(err, func() error { return cold.Close(ctx) })
	fetcher, err := fetch.New(fetch.Options{})
	must(err, func() error { fetcher.Close(); return nil })
	o := Options{
		Logs: logs, Cluster: metadata, Fetcher: fetcher, Tier: cold, DeleteTopics: true,
		TopicDefaults: cluster.Defaults{Store: true, ExcludeTopics: []string{"local*"}},
	}
	for _, c := range change {
		c(&o)
	}
	b, err := Open(ctx, o)
	must(err, func() error { return b.Close(ctx) })
	s.stop = func() {
		var errs []error
		for i := len(closers) - 1; i >= 0; i-- {
			errs = append(errs, closers[i]())
		}
		s.stop = func() {}
		if err := errors.Join(errs...); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	return b
}

// call has the broker answer a request, over its encoding.
func call[R kmsg.Response](t *testing.T, b *Broker, req kmsg.Request) R {
	t.Helper()
	received := kmsg.RequestForKey(req.Key())
	received.SetVersion(req.GetVersion())
	if err := received.ReadFrom(req.AppendTo(nil)); err != nil {
		t.Fatalf("decode the request: %v", err)
	}
	answer, err := b.Handle(t.Context(), &wire.Request{Key: req.Key(), Version: req.GetVersion(), Message: received})
	if err != nil {
		t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	resp, err := answer(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	got := req.ResponseKind()
	if err := got.ReadFrom(resp.Message.AppendTo(nil)); err != nil {
		t.Fatalf("decode the answer: %v", err)
	}
	return got.(R)
}

func makeTopic(t *testing.T, b *Broker, name string, partitions int32, configs map[string]string) {
	t.Helper()
	if _, err := b.createTopic(t.Context(), cluster.CreateTopic{Name: name, Partitions: partitions, Config: configs}); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
}

// appendTo appends batches of 10 records to a partition.
func appendTo(t *testing.T, b *Broker, topic string, number int32, batches int) *partition.Partition {
	t.Helper()
	p, err := b.partition(topic, number)
	if err != nil {
		t.Fatal(err)
	}
	for range batches {
		if _, err := p.Append(recordtest.Batch(0, recordtest.Count(10)), partition.AcksLeader); err != nil {
			t.Fatalf("append: %v", err)
		}
	}
	return p
}

// op is an operation of IncrementalAlterConfigs; a value of "-" is none.
type op struct {
	op    kmsg.IncrementalAlterConfigOp
	name  string
	value string
}

const (
	opSet      = kmsg.IncrementalAlterConfigOpSet
	opDelete   = kmsg.IncrementalAlterConfigOpDelete
	opAppend   = kmsg.IncrementalAlterConfigOpAppend
	opSubtract = kmsg.IncrementalAlterConfigOpSubtract
)

func alterRequest(kind kmsg.ConfigResourceType, name string, ops ...op) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, o := range ops {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Op, c.Name = o.op, o.name
		if o.value != "-" {
			c.Value = &o.value
		}
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	return req
}

// wantAnswer compares a code, and wants every text in the message.
func wantAnswer(t *testing.T, what string, code int16, message *string, want *kerr.Error, texts ...string) {
	t.Helper()
	wanted := int16(0)
	if want != nil {
		wanted = want.Code
	}
	said := ""
	if message != nil {
		said = *message
	}
	if code != wanted {
		t.Errorf("%s: %v %q, want code %d", what, kerr.ErrorForCode(code), said, wanted)
	}
	for _, text := range texts {
		if !strings.Contains(said, text) {
			t.Errorf("%s: %q does not say %q", what, said, text)
		}
	}
}

func TestIncrementalAlterConfigs(t *testing.T) {
	s := newSite(t)
	b := s.start()
	makeTopic(t, b, "clicks", 2, map[string]string{"retention.ms": "1000", "segment.bytes": "1048576"})
	const topic, brokerKind = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	before := b.cluster.Metadata()
	for _, c := range []struct {
		what  string
		kind  kmsg.ConfigResourceType
		name  string
		ops   []op
		want  *kerr.Error
		texts []string
	}{
		{"every fault is named", topic, "clicks", []op{{opSet, "retention.ms", "soon"}, {opSet, "bogus", "1"}, {opSet, "cleanup.policy", "compact"}}, kerr.InvalidConfig, []string{"retention.ms=soon", "bogus", "cleanup.policy=compact"}},
		{"no value", topic, "clicks", []op{{opSet, "retention.ms", "-"}}, kerr.InvalidRequest, []string{"retention.ms has no value"}},
		{"twice", topic, "clicks", []op{{opSet, "retention.ms", "1"}, {opDelete, "retention.ms", "-"}}, kerr.InvalidRequest, []string{"retention.ms is named twice"}},
		{"append to a number", topic, "clicks", []op{{opAppend, "retention.ms", "1"}}, kerr.InvalidConfig, []string{"retention.ms is no list"}},
		{"append to a list", topic, "clicks", []op{{opAppend, "cleanup.policy", "compact"}}, kerr.InvalidConfig, []string{"cleanup.policy=delete,compact"}},
		{"subtract from a list", topic, "clicks", []op{{opSubtract, "cleanup.policy", "delete"}}, kerr.InvalidConfig, []string{"cleanup.policy="}},
		{"an unknown operation", topic, "clicks", []op{{9, "retention.ms", "1"}}, kerr.InvalidRequest, []string{"operation 9"}},
		{"off the store", topic, "clicks", []op{{opSet, "remote.storage.enable", "false"}}, kerr.InvalidConfig, []string{"remote.storage.enable cannot be turned off", "remote.log.copy.disable=true"}},
		{"off the store with deletion", topic, "clicks", []op{{opSet, "remote.storage.enable", "false"}, {opSet, "remote.log.delete.on.disable", "true"}}, kerr.InvalidConfig, []string{"remote.log.delete.on.disable"}},
		{"an unknown topic", topic, "nope", []op{{opSet, "retention.ms", "1"}}, kerr.UnknownTopicOrPartition, []string{`"nope"`}},
		{"a broker", brokerKind, "1", []op{{opSet, "num.partitions", "4"}}, kerr.InvalidRequest, []string{"no setting of a broker"}},
		{"all brokers", brokerKind, "", []op{{opSet, "num.partitions", "4"}}, kerr.InvalidRequest, []string{"no setting of a broker"}},
		{"a group", 32, "g", []op{{opSet, "x", "4"}}, kerr.InvalidRequest, []string{"resource type 32"}},
	} {
		resp := call[*kmsg.IncrementalAlterConfigsResponse](t, b, alterRequest(c.kind, c.name, c.ops...))
		got := resp.Resources[0]
		wantAnswer(t, c.what, got.ErrorCode, got.ErrorMessage, c.want, c.texts...)
		if got.ResourceType != c.kind || got.ResourceName != c.name {
			t.Errorf("%s: answered for %v %q", c.what, got.ResourceType, got.ResourceName)
		}
	}
	twice := alterRequest(topic, "clicks", op{opSet, "retention.ms", "1"})
	twice.Resources = append(twice.Resources, twice.Resources[0])
	if resp := call[*kmsg.IncrementalAlterConfigsResponse](t, b, twice); len(resp.Resources) != 1 {
		t.Errorf("a resource that is named twice got %d answers", len(resp.Resources))
	} else {
		wantAnswer(t, "a resource twice", resp.Resources[0].ErrorCode, resp.Resources[0].ErrorMessage, kerr.InvalidRequest, "named 2 times")
	}
	only := alterRequest(topic, "clicks", op{opSet, "retention.ms", "5"})
	only.ValidateOnly = true
	if got := call[*kmsg.IncrementalAlterConfigsResponse](t, b, only).Resources[0]; got.ErrorCode != 0 || b.cluster.Metadata() != before {
		t.Errorf("validate only: %d %v, and the metadata has version %d after %d", got.ErrorCode, got.ErrorMessage, b.cluster.Metadata().Version, before.Version)
	}
}

// A change is in force in the open partitions at once, in the bucket, and
// after a restart; the snapshot before it stays as it was.
func TestChangedConfigIsInForce(t *testing.T) {
	s := newSite(t)
	b := s.start()
	makeTopic(t, b, "clicks", 2, map[string]string{"retention.ms": "1000", "max.message.bytes": "2000"})
	large := recordtest.Batch(0, recordtest.Count(1), recordtest.ValueSize(1, 100))
	old, _ := b.topics.byName("clicks")
	req := alterRequest(kmsg.ConfigResourceTypeTopic, "clicks",
		op{opDelete, "retention.ms", "-"}, op{opDelete, "unknown", "-"}, op{opSet, "max.message.bytes", "100"},
		op{opSet, "remote.log.copy.disable", "true"}, op{opAppend, "cleanup.policy", " delete "})
	got := call[*kmsg.IncrementalAlterConfigsResponse](t, b, req).Resources[0]
	wantAnswer(t, "alter", got.ErrorCode, got.ErrorMessage, nil)
	if old.Config["retention.ms"] != "1000" || old.config.MaxMessageBytes != 2000 {
		t.Errorf("the old snapshot has changed: %v", old.Config)
	}
	check := func(when string) {
		t.Helper()
		one, _ := b.topics.byName("clicks")
		want := map[string]string{"max.message.bytes": "100", "remote.log.copy.disable": "true", "cleanup.policy": "delete"}
		if len(one.Config) != len(want) || one.Config["max.message.bytes"] != "100" || one.Config["cleanup.policy"] != "delete" {
			t.Errorf("%s the config is %v, want %v", when, one.Config, want)
		}
		p, err := b.partition("clicks", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Append(large, partition.AcksLeader); !errors.Is(err, record.ErrBatchTooLarge) {
			t.Errorf("%s a batch of %d bytes: %v, want ErrBatchTooLarge", when, len(large), err)
		}
	}
	check("at once")
	if one, _ := b.topics.byName("clicks"); !one.saved.Load() {
		t.Error("the bucket was not told")
	}
	b = s.start()
	check("after a restart")

	whole := kmsg.NewPtrAlterConfigsRequest()
	whole.Version = 2
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "clicks"
	c := kmsg.NewAlterConfigsRequestResourceConfig()
	c.Name, c.Value = "retention.bytes", kmsg.StringPtr("5000")
	r.Configs = append(r.Configs, c)
	whole.Resources = append(whole.Resources, r)
	done := call[*kmsg.AlterConfigsResponse](t, b, whole).Resources[0]
	wantAnswer(t, "replace the config", done.ErrorCode, done.ErrorMessage, nil)
	if one, _ := b.topics.byName("clicks"); len(one.Config) != 1 || one.Config["retention.bytes"] != "5000" || one.config.RemoteCopyDisable {
		t.Errorf("replaced, the config is %v", one.Config)
	}
	p := appendTo(t, b, "clicks", 1, 0)
	if _, err := p.Append(large, partition.AcksLeader); err != nil {
		t.Errorf("the limit is back at its default, but: %v", err)
	}
	r.Configs = append(r.Configs, c)
	whole.Resources[0] = r
	done = call[*kmsg.AlterConfigsResponse](t, b, whole).Resources[0]
	wantAnswer(t, "a config twice", done.ErrorCode, done.ErrorMessage, kerr.InvalidRequest, "retention.bytes is named twice")
}

// A topic that is in use can be given a tier, without a restart.
func TestTurnOnRemoteStorage(t *testing.T) {
	s := newSite(t)
	b := s.start()
	makeTopic(t, b, "local-clicks", 1, nil)
	p := appendTo(t, b, "local-clicks", 0, 5)
	if p.Tier() != nil {
		t.Fatal("an excluded topic is tiered")
	}
	req := alterRequest(kmsg.ConfigResourceTypeTopic, "local-clicks", op{opSet, "remote.storage.enable", "true"})
	got := call[*kmsg.IncrementalAlterConfigsResponse](t, b, req).Resources[0]
	wantAnswer(t, "turn on", got.ErrorCode, got.ErrorMessage, nil)
	wake := make(chan struct{}, 1)
	defer p.Watch(wake)()
	if err := p.Log().Roll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for p.Tier().End() != 50 {
		select {
		case <-wake:
		case <-time.After(20 * time.Second):
			t.Fatalf("nothing was uploaded: %+v", p.Tier().State())
		}
	}
	if one, _ := b.topics.byName("local-clicks"); !one.saved.Load() {
		t.Error("the bucket does not know the topic")
	}
	got = call[*kmsg.IncrementalAlterConfigsResponse](t, b, alterRequest(kmsg.ConfigResourceTypeTopic, "local-clicks", op{opDelete, "remote.storage.enable", "-"})).Resources[0]
	wantAnswer(t, "back to the default", got.ErrorCode, got.ErrorMessage, kerr.InvalidConfig, "cannot be turned off")
	b = s.start()
	if p := appendTo(t, b, "local-clicks", 0, 0); p.Tier() == nil {
		t.Error("after a restart the topic is not tiered")
	}
}

func growRequest(topic string, count int32, replicas ...[]int32) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version = 3
	one := kmsg.NewCreatePartitionsRequestTopic()
	one.Topic, one.Count = topic, count
	for _, r := range replicas {
		a := kmsg.NewCreatePartitionsRequestTopicAssignment()
		a.Replicas = r
		one.Assignment = append(one.Assignment, a)
	}
	req.Topics = append(req.Topics, one)
	return req
}

func TestCreatePartitions(t *testing.T) {
	s := newSite(t)
	b := s.start()
	makeTopic(t, b, "clicks", 2, nil)
	appendTo(t, b, "clicks", 1, 3)
	for _, c := range []struct {
		what  string
		req   *kmsg.CreatePartitionsRequest
		want  *kerr.Error
		texts []string
	}{
		{"an unknown topic", growRequest("nope", 3), kerr.UnknownTopicOrPartition, nil},
		{"as many", growRequest("clicks", 2), kerr.InvalidPartitions, []string{"has 2 already"}},
		{"fewer", growRequest("clicks", 1), kerr.InvalidPartitions, []string{"1 would be fewer"}},
		{"too many", growRequest("clicks", cluster.MaxPartitions+1), kerr.InvalidPartitions, []string{"at most"}},
		{"an assignment that is too short", growRequest("clicks", 4, []int32{1}), kerr.InvalidReplicaAssignment, []string{"2 partitions are new, 1 are assigned"}},
		{"another broker", growRequest("clicks", 3, []int32{2}), kerr.InvalidReplicaAssignment, []string{"partition 2", "broker 1 is the only one"}},
		{"two replicas", growRequest("clicks", 3, []int32{1, 2}), kerr.InvalidReplicaAssignment, nil},
		{"assigned to an unknown topic", growRequest("nope", 3, []int32{1}), kerr.UnknownTopicOrPartition, nil},
	} {
		got := call[*kmsg.CreatePartitionsResponse](t, b, c.req).Topics[0]
		wantAnswer(t, c.what, got.ErrorCode, got.ErrorMessage, c.want, c.texts...)
	}
	twice := growRequest("clicks", 3)
	twice.Topics = append(twice.Topics, twice.Topics[0])
	if got := call[*kmsg.CreatePartitionsResponse](t, b, twice).Topics; len(got) != 1 || got[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("a topic twice: %+v", got)
	}
	before := b.cluster.Metadata()
	only := growRequest("clicks", 3, []int32{1})
	only.ValidateOnly = true
	if got := call[*kmsg.CreatePartitionsResponse](t, b, only).Topics[0]; got.ErrorCode != 0 || b.cluster.Metadata() != before || len(b.foundLogs()) > 0 {
		t.Errorf("validate only: %+v", got)
	}
	old, _ := b.topics.byName("clicks")
	got := call[*kmsg.CreatePartitionsResponse](t, b, growRequest("clicks", 5)).Topics[0]
	wantAnswer(t, "grow", got.ErrorCode, got.ErrorMessage, nil)
	if len(old.partitions) != 2 || old.Partitions != 2 {
		t.Errorf("the old snapshot has %d partitions", len(old.partitions))
	}
	appendTo(t, b, "clicks", 4, 1)
	b = s.start()
	for number, end := range map[int32]record.Offset{1: 30, 4: 10, 3: 0} {
		if p := appendTo(t, b, "clicks", number, 0); p.EndOffset() != end {
			t.Errorf("after a restart partition %d ends at %d, want %d", number, p.EndOffset(), end)
		}
	}
	if _, err := b.partition("clicks", 5); !errors.Is(err, errUnknownTopic) {
		t.Errorf("partition 5: %v", err)
	}
}

// What a crash before the commit leaves of new partitions is taken over.
func TestCreatePartitionsAfterACrash(t *testing.T) {
	s := newSite(t)
	b := s.start()
	makeTopic(t, b, "clicks", 1, nil)
	one, _ := b.topics.byName("clicks")
	next := one.Topic
	next.Partitions = 2
	half := &topic{Topic: next, config: one.config, partitions: make([]*partition.Partition, 2)}
	if err := errors.Join(b.openEach(t.Context(), half, 1, nil, make(chan struct{}, 1))...); err != nil {
		t.Fatal(err)
	}
	b = s.start()
	if found := b.foundLogs(); len(found) != 1 {
		t.Fatalf("%d directories are left over", len(found))
	}
	got := call[*kmsg.CreatePartitionsResponse](t, b, growRequest("clicks", 3)).Topics[0]
	wantAnswer(t, "grow", got.ErrorCode, got.ErrorMessage, nil)
	if p := appendTo(t, b, "clicks", 1, 1); p.EndOffset() != 10 {
		t.Errorf("the partition ends at %d", p.EndOffset())
	}
}

func deleteRecordsRequest(topic string, offsets map[int32]int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version = 2
	one := kmsg.NewDeleteRecordsRequestTopic()
	one.Topic = topic
	for number, offset := range offsets {
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = number, offset
		one.Partitions = append(one.Partitions, p)
	}
	req.Topics = append(req.Topics, one)
	return req
}

func TestDeleteRecords(t *testing.T) {
	s := newSite(t)
	b := s.start()
	makeTopic(t, b, "clicks", 3, nil)
	makeTopic(t, b, "__consumer_offsets", 1, nil)
	for number := range int32(3) {
		appendTo(t, b, "clicks", number, 4)
	}
	for _, c := range []struct {
		topic   string
		number  int32
		before  int64
		low     int64
		want    *kerr.Error
		purpose string
	}{
		{"clicks", 0, 15, 15, nil, "inside a batch"},
		{"clicks", 0, 5, 15, nil, "below the log start"},
		{"clicks", 0, 41, -1, kerr.OffsetOutOfRange, "above the high watermark"},
		{"clicks", 0, -3, -1, kerr.OffsetOutOfRange, "no offset"},
		{"clicks", 1, -1, 40, nil, "up to the high watermark"},
		{"clicks", 2, 40, 40, nil, "at the high watermark"},
		{"clicks", 3, 0, -1, kerr.UnknownTopicOrPartition, "no such partition"},
		{"nope", 0, 0, -1, kerr.UnknownTopicOrPartition, "no such topic"},
		{"__consumer_offsets", 0, 0, -1, kerr.InvalidTopicException, "an internal topic"},
	} {
		got := call[*kmsg.DeleteRecordsResponse](t, b, deleteRecordsRequest(c.topic, map[int32]int64{c.number: c.before})).Topics[0].Partitions[0]
		wantAnswer(t, c.purpose, got.ErrorCode, nil, c.want)
		if got.LowWatermark != c.low || got.Partition != c.number {
			t.Errorf("%s: partition %d starts at %d, want %d", c.purpose, got.Partition, got.LowWatermark, c.low)
		}
	}
	s.disk = s.disk.Crash() // the stop that follows writes to the old one
	b = s.start()
	for number, want := range map[int32]record.Offset{0: 15, 1: 40, 2: 40} {
		if p := appendTo(t, b, "clicks", number, 0); p.LogStartOffset() != want {
			t.Errorf("after a crash partition %d starts at %d, want %d", number, p.LogStartOffset(), want)
		}
	}
}

func TestDescribeLogDirs(t *testing.T) {
	s := newSite(t)
	b := s.start()
	makeTopic(t, b, "clicks", 2, nil)
	makeTopic(t, b, "views", 1, nil)
	size := appendTo(t, b, "clicks", 1, 4).Log().Size()
	ask := func(version int16, topics []kmsg.DescribeLogDirsRequestTopic) kmsg.DescribeLogDirsResponseDir {
		t.Helper()
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Version, req.Topics = version, topics
		resp := call[*kmsg.DescribeLogDirsResponse](t, b, req)
		if resp.ErrorCode != 0 || len(resp.Dirs) != 1 || resp.Dirs[0].ErrorCode != 0 || resp.Dirs[0].Dir != "/firn" {
			t.Fatalf("version %d: %+v", version, resp)
		}
		return resp.Dirs[0]
	}
	for version := range int16(6) {
		dir := ask(version, nil)
		if len(dir.Topics) != 2 || dir.Topics[0].Topic != "clicks" || len(dir.Topics[0].Partitions) != 2 || dir.Topics[1].Topic != "views" {
			t.Fatalf("version %d: %+v", version, dir.Topics)
		}
		if p := dir.Topics[0].Partitions[1]; p.Partition != 1 || p.Size != size || p.OffsetLag != 0 || p.IsFuture {
			t.Errorf("version %d: %+v, want %d bytes", version, p, size)
		}
		if disk := dir.TotalBytes > 0 && dir.UsableBytes > 0 && dir.UsableBytes < dir.TotalBytes; disk != (version >= 4) {
			t.Errorf("version %d: %d of %d bytes are free", version, dir.UsableBytes, dir.TotalBytes)
		}
	}
	if dir := ask(5, []kmsg.DescribeLogDirsRequestTopic{}); len(dir.Topics) != 0 {
		t.Errorf("asked for nothing: %+v", dir.Topics)
	}
	some := []kmsg.DescribeLogDirsRequestTopic{{Topic: "clicks", Partitions: []int32{1, 7}}, {Topic: "nope", Partitions: []int32{0}}}
	if dir := ask(5, some); len(dir.Topics) != 1 || len(dir.Topics[0].Partitions) != 1 || dir.Topics[0].Partitions[0].Size != size {
		t.Errorf("asked for one: %+v", dir.Topics)
	}

	// A partition that cannot be opened is there with its bytes.
	s.stop()
	f, err := s.disk.OpenFile("/firn/clicks-1/00000000000000000000.log", vfs.ReadWrite, 0)
	if err == nil {
		_, err = f.WriteAt([]byte{0xff, 0xff, 0xff, 0xff}, 17)
	}
	if err = errors.Join(err, f.Close(), s.disk.Remove("/firn/.kafka_cleanshutdown")); err != nil {
		t.Fatal(err)
	}
	b = s.start()
	if len(b.Offline()) == 0 {
		t.Fatal("the damaged partition was opened")
	}
	if p := ask(5, nil).Topics[0].Partitions[1]; p.Size != size {
		t.Errorf("offline: %+v, want %d bytes", p, size)
	}
}
