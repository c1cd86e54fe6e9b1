// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/internal/testutil"
	"firn/record"
	"firn/record/recordtest"
)

const (
	oldestFetch = 4
	newestFetch = 18
	// forever is a fetch's wait that no test outlives: an answer that comes
	// was not brought by the clock.
	forever = 10 * time.Minute

	// Where onEachTier has its topic.
	local   = "local"
	inStore = "store"
)

// fetchTopic is a topic as Fetch names it: by name up to version 12, then by
// id.
type fetchTopic struct {
	name string
	id   [16]byte
}

func fetchTopicOf(c *raw, name string) fetchTopic {
	c.t.Helper()
	return fetchTopic{name, metadata(c, 12, false, name).Topics[0].TopicID}
}

// fetchPartition is what a fetch asks of one partition.
type fetchPartition struct {
	topic     fetchTopic
	partition int32
	offset    int64
	maxBytes  int32 // 1 MiB when 0
}

// fetchRequest asks for partitions in their order, without a wait.
func fetchRequest(version int16, partitions ...fetchPartition) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes = version, 50<<20, 1
	for _, one := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = one.partition, one.offset, max(one.maxBytes, 1)
		if one.maxBytes == 0 {
			p.PartitionMaxBytes = 1 << 20
		}
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic, topic.TopicID, topic.Partitions = one.topic.name, one.topic.id, append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// fetched are the partitions of an answer, in the order of the request.
func fetched(c *raw, req *kmsg.FetchRequest) []kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	c.send(req)
	return receiveFetch(c, req)
}

// wanted names a partition as a request of its version does.
type wanted struct {
	topic     string
	id        [16]byte
	partition int32
}

// wantedOf are the partitions of a request, in their order.
func wantedOf(req *kmsg.FetchRequest) (all []wanted) {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if req.Version < 13 {
				all = append(all, wanted{topic: t.Topic, partition: p.Partition})
			} else {
				all = append(all, wanted{id: t.TopicID, partition: p.Partition})
			}
		}
	}
	return all
}

func receiveFetch(c *raw, req *kmsg.FetchRequest) []kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	resp := c.receive(req).(*kmsg.FetchResponse)
	wantCode(c.t, "fetch", resp.ErrorCode, nil)
	if resp.SessionID != 0 {
		c.t.Fatalf("fetch: session %d", resp.SessionID)
	}
	wants := wantedOf(req)
	var all []kmsg.FetchResponseTopicPartition
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if got := (wanted{topic.Topic, topic.TopicID, p.Partition}); len(wants) == 0 || got != wants[0] {
				c.t.Fatalf("fetch: got %v, want %v", got, wants)
			}
			wants, all = wants[1:], append(all, p)
		}
	}
	if len(wants) > 0 {
		c.t.Fatalf("fetch: %v are missing", wants)
	}
	return all
}

// fetchData fetches one partition until it has data: cold data may come with a
// later fetch.
func fetchData(c *raw, req *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		got := fetched(c, req)[0]
		if len(got.RecordBatches) > 0 || got.ErrorCode != 0 {
			return got
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("no data came: %+v", got)
		}
	}
}

// headersOf takes an answer's batches apart; each must be whole.
func headersOf(t testing.TB, batches []byte) []record.Header {
	t.Helper()
	var headers []record.Header
	for len(batches) > 0 {
		batch, rest, err := record.SplitBatch(batches)
		if err == nil {
			err = batch.CheckCRC()
		}
		if err != nil {
			t.Fatalf("batch %d of an answer: %v", len(headers), err)
		}
		headers = append(headers, batch.Header())
		batches = rest
	}
	return headers
}

// onEachTier runs a test on a topic with n batches of three records, of a
// little over 1,000 bytes each: once while it is local and once when only the
// store has it.
func onEachTier(t *testing.T, partitions int32, n int, test func(t *testing.T, tier string, b *testutil.Broker, c *raw, topic fetchTopic)) {
	b := testutil.StartBroker(t, tiered(testutil.StartGateway(t), "s3", keepLocal))
	createTopic(t, b, "tiers", partitions, "retention.ms=-1", "local.retention.ms=1")
	c := dialRaw(t, b.Addr)
	for p := range partitions {
		for range n {
			resp := ask[*kmsg.ProduceResponse](c, produceRequest(newestProduce, acksAll, "tiers", p, recordtest.Batch(0, recordtest.ValueSize(3, 333))))
			wantCode(t, "produce", resp.Topics[0].Partitions[0].ErrorCode, nil)
		}
	}
	topic := fetchTopicOf(c, "tiers")
	t.Run(local, func(t *testing.T) { test(t, local, b, dialRaw(t, b.Addr), topic) })
	b.Set("log.retention.check.interval.ms", "100ms")
	b.Restart()
	for p := range partitions {
		waitOffLocal(t, b, "tiers", p, int64(3*n))
	}
	t.Run(inStore, func(t *testing.T) { test(t, inStore, b, dialRaw(t, b.Addr), topic) })
}

// Every version answers the same bytes, out of both tiers.
func TestFetchVersions(t *testing.T) {
	var want []byte
	onEachTier(t, 1, 4, func(t *testing.T, _ string, b *testutil.Broker, c *raw, topic fetchTopic) {
		if want == nil {
			want = readFile(t, logFiles(t, b, "tiers", 0)[0])
		}
		for version := int16(oldestFetch); version <= newestFetch; version++ {
			for _, isolation := range []int8{0, 1} {
				req := fetchRequest(version, fetchPartition{topic: topic})
				req.IsolationLevel = isolation
				got := fetchData(c, req)
				what := fmt.Sprintf("version %d", version)
				wantCode(t, what, got.ErrorCode, nil)
				if !bytes.Equal(got.RecordBatches, want) {
					t.Errorf("%s: %d bytes, want the %d of the log", what, len(got.RecordBatches), len(want))
				}
				if got.HighWatermark != 12 || got.LastStableOffset != 12 || version >= 5 && got.LogStartOffset != 0 {
					t.Errorf("%s: watermark %d, stable %d, start %d", what, got.HighWatermark, got.LastStableOffset, got.LogStartOffset)
				}
				if len(got.AbortedTransactions) != 0 || version >= 11 && got.PreferredReadReplica != -1 {
					t.Errorf("%s: %d aborted transactions, preferred replica %d", what, len(got.AbortedTransactions), got.PreferredReadReplica)
				}
			}
		}
		// From within a batch the batch comes whole; from the end nothing.
		for from := int64(0); from < 12; from++ {
			got := headersOf(t, fetchData(c, fetchRequest(newestFetch, fetchPartition{topic: topic, offset: from})).RecordBatches)
			if int64(got[0].BaseOffset) != from/3*3 || int64(got[len(got)-1].NextOffset()) != 12 {
				t.Errorf("from %d: batches %v to %v", from, got[0].BaseOffset, got[len(got)-1].NextOffset())
			}
		}
		end := fetched(c, fetchRequest(newestFetch, fetchPartition{topic: topic, offset: 12}))[0]
		if end.ErrorCode != 0 || len(end.RecordBatches) != 0 || end.HighWatermark != 12 {
			t.Errorf("from the end: %+v", end)
		}
	})
}

// Max bytes bound the answer, except that its first batch always comes.
func TestFetchMaxBytes(t *testing.T) {
	onEachTier(t, 2, 10, func(t *testing.T, tier string, b *testutil.Broker, c *raw, topic fetchTopic) {
		first := fetchData(c, fetchRequest(newestFetch, fetchPartition{topic: topic, maxBytes: 1}))
		batch := int32(len(first.RecordBatches))
		if n := len(headersOf(t, first.RecordBatches)); n != 1 {
			t.Fatalf("%d batches for a partition limit of 1 byte, want 1", n)
		}
		for _, one := range []struct {
			limit, partition, second int32
			want                     [2]int // batches
		}{
			{1, 1, 1, [2]int{1, 0}},
			{1, 1 << 20, 1 << 20, [2]int{1, 0}},
			{50 << 20, 1, 1, [2]int{1, 0}},
			{50 << 20, 2*batch + 500, 3 * batch, [2]int{2, 3}},
			{2*batch + 500, 1 << 20, 1 << 20, [2]int{2, 0}},
			{3 * batch, 2 * batch, 2 * batch, [2]int{2, 1}},
			{50 << 20, 1 << 20, 1 << 20, [2]int{10, 10}},
		} {
			req := fetchRequest(newestFetch,
				fetchPartition{topic: topic, partition: 0, maxBytes: one.partition}, fetchPartition{topic: topic, partition: 1, maxBytes: one.second})
			req.MaxBytes = one.limit
			// Cold data comes as it gets ready, with one fetch or the next;
			// each answer keeps the rules.
			what := fmt.Sprintf("limits %d, %d and %d", one.limit, one.partition, one.second)
			var most [2]int
			waitFor(t, what, func() (bool, any) {
				got := fetched(c, req)
				var n [2]int
				total := 0
				for i, p := range got {
					wantCode(t, what, p.ErrorCode, nil)
					n[i] = len(headersOf(t, p.RecordBatches))
					total += len(p.RecordBatches)
				}
				if total > int(one.limit) && n[0]+n[1] > 1 {
					t.Errorf("%s: %d bytes in %v batches", what, total, n)
				}
				if tier == local {
					return n == one.want, n
				}
				for i := range most {
					most[i] = max(most[i], n[i])
				}
				return most[0] >= one.want[0] && most[1] >= one.want[1], most
			})
		}
		// What an earlier fetch with larger limits left may still come: hence
		// connections of their own.
		c = dialRaw(t, b.Addr)
		zero := fetchRequest(newestFetch, fetchPartition{topic: topic})
		zero.MaxBytes, zero.Topics[0].Partitions[0].PartitionMaxBytes = 0, 0
		if n := len(headersOf(t, fetchData(c, zero).RecordBatches)); n != 1 {
			t.Errorf("%d batches for limits of 0, want the first", n)
		}
		c = dialRaw(t, b.Addr)
		negative := fetchRequest(newestFetch, fetchPartition{topic: topic})
		negative.MaxBytes, negative.Topics[0].Partitions[0].PartitionMaxBytes = -1, -1
		if n := len(headersOf(t, fetchData(c, negative).RecordBatches)); n != 1 {
			t.Errorf("%d batches for negative limits, want the first", n)
		}
	})
}

// An offset in neither tier is an error, at once and however long the fetch
// would wait.
func TestFetchOutOfRange(t *testing.T) {
	b := testutil.StartBroker(t, tiered(testutil.StartGateway(t), "s3", map[string]string{"tier.roll.ms": "1h"}))
	createTopic(t, b, "range", 1, "segment.bytes=1048576", "retention.bytes=2097152", "local.retention.bytes=1")
	text := textFor(t, 0)[:5<<20]
	franz.produce(t, b, "range", 0, text)
	var start int64
	waitFor(t, "the log start to rise", func() (bool, any) {
		starts, err := kadm.NewClient(b.Client()).ListStartOffsets(t.Context(), "range")
		if err != nil {
			t.Fatal(err)
		}
		one, _ := starts.Lookup("range", 0)
		start = one.Offset
		segments := segmentsOf(t, b, "range", 0)
		kept := -segments[0].Bytes
		for _, s := range segments {
			kept += s.Bytes
		}
		return start > 0 && start == segments[0].From && kept < 2<<20, segments
	})
	end := endOffset(t, b, "range", 0)
	c := dialRaw(t, b.Addr)
	topic := fetchTopicOf(c, "range")
	for _, bad := range []int64{0, start - 1, end + 1, end + 1000, 1<<63 - 1, -1, -2, -1 << 63} {
		for _, version := range []int16{oldestFetch, 11, newestFetch} {
			req := fetchRequest(version, fetchPartition{topic: topic, offset: bad})
			req.MaxWaitMillis, req.MinBytes = int32(forever.Milliseconds()), 1<<20
			got := fetched(c, req)[0]
			wantCode(t, fmt.Sprintf("offset %d of %d to %d", bad, start, end), got.ErrorCode, kerr.OffsetOutOfRange)
			if len(got.RecordBatches) != 0 {
				t.Errorf("offset %d: %d bytes came with the error", bad, len(got.RecordBatches))
			}
		}
	}
	if got := headersOf(t, fetchData(c, fetchRequest(newestFetch, fetchPartition{topic: topic, offset: start})).RecordBatches); int64(got[0].BaseOffset) > start {
		t.Errorf("the earliest offset %d gives batches from %d", start, got[0].BaseOffset)
	}
	// A client that was there before goes on at the earliest offset.
	client := b.Client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"range": {0: kgo.NewOffset().At(0)}}), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if r := client.PollRecords(t.Context(), 1).Records(); len(r) != 1 || r[0].Offset < start {
		t.Errorf("franz-go, sent to 0, is given %+v, want something from %d up", r, start)
	}
}

func TestFetchErrors(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "known", 1)
	c := dialRaw(t, b.Addr)
	produceRaw(c, "known", recordtest.Batch(0))
	known := fetchTopicOf(c, "known")
	epoch := metadata(c, 12, false, "known").Topics[0].Partitions[0].LeaderEpoch
	for version := int16(oldestFetch); version <= newestFetch; version++ {
		what := fmt.Sprintf("version %d", version)
		unknown := kerr.UnknownTopicOrPartition
		if version >= 13 {
			unknown = kerr.UnknownTopicID
		}
		// Errors do not wait, whatever the request says, and come with the
		// data that there is.
		req := fetchRequest(version,
			fetchPartition{topic: fetchTopic{"nowhere", [16]byte{1}}},
			fetchPartition{topic: known, partition: 7},
			fetchPartition{topic: known})
		req.MinBytes, req.MaxWaitMillis = 1<<20, int32(forever.Milliseconds())
		got := fetched(c, req)
		wantCode(t, what+", an unknown topic", got[0].ErrorCode, unknown)
		wantCode(t, what+", an unknown partition", got[1].ErrorCode, kerr.UnknownTopicOrPartition)
		wantCode(t, what+", a known one", got[2].ErrorCode, nil)
		if len(got[2].RecordBatches) == 0 {
			t.Errorf("%s: no data beside errors", what)
		}
		if version < 9 {
			continue
		}
		for of, want := range map[int32]*kerr.Error{epoch - 1: kerr.FencedLeaderEpoch, epoch + 1: kerr.UnknownLeaderEpoch, epoch: nil, -1: nil} {
			if of < -1 {
				continue
			}
			req := fetchRequest(version, fetchPartition{topic: known})
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = of
			if of == -1 {
				want = nil
			}
			wantCode(t, fmt.Sprintf("%s, epoch %d of %d", what, of, epoch), fetched(c, req)[0].ErrorCode, want)
		}
	}
}

// A parked fetch is woken by the append that it waits for. The wait is longer
// than the test: a lost wake-up shows as an answer that does not come.
func TestFetchLongPoll(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "poll", 2)
	writer, reader := dialRaw(t, b.Addr), dialRaw(t, b.Addr)
	topic := fetchTopicOf(writer, "poll")
	batch := recordtest.Batch(0)
	next := int64(0)
	for round := range 300 {
		acks := []int16{acksAll, acksOne}[round%2]
		req := fetchRequest(newestFetch, fetchPartition{topic: topic, partition: 1}, fetchPartition{topic: topic, offset: next})
		req.MaxWaitMillis = int32(forever.Milliseconds())
		reader.send(req)
		if round%3 == 0 {
			// Lets the fetch park first; without it append and fetch race.
			topicNames(writer)
		}
		resp := ask[*kmsg.ProduceResponse](writer, produceRequest(newestProduce, acks, "poll", 0, batch))
		wantCode(t, "produce", resp.Topics[0].Partitions[0].ErrorCode, nil)
		got := receiveFetch(reader, req)
		if h := headersOf(t, got[1].RecordBatches); len(h) != 1 || int64(h[0].BaseOffset) != next || len(got[0].RecordBatches) != 0 {
			t.Fatalf("round %d: %+v", round, h)
		}
		next++
	}
	// Min bytes: one batch is not enough, two are.
	req := fetchRequest(newestFetch, fetchPartition{topic: topic, offset: next}, fetchPartition{topic: topic, partition: 1})
	req.MaxWaitMillis, req.MinBytes = int32(forever.Milliseconds()), int32(2*len(batch))
	reader.send(req)
	for p := range int32(2) {
		ask[*kmsg.ProduceResponse](writer, produceRequest(newestProduce, acksAll, "poll", p, batch))
	}
	got := receiveFetch(reader, req)
	if total := len(got[0].RecordBatches) + len(got[1].RecordBatches); total != 2*len(batch) {
		t.Errorf("a fetch of at least %d bytes was answered with %d", 2*len(batch), total)
	}
	// Without an append the wait ends by itself, with an empty answer.
	req = fetchRequest(newestFetch, fetchPartition{topic: topic, offset: next + 1})
	req.MaxWaitMillis = 50
	if got := fetched(reader, req)[0]; got.ErrorCode != 0 || len(got.RecordBatches) != 0 || got.HighWatermark != next+1 {
		t.Errorf("after the wait: %+v", got)
	}
}

// Many parked fetches are all woken by one append, and go on when some of
// their connections have gone away.
func TestFetchLongPollOfMany(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "poll", 1)
	writer := dialRaw(t, b.Addr)
	topic := fetchTopicOf(writer, "poll")
	readers := make([]*raw, 100)
	req := fetchRequest(newestFetch, fetchPartition{topic: topic})
	req.MaxWaitMillis = int32(forever.Milliseconds())
	for i := range readers {
		readers[i] = dialRaw(t, b.Addr)
		readers[i].send(req)
		if i%2 == 1 {
			_ = readers[i].conn.Close() // it is open
		}
	}
	wantCode(t, "produce", produceRaw(writer, "poll", recordtest.Batch(0)).ErrorCode, nil)
	for i := 0; i < len(readers); i += 2 {
		if got := receiveFetch(readers[i], req)[0]; len(got.RecordBatches) == 0 {
			t.Errorf("reader %d: %+v", i, got)
		}
	}
}

// A fetch that is parked on a topic is answered when the topic goes.
func TestFetchOfADeletedTopic(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "gone", 1)
	c, reader := dialRaw(t, b.Addr), dialRaw(t, b.Addr)
	topic := fetchTopicOf(c, "gone")
	req := fetchRequest(newestFetch, fetchPartition{topic: topic})
	req.MaxWaitMillis = int32(forever.Milliseconds())
	reader.send(req)
	topicNames(c)
	wantCode(t, "delete", deleteRaw(c, 6, []string{"gone"}, nil)[0].ErrorCode, nil)
	if got := receiveFetch(reader, req)[0]; got.ErrorCode == 0 {
		t.Errorf("the parked fetch is answered %+v, want an error", got)
	}
	wantCode(t, "the next fetch", fetched(reader, req)[0].ErrorCode, kerr.UnknownTopicID)
}

// No client names a partition twice in one request. It is answered twice, if
// not twice with data.
func TestFetchOfAPartitionTwice(t *testing.T) {
	onEachTier(t, 1, 4, func(t *testing.T, _ string, _ *testutil.Broker, c *raw, topic fetchTopic) {
		req := fetchRequest(newestFetch, fetchPartition{topic: topic}, fetchPartition{topic: topic, offset: 6})
		waitFor(t, "data", func() (bool, any) {
			got := fetched(c, req)
			for i, p := range got {
				wantCode(t, fmt.Sprint("place ", i), p.ErrorCode, nil)
				if h := headersOf(t, p.RecordBatches); len(h) > 0 && int64(h[0].BaseOffset) != int64(6*i) {
					t.Errorf("place %d begins at %d", i, h[0].BaseOffset)
				}
			}
			return len(got) == 2 && len(got[0].RecordBatches) > 0, nil
		})
	})
}

// Hot data does not wait for the store, cold data is answered empty with its
// true offsets while the store hangs, and comes when it is back.
func TestFetchWhileTheStoreHangs(t *testing.T) {
	g := testutil.StartGateway(t)
	b := testutil.StartBroker(t, tiered(g, "s3", nil))
	createTopic(t, b, "cold", 1, "retention.ms=-1", "local.retention.ms=1")
	createTopic(t, b, "hot", 1, "retention.ms=-1", "remote.storage.enable=false")
	c := dialRaw(t, b.Addr)
	produceRaw(c, "cold", recordtest.Batch(0, recordtest.Count(9)))
	produceRaw(c, "hot", recordtest.Batch(0, recordtest.Count(5)))
	waitOffLocal(t, b, "cold", 0, 9)
	cold, hot := fetchTopicOf(c, "cold"), fetchTopicOf(c, "hot")

	g.Pause()
	req := fetchRequest(newestFetch, fetchPartition{topic: cold}, fetchPartition{topic: hot})
	req.MaxWaitMillis = int32(forever.Milliseconds())
	got := fetched(c, req)
	wantCode(t, "cold", got[0].ErrorCode, nil)
	if len(got[0].RecordBatches) != 0 || got[0].HighWatermark != 9 || got[0].LogStartOffset != 0 || len(got[1].RecordBatches) == 0 {
		t.Errorf("while the store hangs: %+v", got)
	}
	// Cold data alone: the answer is empty after the wait for the store.
	alone := fetchRequest(newestFetch, fetchPartition{topic: cold})
	if got := fetched(c, alone)[0]; got.ErrorCode != 0 || len(got.RecordBatches) != 0 || got.HighWatermark != 9 {
		t.Errorf("cold alone: %+v", got)
	}
	// Another connection is not held up at all.
	other := dialRaw(t, b.Addr)
	wantCode(t, "produce beside it", produceRaw(other, "hot", recordtest.Batch(0)).ErrorCode, nil)
	if got := fetched(other, fetchRequest(newestFetch, fetchPartition{topic: hot, offset: 5}))[0]; len(got.RecordBatches) == 0 {
		t.Errorf("hot data on another connection: %+v", got)
	}
	g.Resume()
	waitFor(t, "cold data once the store is back", func() (bool, any) {
		got := fetched(c, alone)[0]
		return len(got.RecordBatches) > 0, got
	})
}

// One client reads hot and cold partitions at once.
func TestFetchOfManyPartitions(t *testing.T) {
	b := testutil.StartBroker(t, tiered(testutil.StartGateway(t), "minio", nil))
	const partitions, records = 8, 500
	createTopic(t, b, "cold", partitions, "local.retention.ms=1", "segment.bytes=1048576")
	createTopic(t, b, "hot", partitions, "remote.storage.enable=false")
	for _, topic := range []string{"cold", "hot"} {
		for p := range int32(partitions) {
			produceAll(t, b, topic, p, numbered(0, records))
		}
	}
	for p := range int32(partitions) {
		waitOffLocal(t, b, "cold", p, records)
	}
	client := b.Client(kgo.ConsumeTopics("cold", "hot"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	type place struct {
		topic     string
		partition int32
	}
	next := make(map[place]int64)
	for n := 0; n < 2*partitions*records; {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for r := range fetches.RecordsAll() {
			at := place{r.Topic, r.Partition}
			if r.Offset != next[at] || string(r.Value) != fmt.Sprintf("value-%d", r.Offset) {
				t.Fatalf("%v: offset %d with %q, want %d", at, r.Offset, r.Value, next[at])
			}
			next[at]++
			n++
		}
	}
}
