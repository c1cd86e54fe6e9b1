// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/console"
	"firn/internal/testutil"
	"firn/record"
	"firn/record/recordtest"
)

// Timestamps of ListOffsets that mark an offset, and the first version that
// knows each.
var marks = map[int64]int16{-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}

const newestListOffsets = 11

// found is what ListOffsets tells.
type found struct {
	offset, timestamp int64
}

func listOffsetRaw(c *raw, version int16, topic string, partition int32, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = version
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, timestamp
	one := kmsg.NewListOffsetsRequestTopic()
	one.Topic, one.Partitions = topic, append(one.Partitions, p)
	req.Topics = append(req.Topics, one)
	return ask[*kmsg.ListOffsetsResponse](c, req).Topics[0].Partitions[0]
}

// history is a plain model of a partition: the timestamp of each record.
type history []int64

// at is the first record whose timestamp is at least ts.
func (h history) at(ts int64) found {
	for offset, one := range h {
		if one >= ts {
			return found{int64(offset), one}
		}
	}
	return found{-1, -1}
}

// last is the first record with the largest timestamp.
func (h history) last() found {
	largest := slices.Max(h)
	return found{int64(slices.Index(h, largest)), largest}
}

// append adds a batch to the model and makes it: n records whose timestamps
// wander, forth and now and then back.
func (h *history) batch(random *rand.Rand, n int, size int) []*kgo.Record {
	records := make([]*kgo.Record, n)
	for i := range records {
		previous := recordtest.DefaultTimestamp
		if len(*h) > 0 {
			previous = (*h)[len(*h)-1]
		}
		ts := previous + random.Int64N(100) - 20
		*h = append(*h, ts)
		records[i] = &kgo.Record{Topic: "times", Value: make([]byte, size), Timestamp: time.UnixMilli(ts)}
		for j := range records[i].Value {
			records[i].Value[j] = byte(random.Uint32())
		}
	}
	return records
}

// Looking up an offset by time gives what a plain look at all records gives,
// wherever the records lie and however they are compressed.
func TestListOffsetsByTime(t *testing.T) {
	b := testutil.StartBroker(t, tiered(testutil.StartGateway(t), "s3", map[string]string{"tier.roll.ms": "1h"}))
	createTopic(t, b, "times", 1, "retention.ms=-1", "segment.bytes=1048576", "local.retention.bytes=1500000")
	random := rand.New(rand.NewPCG(1, 2))
	var model history
	for i := range 60 {
		cl := b.Client(kgo.ProducerBatchCompression(codecs[i%len(codecs)].franz), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err := cl.ProduceSync(t.Context(), model.batch(random, 1+random.IntN(60), 3000)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		cl.Close()
	}
	var seam int64
	waitFor(t, "a history in both tiers", func() (bool, any) {
		segments := segmentsOf(t, b, "times", 0)
		kept := int64(0)
		for _, s := range segments {
			if s.Tier == console.TierLocal || s.Tier == console.TierBoth {
				if kept == 0 {
					seam = s.From
				}
				kept += s.Bytes
			}
		}
		return segments[0].Tier == console.TierStore && segments[1].Tier == console.TierStore && kept < 3<<20, segments
	})
	t.Logf("%d records, of which those below %d are in the store alone", len(model), seam)

	for round := range 2 {
		c := dialRaw(t, b.Addr)
		times := []int64{0, 1, model[0], model.last().timestamp, model.last().timestamp + 1, 1 << 60}
		for range 150 {
			times = append(times, model[random.IntN(len(model))]+random.Int64N(3)-1)
		}
		for _, offset := range []int64{seam - 1, seam, seam + 1} {
			times = append(times, model[offset]-1, model[offset], model[offset]+1)
		}
		for i, ts := range times {
			version := int16(1 + i%newestListOffsets)
			got := listOffsetRaw(c, version, "times", 0, ts)
			wantCode(t, "by time", got.ErrorCode, nil)
			if (found{got.Offset, got.Timestamp}) != model.at(ts) {
				t.Errorf("round %d, version %d, time %d: %+v, want %+v", round, version, ts, got, model.at(ts))
			}
			if version >= 4 && got.Offset >= 0 && got.LeaderEpoch < 0 {
				t.Errorf("time %d: no leader epoch", ts)
			}
		}
		if got := listOffsetRaw(c, newestListOffsets, "times", 0, -3); (found{got.Offset, got.Timestamp}) != model.last() {
			t.Errorf("round %d, the largest time: %+v, want %+v", round, got, model.last())
		}
		b.Restart()
	}
}

func TestListOffsetsMarks(t *testing.T) {
	b := testutil.StartBroker(t, tiered(testutil.StartGateway(t), "s3", keepLocal))
	createTopic(t, b, "marks", 1, "retention.ms=-1", "local.retention.ms=1")
	createTopic(t, b, "local", 1, "retention.ms=-1", "remote.storage.enable=false")
	createTopic(t, b, "empty", 1)
	c := dialRaw(t, b.Addr)
	want := func(topic string, offsets map[int64]int64) {
		t.Helper()
		for mark, since := range marks {
			for version := int16(1); version <= newestListOffsets; version++ {
				got := listOffsetRaw(c, version, topic, 0, mark)
				what := fmt.Sprintf("%s, mark %d, version %d", topic, mark, version)
				if version < since {
					wantCode(t, what, got.ErrorCode, kerr.UnsupportedVersion)
					continue
				}
				wantCode(t, what, got.ErrorCode, nil)
				if got.Offset != offsets[mark] {
					t.Errorf("%s: offset %d, want %d", what, got.Offset, offsets[mark])
				}
				if version >= 4 && got.Offset >= 0 && got.LeaderEpoch < 0 {
					t.Errorf("%s: no leader epoch", what)
				}
			}
		}
	}
	want("empty", map[int64]int64{-1: 0, -2: 0, -3: -1, -4: 0, -5: -1, -6: 0})
	for _, topic := range []string{"marks", "local"} {
		produceRaw(c, topic, recordtest.Batch(0, recordtest.Count(5), recordtest.TimestampStep(-1)))
		produceRaw(c, topic, recordtest.Batch(0, recordtest.Count(5), recordtest.TimestampStep(1)))
	}
	want("local", map[int64]int64{-1: 10, -2: 0, -3: 9, -4: 0, -5: -1, -6: -1})
	waitInStore(t, b, "marks", 0, 10)
	want("marks", map[int64]int64{-1: 10, -2: 0, -3: 9, -4: 0, -5: 9, -6: 10})
	b.Set("log.retention.check.interval.ms", "100ms")
	b.Set("tier.roll.ms", "1h")
	b.Restart()
	waitOffLocal(t, b, "marks", 0, 10)
	c = dialRaw(t, b.Addr)
	want("marks", map[int64]int64{-1: 10, -2: 0, -3: 9, -4: 10, -5: 9, -6: 10})
	produceRaw(c, "marks", recordtest.Batch(0, recordtest.Count(3)))
	want("marks", map[int64]int64{-1: 13, -2: 0, -3: 9, -4: 10, -5: 9, -6: 10})

	for _, bad := range []int64{-7, -100, -1 << 63} {
		wantCode(t, fmt.Sprintf("mark %d", bad), listOffsetRaw(c, newestListOffsets, "marks", 0, bad).ErrorCode, kerr.UnsupportedVersion)
	}
	wantCode(t, "an unknown topic", listOffsetRaw(c, newestListOffsets, "nowhere", 0, -1).ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "an unknown partition", listOffsetRaw(c, newestListOffsets, "marks", 1, -1).ErrorCode, kerr.UnknownTopicOrPartition)
}

func epochEndRaw(c *raw, version int16, topic string, current, epoch int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version, req.ReplicaID = version, -1
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.CurrentLeaderEpoch, p.LeaderEpoch = current, epoch
	one := kmsg.NewOffsetForLeaderEpochRequestTopic()
	one.Topic, one.Partitions = topic, append(one.Partitions, p)
	req.Topics = append(req.Topics, one)
	return ask[*kmsg.OffsetForLeaderEpochResponse](c, req).Topics[0].Partitions[0]
}

// Every start is an epoch of its own, and every epoch has its end, wherever
// its records lie.
func TestOffsetForLeaderEpoch(t *testing.T) {
	b := testutil.StartBroker(t, tiered(testutil.StartGateway(t), "s3", keepLocal))
	createTopic(t, b, "epochs", 1, "retention.ms=-1", "local.retention.ms=1")
	type start struct {
		epoch int32
		end   int64
	}
	var starts []start
	next := int64(0)
	for i := range 4 {
		c := dialRaw(t, b.Addr)
		epoch := metadata(c, 12, false, "epochs").Topics[0].Partitions[0].LeaderEpoch
		if i > 0 && epoch <= starts[i-1].epoch {
			t.Fatalf("start %d has the epoch %d after %d", i, epoch, starts[i-1].epoch)
		}
		got := produceRaw(c, "epochs", recordtest.Batch(0, recordtest.Count(i+1)))
		wantCode(t, "produce", got.ErrorCode, nil)
		next += int64(i + 1)
		starts = append(starts, start{epoch, next})
		if i == 2 {
			waitInStore(t, b, "epochs", 0, next)
			b.Set("log.retention.check.interval.ms", "100ms")
			b.Restart()
			waitOffLocal(t, b, "epochs", 0, next)
		} else if i%2 == 0 {
			b.Restart()
		} else {
			b.Kill()
			b.Start()
		}
	}
	c := dialRaw(t, b.Addr)
	current := metadata(c, 12, false, "epochs").Topics[0].Partitions[0].LeaderEpoch
	for version := int16(2); version <= 4; version++ {
		for i, one := range starts {
			got := epochEndRaw(c, version, "epochs", -1, one.epoch)
			what := fmt.Sprintf("version %d, epoch %d", version, one.epoch)
			wantCode(t, what, got.ErrorCode, nil)
			if got.LeaderEpoch != one.epoch || got.EndOffset != one.end {
				t.Errorf("%s: ends at %d of epoch %d, want %d", what, got.EndOffset, got.LeaderEpoch, one.end)
			}
			// An epoch between two starts had no records: the answer is the
			// one before it.
			if i+1 < len(starts) && starts[i+1].epoch > one.epoch+1 {
				if got := epochEndRaw(c, version, "epochs", -1, one.epoch+1); got.LeaderEpoch != one.epoch || got.EndOffset != one.end {
					t.Errorf("%s: the next epoch without records: %+v", what, got)
				}
			}
		}
		if got := epochEndRaw(c, version, "epochs", current, current); got.LeaderEpoch != current || got.EndOffset != next {
			t.Errorf("version %d: the current epoch %d: %+v, want %d", version, current, got, next)
		}
		if got := epochEndRaw(c, version, "epochs", -1, current+5); got.LeaderEpoch != -1 || got.EndOffset != -1 {
			t.Errorf("version %d: an epoch to come: %+v, want none", version, got)
		}
		wantCode(t, "an old client", epochEndRaw(c, version, "epochs", current-1, 0).ErrorCode, kerr.FencedLeaderEpoch)
		wantCode(t, "a client from the future", epochEndRaw(c, version, "epochs", current+1, 0).ErrorCode, kerr.UnknownLeaderEpoch)
		wantCode(t, "an unknown topic", epochEndRaw(c, version, "nowhere", -1, 0).ErrorCode, kerr.UnknownTopicOrPartition)
	}
	// The batches say the same.
	seen := make(map[record.Epoch]record.Offset)
	req := fetchRequest(newestFetch, fetchPartition{topic: fetchTopicOf(c, "epochs")})
	for next := int64(0); next < starts[len(starts)-1].end; {
		req.Topics[0].Partitions[0].FetchOffset = next
		for _, h := range headersOf(t, fetchData(c, req).RecordBatches) {
			seen[h.LeaderEpoch] = h.NextOffset()
			next = int64(h.NextOffset())
		}
	}
	for _, one := range starts {
		if seen[record.Epoch(one.epoch)] != record.Offset(one.end) {
			t.Errorf("the batches of epoch %d end at %d, want %d", one.epoch, seen[record.Epoch(one.epoch)], one.end)
		}
	}
}
