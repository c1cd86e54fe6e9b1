// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/cluster"
	"firn/internal/testutil"
	"firn/record/recordtest"
)

// served are the keys and versions that clients are told.
var served = map[int16][2]int16{
	0: {0, 11}, 1: {4, 18}, 2: {1, 11}, 3: {0, 13}, 10: {0, 6}, 18: {0, 5},
	19: {2, 7}, 20: {1, 6}, 21: {0, 2}, 22: {0, 4}, 23: {2, 4}, 32: {1, 4},
	33: {0, 2}, 35: {0, 5}, 37: {0, 3}, 44: {0, 1}, 60: {0, 2},
}

func wantServed(t testing.TB, what string, keys []kmsg.ApiVersionsResponseApiKey) {
	t.Helper()
	got := make(map[int16][2]int16)
	for _, k := range keys {
		got[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	if !maps.Equal(got, served) || len(keys) != len(served) {
		t.Errorf("%s: keys and versions %v, want %v", what, got, served)
	}
}

// header is a request header without tags, and its body.
func (c *raw) header(key, version int16, body ...byte) []byte {
	c.correlation++
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(c.correlation))
	b = append(b, 0xff, 0xff) // no client id
	return framed(append(b, body...))
}

// framed puts the length before a request.
func framed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func TestApiVersions(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	c := dialRaw(t, b.Addr)
	for version := int16(0); version <= 5; version++ {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "test", "1"
		resp := ask[*kmsg.ApiVersionsResponse](c, req)
		wantCode(t, fmt.Sprintf("version %d", version), resp.ErrorCode, nil)
		wantServed(t, fmt.Sprintf("version %d", version), resp.ApiKeys)
		if version < 3 {
			continue
		}
		if len(resp.FinalizedFeatures) != 1 || resp.FinalizedFeatures[0].Name != "metadata.version" || resp.FinalizedFeaturesEpoch < 0 {
			t.Errorf("version %d: finalized features %+v at epoch %d", version, resp.FinalizedFeatures, resp.FinalizedFeaturesEpoch)
		}
		for _, f := range resp.SupportedFeatures {
			if f.Name == "transaction.version" || f.Name == "group.version" {
				t.Errorf("version %d: feature %s is not there yet", version, f.Name)
			}
		}
	}
	// Nobody knows what follows the header of a version to come.
	for _, version := range []int16{6, 99, 32767, -1} {
		c.write(c.header(18, version, 0, 1, 2, 3))
		resp := kmsg.NewPtrApiVersionsResponse()
		if err := resp.ReadFrom(c.body()); err != nil {
			t.Fatalf("version %d is not answered in version 0: %v", version, err)
		}
		wantCode(t, fmt.Sprintf("version %d", version), resp.ErrorCode, kerr.UnsupportedVersion)
		wantServed(t, fmt.Sprintf("version %d", version), resp.ApiKeys)
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	wantCode(t, "afterwards", ask[*kmsg.ApiVersionsResponse](c, req).ErrorCode, nil)
}

// From version 5 a client may say whom it means to talk to.
func TestApiVersionsIdentity(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	c := dialRaw(t, b.Addr)
	id := statusOf(t, b).ClusterID
	other := "another"
	for _, one := range []struct {
		cluster *string
		node    int32
		want    *kerr.Error
	}{
		{nil, -1, nil},
		{&id, 1, nil},
		{&other, 1, kerr.RebootstrapRequired},
		{&id, 2, kerr.RebootstrapRequired},
		{&id, -1, kerr.InvalidRequest},
		{nil, 1, kerr.InvalidRequest},
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClusterID, req.NodeID = 5, one.cluster, one.node
		wantCode(t, fmt.Sprintf("cluster %v, node %d", one.cluster, one.node), ask[*kmsg.ApiVersionsResponse](c, req).ErrorCode, one.want)
	}
}

// What is not served costs its own connection, as in Kafka.
func TestUnsupportedRequests(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	bystander := dialRaw(t, b.Addr)
	for _, one := range [][2]int16{{3, 14}, {1, 3}, {1, 19}, {0, 12}, {19, 1}, {19, 8}, {11, 5}, {24, 0}, {71, 0}, {999, 0}, {-1, 0}, {3, -1}} {
		c := dialRaw(t, b.Addr)
		c.write(c.header(one[0], one[1], make([]byte, 64)...))
		c.wantClosed(fmt.Sprintf("key %d, version %d", one[0], one[1]))
	}
	topicNames(bystander)
}

func TestFindCoordinatorIsRefused(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	c := dialRaw(t, b.Addr)
	for version := int16(0); version <= 6; version++ {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorKey, req.CoordinatorKeys = version, "g", []string{"g", "h"}
		resp := ask[*kmsg.FindCoordinatorResponse](c, req)
		codes := []int16{resp.ErrorCode}
		if version >= 4 {
			codes = nil
			for _, one := range resp.Coordinators {
				codes = append(codes, one.ErrorCode)
			}
			if len(codes) != 2 {
				t.Errorf("version %d: %+v", version, resp)
			}
		}
		for _, code := range codes {
			wantCode(t, fmt.Sprintf("version %d", version), code, kerr.UnsupportedVersion)
		}
	}
}

func metadata(c *raw, version int16, create bool, names ...string) *kmsg.MetadataResponse {
	c.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = version, create
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	return ask[*kmsg.MetadataResponse](c, req)
}

func TestMetadata(t *testing.T) {
	b := testutil.StartBroker(t, map[string]string{"auto.create.topics.enable": "false"})
	createTopic(t, b, "one", 1)
	createTopic(t, b, "three", 3)
	c := dialRaw(t, b.Addr)
	produceRaw(c, "one", recordtest.Batch(0))
	host, port, err := net.SplitHostPort(b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	id := statusOf(t, b).ClusterID
	for version := int16(0); version <= 13; version++ {
		what := fmt.Sprintf("version %d", version)
		resp := metadata(c, version, true) // all topics
		if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 1 || resp.Brokers[0].Host != host || strconv.Itoa(int(resp.Brokers[0].Port)) != port {
			t.Errorf("%s: brokers %+v, want %s", what, resp.Brokers, b.Addr)
		}
		if version >= 1 && resp.ControllerID != 1 || version >= 2 && (resp.ClusterID == nil || *resp.ClusterID != id) {
			t.Errorf("%s: controller %d, cluster %v", what, resp.ControllerID, resp.ClusterID)
		}
		if len(resp.Topics) != 2 || *resp.Topics[0].Topic != "one" || *resp.Topics[1].Topic != "three" || len(resp.Topics[1].Partitions) != 3 {
			t.Fatalf("%s: topics %+v", what, resp.Topics)
		}
		for _, topic := range resp.Topics {
			if version >= 10 && topic.TopicID == [16]byte{} {
				t.Errorf("%s: topic %s has no id", what, *topic.Topic)
			}
			for i, p := range topic.Partitions {
				if p.ErrorCode != 0 || p.Partition != int32(i) || p.Leader != 1 || !slices.Equal(p.Replicas, []int32{1}) || !slices.Equal(p.ISR, []int32{1}) || version >= 7 && p.LeaderEpoch < 0 {
					t.Errorf("%s: partition %+v", what, p)
				}
			}
		}
		resp = metadata(c, version, true, "three", "nowhere", "no name", "one")
		if len(resp.Topics) != 4 {
			t.Fatalf("%s: %d topics, want the four that were named", what, len(resp.Topics))
		}
		for i, want := range []*kerr.Error{nil, kerr.UnknownTopicOrPartition, kerr.InvalidTopicException, nil} {
			wantCode(t, what+" "+*resp.Topics[i].Topic, resp.Topics[i].ErrorCode, want)
		}
		if version >= 1 {
			none := kmsg.NewPtrMetadataRequest()
			none.Version, none.Topics = version, []kmsg.MetadataRequestTopic{}
			if resp := ask[*kmsg.MetadataResponse](c, none); len(resp.Topics) != 0 || len(resp.Brokers) != 1 {
				t.Errorf("%s: an empty list is answered with %d topics", what, len(resp.Topics))
			}
		}
	}
}

func TestMetadataByID(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "one", 1)
	c := dialRaw(t, b.Addr)
	id := metadata(c, 12, false, "one").Topics[0].TopicID
	for version := int16(12); version <= 13; version++ { // names may be null from 12
		for _, name := range []*string{nil, new(string)} { // Java leaves them empty
			req := kmsg.NewPtrMetadataRequest()
			req.Version = version
			for _, want := range [][16]byte{id, {1, 2, 3}} {
				topic := kmsg.NewMetadataRequestTopic()
				topic.Topic, topic.TopicID = name, want
				req.Topics = append(req.Topics, topic)
			}
			req.Topics = append(req.Topics, kmsg.NewMetadataRequestTopic())
			resp := ask[*kmsg.MetadataResponse](c, req)
			wantCode(t, "a known id", resp.Topics[0].ErrorCode, nil)
			if name := resp.Topics[0].Topic; name == nil || *name != "one" {
				t.Errorf("version %d: the id is of %v", version, name)
			}
			wantCode(t, "an unknown id", resp.Topics[1].ErrorCode, kerr.UnknownTopicID)
			if resp.Topics[1].TopicID != [16]byte{1, 2, 3} || resp.Topics[1].Topic != nil {
				t.Errorf("version %d: the answer has the id %x", version, resp.Topics[1].TopicID)
			}
			wantCode(t, "no id", resp.Topics[2].ErrorCode, kerr.UnknownTopicID)
		}
	}
}

func TestMetadataCreatesTopics(t *testing.T) {
	b := testutil.StartBroker(t, map[string]string{"num.partitions": "2"})
	c := dialRaw(t, b.Addr)
	for version := int16(0); version <= 13; version++ {
		name := fmt.Sprintf("made-%d", version)
		got := metadata(c, version, true, name).Topics[0]
		wantCode(t, name, got.ErrorCode, nil)
		if len(got.Partitions) != 2 || got.Partitions[0].Leader != 1 {
			t.Errorf("%s: %+v", name, got)
		}
		wantCode(t, "produce to "+name, produceRaw(c, name, recordtest.Batch(0)).ErrorCode, nil)
		if version >= 4 {
			name = fmt.Sprintf("unmade-%d", version)
			wantCode(t, name, metadata(c, version, false, name).Topics[0].ErrorCode, kerr.UnknownTopicOrPartition)
		}
	}
	for name, want := range map[string]*kerr.Error{
		"__consumer_offsets": kerr.UnknownTopicOrPartition, "": kerr.InvalidTopicException, strings.Repeat("n", 250): kerr.InvalidTopicException,
	} {
		wantCode(t, fmt.Sprintf("%.20q", name), metadata(c, 12, true, name).Topics[0].ErrorCode, want)
	}
	if got := topicNames(c); len(got) != 14 {
		t.Errorf("topics %v, want those that were asked for with leave to create", got)
	}
}

func describe(c *raw, version int16, kind kmsg.ConfigResourceType, name string, keys ...string) (map[string]kmsg.DescribeConfigsResponseResourceConfig, int16) {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = version, true, true
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName, one.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, one)
	got := ask[*kmsg.DescribeConfigsResponse](c, req).Resources[0]
	if got.ResourceType != kind || got.ResourceName != name {
		c.t.Errorf("asked for %v %q, answered for %v %q", kind, name, got.ResourceType, got.ResourceName)
	}
	configs := make(map[string]kmsg.DescribeConfigsResponseResourceConfig)
	for _, config := range got.Configs {
		configs[config.Name] = config
	}
	return configs, got.ErrorCode
}

func TestDescribeTopicConfigs(t *testing.T) {
	b := testutil.StartBroker(t, map[string]string{"log.retention.hours": "2", "log.segment.bytes": "4MiB"})
	createTopic(t, b, "cfg", 1, "retention.ms=1000")
	createTopic(t, b, "plain", 1)
	c := dialRaw(t, b.Addr)
	for version := int16(1); version <= 4; version++ {
		configs, code := describe(c, version, kmsg.ConfigResourceTypeTopic, "cfg")
		wantCode(t, "topic", code, nil)
		for _, key := range cluster.TopicKeys() {
			config, ok := configs[key.Name]
			if !ok || config.Value == nil {
				t.Errorf("version %d: %s is missing", version, key.Name)
				continue
			}
			if version >= 3 && (config.Documentation == nil || *config.Documentation == "" || config.ConfigType != kmsg.ConfigType(key.Type)) {
				t.Errorf("version %d: %s has type %v and no documentation", version, key.Name, config.ConfigType)
			}
		}
		retention := configs["retention.ms"]
		if *retention.Value != "1000" || retention.Source != kmsg.ConfigSourceDynamicTopicConfig {
			t.Errorf("version %d: retention.ms is %s of %v", version, *retention.Value, retention.Source)
		}
		wantSynonyms(t, retention, "retention.ms=1000 log.retention.hours=2 log.retention.hours=168")
		segment := configs["segment.bytes"]
		if *segment.Value != "4194304" || segment.Source != kmsg.ConfigSourceStaticBrokerConfig {
			t.Errorf("version %d: segment.bytes is %s of %v", version, *segment.Value, segment.Source)
		}
		if policy := configs["cleanup.policy"]; *policy.Value != "delete" || policy.Source != kmsg.ConfigSourceDefaultConfig {
			t.Errorf("version %d: cleanup.policy is %s of %v", version, *policy.Value, policy.Source)
		}
		if remote := configs["remote.storage.enable"]; *remote.Value != "false" {
			t.Errorf("version %d: remote.storage.enable is %s without a store", version, *remote.Value)
		}
	}
	configs, _ := describe(c, 4, kmsg.ConfigResourceTypeTopic, "plain", "retention.ms", "no.such.config")
	if len(configs) != 1 || *configs["retention.ms"].Value != "7200000" {
		t.Errorf("the two names asked for: %+v", configs)
	}
	_, code := describe(c, 4, kmsg.ConfigResourceTypeTopic, "nowhere")
	wantCode(t, "an unknown topic", code, kerr.UnknownTopicOrPartition)
}

// wantSynonyms compares the names and values of a config's synonyms, in order.
func wantSynonyms(t testing.TB, config kmsg.DescribeConfigsResponseResourceConfig, want string) {
	t.Helper()
	var got []string
	for _, s := range config.ConfigSynonyms {
		value := "null"
		if s.Value != nil {
			value = *s.Value
		}
		got = append(got, s.Name+"="+value)
	}
	if strings.Join(got, " ") != want {
		t.Errorf("%s has the synonyms %v, want %s", config.Name, got, want)
	}
}

func TestDescribeBrokerConfigs(t *testing.T) {
	b := testutil.StartBroker(t, map[string]string{"num.partitions": "5", "tier.s3.access.key.id": "AK", "tier.s3.secret.access.key": "HUNTER"})
	c := dialRaw(t, b.Addr)
	for version := int16(1); version <= 4; version++ {
		configs, code := describe(c, version, kmsg.ConfigResourceTypeBroker, "1")
		wantCode(t, "broker", code, nil)
		if n := configs["num.partitions"]; n.Value == nil || *n.Value != "5" || n.Source != kmsg.ConfigSourceStaticBrokerConfig || !n.ReadOnly {
			t.Errorf("version %d: num.partitions is %+v", version, n)
		}
		if d := configs["log.segment.bytes"]; d.Value == nil || *d.Value != "1073741824" || d.Source != kmsg.ConfigSourceDefaultConfig {
			t.Errorf("version %d: log.segment.bytes is %+v", version, d)
		}
		if f := configs["default.replication.factor"]; f.Value == nil || *f.Value != "1" {
			t.Errorf("version %d: default.replication.factor is %+v", version, f)
		}
		for name, config := range configs {
			if config.Value != nil && strings.Contains(*config.Value, "HUNTER") {
				t.Errorf("version %d: %s tells a secret", version, name)
			}
			for _, s := range config.ConfigSynonyms {
				if s.Value != nil && strings.Contains(*s.Value, "HUNTER") {
					t.Errorf("version %d: a synonym of %s tells a secret", version, name)
				}
			}
		}
		if s := configs["tier.s3.secret.access.key"]; !s.IsSensitive {
			t.Errorf("version %d: the secret is %+v", version, s)
		}
	}
	_, code := describe(c, 4, kmsg.ConfigResourceTypeBroker, "2")
	wantCode(t, "another broker", code, kerr.InvalidRequest)
	_, code = describe(c, 4, kmsg.ConfigResourceTypeBroker, "")
	wantCode(t, "all brokers", code, nil)
	_, code = describe(c, 4, kmsg.ConfigResourceTypeBrokerLogger, "1")
	wantCode(t, "loggers", code, nil)
	_, code = describe(c, 4, kmsg.ConfigResourceType(99), "1")
	wantCode(t, "an unknown kind", code, kerr.InvalidRequest)
}

func TestDescribeCluster(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	c := dialRaw(t, b.Addr)
	id := statusOf(t, b).ClusterID
	for version := int16(0); version <= 2; version++ {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.Version, req.EndpointType = version, 1
		resp := ask[*kmsg.DescribeClusterResponse](c, req)
		wantCode(t, "brokers", resp.ErrorCode, nil)
		if resp.ClusterID != id || resp.ControllerID != 1 || len(resp.Brokers) != 1 || net.JoinHostPort(resp.Brokers[0].Host, strconv.Itoa(int(resp.Brokers[0].Port))) != b.Addr {
			t.Errorf("version %d: %+v", version, resp)
		}
		if version == 0 {
			continue
		}
		for endpoint, want := range map[int8]*kerr.Error{2: kerr.MismatchedEndpointType, 7: kerr.UnsupportedEndpointType} {
			req.EndpointType = endpoint
			wantCode(t, fmt.Sprintf("endpoint type %d", endpoint), ask[*kmsg.DescribeClusterResponse](c, req).ErrorCode, want)
		}
	}
}

// Every listener advertises its own address.
func TestAdvertisedListeners(t *testing.T) {
	inner, outer := testutil.FreePort(t), testutil.FreePort(t)
	b := testutil.NewBroker(t, map[string]string{
		"listeners":                      fmt.Sprintf("IN://127.0.0.1:%d,OUT://127.0.0.1:%d", inner, outer),
		"advertised.listeners":           "IN://inside.example:1111,OUT://outside.example:2222",
		"listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
	})
	b.Addr = fmt.Sprintf("127.0.0.1:%d", inner)
	b.Start()
	for port, want := range map[int]string{inner: "inside.example:1111", outer: "outside.example:2222"} {
		c := dialRaw(t, fmt.Sprintf("127.0.0.1:%d", port))
		got := metadata(c, 12, false).Brokers[0]
		if address := fmt.Sprintf("%s:%d", got.Host, got.Port); address != want {
			t.Errorf("port %d advertises %s, want %s", port, address, want)
		}
	}
}
