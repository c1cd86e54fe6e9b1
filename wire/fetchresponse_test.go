// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"firn/record"
)

var (
	anyOffset = rapid.Custom(func(t *rapid.T) record.Offset { return record.Offset(rapid.Int64().Draw(t, "offset")) })
	anyEpoch  = rapid.Custom(func(t *rapid.T) record.Epoch { return record.Epoch(rapid.Int32().Draw(t, "epoch")) })
)

func maybe[T any](t *rapid.T, name string, draw func() T) *T {
	if !rapid.Bool().Draw(t, name) {
		return nil
	}
	v := draw()
	return &v
}

func drawPartition(t *rapid.T) FetchPartition {
	p := FetchPartition{
		Partition:            rapid.Int32().Draw(t, "partition"),
		ErrorCode:            rapid.Int16().Draw(t, "error"),
		HighWatermark:        anyOffset.Draw(t, "hw"),
		LastStableOffset:     anyOffset.Draw(t, "lso"),
		LogStartOffset:       anyOffset.Draw(t, "start"),
		PreferredReadReplica: rapid.Int32().Draw(t, "replica"),
		// One field of each stays away from -1, which kmsg takes for absent
		// when all of a tag's fields are.
		DivergingEpoch: maybe(t, "diverging", func() FetchDiverging {
			return FetchDiverging{anyEpoch.Draw(t, "epoch"), record.Offset(rapid.Int64Min(0).Draw(t, "end"))}
		}),
		CurrentLeader: maybe(t, "leader", func() FetchLeader {
			return FetchLeader{rapid.Int32Min(0).Draw(t, "leader"), anyEpoch.Draw(t, "epoch")}
		}),
		SnapshotID: maybe(t, "snapshot", func() FetchSnapshot {
			return FetchSnapshot{record.Offset(rapid.Int64Min(0).Draw(t, "end")), anyEpoch.Draw(t, "epoch")}
		}),
	}
	p.Tier = rapid.SampledFrom([]string{"", "hot", "cold"}).Draw(t, "tier")
	if rapid.Bool().Draw(t, "committed") {
		p.AbortedTransactions = []FetchAborted{}
		for range rapid.IntRange(0, 3).Draw(t, "aborted") {
			p.AbortedTransactions = append(p.AbortedTransactions, FetchAborted{rapid.Int64().Draw(t, "pid"), anyOffset.Draw(t, "first")})
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "parts") {
		n := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(120, 140), rapid.IntRange(16000, 17000)).Draw(t, "size")
		p.Records = append(p.Records, Part{Bytes: bytes.Repeat([]byte{byte(n)}, n)})
	}
	return p
}

func drawFetchResponse(t *rapid.T) *FetchResponse {
	r := &FetchResponse{
		ThrottleMillis: rapid.Int32().Draw(t, "throttle"),
		ErrorCode:      rapid.Int16().Draw(t, "error"),
		SessionID:      rapid.Int32().Draw(t, "session"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "topics") {
		topic := FetchTopic{Topic: rapid.StringMatching(`[a-z]{1,9}|[a-z]{249}`).Draw(t, "topic")}
		copy(topic.TopicID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		for range rapid.IntRange(0, 2).Draw(t, "partitions") {
			topic.Partitions = append(topic.Partitions, drawPartition(t))
		}
		r.Topics = append(r.Topics, topic)
	}
	for range rapid.IntRange(0, 2).Draw(t, "brokers") {
		b := kmsg.NewFetchResponseBroker()
		b.NodeID, b.Port = rapid.Int32().Draw(t, "node"), rapid.Int32().Draw(t, "port")
		b.Host = rapid.StringMatching(`[a-z.]{0,200}`).Draw(t, "host")
		b.Rack = maybe(t, "rack", func() string { return rapid.StringMatching(`[a-z]{0,9}`).Draw(t, "rack") })
		r.Brokers = append(r.Brokers, b)
	}
	return r
}

// mirror is the same response as kmsg has it.
func mirror(version int16, r *FetchResponse) *kmsg.FetchResponse {
	m := kmsg.NewPtrFetchResponse()
	m.Version, m.ThrottleMillis, m.ErrorCode, m.SessionID, m.Brokers = version, r.ThrottleMillis, r.ErrorCode, r.SessionID, r.Brokers
	for _, t := range r.Topics {
		mt := kmsg.NewFetchResponseTopic()
		mt.Topic, mt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			mt.Partitions = append(mt.Partitions, mirrorPartition(p))
		}
		m.Topics = append(m.Topics, mt)
	}
	return m
}

func mirrorPartition(p FetchPartition) kmsg.FetchResponseTopicPartition {
	mp := kmsg.NewFetchResponseTopicPartition()
	mp.Partition, mp.ErrorCode, mp.PreferredReadReplica = p.Partition, p.ErrorCode, p.PreferredReadReplica
	mp.HighWatermark, mp.LastStableOffset, mp.LogStartOffset = int64(p.HighWatermark), int64(p.LastStableOffset), int64(p.LogStartOffset)
	if p.AbortedTransactions != nil {
		mp.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	}
	for _, a := range p.AbortedTransactions {
		ma := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		ma.ProducerID, ma.FirstOffset = a.ProducerID, int64(a.FirstOffset)
		mp.AbortedTransactions = append(mp.AbortedTransactions, ma)
	}
	mp.RecordBatches = append([]byte{}, join(p.Records)...)
	if d := p.DivergingEpoch; d != nil {
		mp.DivergingEpoch.Epoch, mp.DivergingEpoch.EndOffset = int32(d.Epoch), int64(d.EndOffset)
	}
	if l := p.CurrentLeader; l != nil {
		mp.CurrentLeader.LeaderID, mp.CurrentLeader.LeaderEpoch = l.LeaderID, int32(l.LeaderEpoch)
	}
	if s := p.SnapshotID; s != nil {
		mp.SnapshotID.EndOffset, mp.SnapshotID.Epoch = int64(s.EndOffset), int32(s.Epoch)
	}
	if p.Tier != "" {
		mp.UnknownTags.Set(TagTier, []byte(p.Tier))
	}
	return mp
}

func join(parts []Part) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p.Bytes...)
	}
	return b
}

// checkAgainstKmsg compares one encoding byte for byte, length field, response
// header and all.
func checkAgainstKmsg(t interface{ Fatalf(string, ...any) }, version int16, id int32, r *FetchResponse) {
	parts, err := EncodeFetch(version, id, r)
	if err != nil {
		t.Fatalf("version %d: %v", version, err)
	}
	want := binary.BigEndian.AppendUint32(nil, uint32(id))
	m := mirror(version, r)
	if m.IsFlexible() {
		want = append(want, 0)
	}
	want = m.AppendTo(want)
	want = append(binary.BigEndian.AppendUint32(nil, uint32(len(want))), want...)
	if got := join(parts); !bytes.Equal(got, want) {
		t.Fatalf("version %d:\ngot  %x\nwant %x", version, got, want)
	}
	if err := checkParts(parts, &Request{CorrelationID: id}); err != nil {
		t.Fatalf("version %d: %v", version, err)
	}
}

func TestEncodeFetchIsKmsg(t *testing.T) {
	for version := MinFetchVersion; version <= MaxFetchVersion; version++ {
		t.Run(fmt.Sprintf("version %d", version), rapid.MakeCheck(func(t *rapid.T) {
			checkAgainstKmsg(t, version, rapid.Int32().Draw(t, "correlation"), drawFetchResponse(t))
		}))
	}
}

// TestEncodeManyIsKmsg crosses the sizes at which a compact length takes one
// more byte, in every list there is.
func TestEncodeManyIsKmsg(t *testing.T) {
	for _, n := range []int{126, 127, 128, 16383, 16384} {
		p := NewFetchPartition(1)
		p.Records = []Part{{Bytes: make([]byte, n)}}
		p.AbortedTransactions = make([]FetchAborted, n)
		r := &FetchResponse{
			Topics:  append(make([]FetchTopic, n-1), FetchTopic{Topic: "t", Partitions: append(make([]FetchPartition, n-1), p)}),
			Brokers: make([]kmsg.FetchResponseBroker, n),
		}
		for version := MinFetchVersion; version <= MaxFetchVersion; version++ {
			checkAgainstKmsg(t, version, int32(n), r)
		}
	}
}

// TestEncodeFetchCopiesNoRecords: the parts given are the parts returned.
func TestEncodeFetchCopiesNoRecords(t *testing.T) {
	data := make([]byte, 100)
	p := NewFetchPartition(0)
	p.Records = []Part{{Bytes: data}}
	parts, err := EncodeFetch(12, 1, &FetchResponse{Topics: []FetchTopic{{Topic: "t", Partitions: []FetchPartition{p, p}}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != 5 || &parts[1].Bytes[0] != &data[0] || &parts[3].Bytes[0] != &data[0] {
		t.Errorf("got %d parts", len(parts))
	}
}

func TestEncodeFetchRefuses(t *testing.T) {
	for _, v := range []int16{-1, 0, 3, 19} {
		if _, err := EncodeFetch(v, 1, &FetchResponse{}); err == nil {
			t.Errorf("version %d was encoded", v)
		}
	}
	// The same 64 MiB over and over: more than 31 bits in one partition, and
	// in one frame over several.
	chunk := Part{Bytes: make([]byte, 64<<20)}
	half := NewFetchPartition(0)
	for range 16 {
		half.Records = append(half.Records, chunk)
	}
	whole := half
	whole.Records = append(whole.Records[:16:16], half.Records...)
	for name, partitions := range map[string][]FetchPartition{"partition": {whole}, "frame": {half, half}} {
		if _, err := EncodeFetch(12, 1, &FetchResponse{Topics: []FetchTopic{{Partitions: partitions}}}); err == nil {
			t.Errorf("%s of 2 GiB was encoded", name)
		}
	}
}

// TestNewFetchPartition: the defaults are kmsg's, but for the high watermark,
// which has none.
func TestNewFetchPartition(t *testing.T) {
	m := kmsg.NewFetchResponseTopicPartition()
	m.Partition, m.HighWatermark, m.RecordBatches = 3, -1, []byte{}
	r := FetchResponse{Topics: []FetchTopic{{Partitions: []FetchPartition{NewFetchPartition(3)}}}}
	want := kmsg.NewPtrFetchResponse()
	want.Version = 18
	want.Topics = []kmsg.FetchResponseTopic{{Partitions: []kmsg.FetchResponseTopicPartition{m}}}
	parts, err := EncodeFetch(18, 0, &r)
	if err != nil {
		t.Fatal(err)
	}
	if got := join(parts)[9:]; !bytes.Equal(got, want.AppendTo(nil)) {
		t.Errorf("got %x", got)
	}
}
