// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fakeBroker answers what the topic commands ask, from a map. Versions are
// held low, where no header is flexible but the newest for ids.
type fakeBroker struct {
	t    *testing.T
	l    net.Listener
	done sync.WaitGroup

	mu     sync.Mutex
	topics map[string]*fakeTopic
	conns  []net.Conn
	deny   bool // every topic answer is an authorization failure
}

type fakeTopic struct {
	partitions int32
	configs    map[string]string
}

// fakeVersions are the highest versions that the fake speaks, by key.
var fakeVersions = map[int16]int16{
	int16(kmsg.ApiVersions): 0, int16(kmsg.Metadata): 8, int16(kmsg.CreateTopics): 4,
	int16(kmsg.IncrementalAlterConfigs): 0, int16(kmsg.CreatePartitions): 1, int16(kmsg.DeleteRecords): 1,
	int16(kmsg.DeleteTopics): 3, int16(kmsg.ListOffsets): 5, int16(kmsg.DescribeConfigs): 2,
}

func startFake(t *testing.T) *fakeBroker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeBroker{t: t, l: l, topics: map[string]*fakeTopic{}}
	f.done.Go(f.accept)
	t.Cleanup(f.stop)
	return f
}

func (f *fakeBroker) addr() string { return f.l.Addr().String() }

func (f *fakeBroker) stop() {
	f.l.Close()
	f.mu.Lock()
	for _, c := range f.conns {
		c.Close()
	}
	f.mu.Unlock()
	f.done.Wait()
}

func (f *fakeBroker) accept() {
	for {
		c, err := f.l.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns = append(f.conns, c)
		f.mu.Unlock()
		f.done.Go(func() { f.serve(c) })
	}
}

func (f *fakeBroker) serve(c net.Conn) {
	defer c.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, frame); err != nil {
			return
		}
		key := int16(binary.BigEndian.Uint16(frame))
		version := int16(binary.BigEndian.Uint16(frame[2:]))
		correlation := frame[4:8]
		body := frame[10:]
		if n := int16(binary.BigEndian.Uint16(frame[8:])); n > 0 {
			body = body[n:]
		}
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		if key == int16(kmsg.ApiVersions) {
			req.SetVersion(0) // which has no body, whatever was asked
		} else if err := req.ReadFrom(body); err != nil {
			f.t.Errorf("fake broker: read key %d version %d: %v", key, version, err)
			return
		}
		resp := f.answer(req, version)
		out := append(make([]byte, 4), correlation...)
		out = resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func (f *fakeBroker) answer(req kmsg.Request, version int16) kmsg.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	switch r := req.(type) {
	case *kmsg.ApiVersionsRequest:
		f.apiVersions(resp.(*kmsg.ApiVersionsResponse), version)
	case *kmsg.MetadataRequest:
		f.metadata(r, resp.(*kmsg.MetadataResponse))
	case *kmsg.CreateTopicsRequest:
		f.create(r, resp.(*kmsg.CreateTopicsResponse))
	case *kmsg.DeleteTopicsRequest:
		f.delete(r, resp.(*kmsg.DeleteTopicsResponse))
	case *kmsg.IncrementalAlterConfigsRequest:
		f.alter(r, resp.(*kmsg.IncrementalAlterConfigsResponse))
	case *kmsg.CreatePartitionsRequest:
		f.grow(r, resp.(*kmsg.CreatePartitionsResponse))
	case *kmsg.DeleteRecordsRequest:
		f.trim(r, resp.(*kmsg.DeleteRecordsResponse))
	case *kmsg.ListOffsetsRequest:
		f.offsets(r, resp.(*kmsg.ListOffsetsResponse))
	case *kmsg.DescribeConfigsRequest:
		f.configs(r, resp.(*kmsg.DescribeConfigsResponse))
	}
	return resp
}

func (f *fakeBroker) apiVersions(resp *kmsg.ApiVersionsResponse, version int16) {
	if version > 0 {
		resp.ErrorCode = kerr.UnsupportedVersion.Code
	}
	for k, v := range fakeVersions {
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: k, MaxVersion: v})
	}
}

func (f *fakeBroker) metadata(r *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	host, port, _ := net.SplitHostPort(f.addr())
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID, b.Host = 1, host
	for _, c := range port {
		b.Port = b.Port*10 + int32(c-'0')
	}
	resp.Brokers, resp.ControllerID = append(resp.Brokers, b), 1
	var names []string
	for _, t := range r.Topics {
		names = append(names, *t.Topic)
	}
	if r.Topics == nil {
		for n := range f.topics {
			names = append(names, n)
		}
	}
	for _, n := range names {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic = &n
		t.ErrorCode = f.code(n)
		if t.ErrorCode == 0 {
			for p := range f.topics[n].partitions {
				part := kmsg.NewMetadataResponseTopicPartition()
				part.Partition, part.Leader, part.LeaderEpoch, part.Replicas, part.ISR = p, 1, 4, []int32{1}, []int32{1}
				t.Partitions = append(t.Partitions, part)
			}
		}
		resp.Topics = append(resp.Topics, t)
	}
}

func (f *fakeBroker) code(topic string) int16 {
	switch {
	case f.deny:
		return kerr.TopicAuthorizationFailed.Code
	case f.topics[topic] == nil:
		return kerr.UnknownTopicOrPartition.Code
	}
	return 0
}

func (f *fakeBroker) create(r *kmsg.CreateTopicsRequest, resp *kmsg.CreateTopicsResponse) {
	for _, t := range r.Topics {
		a := kmsg.NewCreateTopicsResponseTopic()
		a.Topic = t.Topic
		configs := map[string]string{}
		for _, c := range t.Configs {
			configs[c.Name] = *c.Value
		}
		switch {
		case f.topics[t.Topic] != nil:
			a.ErrorCode = kerr.TopicAlreadyExists.Code
		case configs["cleanup.policy"] == "compact":
			a.ErrorCode = kerr.InvalidConfig.Code
			a.ErrorMessage = kmsg.StringPtr("cleanup.policy=compact: want delete")
		default:
			f.topics[t.Topic] = &fakeTopic{max(t.NumPartitions, 1), configs}
		}
		resp.Topics = append(resp.Topics, a)
	}
}

func (f *fakeBroker) delete(r *kmsg.DeleteTopicsRequest, resp *kmsg.DeleteTopicsResponse) {
	for _, n := range r.TopicNames {
		a := kmsg.NewDeleteTopicsResponseTopic()
		a.Topic, a.ErrorCode = &n, f.code(n)
		if a.ErrorCode == 0 {
			delete(f.topics, n)
		}
		resp.Topics = append(resp.Topics, a)
	}
}

func (f *fakeBroker) alter(r *kmsg.IncrementalAlterConfigsRequest, resp *kmsg.IncrementalAlterConfigsResponse) {
	for _, want := range r.Resources {
		a := kmsg.NewIncrementalAlterConfigsResponseResource()
		a.ResourceType, a.ResourceName, a.ErrorCode = want.ResourceType, want.ResourceName, f.code(want.ResourceName)
		for _, c := range want.Configs {
			switch {
			case a.ErrorCode != 0:
			case c.Name == "remote.storage.enable":
				a.ErrorCode = kerr.InvalidConfig.Code
				a.ErrorMessage = kmsg.StringPtr("remote.storage.enable cannot be turned off")
			case c.Op == kmsg.IncrementalAlterConfigOpDelete:
				delete(f.topics[want.ResourceName].configs, c.Name)
			default:
				f.topics[want.ResourceName].configs[c.Name] = *c.Value
			}
		}
		resp.Resources = append(resp.Resources, a)
	}
}

func (f *fakeBroker) grow(r *kmsg.CreatePartitionsRequest, resp *kmsg.CreatePartitionsResponse) {
	for _, want := range r.Topics {
		a := kmsg.NewCreatePartitionsResponseTopic()
		a.Topic, a.ErrorCode = want.Topic, f.code(want.Topic)
		switch {
		case a.ErrorCode != 0:
		case want.Count <= f.topics[want.Topic].partitions:
			a.ErrorCode, a.ErrorMessage = kerr.InvalidPartitions.Code, kmsg.StringPtr("would be fewer")
		default:
			f.topics[want.Topic].partitions = want.Count
		}
		resp.Topics = append(resp.Topics, a)
	}
}

// trim keeps 100 records for ever.
func (f *fakeBroker) trim(r *kmsg.DeleteRecordsRequest, resp *kmsg.DeleteRecordsResponse) {
	for _, want := range r.Topics {
		a := kmsg.NewDeleteRecordsResponseTopic()
		a.Topic = want.Topic
		for _, p := range want.Partitions {
			got := kmsg.NewDeleteRecordsResponseTopicPartition()
			got.Partition, got.LowWatermark = p.Partition, p.Offset
			switch {
			case p.Offset > 100:
				got.ErrorCode, got.LowWatermark = kerr.OffsetOutOfRange.Code, -1
			case p.Offset < 0:
				got.LowWatermark = 100
			}
			a.Partitions = append(a.Partitions, got)
		}
		resp.Topics = append(resp.Topics, a)
	}
}

func (f *fakeBroker) offsets(r *kmsg.ListOffsetsRequest, resp *kmsg.ListOffsetsResponse) {
	byTimestamp := map[int64]int64{-1: 100, -2: 10, -4: 60}
	for _, t := range r.Topics {
		a := kmsg.NewListOffsetsResponseTopic()
		a.Topic = t.Topic
		for _, p := range t.Partitions {
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition, part.Offset = p.Partition, byTimestamp[p.Timestamp]
			a.Partitions = append(a.Partitions, part)
		}
		resp.Topics = append(resp.Topics, a)
	}
}

func (f *fakeBroker) configs(r *kmsg.DescribeConfigsRequest, resp *kmsg.DescribeConfigsResponse) {
	for _, res := range r.Resources {
		a := kmsg.NewDescribeConfigsResponseResource()
		a.ResourceType, a.ResourceName = res.ResourceType, res.ResourceName
		for k, v := range f.topics[res.ResourceName].configs {
			c := kmsg.NewDescribeConfigsResponseResourceConfig()
			c.Name, c.Value, c.Source = k, &v, kmsg.ConfigSourceDynamicTopicConfig
			a.Configs = append(a.Configs, c)
		}
		def := kmsg.NewDescribeConfigsResponseResourceConfig()
		def.Name, def.Value, def.Source = "cleanup.policy", kmsg.StringPtr("delete"), kmsg.ConfigSourceDefaultConfig
		a.Configs = append(a.Configs, def)
		resp.Resources = append(resp.Resources, a)
	}
}
