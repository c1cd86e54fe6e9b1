// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/hot"
	"firn/partition"
	"firn/record"
	"firn/record/recordtest"
	"firn/wire"
)

// inTxn is a transactional batch of two records.
func inTxn(id int64, epoch int16, sequence int32) []byte {
	return recordtest.Batch(0, recordtest.Count(2), recordtest.Producer(id, epoch, sequence), recordtest.Transactional())
}

// from appends to a partition as an origin that no request has.
func from(t *testing.T, p *partition.Partition, origin hot.Origin, b []byte) {
	t.Helper()
	if _, err := p.AppendFrom(origin, bytes.Clone(b), partition.AcksLeader); err != nil {
		t.Fatal(err)
	}
}

func produceRaw(t *testing.T, b *Broker, topic string, transactionalID *string, records []byte) (int16, int64) {
	t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(11)
	req.TransactionID, req.Acks, req.TimeoutMillis = transactionalID, -1, 10_000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = bytes.Clone(records)
	ask := kmsg.NewProduceRequestTopic()
	ask.Topic, ask.Partitions = topic, []kmsg.ProduceRequestTopicPartition{part}
	req.Topics = []kmsg.ProduceRequestTopic{ask}
	got := call[*kmsg.ProduceResponse](t, b, req).Topics[0].Partitions[0]
	return got.ErrorCode, got.BaseOffset
}

// TestProduceJudgesTransactionsAsKafka: without a coordinator nothing begins a
// transaction; one that is under way in the partition goes on.
func TestProduceJudgesTransactionsAsKafka(t *testing.T) {
	b := newSite(t).start()
	makeTopic(t, b, "local-txns", 1, nil)
	p := appendTo(t, b, "local-txns", 0, 1) // 0 to 9
	from(t, p, hot.VerifiedClient, inTxn(7, 1, 0))
	id := "payments"
	marker := recordtest.Marker(0, 7, 1, record.Marker{Abort: true})
	bare := recordtest.Batch(0, recordtest.Producer(7, 1, -1), recordtest.Control())
	for _, tt := range []struct {
		name    string
		id      *string
		records []byte
		want    *kerr.Error
	}{
		{"no transactional id", nil, inTxn(7, 1, 2), kerr.TransactionalIDAuthorizationFailed},
		{"a transaction that nobody knows", &id, inTxn(8, 0, 0), kerr.InvalidTxnState},
		{"a newer epoch's", &id, inTxn(7, 2, 0), kerr.InvalidTxnState},
		{"an older epoch's", &id, inTxn(7, 0, 0), kerr.InvalidProducerEpoch},
		{"a gap in it", &id, inTxn(7, 1, 5), kerr.OutOfOrderSequenceNumber},
		{"outside of it", &id, recordtest.Batch(0, recordtest.Producer(7, 1, 2)), kerr.InvalidTxnState},
		{"a marker", &id, marker, kerr.InvalidRecord},
		{"a marker without an id", nil, marker, kerr.InvalidRecord},
		{"a control batch", nil, bare, kerr.InvalidRecord},
	} {
		if code, _ := produceRaw(t, b, "local-txns", tt.id, tt.records); code != tt.want.Code {
			t.Errorf("%s: %v, want %v", tt.name, kerr.ErrorForCode(code), tt.want)
		}
	}
	if p.EndOffset() != 12 {
		t.Fatalf("the log ends at %d, what was refused is in it", p.EndOffset())
	}
	for range 2 { // the second is a duplicate
		if code, base := produceRaw(t, b, "local-txns", &id, inTxn(7, 1, 2)); code != 0 || base != 12 {
			t.Errorf("the transaction goes on: %v at %d, want offset 12", kerr.ErrorForCode(code), base)
		}
	}
	from(t, p, hot.Coordinator, marker)
	if code, _ := produceRaw(t, b, "local-txns", &id, inTxn(7, 1, 4)); code != kerr.InvalidTxnState.Code {
		t.Errorf("after its end: %v", kerr.ErrorForCode(code))
	}
}

// fetched is what one Fetch says of a partition.
type fetched struct {
	partition kmsg.FetchResponseTopicPartition
	records   []byte
	zeroCopy  bool
}

// fetchOnce asks for one partition, at one isolation level.
func fetchOnce(t *testing.T, b *Broker, conn uint64, topic string, offset int64, level partition.Isolation) fetched {
	t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(12)
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 500, 1, 1<<20, int8(level)
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes = offset, 1<<20
	ask := kmsg.NewFetchRequestTopic()
	ask.Topic, ask.Partitions = topic, []kmsg.FetchRequestTopicPartition{part}
	req.Topics = []kmsg.FetchRequestTopic{ask}
	answer, err := b.Handle(t.Context(), &wire.Request{Key: req.Key(), Version: req.GetVersion(), Message: req, Conn: wire.ConnInfo{ID: conn}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := answer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Done(true)
	var all []byte
	var got fetched
	for _, part := range resp.Parts {
		if part.Region == nil {
			all = append(all, part.Bytes...)
			continue
		}
		got.zeroCopy = true
		piece := make([]byte, part.Region.Len())
		if n, err := part.Region.ReadAt(piece, 0); n < len(piece) {
			t.Fatal(err)
		}
		all = append(all, piece...)
	}
	decoded := kmsg.NewPtrFetchResponse()
	decoded.SetVersion(12)
	if err := decoded.ReadFrom(all[4+4+1:]); err != nil { // length, correlation id, tags
		t.Fatal(err)
	}
	got.partition = decoded.Topics[0].Partitions[0]
	got.records = slices.Clone(got.partition.RecordBatches)
	return got
}

func TestFetchNamesTheAbortedTransactions(t *testing.T) {
	b := newSite(t).start()
	makeTopic(t, b, "local-fetch", 1, nil)
	p := appendTo(t, b, "local-fetch", 0, 1)                                            // 0 to 9
	from(t, p, hot.VerifiedClient, inTxn(7, 0, 0))                                      // 10, 11
	from(t, p, hot.VerifiedClient, inTxn(8, 0, 0))                                      // 12, 13
	from(t, p, hot.Coordinator, recordtest.Marker(0, 7, 0, record.Marker{Abort: true})) // 14
	from(t, p, hot.Coordinator, recordtest.Marker(0, 8, 0, record.Marker{}))            // 15
	from(t, p, hot.VerifiedClient, inTxn(9, 0, 0))                                      // 16, 17
	all := fetchOnce(t, b, 1, "local-fetch", 0, partition.ReadUncommitted)
	if all.partition.AbortedTransactions != nil || all.partition.HighWatermark != 18 || all.partition.LastStableOffset != 16 {
		t.Fatalf("read_uncommitted: %+v", all.partition)
	}
	committed := fetchOnce(t, b, 1, "local-fetch", 0, partition.ReadCommitted)
	want := []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 7, FirstOffset: 10}}
	got := committed.partition.AbortedTransactions
	if len(got) != 1 || got[0].ProducerID != want[0].ProducerID || got[0].FirstOffset != want[0].FirstOffset {
		t.Fatalf("aborted are %+v, want %+v", got, want)
	}
	if !committed.zeroCopy || !bytes.HasPrefix(all.records, committed.records) || len(committed.records) == 0 {
		t.Fatalf("the batches are not those of the log: %d of %d bytes, region %v", len(committed.records), len(all.records), committed.zeroCopy)
	}
	last := record.Offset(0)
	for rest := committed.records; len(rest) > 0; {
		batch, after, err := record.SplitBatch(rest)
		if err != nil {
			t.Fatal(err)
		}
		last, rest = batch.Header().NextOffset(), after
	}
	if last != 16 {
		t.Errorf("read_committed reaches %d, want the last stable offset 16", last)
	}
	if at := fetchOnce(t, b, 1, "local-fetch", 15, partition.ReadCommitted); len(at.partition.AbortedTransactions) != 0 || at.partition.AbortedTransactions == nil {
		t.Errorf("behind the abort: %+v, want an empty list", at.partition.AbortedTransactions)
	}
	if at := fetchOnce(t, b, 1, "local-fetch", 16, partition.ReadCommitted); len(at.records) != 0 || at.partition.ErrorCode != 0 {
		t.Errorf("in the open transaction: %+v", at.partition)
	}
}

func TestListOffsetsGoesByTheIsolationLevel(t *testing.T) {
	b := newSite(t).start()
	makeTopic(t, b, "local-list", 1, nil)
	p := appendTo(t, b, "local-list", 0, 1)
	open := recordtest.Batch(0, recordtest.Producer(7, 0, 0), recordtest.Transactional(), recordtest.Timestamp(time.Now().UnixMilli()))
	from(t, p, hot.VerifiedClient, open)
	list := func(level partition.Isolation, timestamp int64) int64 {
		req := kmsg.NewPtrListOffsetsRequest()
		req.SetVersion(7)
		req.IsolationLevel = int8(level)
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Timestamp = timestamp
		ask := kmsg.NewListOffsetsRequestTopic()
		ask.Topic, ask.Partitions = "local-list", []kmsg.ListOffsetsRequestTopicPartition{part}
		req.Topics = []kmsg.ListOffsetsRequestTopic{ask}
		got := call[*kmsg.ListOffsetsResponse](t, b, req).Topics[0].Partitions[0]
		if got.ErrorCode != 0 {
			t.Fatal(kerr.ErrorForCode(got.ErrorCode))
		}
		return got.Offset
	}
	for _, tt := range []struct {
		level     partition.Isolation
		timestamp int64
		want      int64
	}{
		{partition.ReadUncommitted, timestampLatest, 11}, {partition.ReadCommitted, timestampLatest, 10},
		{partition.ReadUncommitted, recordtest.DefaultTimestamp + 1, 10}, {partition.ReadCommitted, recordtest.DefaultTimestamp + 1, -1},
		{partition.ReadUncommitted, timestampMax, 10}, {partition.ReadCommitted, timestampMax, 0},
		{partition.ReadCommitted, timestampEarliest, 0},
	} {
		if got := list(tt.level, tt.timestamp); got != tt.want {
			t.Errorf("level %d, time %d: offset %d, want %d", tt.level, tt.timestamp, got, tt.want)
		}
	}
}
