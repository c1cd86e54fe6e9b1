// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/internal/testutil"
	"firn/record/recordtest"
)

const newestCreate = 7

func topicRequest(topic string, partitions int32, replicas int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, replicas
	for _, c := range configs {
		name, value, given := strings.Cut(c, "=")
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name = name
		if given {
			config.Value = &value
		}
		t.Configs = append(t.Configs, config)
	}
	return t
}

func assigned(topic string, replicas ...[]int32) kmsg.CreateTopicsRequestTopic {
	t := topicRequest(topic, -1, -1)
	for i, r := range replicas {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), r
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
	return t
}

// createRaw creates topics and returns the answers by name.
func createRaw(c *raw, version int16, validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) map[string]kmsg.CreateTopicsResponseTopic {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.ValidateOnly, req.TimeoutMillis, req.Topics = version, validateOnly, int32(patience.Milliseconds()), topics
	answers := make(map[string]kmsg.CreateTopicsResponseTopic)
	for _, got := range ask[*kmsg.CreateTopicsResponse](c, req).Topics {
		if _, twice := answers[got.Topic]; twice {
			c.t.Errorf("topic %q is answered twice", got.Topic)
		}
		answers[got.Topic] = got
	}
	return answers
}

// topicNames are the topics that Metadata lists.
func topicNames(c *raw) []string {
	c.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	var names []string
	for _, topic := range ask[*kmsg.MetadataResponse](c, req).Topics {
		names = append(names, *topic.Topic)
	}
	slices.Sort(names)
	return names
}

func TestCreateTopics(t *testing.T) {
	b := testutil.StartBroker(t, map[string]string{"num.partitions": "3"})
	c := dialRaw(t, b.Addr)
	for version := int16(2); version <= newestCreate; version++ {
		name := fmt.Sprintf("v%d", version)
		got := createRaw(c, version, false, topicRequest(name, 2, 1, "retention.ms=1234"))[name]
		wantCode(t, name, got.ErrorCode, nil)
		if version >= 5 {
			if got.NumPartitions != 2 || got.ReplicationFactor != 1 {
				t.Errorf("%s: %+v", name, got)
			}
			found := false
			for _, config := range got.Configs {
				found = found || config.Name == "retention.ms" && config.Value != nil && *config.Value == "1234" && config.Source == int8(kmsg.ConfigSourceDynamicTopicConfig)
			}
			if !found {
				t.Errorf("%s: the answer lacks retention.ms as it was set: %+v", name, got.Configs)
			}
		}
		if version >= 7 && got.TopicID == [16]byte{} {
			t.Errorf("%s: no topic id", name)
		}
	}
	longest := strings.Repeat("n", 249)
	answers := createRaw(c, newestCreate, false,
		topicRequest("defaults", -1, -1), assigned("assigned", []int32{1}, []int32{1}), topicRequest(longest, 1, 1), topicRequest("bad", 0, 1))
	wantCode(t, "defaults", answers["defaults"].ErrorCode, nil)
	wantCode(t, "an assignment", answers["assigned"].ErrorCode, nil)
	wantCode(t, "the longest name", answers[longest].ErrorCode, nil)
	wantCode(t, "no partitions, beside good ones", answers["bad"].ErrorCode, kerr.InvalidPartitions)
	if n := answers["defaults"].NumPartitions; n != 3 {
		t.Errorf("%d partitions by default, want num.partitions", n)
	}
	if n := answers["assigned"].NumPartitions; n != 2 {
		t.Errorf("%d partitions were assigned, want 2", n)
	}
	want := []string{"assigned", "defaults", longest, "v2", "v3", "v4", "v5", "v6", "v7"}
	slices.Sort(want)
	if got := topicNames(c); !slices.Equal(got, want) {
		t.Errorf("topics %v, want %v", got, want)
	}
	// All that was created is there at once, and after a restart.
	for range 2 {
		for _, name := range want {
			if got := produceRaw(c, name, recordtest.Batch(0)); got.ErrorCode != 0 {
				t.Errorf("produce to %.20s: %v", name, kerr.ErrorForCode(got.ErrorCode))
			}
		}
		b.Restart()
		c = dialRaw(t, b.Addr)
	}
}

func TestCreateTopicsRefuses(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	c := dialRaw(t, b.Addr)
	createRaw(c, newestCreate, false, topicRequest("taken", 1, 1), topicRequest("a.b", 1, 1))
	before := topicNames(c)
	for _, bad := range []struct {
		topic kmsg.CreateTopicsRequestTopic
		want  *kerr.Error
		says  string
	}{
		{topicRequest("", 1, 1), kerr.InvalidTopicException, ""},
		{topicRequest(".", 1, 1), kerr.InvalidTopicException, ""},
		{topicRequest("..", 1, 1), kerr.InvalidTopicException, ""},
		{topicRequest("a b", 1, 1), kerr.InvalidTopicException, ""},
		{topicRequest("a/b", 1, 1), kerr.InvalidTopicException, ""},
		{topicRequest("../up", 1, 1), kerr.InvalidTopicException, ""},
		{topicRequest("nul\x00", 1, 1), kerr.InvalidTopicException, ""},
		{topicRequest("schnee♥", 1, 1), kerr.InvalidTopicException, ""},
		{topicRequest(strings.Repeat("n", 250), 1, 1), kerr.InvalidTopicException, "249"},
		{topicRequest("a_b", 1, 1), kerr.InvalidTopicException, "a.b"},
		{topicRequest("taken", 1, 1), kerr.TopicAlreadyExists, "taken"},
		{topicRequest("zero", 0, 1), kerr.InvalidPartitions, ""},
		{topicRequest("negative", -2, 1), kerr.InvalidPartitions, ""},
		{topicRequest("toomany", 1<<30, 1), kerr.InvalidPartitions, "100000"},
		{topicRequest("replicated", 1, 3), kerr.InvalidReplicationFactor, "firn.replication.factor.clamp"},
		{topicRequest("unreplicated", 1, 0), kerr.InvalidReplicationFactor, ""},
		{assigned("elsewhere", []int32{2}), kerr.InvalidReplicaAssignment, ""},
		{assigned("twice", []int32{1, 1}), kerr.InvalidReplicaAssignment, ""},
		{assigned("nobody", []int32{}), kerr.InvalidReplicaAssignment, ""},
		{topicRequest("c", 1, 1, "cleanup.policy=compact"), kerr.InvalidConfig, "cleanup.policy"},
		{topicRequest("c", 1, 1, "cleanup.policy=compact,delete"), kerr.InvalidConfig, "cleanup.policy"},
		{topicRequest("c", 1, 1, "cleanup.policy=melt"), kerr.InvalidConfig, "cleanup.policy"},
		{topicRequest("c", 1, 1, "compression.type=zstd"), kerr.InvalidConfig, "compression.type"},
		{topicRequest("c", 1, 1, "retention.ms=soon"), kerr.InvalidConfig, "retention.ms"},
		{topicRequest("c", 1, 1, "retention.ms=7d"), kerr.InvalidConfig, "retention.ms"},
		{topicRequest("c", 1, 1, "retention.ms=-2"), kerr.InvalidConfig, "retention.ms"},
		{topicRequest("c", 1, 1, "segment.bytes=13"), kerr.InvalidConfig, "segment.bytes"},
		{topicRequest("c", 1, 1, "segment.bytes=99999999999999999999"), kerr.InvalidConfig, "segment.bytes"},
		{topicRequest("c", 1, 1, "retension.ms=1"), kerr.InvalidConfig, "retension.ms"},
		{topicRequest("c", 1, 1, "retention.ms"), kerr.InvalidConfig, "retention.ms"},
		{topicRequest("c", 1, 1, "remote.storage.enable=true"), kerr.InvalidConfig, "tier.store"},
		{topicRequest("c", 1, 1, "segment.ms=x", "max.message.bytes=-1"), kerr.InvalidConfig, "max.message.bytes"},
	} {
		for _, validateOnly := range []bool{true, false} {
			got := createRaw(c, newestCreate, validateOnly, bad.topic)[bad.topic.Topic]
			what := fmt.Sprintf("%.20q %v", bad.topic.Topic, bad.topic.Configs)
			wantCode(t, what, got.ErrorCode, bad.want)
			if got.ErrorMessage == nil || !strings.Contains(*got.ErrorMessage, bad.says) {
				t.Errorf("%s: the message does not name %q: %v", what, bad.says, got.ErrorMessage)
			}
		}
	}
	twice := createRaw(c, newestCreate, false, topicRequest("twice", 1, 1), topicRequest("once", 1, 1), topicRequest("twice", 2, 1))
	wantCode(t, "a topic that is named twice", twice["twice"].ErrorCode, kerr.InvalidRequest)
	wantCode(t, "one beside it", twice["once"].ErrorCode, nil)
	valid := createRaw(c, newestCreate, true, topicRequest("valid", 5, 1, "retention.ms=1"))["valid"]
	wantCode(t, "validate only", valid.ErrorCode, nil)
	if valid.NumPartitions != 5 || len(valid.Configs) == 0 {
		t.Errorf("validate only: %+v", valid)
	}
	if got, want := topicNames(c), append(slices.Clone(before), "once"); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("refused topics left %v, want %v", got, want)
	}

	b.Set("firn.replication.factor.clamp", "true")
	b.Restart()
	c = dialRaw(t, b.Addr)
	clamped := createRaw(c, newestCreate, false, topicRequest("clamped", 1, 3))["clamped"]
	wantCode(t, "a clamped replication factor", clamped.ErrorCode, nil)
	if clamped.ReplicationFactor != 1 {
		t.Errorf("clamped to %d replicas", clamped.ReplicationFactor)
	}
}

// deleteRaw deletes topics by name, or by id where the name is empty.
func deleteRaw(c *raw, version int16, names []string, ids [][16]byte) []kmsg.DeleteTopicsResponseTopic {
	c.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = version, int32(patience.Milliseconds())
	if version < 6 {
		req.TopicNames = names
		return ask[*kmsg.DeleteTopicsResponse](c, req).Topics
	}
	for _, name := range names {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	for _, id := range ids {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.TopicID = id
		req.Topics = append(req.Topics, topic)
	}
	return ask[*kmsg.DeleteTopicsResponse](c, req).Topics
}

func TestDeleteTopics(t *testing.T) {
	b := testutil.StartBroker(t, map[string]string{"auto.create.topics.enable": "false"})
	c := dialRaw(t, b.Addr)
	for version := int16(1); version <= 6; version++ {
		name := fmt.Sprintf("v%d", version)
		createTopic(t, b, name, 2)
		produceRaw(c, name, recordtest.Batch(0))
		got := deleteRaw(c, version, []string{name, "nowhere"}, nil)
		if len(got) != 2 || *got[0].Topic != name || *got[1].Topic != "nowhere" {
			t.Fatalf("version %d: %+v", version, got)
		}
		wantCode(t, name, got[0].ErrorCode, nil)
		wantCode(t, "an unknown topic", got[1].ErrorCode, kerr.UnknownTopicOrPartition)
	}
	if names := topicNames(c); len(names) != 0 {
		t.Errorf("topics %v are left", names)
	}

	// By id, and never the next life of the name.
	first := createRaw(c, newestCreate, false, topicRequest("again", 1, 1))["again"].TopicID
	produceRaw(c, "again", recordtest.Batch(0, recordtest.Count(9)))
	wantCode(t, "by id", deleteRaw(c, 6, nil, [][16]byte{first})[0].ErrorCode, nil)
	wantCode(t, "by id again", deleteRaw(c, 6, nil, [][16]byte{first})[0].ErrorCode, kerr.UnknownTopicID)
	wantCode(t, "by no id", deleteRaw(c, 6, nil, [][16]byte{{}})[0].ErrorCode, kerr.UnknownTopicID)
	second := createRaw(c, newestCreate, false, topicRequest("again", 1, 1))["again"].TopicID
	if second == first {
		t.Error("the new topic has the old one's id")
	}
	wantCode(t, "the old id", deleteRaw(c, 6, nil, [][16]byte{first})[0].ErrorCode, kerr.UnknownTopicID)
	if end := endOffset(t, b, "again", 0); end != 0 {
		t.Errorf("the new topic begins with %d records", end)
	}
	both := kmsg.NewPtrDeleteTopicsRequest()
	both.Version = 6
	topic := kmsg.NewDeleteTopicsRequestTopic()
	name := "again"
	topic.Topic, topic.TopicID = &name, second
	both.Topics = append(both.Topics, topic)
	wantCode(t, "name and id", ask[*kmsg.DeleteTopicsResponse](c, both).Topics[0].ErrorCode, kerr.InvalidRequest)
	for _, version := range []int16{5, 6} {
		for _, got := range deleteRaw(c, version, []string{"again", "again"}, nil) {
			wantCode(t, "a topic that is named twice", got.ErrorCode, kerr.InvalidRequest)
		}
	}
	longest := strings.Repeat("n", 249)
	createTopic(t, b, longest, 1)
	produceRaw(c, longest, recordtest.Batch(0))
	wantCode(t, "the longest name", deleteRaw(c, 6, []string{longest}, nil)[0].ErrorCode, nil)
	createTopic(t, b, longest, 1)

	b.Set("delete.topic.enable", "false")
	b.Restart()
	c = dialRaw(t, b.Addr)
	wantCode(t, "deletion disabled", deleteRaw(c, 6, []string{"again"}, nil)[0].ErrorCode, kerr.TopicDeletionDisabled)
	if names := topicNames(c); !slices.Equal(names, []string{"again", longest}) {
		t.Errorf("topics %v", names)
	}
}

// A deleted topic takes its objects along; a topic of the same name that comes
// after it keeps its own.
func TestDeletedTopicLeavesTheStore(t *testing.T) {
	g := testutil.StartGateway(t)
	b := testutil.StartBroker(t, tiered(g, "s3", map[string]string{"tier.delete.grace.ms": "200ms"}))
	const topic = "melts"
	seg := func() []string {
		return slices.DeleteFunc(g.Keys("firn/"), func(key string) bool {
			return !strings.HasSuffix(key, ".seg") || !strings.Contains(key, "/"+topic+"/")
		})
	}
	createTopic(t, b, topic, 1, "segment.bytes=1048576", "local.retention.ms=1")
	text := textFor(t, 0)[:3<<20]
	kcat.produce(t, b, topic, 0, text)
	waitOffLocal(t, b, topic, 0, endOffset(t, b, topic, 0))
	old := seg()
	if len(old) < 3 {
		t.Fatalf("objects %v, want several segments", old)
	}
	c := dialRaw(t, b.Addr)
	wantCode(t, "delete", deleteRaw(c, 6, []string{topic}, nil)[0].ErrorCode, nil)
	createTopic(t, b, topic, 1, "segment.bytes=1048576", "local.retention.ms=1")
	produceAll(t, b, topic, 0, numbered(0, 10))
	waitOffLocal(t, b, topic, 0, 10)
	waitFor(t, "the old topic's objects to go", func() (bool, any) {
		left := slices.DeleteFunc(seg(), func(key string) bool { return !slices.Contains(old, key) })
		return len(left) == 0, left
	})
	values := 0
	consume(t, b, topic, 0, 0, 10, func(r *kgo.Record) {
		if string(r.Value) != fmt.Sprintf("value-%d", r.Offset) {
			t.Errorf("record %d is %q", r.Offset, r.Value)
		}
		values++
	})
	if values != 10 {
		t.Errorf("%d records of the new topic, want 10", values)
	}
}

// One topic comes of many clients that ask for it at once.
func TestAutoCreateOnce(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	var asking sync.WaitGroup
	ids := make([][16]byte, 16)
	for i := range ids {
		c := dialRaw(t, b.Addr)
		asking.Go(func() {
			req := kmsg.NewPtrMetadataRequest()
			req.Version, req.AllowAutoTopicCreation = 12, true
			topic := kmsg.NewMetadataRequestTopic()
			name := "wanted"
			topic.Topic = &name
			req.Topics = append(req.Topics, topic)
			got := ask[*kmsg.MetadataResponse](c, req).Topics[0]
			wantCode(t, "metadata", got.ErrorCode, nil)
			ids[i] = got.TopicID
		})
	}
	asking.Wait()
	for _, id := range ids {
		if id != ids[0] || id == [16]byte{} {
			t.Errorf("clients see the ids %x and %x", ids[0], id)
		}
	}
}
