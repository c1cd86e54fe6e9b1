// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/console"
	"firn/internal/testutil"
	"firn/tier"
)

// endings are the ways in which a broker stops after a change, before it is
// looked at again.
var endings = map[string]func(*testutil.Broker){
	"stop": func(b *testutil.Broker) { b.Restart() },
	"kill": func(b *testutil.Broker) { b.Kill(); b.Start() },
}

// adminOf makes an admin client that ends with the test.
func adminOf(t testing.TB, b *testutil.Broker) *kadm.Client {
	t.Helper()
	return kadm.NewClient(b.Client())
}

// configOf is what a topic was told.
func configOf(t testing.TB, b *testutil.Broker, topic string) map[string]string {
	t.Helper()
	described, err := adminOf(t, b).DescribeTopicConfigs(t.Context(), topic)
	if err != nil {
		t.Fatalf("describe the configs of %s: %v", topic, err)
	}
	r, err := described.On(topic, nil)
	if err = errors.Join(err, r.Err); err != nil {
		t.Fatalf("describe the configs of %s: %v", topic, err)
	}
	set := make(map[string]string)
	for _, c := range r.Configs {
		if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
			set[c.Key] = c.MaybeValue()
		}
	}
	return set
}

// alterTopic sets configs as key=value and takes away those named alone.
func alterTopic(t testing.TB, b *testutil.Broker, topic string, changes ...string) {
	t.Helper()
	var configs []kadm.AlterConfig
	for _, c := range changes {
		key, value, set := strings.Cut(c, "=")
		one := kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key}
		if set {
			one.Op, one.Value = kadm.SetConfig, &value
		}
		configs = append(configs, one)
	}
	answers, err := adminOf(t, b).AlterTopicConfigs(t.Context(), configs, topic)
	if err != nil {
		t.Fatalf("alter %s: %v", topic, err)
	}
	if r, err := answers.On(topic, nil); errors.Join(err, r.Err) != nil {
		t.Fatalf("alter %s: %v %v %s", topic, err, r.Err, r.ErrMessage)
	}
}

// savedTopic reads what the embedded store at a directory knows of a topic.
func savedTopic(t testing.TB, dir, topic string) tier.TopicState {
	t.Helper()
	var newest tier.TopicState
	files := filesUnder(t, dir)
	slices.Sort(files)
	for _, file := range files {
		if !strings.Contains(file, "/topics/") {
			continue
		}
		state, err := tier.DecodeTopic(file, readFile(t, filepath.Join(dir, file)))
		if err != nil {
			t.Fatalf("decode %s: %v", file, err)
		}
		if state.Name == topic {
			newest = state
		}
	}
	return newest
}

// tooLarge says whether a record of a size is refused for it.
func tooLarge(t testing.TB, b *testutil.Broker, topic string, size int) bool {
	t.Helper()
	client := b.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(8<<20))
	defer client.Close()
	err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: make([]byte, size)}).FirstErr()
	if err != nil && !errors.Is(err, kerr.MessageTooLarge) {
		t.Fatalf("produce %d bytes: %v", size, err)
	}
	return err != nil
}

// Configs change while the broker serves, are in force at once, and stay so
// whatever ends the broker; the bucket is told.
func TestAlterConfigsLive(t *testing.T) {
	for ending, end := range endings {
		t.Run(ending, func(t *testing.T) {
			store := newStorage(t, "dir")
			b := testutil.StartBroker(t, store.settings)
			createTopic(t, b, "clicks", 2, "segment.bytes=1048576", "retention.ms=3600000")
			if tooLarge(t, b, "clicks", 500_000) {
				t.Fatal("500,000 bytes are refused from the start")
			}
			alterTopic(t, b, "clicks", "max.message.bytes=100000", "retention.ms", "local.retention.ms=1")
			want := map[string]string{"segment.bytes": "1048576", "max.message.bytes": "100000", "local.retention.ms": "1"}
			for _, when := range []string{"at once", "after the " + ending} {
				if got := configOf(t, b, "clicks"); !maps.Equal(got, want) {
					t.Errorf("%s the config is %v, want %v", when, got, want)
				}
				if !tooLarge(t, b, "clicks", 500_000) {
					t.Errorf("%s 500,000 bytes are accepted", when)
				}
				waitFor(t, "the bucket to know the config", func() (bool, any) {
					state := savedTopic(t, store.settings["tier.dir.path"], "clicks")
					return maps.Equal(state.Config, want), state
				})
				end(b)
			}
			// Retention is live, too: what the store has leaves the disk.
			produceAll(t, b, "clicks", 1, numbered(0, 1000))
			waitOffLocal(t, b, "clicks", 1, 1000)
		})
	}
}

// A topic outside the store can be brought into it while it is in use, and
// copying can be stopped and resumed.
func TestTieringIsTurnedOnLive(t *testing.T) {
	b := testutil.StartBroker(t, tiered(testutil.StartGateway(t), "s3", nil))
	createTopic(t, b, "clicks", 1, "segment.bytes=1048576", "remote.storage.enable=false", "local.retention.ms=1")
	l := newLedger("clicks", 0)
	l.fill(t, b, 2000, 1000)
	alterTopic(t, b, "clicks", "remote.storage.enable=true")
	l.fill(t, b, 1000, 1000)
	waitOffLocal(t, b, "clicks", 0, 3000)
	l.check(t, b, 0)
	b.Kill()
	b.Start()
	l.check(t, b, 0)

	alterTopic(t, b, "clicks", "remote.log.copy.disable=true")
	l.fill(t, b, 3000, 1000)
	waitFor(t, "a segment that is not copied", func() (bool, any) {
		segments := segmentsOf(t, b, "clicks", 0)
		return slices.ContainsFunc(segments, func(s console.Segment) bool { return s.State == tier.ReasonCopyDisabled }), segments
	})
	alterTopic(t, b, "clicks", "remote.log.copy.disable")
	waitOffLocal(t, b, "clicks", 0, 6000)
	l.check(t, b, 0)

	answers, err := adminOf(t, b).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "remote.storage.enable", Value: kmsg.StringPtr("false")}}, "clicks")
	if err != nil || !errors.Is(answers[0].Err, kerr.InvalidConfig) || !strings.Contains(answers[0].ErrMessage, "cannot be turned off") {
		t.Errorf("turned off: %+v, %v", answers, err)
	}
	brokers, err := adminOf(t, b).AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "num.partitions", Value: kmsg.StringPtr("7")}})
	if err != nil || len(brokers) != 1 || !errors.Is(brokers[0].Err, kerr.InvalidRequest) || !strings.Contains(brokers[0].ErrMessage, "no setting of a broker") {
		t.Errorf("a broker's config: %+v, %v", brokers, err)
	}
}

// A topic grows while clients use it, and stays so whatever ends the broker.
func TestCreatePartitionsLive(t *testing.T) {
	for ending, end := range endings {
		t.Run(ending, func(t *testing.T) {
			store := newStorage(t, "dir")
			b := testutil.StartBroker(t, store.settings)
			createTopic(t, b, "clicks", 1, "segment.bytes=1048576", "local.retention.ms=1")
			produceAll(t, b, "clicks", 0, numbered(0, 100))
			waiting := consumer(t, b, "clicks", 0, 0)
			for total := 3; total <= 5; total += 2 {
				answers, err := adminOf(t, b).UpdatePartitions(t.Context(), total, "clicks")
				if err == nil {
					err = answers.Error()
				}
				if err != nil {
					t.Fatalf("grow to %d: %v", total, err)
				}
				end(b)
				newest := int32(total - 1)
				produceAll(t, b, "clicks", newest, numbered(0, 100))
				if got := endOffset(t, b, "clicks", newest); got != 100 {
					t.Errorf("partition %d ends at %d", newest, got)
				}
				waitOffLocal(t, b, "clicks", newest, 100)
				waitFor(t, "the bucket to know the partitions", func() (bool, any) {
					state := savedTopic(t, store.settings["tier.dir.path"], "clicks")
					return state.Partitions == int32(total), state
				})
			}
			if fetches := waiting.PollFetches(t.Context()); fetches.Err() != nil || fetches.NumRecords() == 0 {
				t.Errorf("an old consumer of partition 0: %d records, %v", fetches.NumRecords(), fetches.Err())
			}
			answers, err := adminOf(t, b).UpdatePartitions(t.Context(), 4, "clicks")
			if err != nil || !errors.Is(answers["clicks"].Err, kerr.InvalidPartitions) {
				t.Errorf("shrink: %+v, %v", answers, err)
			}
		})
	}
}

// checkTrimmed wants a partition of numbered values to begin at an offset, for
// every way of asking.
func checkTrimmed(t *testing.T, b *testutil.Broker, topic string, start, end int64) {
	t.Helper()
	if got := startOffset(t, b, topic, 0); got != start {
		t.Errorf("the start offset is %d, want %d", got, start)
	}
	next := start
	consume(t, b, topic, 0, start, end, func(r *kgo.Record) {
		t.Helper()
		if want := fmt.Sprintf("value-%d", next); r.Offset != next || string(r.Value) != want {
			t.Errorf("offset %d holds %.20q, want offset %d with %q", r.Offset, r.Value, next, want)
		}
		next = r.Offset + 1
	})
	byTime, err := adminOf(t, b).ListOffsetsAfterMilli(t.Context(), 1, topic)
	if at, ok := byTime.Lookup(topic, 0); err != nil || !ok || at.Err != nil || at.Offset != start {
		t.Errorf("the first record by time is %+v, %v, want offset %d", at, err, start)
	}
	got := askFetch(t, dialRaw(t, b.Addr), 0, 1, map[string]int64{topic: start - 1})[topic]
	if got.ErrorCode != kerr.OffsetOutOfRange.Code || got.LogStartOffset != -1 && got.LogStartOffset != start {
		t.Errorf("a fetch below the start: code %d, log start %d", got.ErrorCode, got.LogStartOffset)
	}
}

// A log start inside a batch holds in both tiers and across any ending, and
// the objects below it go.
func TestDeleteRecordsLive(t *testing.T) {
	for ending, end := range endings {
		t.Run(ending, func(t *testing.T) {
			store := newStorage(t, "dir")
			b := testutil.StartBroker(t, store.settings)
			b.Set("tier.delete.grace.ms", "1s")
			b.Restart()
			createTopic(t, b, "clicks", 1, "segment.bytes=1048576", "local.retention.ms=1")
			const n = 6000
			produceAll(t, b, "clicks", 0, numbered(0, n), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(20_000))
			trim := func(before, want int64) {
				t.Helper()
				offsets := make(kadm.Offsets)
				offsets.AddOffset("clicks", 0, before, -1)
				answers, err := adminOf(t, b).DeleteRecords(t.Context(), offsets)
				if err != nil {
					t.Fatalf("delete before %d: %v", before, err)
				}
				if r, _ := answers.Lookup("clicks", 0); r.Err != nil || r.LowWatermark != want {
					t.Fatalf("delete before %d: start %d, %v, want %d", before, r.LowWatermark, r.Err, want)
				}
			}
			trim(777, 777) // local
			checkTrimmed(t, b, "clicks", 777, n)
			end(b)
			checkTrimmed(t, b, "clicks", 777, n)
			waitOffLocal(t, b, "clicks", 0, n)
			checkTrimmed(t, b, "clicks", 777, n)
			trim(1234, 1234) // in the store
			checkTrimmed(t, b, "clicks", 1234, n)
			end(b)
			checkTrimmed(t, b, "clicks", 1234, n)
			trim(10, 1234)

			produceAll(t, b, "clicks", 0, numbered(n, 500))
			trim(-1, n+500)
			end(b)
			if start := startOffset(t, b, "clicks", 0); start != n+500 {
				t.Errorf("everything was deleted, but the log starts at %d", start)
			}
			waitFor(t, "the objects to go", func() (bool, any) {
				left := segmentKeys(store.list(), "clicks")
				return len(left) == 0, left
			})
			produceAll(t, b, "clicks", 0, numbered(n+500, 100))
			checkTrimmed(t, b, "clicks", n+500, n+600)
		})
	}
}

// Hundreds of partitions, as Kafka Streams sends them, are one request that
// costs the write of one small file or two.
func TestDeleteRecordsOfManyPartitions(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	const partitions = 200
	createTopic(t, b, "app-repartition", partitions)
	client := b.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var records []*kgo.Record
	for p := range int32(partitions) {
		records = append(records, &kgo.Record{Topic: "app-repartition", Partition: p, Value: []byte("x")})
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version = 1
	one := kmsg.NewDeleteRecordsRequestTopic()
	one.Topic = "app-repartition"
	for p := range int32(partitions) {
		want := kmsg.NewDeleteRecordsRequestTopicPartition()
		want.Partition, want.Offset = p, 1
		one.Partitions = append(one.Partitions, want)
	}
	req.Topics = append(req.Topics, one)
	for _, p := range ask[*kmsg.DeleteRecordsResponse](dialRaw(t, b.Addr), req).Topics[0].Partitions {
		if p.ErrorCode != 0 || p.LowWatermark != 1 {
			t.Fatalf("partition %d: code %d, start %d", p.Partition, p.ErrorCode, p.LowWatermark)
		}
	}
	b.Kill()
	b.Start()
	starts, err := adminOf(t, b).ListStartOffsets(t.Context(), "app-repartition")
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	starts.Each(func(o kadm.ListedOffset) {
		if o.Offset != 1 {
			t.Errorf("partition %d starts at %d after the kill", o.Partition, o.Offset)
		}
	})
}

func TestDescribeLogDirsLive(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "clicks", 3)
	produceAll(t, b, "clicks", 2, numbered(0, 1000))
	dirs, err := adminOf(t, b).DescribeAllLogDirs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var want int64
	for _, file := range logFiles(t, b, "clicks", 2) {
		want += int64(len(readFile(t, file)))
	}
	one := dirs[1]
	dir, ok := one[b.DataDir]
	if !ok || len(one) != 1 {
		t.Fatalf("the directories are %+v, want %s", one, b.DataDir)
	}
	p, ok := dir.Topics.Lookup("clicks", 2)
	if !ok || p.Size != want || p.IsFuture || p.OffsetLag != 0 || dir.Size() != want {
		t.Errorf("partition 2: %+v, want %d bytes", p, want)
	}
	if dir.TotalBytes <= dir.UsableBytes || dir.UsableBytes <= 0 {
		t.Errorf("%d of %d bytes are free", dir.UsableBytes, dir.TotalBytes)
	}
}

// The commands of the binary, against the broker of the binary.
func TestTopicCommands(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "clicks", 1)
	produceAll(t, b, "clicks", 0, numbered(0, 100))
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"topic alter clicks --config retention.ms=1d --config max.message.bytes=2MiB", 0, "topic clicks: 2 configs changed"},
		{"topic alter clicks --delete-config max.message.bytes", 0, "topic clicks: 1 config changed"},
		{"topic alter clicks --config cleanup.policy=compact", 2, "compaction is not supported"},
		{"topic add-partitions clicks --total 3", 0, "topic clicks has 3 partitions"},
		{"topic add-partitions clicks --total 2", 2, "2 would be fewer"},
		{"topic trim-prefix clicks -p 0 --before-offset 40 --yes", 0, "begins at offset 40"},
		{"topic trim-prefix clicks -p 0 --before-offset 101 --yes", 2, "clicks, partition 0"},
		{"topic trim-prefix clicks -p 0 --before-offset end --yes", 0, "begins at offset 100"},
	} {
		got := b.Firn(strings.Fields(c.args)...)
		if got.Code != c.code || !strings.Contains(string(got.Stdout)+string(got.Stderr), c.says) {
			t.Errorf("firn %s: %+v, want code %d and %q", c.args, got, c.code, c.says)
		}
	}
	want := map[string]string{"retention.ms": "86400000"}
	if got := configOf(t, b, "clicks"); !maps.Equal(got, want) {
		t.Errorf("the config is %v, want %v", got, want)
	}
}
