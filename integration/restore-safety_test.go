// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/internal/testutil"
	"firn/record/recordtest"
)

// copyDir copies a data directory whose broker is stopped.
func copyDir(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatalf("copy the data directory: %v", err)
	}
}

// swapDir puts another directory in the place of a data directory.
func swapDir(t testing.TB, b *testutil.Broker, with string) {
	t.Helper()
	if err := os.Rename(b.DataDir, filepath.Join(t.TempDir(), "gone")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(with, b.DataDir); err != nil {
		t.Fatal(err)
	}
}

// epochsOf are the leader epochs of a partition's records with the offsets
// that they begin at.
func epochsOf(t testing.TB, b *testutil.Broker, l *ledger) map[int32]int64 {
	t.Helper()
	epochs := make(map[int32]int64)
	last := int32(-1)
	consume(t, b, l.topic, l.partition, 0, l.end, func(r *kgo.Record) {
		if r.LeaderEpoch < last {
			t.Errorf("%s-%d: offset %d has epoch %d after %d", l.topic, l.partition, r.Offset, r.LeaderEpoch, last)
		}
		if r.LeaderEpoch != last {
			epochs[r.LeaderEpoch] = r.Offset
		}
		last = r.LeaderEpoch
	})
	return epochs
}

// waitReadOnly waits until a partition takes no more records.
func waitReadOnly(t testing.TB, b *testutil.Broker, topic string) (reason string) {
	t.Helper()
	waitFor(t, topic+" to be read-only", func() (bool, any) {
		status := statusOf(t, b)
		for _, p := range status.Attention {
			if p.Topic == topic && p.State == "read-only" && p.Reason != "log-behind" { // that one passes
				reason = p.Reason
				return true, nil
			}
		}
		return false, status
	})
	return reason
}

// A data directory that was set back to an older copy goes on where the bucket
// ends, under a higher epoch.
func TestRestoreOlderCopy(t *testing.T) {
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", kill), func(t *testing.T) {
			t.Parallel()
			_, store, b := startGateway(t)
			stop := func() { b.Stop() }
			if kill {
				stop = b.Kill
			}
			l, small := newLedger("set-back", 0), newLedger("set-back-small", 0)
			createTopic(t, b, l.topic, 1, "segment.bytes=1048576")
			createTopic(t, b, small.topic, 1, "segment.bytes=1048576", "local.retention.ms=1")
			l.fill(t, b, outageSegment*3/2, outageRecord)
			small.fill(t, b, 10, 100)
			waitInStore(t, b, small.topic, 0, small.end)
			stop()
			old := filepath.Join(t.TempDir(), "old")
			copyDir(t, b.DataDir, old)
			for range 2 { // two lives that the copy knows nothing of
				b.Start()
				l.fill(t, b, outageSegment*3/2, outageRecord)
				small.fill(t, b, 10, 100)
				waitInStore(t, b, l.topic, 0, l.end)
				waitInStore(t, b, small.topic, 0, small.end)
				stop()
			}
			end := l.end

			swapDir(t, b, old)
			b.Start()
			waitFor(t, "the log to go on at the bucket's end", func() (bool, any) {
				at := endOffset(t, b, l.topic, 0)
				return at == end, at
			})
			for _, one := range []*ledger{l, small} {
				one.check(t, b, 0)
				one.fill(t, b, outageSegment*3/2, outageRecord)
				one.check(t, b, 0)
			}
			if epochs := epochsOf(t, b, l); slices.Max(slices.Collect(maps.Values(epochs))) != end || len(epochs) != 4 {
				t.Errorf("the log went on at %d, its epochs begin at %v", end, epochs)
			}
			waitInStore(t, b, l.topic, 0, l.end)
			waitExact(t, b, store, l.topic)
			b.Restart()
			l.check(t, b, 0)
			small.check(t, b, 0)
		})
	}
}

// newProducer asks for a producer id.
func newProducer(t testing.TB, c *raw) int64 {
	t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version = 4
	resp := ask[*kmsg.InitProducerIDResponse](c, req)
	if resp.ErrorCode != 0 {
		t.Fatalf("no producer id: %v", kerr.ErrorForCode(resp.ErrorCode))
	}
	return resp.ProducerID
}

// produceAs produces one record of an idempotent producer with acks=all and
// returns its offset. As clients do, it tries again while the partition takes
// no records because it is not settled with the bucket yet.
func produceAs(t testing.TB, c *raw, topic string, producer int64, sequence int32) int64 {
	t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 8, -1, 30_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = recordtest.Batch(0, recordtest.Producer(producer, 0, sequence), recordtest.Timestamp(time.Now().UnixMilli()))
	one := kmsg.NewProduceRequestTopic()
	one.Topic, one.Partitions = topic, append(one.Partitions, p)
	req.Topics = append(req.Topics, one)
	var got kmsg.ProduceResponseTopicPartition
	waitFor(t, "the partition to take records", func() (bool, any) {
		got = ask[*kmsg.ProduceResponse](c, req).Topics[0].Partitions[0]
		return got.ErrorCode != kerr.KafkaStorageError.Code, got
	})
	if got.ErrorCode != 0 {
		t.Fatalf("producer %d, sequence %d: %v", producer, sequence, kerr.ErrorForCode(got.ErrorCode))
	}
	return got.BaseOffset
}

// The producers of a data directory that was set back are not those of its
// other life, or their records would be taken for duplicates.
func TestRestoreGivesOutNoProducerIDTwice(t *testing.T) {
	_, _, b := startGateway(t)
	const topic = "sequences"
	createTopic(t, b, topic, 1)
	c := dialRaw(t, b.Addr)
	produceAs(t, c, topic, newProducer(t, c), 0)
	waitInStore(t, b, topic, 0, 1)
	b.Stop()
	old := filepath.Join(t.TempDir(), "old")
	copyDir(t, b.DataDir, old)

	b.Start()
	c = dialRaw(t, b.Addr)
	first := newProducer(t, c)
	produceAs(t, c, topic, first, 0)
	waitInStore(t, b, topic, 0, 2)
	b.Stop()
	swapDir(t, b, old)
	b.Start()
	c = dialRaw(t, b.Addr)
	second := newProducer(t, c)
	waitFor(t, "the log to go on at the bucket's end", func() (bool, any) {
		at := endOffset(t, b, topic, 0)
		return at == 2, at
	})
	if offset := produceAs(t, c, topic, second, 0); first == second || offset != 2 {
		t.Errorf("producer %d wrote to offset %d, producer %d had been there before", second, offset, first)
	}
	// An id that a client made up does not use up all others.
	produceAs(t, c, topic, math.MaxInt64, 0)
	b.Restart()
	c = dialRaw(t, b.Addr)
	produceAs(t, c, topic, newProducer(t, c), 0)
}

// What a broker over an older copy acknowledged before it could see the bucket
// is another history: it is neither dropped nor mixed with the bucket's.
func TestRestoreOlderCopyWithoutTheStore(t *testing.T) {
	for _, one := range []struct {
		name string
		// more is what the older copy takes while it does not see the bucket.
		more int
		// restart has the broker die in between.
		restart bool
	}{{"less", 10, false}, {"less-restarted", 10, true}, {"more", 3 * outageSegment, false}, {"more-restarted", 3 * outageSegment, true}} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			g, store, b := startGateway(t)
			const topic = "forked"
			createTopic(t, b, topic, 1, "segment.bytes=1048576")
			l := newLedger(topic, 0)
			l.fill(t, b, 20, outageRecord)
			waitInStore(t, b, topic, 0, l.end)
			b.Stop()
			old := filepath.Join(t.TempDir(), "old")
			copyDir(t, b.DataDir, old)
			fork := newLedger(topic, 0)
			fork.acked, fork.end = maps.Clone(l.acked), l.end
			b.Start()
			l.fill(t, b, outageSegment, outageRecord)
			waitInStore(t, b, topic, 0, l.end)
			b.Stop()
			inBucket := segmentKeys(store.list(), topic)

			swapDir(t, b, old)
			g.Stop()
			b.Start()
			fork.fill(t, b, one.more, outageRecord/2) // same numbers, other values
			if one.restart {
				b.Kill()
				g.Start()
				b.Start()
			} else {
				g.Start()
			}
			if reason := waitReadOnly(t, b, topic); reason != "diverged" && reason != "foreign-writer" {
				t.Errorf("read-only for the reason %q", reason)
			}
			fork.check(t, b, 0)
			if err := produceError(t, b, fork, 100); err == nil {
				t.Error("a partition with two histories takes records")
			}
			b.Restart()
			waitReadOnly(t, b, topic)
			fork.check(t, b, 0)
			if now := segmentKeys(store.list(), topic); !slices.Equal(now, inBucket) {
				t.Errorf("the bucket's history was changed: %q, before %q", now, inBucket)
			}
		})
	}
}

// Two brokers over copies of one data directory: one of them has the bucket,
// the other one finds out and stops taking records.
func TestRestoreClone(t *testing.T) {
	g, store, b := startGateway(t)
	const topic = "cloned"
	createTopic(t, b, topic, 1, "segment.bytes=1048576", "local.retention.bytes=1")
	base := newLedger(topic, 0)
	base.fill(t, b, outageSegment*3/2, outageRecord)
	waitInStore(t, b, topic, 0, base.end)
	b.Stop()
	twin := testutil.NewBroker(t, tiered(g, "minio", gracefully))
	copyDir(t, b.DataDir, twin.DataDir)
	b.Start()
	twin.Start()

	brokers := []*testutil.Broker{b, twin}
	var ledgers [2]*ledger
	for i := range ledgers {
		ledgers[i] = newLedger(topic, 0)
		ledgers[i].acked, ledgers[i].end, ledgers[i].tries = maps.Clone(base.acked), base.end, len(base.acked)
	}
	readOnly := func(i int) bool {
		return len(statusOf(t, brokers[i]).Attention) > 0
	}
	waitFor(t, "one of the two to stop", func() (bool, any) {
		for i, one := range brokers {
			for range 10 {
				_ = produceError(t, one, ledgers[i], outageRecord-100*i) // whoever has lost refuses
			}
		}
		return readOnly(0) || readOnly(1), nil
	})
	winner := 0
	if readOnly(0) {
		winner = 1
	}
	loser := 1 - winner
	if readOnly(winner) {
		t.Log("both have stopped") // each saw records of the other: safe, and for a person to decide
		return
	}
	for range 2 * outageSegment {
		if err := produceError(t, brokers[winner], ledgers[winner], outageRecord); err != nil {
			t.Fatalf("the one that goes on refuses records: %v", err)
		}
	}
	if err := produceError(t, brokers[loser], ledgers[loser], 100); err == nil {
		t.Error("the one that stopped takes records")
	}
	waitInStore(t, brokers[winner], topic, 0, ledgers[winner].end)
	for i, one := range brokers {
		ledgers[i].check(t, one, 0) // each has what it acknowledged
	}
	brokers[loser].Restart()
	waitReadOnly(t, brokers[loser], topic)
	brokers[winner].Restart()
	ledgers[winner].check(t, brokers[winner], 0)
	// What the other one uploaded before it found out is cleared away.
	waitExact(t, brokers[winner], store, topic)
}

// A partition whose directory is gone has its history from the bucket, and
// takes no record before it knows where that ends.
func TestRestoreLostPartition(t *testing.T) {
	g, store, b := startGateway(t)
	const topic = "lost"
	createTopic(t, b, topic, 2, "segment.bytes=1048576")
	var ledgers [2]*ledger
	for p := range ledgers {
		ledgers[p] = newLedger(topic, int32(p))
		ledgers[p].fill(t, b, outageSegment*3/2, outageRecord)
		waitInStore(t, b, topic, int32(p), ledgers[p].end)
	}
	lose := func() {
		if err := os.RemoveAll(filepath.Join(b.DataDir, topic+"-0")); err != nil {
			t.Fatal(err)
		}
	}
	for _, away := range []bool{false, true} {
		ends := [2]int64{ledgers[0].end, ledgers[1].end}
		b.Kill()
		lose()
		if away {
			g.Stop()
		}
		ctx, cancel := context.WithCancel(t.Context())
		client := b.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(64), kgo.MetadataMinAge(50*time.Millisecond),
			kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }))
		var producers sync.WaitGroup
		for _, l := range ledgers {
			producers.Go(func() { l.produceFrom(ctx, client, len(l.acked), t.Errorf) })
		}
		b.Start()
		waitFor(t, "the partition that is there to take records", func() (bool, any) {
			_, end := ledgers[1].promised()
			return end > ends[1]+10, end
		})
		if away {
			if _, end := ledgers[0].promised(); end != ends[0] {
				t.Errorf("a partition without its history took records up to %d", end)
			}
			g.Start()
		}
		waitFor(t, "the partition that was lost to take records", func() (bool, any) {
			_, end := ledgers[0].promised()
			return end > ends[0]+10, end
		})
		cancel()
		producers.Wait()
		if err := client.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for p, l := range ledgers {
			l.check(t, b, 0)
			waitInStore(t, b, topic, int32(p), l.end)
		}
		waitExact(t, b, store, topic)
	}
}

// produceFrom is produceIdempotent from a given number on.
func (l *ledger) produceFrom(ctx context.Context, client *kgo.Client, n int, errorf func(string, ...any)) {
	pace := time.NewTicker(killPace)
	defer pace.Stop()
	for n := n; ctx.Err() == nil; n++ {
		r := &kgo.Record{Topic: l.topic, Partition: l.partition, Value: payload(l.topic, l.partition, n, killRecord)}
		client.Produce(context.Background(), r, func(r *kgo.Record, err error) {
			if err != nil {
				errorf("%s-%d, record %d: %v", l.topic, l.partition, n, err)
				return
			}
			l.ack(r.Offset, n)
		})
		<-pace.C
	}
}

// An empty data directory over a bucket that holds a history does not start by
// itself, and one of another cluster does not either.
func TestRestoreEmptyDirectory(t *testing.T) {
	g, _, b := startGateway(t)
	createTopic(t, b, "precious", 1)
	b.Stop()
	empty := testutil.NewBroker(t, tiered(g, "minio", nil))
	empty.Launch()
	exit := empty.WaitExit(patience)
	if exit.Code == 0 || !strings.Contains(exit.Stderr, "--new-cluster") {
		t.Errorf("exit code %d:\n%s", exit.Code, exit.Stderr)
	}
}
