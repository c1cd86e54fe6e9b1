// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/hot"
	"firn/internal/testutil"
	"firn/record"
	"firn/record/recordtest"
)

// updateGolden writes hot/testdata anew from what Kafka wrote in this run.
var updateGolden = flag.Bool("update-golden", false, "write hot/testdata/kafka-4.3.1 anew")

// The topics that Kafka writes, one partition each.
const (
	plainTopic   = "snow" // all codecs, idempotent and plain producers, many segments
	txnTopic     = "ice"  // transactions: committed, aborted, interleaved, open
	compactTopic = "rime" // compacted
)

var kafkaTopics = []string{plainTopic, txnTopic, compactTopic}

// goldenRecord is one record as Kafka served it.
type goldenRecord struct {
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"`
	Epoch     int32  `json:"epoch"`
	Key       string `json:"key"`
	// ValueCRC is the CRC-32C of the value.
	ValueCRC uint32 `json:"value_crc"`
	// Control says that it is the marker of a transaction.
	Control bool `json:"control,omitempty"`
}

// createKafkaTopics makes the topics with small segments and indexes.
func createKafkaTopics(t testing.TB, k *testutil.Kafka) {
	t.Helper()
	admin := kadm.NewClient(k.Client())
	for _, topic := range kafkaTopics {
		configs := map[string]*string{
			"segment.ms": kadm.StringPtr("14400000"), "index.interval.bytes": kadm.StringPtr("500"), "segment.index.bytes": kadm.StringPtr("1200"),
			"retention.ms": kadm.StringPtr("-1"),
		}
		if topic == compactTopic {
			configs["cleanup.policy"] = kadm.StringPtr("compact")
			configs["min.cleanable.dirty.ratio"] = kadm.StringPtr("0.01")
		}
		if _, err := admin.CreateTopic(t.Context(), 1, 1, configs, topic); err != nil {
			t.Fatal(err)
		}
	}
}

// writeTransactions writes transactions that overlap: of three producers the
// first commits, the second aborts, the third commits once and then is left
// open when leave says so.
func writeTransactions(t testing.TB, k *testutil.Kafka, round string, first time.Time, leave bool) {
	t.Helper()
	var clients []*kgo.Client
	produce := func(i, n int) {
		for j := range n {
			r := &kgo.Record{Topic: txnTopic, Key: fmt.Appendf(nil, "%s-%d", round, i), Value: fmt.Appendf(nil, "in transaction %d, record %d", i, j), Timestamp: first.Add(time.Duration(j) * time.Hour)}
			if err := clients[i].ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatalf("produce in transaction %d: %v", i, err)
			}
		}
	}
	end := func(i int, commit kgo.TransactionEndTry) {
		if err := clients[i].EndTransaction(t.Context(), commit); err != nil {
			t.Fatalf("end transaction %d: %v", i, err)
		}
	}
	begin := func(i int) {
		if err := clients[i].BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		clients = append(clients, k.Client(kgo.TransactionalID(fmt.Sprintf("%s-%d", round, i)), kgo.TransactionTimeout(5*time.Minute)))
		begin(i)
	}
	produce(0, 2)
	produce(1, 3)
	produce(2, 1)
	produce(0, 4)
	end(1, kgo.TryAbort)
	end(0, kgo.TryCommit)
	end(2, kgo.TryCommit)
	begin(1)
	produce(1, 6)
	end(1, kgo.TryAbort)
	if leave {
		begin(2)
		produce(2, 2)
	}
}

// writeCompacted overwrites a few keys in several segments.
func writeCompacted(t testing.TB, k *testutil.Kafka, first time.Time) {
	t.Helper()
	client := k.Client()
	for i := range 40 {
		r := &kgo.Record{Topic: compactTopic, Key: fmt.Appendf(nil, "key-%d", i%4), Value: fmt.Appendf(nil, "version %d", i), Timestamp: first.Add(time.Duration(i) * time.Hour)}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// waitCompacted waits until Kafka has compacted the topic.
func waitCompacted(t testing.TB, k *testutil.Kafka) {
	t.Helper()
	waitFor(t, "Kafka to compact "+compactTopic, func() (bool, any) {
		b, err := os.ReadFile(filepath.Join(k.DataDir, "cleaner-offset-checkpoint"))
		return strings.Contains(string(b), compactTopic+" 0 "), err
	})
}

// fromKafka reads a topic to its end, markers and aborted records included.
func fromKafka(t testing.TB, k *testutil.Kafka, topic string) (out []goldenRecord) {
	t.Helper()
	client := k.Client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(time.Second))
	end := kafkaEnd(t, k, topic)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for next := int64(0); next < end; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s from Kafka at %d of %d: %v", topic, next, end, err)
		}
		for r := range fetches.RecordsAll() {
			g := goldenRecord{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Epoch: r.LeaderEpoch, Key: string(r.Key), ValueCRC: record.CRC32C(r.Value), Control: r.Attrs.IsControl()}
			if g.Control {
				g.Key, g.ValueCRC = "", 0
			}
			out = append(out, g)
			next = r.Offset + 1
		}
	}
	return out
}

func kafkaEnd(t testing.TB, k *testutil.Kafka, topic string) int64 {
	t.Helper()
	ends, err := kadm.NewClient(k.Client()).ListEndOffsets(t.Context(), topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	return end.Offset
}

// fromLog reads a log to its end, as fromKafka does.
func fromLog(t testing.TB, l *hot.Log) (out []goldenRecord) {
	t.Helper()
	unpack := kgo.DefaultDecompressor()
	for at := l.StartOffset(); at < l.EndOffset(); {
		region, err := l.Read(at, l.EndOffset(), 1<<20, true)
		if err != nil || region == nil {
			t.Fatalf("read at %d: %v", at, err)
		}
		b := make([]byte, region.Len())
		if _, err := region.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		next := region.Next()
		region.Release()
		p := kmsg.NewFetchResponseTopicPartition()
		p.RecordBatches = b
		got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: int64(at)}, &p, unpack, nil)
		if got.Err != nil {
			t.Fatalf("read at %d: %v", at, got.Err)
		}
		for _, r := range got.Records {
			g := goldenRecord{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Epoch: r.LeaderEpoch, Key: string(r.Key), ValueCRC: record.CRC32C(r.Value), Control: r.Attrs.IsControl()}
			if g.Control {
				g.Key, g.ValueCRC = "", 0
			}
			out = append(out, g)
		}
		at = next
	}
	return out
}

// saveGolden keeps the topics' directories and the top of the log directory as
// they are, with what Kafka served of them.
func saveGolden(t testing.TB, k *testutil.Kafka, name string, want map[string][]goldenRecord) {
	t.Helper()
	to := filepath.Join(testutil.RepoRoot(t), "hot", "testdata", "kafka-4.3.1", name)
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(k.DataDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(k.DataDir, path)
		if err != nil {
			return err
		}
		topic, _, _ := strings.Cut(below, "-0")
		switch {
		case e.IsDir() && below != "." && !slices.Contains(kafkaTopics, topic):
			return fs.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, below), 0o755)
		case below == ".lock", below == "bootstrap.checkpoint":
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, below), b, 0o644)
	})
	b, jsonErr := json.Marshal(want)
	if err := errors.Join(err, jsonErr, os.WriteFile(to+".json", append(b, '\n'), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// goOnWithFirn opens Kafka's directory, compares each log with what Kafka
// served, appends to all of them, and closes. It answers what was appended.
func goOnWithFirn(t testing.TB, dataDir string, want map[string][]goldenRecord) map[string][]goldenRecord {
	t.Helper()
	s, err := hot.Open(t.Context(), hot.Options{Dir: dataDir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	appended := map[string][]goldenRecord{}
	for _, found := range s.Found() {
		if !slices.Contains(kafkaTopics, found.TopicPartition.Topic) {
			continue
		}
		l, err := s.OpenLog(t.Context(), found.TopicPartition, found.TopicID, hot.LogOptions{IndexInterval: 100})
		if err != nil {
			t.Fatal(err)
		}
		if got := fromLog(t, l); !slices.Equal(got, want[found.TopicPartition.Topic]) {
			t.Errorf("%s: %d records, Kafka served %d; the first that differs: %v", found.TopicPartition.Topic, len(got), len(want[found.TopicPartition.Topic]), firstDifference(got, want[found.TopicPartition.Topic]))
		}
		before := l.EndOffset()
		last, _ := l.Epochs().Last()
		for i := range 6 {
			b := recordtest.Batch(0, recordtest.Strings("appended", "by firn"), recordtest.Keys([]byte("firn"), []byte("firn")), recordtest.Timestamp(1_750_000_000_000+int64(i)))
			// Kafka's controller, which gives out the epochs, knows of no later one.
			if _, err := l.Append(b, last.Epoch); err != nil {
				t.Fatal(err)
			}
			if i == 2 {
				if err := l.Roll(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		all := fromLog(t, l)
		appended[found.TopicPartition.Topic] = all[slices.IndexFunc(all, func(g goldenRecord) bool { return g.Offset >= int64(before) }):]
	}
	if len(appended) != len(kafkaTopics) {
		t.Fatalf("found %v", slices.Collect(maps.Keys(appended)))
	}
	return appended
}

func firstDifference(a, b []goldenRecord) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%+v and %+v", a[i], b[i])
		}
	}
	return "none up to the shorter's end"
}

// wantAccepted has Kafka's dump tool and ours read every topic of a directory.
func wantAccepted(t testing.TB, k *testutil.Kafka) {
	t.Helper()
	tools := testutil.NewKafkaTools(t)
	for _, topic := range kafkaTopics {
		dir := filepath.Join(k.DataDir, topic+"-0")
		ours := firnDump(t, dir)
		for name, f := range kafkaDump(t, tools, dir) {
			sameAsKafka(t, topic+"/"+name, f, ours[name])
		}
		firnVerify(t, dir)
	}
}

// TestFirnAndKafkaTakeTurns: Kafka writes a log directory and stops, or is
// killed; Firn opens it, reads what Kafka served, and appends; Kafka's dump tool
// accepts all of it; Kafka opens it again, after a clean stop and by its own
// recovery, serves what both have written, and goes on.
func TestFirnAndKafkaTakeTurns(t *testing.T) {
	k := testutil.StartKafka(t, map[string]string{"log.cleaner.backoff.ms": "200", "log.initial.task.delay.ms": "500"})
	createKafkaTopics(t, k)
	first := time.UnixMilli(1_700_000_000_000)
	writeCodecs(t, k.Client, plainTopic, first)
	writeTransactions(t, k, "first", first, false)
	writeCompacted(t, k, first)
	waitCompacted(t, k)
	k.Stop()
	k.Start() // a leader epoch more
	writeCodecs(t, k.Client, plainTopic, first.Add(30*time.Hour))
	writeTransactions(t, k, "second", first.Add(30*time.Hour), true)

	serve := func() map[string][]goldenRecord {
		want := map[string][]goldenRecord{}
		for _, topic := range kafkaTopics {
			want[topic] = fromKafka(t, k, topic)
		}
		return want
	}
	if *updateGolden {
		want := serve()
		k.Kill()
		saveGolden(t, k, "killed", want)
		k.Start()
		want = serve()
		k.Stop()
		saveGolden(t, k, "clean", want)
		k.Start()
	}
	turn := func(name string, spoil func()) {
		want := serve()
		if name == "killed" {
			k.Kill()
		} else {
			k.Stop()
		}
		appended := goOnWithFirn(t, k.DataDir, want)
		wantAccepted(t, k)
		spoil()
		k.Start()
		for _, topic := range kafkaTopics {
			got := fromKafka(t, k, topic)
			if all := slices.Concat(want[topic], appended[topic]); topic != compactTopic && !slices.Equal(got, all) {
				t.Errorf("%s: Kafka serves %d records of %s, want %d: %s", name, len(got), topic, len(all), firstDifference(got, all))
			}
			r := &kgo.Record{Topic: topic, Key: []byte("kafka"), Value: []byte("goes on"), Timestamp: time.UnixMilli(1_750_000_100_000)}
			if err := k.Client().ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Errorf("%s: Kafka goes on in %s: %v", name, topic, err)
			}
			if r.Offset != appended[topic][len(appended[topic])-1].Offset+1 {
				t.Errorf("%s: Kafka goes on in %s at offset %d, behind %+v", name, topic, r.Offset, appended[topic])
			}
		}
	}
	turn("clean", func() {})
	turn("killed", func() { // Kafka recovers what Firn wrote
		if err := os.Remove(filepath.Join(k.DataDir, ".kafka_cleanshutdown")); err != nil {
			t.Error(err)
		}
	})
	k.Stop()
	wantAccepted(t, k)
}
