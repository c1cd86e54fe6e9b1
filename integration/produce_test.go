// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/internal/testutil"
	"firn/record"
	"firn/record/recordtest"
)

const (
	acksNone int16 = 0
	acksOne  int16 = 1
	acksAll  int16 = -1

	newestProduce = 11
)

// produceRequest is a request with one partition's records.
func produceRequest(version, acks int16, topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, int32(patience.Milliseconds())
	addRecords(req, topic, partition, records)
	return req
}

// addRecords adds a partition to a request.
func addRecords(req *kmsg.ProduceRequest, topic string, partition int32, records []byte) {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, bytes.Clone(records)
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
}

// produceRaw sends records as they are and returns what is answered for them.
func produceRaw(c *raw, topic string, records []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	resp := ask[*kmsg.ProduceResponse](c, produceRequest(newestProduce, acksAll, topic, 0, records))
	return resp.Topics[0].Partitions[0]
}

// wantCode compares an error code of the protocol with the error it should be;
// nil for none.
func wantCode(t testing.TB, what string, code int16, want *kerr.Error) {
	t.Helper()
	if want == nil {
		want = &kerr.Error{Message: "NONE"}
	}
	if code != want.Code {
		t.Errorf("%s: answered with %d (%v), want %s", what, code, kerr.ErrorForCode(code), want.Message)
	}
}

func TestProduceVersionsAndAcks(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "p", 2)
	c := dialRaw(t, b.Addr)
	next := int64(0)
	for version := int16(3); version <= newestProduce; version++ {
		for _, acks := range []int16{acksOne, acksAll, acksNone} {
			req := produceRequest(version, acks, "p", 0, recordtest.Batch(0, recordtest.Count(3)))
			if acks == acksNone {
				c.send(req) // has no answer: the next one is that of another request
				next += 3
				continue
			}
			resp := ask[*kmsg.ProduceResponse](c, req)
			if len(resp.Topics) != 1 || resp.Topics[0].Topic != "p" || len(resp.Topics[0].Partitions) != 1 {
				t.Fatalf("version %d: %+v", version, resp)
			}
			got := resp.Topics[0].Partitions[0]
			if got.ErrorCode != 0 || got.Partition != 0 || got.BaseOffset != next || got.LogAppendTime != -1 {
				t.Errorf("version %d, acks %d: %+v, want base offset %d", version, acks, got, next)
			}
			if version >= 5 && got.LogStartOffset != 0 {
				t.Errorf("version %d: log start %d", version, got.LogStartOffset)
			}
			next += 3
		}
	}
	if end := endOffset(t, b, "p", 0); end != next {
		t.Errorf("the log ends at %d, want %d", end, next)
	}

	// Older versions are advertised for librdkafka's sake, and refused.
	for version := int16(0); version < 3; version++ {
		resp := ask[*kmsg.ProduceResponse](c, produceRequest(version, acksAll, "p", 0, recordtest.Batch(0)))
		wantCode(t, fmt.Sprintf("version %d", version), resp.Topics[0].Partitions[0].ErrorCode, kerr.UnsupportedVersion)
	}
	resp := ask[*kmsg.ProduceResponse](c, produceRequest(newestProduce, 2, "p", 0, recordtest.Batch(0)))
	wantCode(t, "acks 2", resp.Topics[0].Partitions[0].ErrorCode, kerr.InvalidRequiredAcks)
	if end := endOffset(t, b, "p", 0); end != next {
		t.Errorf("refused records moved the end to %d", end)
	}
}

// badBatches are batches that must be refused, each in one way.
func badBatches() []badBatch {
	spoil := func(f func(b []byte)) []byte {
		b := recordtest.Batch(0, recordtest.Count(3))
		f(b)
		return b
	}
	refix := func(f func(b []byte)) []byte {
		return spoil(func(b []byte) { f(b); recordtest.FixCRC(b) })
	}
	put := binary.BigEndian.PutUint32
	return []badBatch{
		{"wrong CRC", spoil(func(b []byte) { b[20]++ }), kerr.CorruptMessage},
		{"bit flip in a record", spoil(func(b []byte) { b[len(b)-2] ^= 4 }), kerr.CorruptMessage},
		{"length too long", spoil(func(b []byte) { put(b[8:], uint32(len(b))) }), kerr.CorruptMessage},
		{"length too short", spoil(func(b []byte) { put(b[8:], uint32(len(b)-record.LogOverhead-1)) }), kerr.CorruptMessage},
		{"length negative", spoil(func(b []byte) { put(b[8:], 0xffffffff) }), kerr.CorruptMessage},
		{"length below a header", spoil(func(b []byte) { put(b[8:], 10) }), kerr.CorruptMessage},
		{"cut in the header", recordtest.Batch(0)[:40], kerr.CorruptMessage},
		{"cut in the records", recordtest.Batch(0)[:70], kerr.CorruptMessage},
		{"magic 0", spoil(func(b []byte) { b[16] = 0 }), kerr.InvalidRecord},
		{"magic 1", spoil(func(b []byte) { b[16] = 1 }), kerr.InvalidRecord},
		{"magic 3", spoil(func(b []byte) { b[16] = 3 }), kerr.CorruptMessage},
		{"count too high", recordtest.Batch(0, recordtest.Count(3), recordtest.ClaimCount(4)), kerr.InvalidRecord},
		{"count too low", recordtest.Batch(0, recordtest.Count(3), recordtest.ClaimCount(2)), kerr.InvalidRecord},
		{"count negative", refix(func(b []byte) { put(b[57:], 0xffffffff) }), kerr.CorruptMessage},
		{"no records", recordtest.Batch(0, recordtest.Count(0)), kerr.InvalidRecord},
		{"last offset delta too high", recordtest.Batch(0, recordtest.Count(3), recordtest.LastOffsetDelta(7)), kerr.InvalidRecord},
		{"last offset delta negative", refix(func(b []byte) { put(b[23:], 0xffffffff) }), kerr.CorruptMessage},
		{"unknown codec", recordtest.Batch(0, recordtest.CodecBits(5)), kerr.InvalidRecord},
		{"control batch", recordtest.Batch(0, recordtest.Control()), kerr.InvalidRecord},
		{"a transaction's marker", recordtest.Marker(0, 1, 0, record.Marker{Abort: true}), kerr.InvalidRecord},
		{"log-append time claimed", recordtest.Batch(0, recordtest.LogAppendTime()), kerr.InvalidTimestamp},
		{"time far ahead", recordtest.Batch(0, recordtest.Timestamp(1<<52)), kerr.InvalidTimestamp},
		{"producer without sequence", recordtest.Batch(0, recordtest.Producer(1, 0, -1)), kerr.InvalidRecord},
		{"over max.message.bytes", recordtest.Batch(0, recordtest.ValueSize(1, 2000)), kerr.MessageTooLarge},
		{"nothing", nil, kerr.InvalidRecord},
		{"garbage", bytes.Repeat([]byte("garbage "), 20), kerr.CorruptMessage},
		{"good, then bad", append(recordtest.Batch(0), spoil(func(b []byte) { b[20]++ })...), kerr.CorruptMessage},
	}
}

type badBatch struct {
	name    string
	records []byte
	want    *kerr.Error
}

// A bad batch is refused whole and leaves no trace; its neighbours in the same
// request are taken.
func TestProduceRefusesBadBatches(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "bad", 1, "max.message.bytes=1000")
	createTopic(t, b, "good", 1)
	c := dialRaw(t, b.Addr)
	for i, bad := range badBatches() {
		req := produceRequest(newestProduce, acksAll, "bad", 0, bad.records)
		addRecords(req, "good", 0, recordtest.Batch(0))
		addRecords(req, "nowhere", 0, recordtest.Batch(0))
		addRecords(req, "good", 7, recordtest.Batch(0))
		resp := ask[*kmsg.ProduceResponse](c, req)
		got := resp.Topics[0].Partitions[0]
		wantCode(t, bad.name, got.ErrorCode, bad.want)
		if got.BaseOffset != -1 || got.ErrorMessage == nil || *got.ErrorMessage == "" {
			t.Errorf("%s: %+v, want base offset -1 and a message", bad.name, got)
		}
		if good := resp.Topics[1].Partitions[0]; good.ErrorCode != 0 || good.BaseOffset != int64(i) {
			t.Errorf("%s: its neighbour got %+v", bad.name, good)
		}
		wantCode(t, "unknown topic", resp.Topics[2].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
		wantCode(t, "unknown partition", resp.Topics[3].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)

		// Without acks the end of the connection is all there is to tell.
		quiet := dialRaw(t, b.Addr)
		quiet.send(produceRequest(newestProduce, acksNone, "bad", 0, bad.records))
		quiet.wantClosed(bad.name + " with acks=0")
	}
	if end := endOffset(t, b, "bad", 0); end != 0 {
		t.Errorf("bad batches moved the end to %d", end)
	}
	for _, path := range logFiles(t, b, "bad", 0) {
		if n := len(readFile(t, path)); n != 0 {
			t.Errorf("bad batches left %d bytes in %s", n, path)
		}
	}
}

// What the largest message is, is the batch as it comes.
func TestProduceAtTheSizeLimit(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	fits := recordtest.Batch(0, recordtest.ValueSize(1, 5000))
	createTopic(t, b, "limit", 1, fmt.Sprintf("max.message.bytes=%d", len(fits)))
	c := dialRaw(t, b.Addr)
	wantCode(t, "at the limit", produceRaw(c, "limit", fits).ErrorCode, nil)
	wantCode(t, "one byte over", produceRaw(c, "limit", recordtest.Batch(0, recordtest.ValueSize(1, 5001))).ErrorCode, kerr.MessageTooLarge)

	// franz-go tells its user, kcat exits with an error.
	cl := b.Client(kgo.ProducerBatchCompression(kgo.NoCompression()))
	err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "limit", Value: make([]byte, 6000)}).FirstErr()
	if !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("franz-go: %v", err)
	}
	k := testutil.NewKcat(t, b.Addr).Command("-P", "-t", "limit")
	k.Stdin = strings.NewReader(strings.Repeat("x", 6000) + "\n")
	if r := k.Run(t); r.Code == 0 || !strings.Contains(string(r.Stderr), "Message size too large") {
		t.Errorf("kcat: code %d, %s", r.Code, r.Stderr)
	}
}

// Requests that are in flight together on one connection are appended and
// answered in their order.
func TestProducePipelined(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "pipe", 1)
	c := dialRaw(t, b.Addr)
	const n = 200
	req := produceRequest(newestProduce, acksAll, "pipe", 0, recordtest.Batch(0))
	var frames []byte
	for range n {
		frames = append(frames, c.frame(req)...)
	}
	go func() { _, _ = c.conn.Write(frames) }() // a failure shows in the answers
	for i := range n {
		resp := c.receive(req).(*kmsg.ProduceResponse)
		if got := resp.Topics[0].Partitions[0]; got.ErrorCode != 0 || got.BaseOffset != int64(i) {
			t.Fatalf("request %d: %+v", i, got)
		}
	}
}

func initProducer(c *raw) (id int64, epoch int16) {
	c.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version = 4
	resp := ask[*kmsg.InitProducerIDResponse](c, req)
	wantCode(c.t, "InitProducerId", resp.ErrorCode, nil)
	return resp.ProducerID, resp.ProducerEpoch
}

func TestInitProducerID(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	seen := make(map[int64]bool)
	for round := range 3 {
		c := dialRaw(t, b.Addr)
		for version := int16(0); version <= 4; version++ {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.Version = version
			resp := ask[*kmsg.InitProducerIDResponse](c, req)
			if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || resp.ProducerID < 0 || seen[resp.ProducerID] {
				t.Errorf("round %d, version %d: %+v", round, version, resp)
			}
			seen[resp.ProducerID] = true
			transactional := "tx"
			req.TransactionalID = &transactional
			resp = ask[*kmsg.InitProducerIDResponse](c, req)
			wantCode(t, "a transactional id", resp.ErrorCode, kerr.UnsupportedVersion)
		}
		if round == 1 {
			b.Kill()
			b.Start()
		} else {
			b.Restart()
		}
	}
}

// An idempotent producer that sends a batch again finds it where it was, as
// long as it is among its last five, also after a crash and when its segment
// has left the local disk. Of what lies below a snapshot that a start begins
// with, the last batch alone is remembered: Kafka's snapshots say no more.
func TestIdempotentProducer(t *testing.T) {
	b := testutil.StartBroker(t, tiered(testutil.StartGateway(t), "s3", map[string]string{"tier.roll.ms": "1h"}))
	createTopic(t, b, "once", 1, "retention.ms=-1", "local.retention.ms=1")
	c := dialRaw(t, b.Addr)
	id, epoch := initProducer(c)
	batch := func(sequence int32) []byte {
		return recordtest.Batch(0, recordtest.Count(3), recordtest.Producer(id, epoch, sequence))
	}
	produce := func(what string, records []byte, offset int64, want *kerr.Error) {
		t.Helper()
		got := produceRaw(c, "once", records)
		wantCode(t, what, got.ErrorCode, want)
		if got.BaseOffset != offset {
			t.Errorf("%s: base offset %d, want %d", what, got.BaseOffset, offset)
		}
	}
	for i := range int32(6) {
		produce(fmt.Sprintf("batch %d", i), batch(3*i), int64(3*i), nil)
	}
	unchanged := func(when string) {
		t.Helper()
		produce("a gap, "+when, batch(21), -1, kerr.OutOfOrderSequenceNumber)
		produce("part of a batch, "+when, batch(16), -1, kerr.OutOfOrderSequenceNumber)
		if end := endOffset(t, b, "once", 0); end != 18 {
			t.Fatalf("%s, the log ends at %d, want 18", when, end)
		}
	}
	five := func(when string) {
		t.Helper()
		for i := int32(1); i < 6; i++ {
			produce(fmt.Sprintf("batch %d again, %s", i, when), batch(3*i), int64(3*i), nil)
		}
		produce("batch 0, too old, "+when, batch(0), -1, kerr.DuplicateSequenceNumber)
		unchanged(when)
	}
	last := func(when string) {
		t.Helper()
		produce("the last batch again, "+when, batch(15), 15, nil)
		produce("the one before, "+when, batch(12), -1, kerr.OutOfOrderSequenceNumber)
		unchanged(when)
	}
	five("at once")
	b.Kill()
	b.Set("tier.roll.ms", "1s")
	b.Start()
	c = dialRaw(t, b.Addr)
	five("after a crash")
	waitOffLocal(t, b, "once", 0, 18)
	five("off the local disk")
	b.Restart()
	c = dialRaw(t, b.Addr)
	last("off the local disk, after a stop")
	b.Kill()
	b.Start()
	c = dialRaw(t, b.Addr)
	last("off the local disk, after a crash")

	produce("the next batch", batch(18), 18, nil)
	later := recordtest.Batch(0, recordtest.Producer(id, epoch+1, 0))
	produce("the next epoch", later, 21, nil)
	produce("the old epoch", batch(21), -1, kerr.InvalidProducerEpoch)
	produce("a new epoch that begins in the middle", recordtest.Batch(0, recordtest.Producer(id, epoch+2, 5)), -1, kerr.OutOfOrderSequenceNumber)
	values := 0
	consume(t, b, "once", 0, 0, 22, func(*kgo.Record) { values++ })
	if values != 22 {
		t.Errorf("%d records came back, want 22", values)
	}
}

// What a client gets for a duplicate must not come before the original is on
// disk; here only that it comes, for requests in flight together.
func TestIdempotentProducerInFlight(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "flight", 1)
	c := dialRaw(t, b.Addr)
	id, epoch := initProducer(c)
	reqs := make([]*kmsg.ProduceRequest, 10)
	for i := range reqs {
		// Each batch twice in a row.
		reqs[i] = produceRequest(newestProduce, acksAll, "flight", 0, recordtest.Batch(0, recordtest.Producer(id, epoch, int32(i/2))))
		c.send(reqs[i])
	}
	for i, req := range reqs {
		got := c.receive(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if got.ErrorCode != 0 || got.BaseOffset != int64(i/2) {
			t.Errorf("request %d: %+v", i, got)
		}
	}
	if end := endOffset(t, b, "flight", 0); end != 5 {
		t.Errorf("the log ends at %d, want 5", end)
	}
}

func TestLogAppendTime(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "stamped", 1, "message.timestamp.type=LogAppendTime")
	c := dialRaw(t, b.Addr)
	got := produceRaw(c, "stamped", recordtest.Batch(0, recordtest.Count(2), recordtest.Timestamp(12)))
	if got.ErrorCode != 0 || got.LogAppendTime < recordtest.DefaultTimestamp {
		t.Fatalf("%+v", got)
	}
	consume(t, b, "stamped", 0, 0, 2, func(r *kgo.Record) {
		if r.Timestamp.UnixMilli() != got.LogAppendTime || r.Attrs.TimestampType() != 1 {
			t.Errorf("record %d has the time %v of type %d, want %d", r.Offset, r.Timestamp.UnixMilli(), r.Attrs.TimestampType(), got.LogAppendTime)
		}
	})
}
