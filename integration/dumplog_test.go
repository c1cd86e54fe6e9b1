// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"firn/internal/testutil"
	"firn/record"
)

// kafkaCodecs are the five of Kafka's protocol, by the names of Kafka's tool.
var kafkaCodecs = []struct {
	name  string
	codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()}, {"gzip", kgo.GzipCompression()}, {"snappy", kgo.SnappyCompression()}, {"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()},
}

// wrote is one record that was acknowledged.
type wrote struct {
	offset, timestamp int64
	key, value, codec string
	idempotent        bool
}

// writeCodecs produces five batches of records in each codec, by idempotent
// producers and by plain ones, with record times that begin at first and are an
// hour apart from batch to batch.
func writeCodecs(t testing.TB, client func(opts ...kgo.Opt) *kgo.Client, topic string, first time.Time) (all []wrote) {
	t.Helper()
	at := first
	for i, c := range kafkaCodecs {
		opts := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(c.codec), kgo.ProducerLinger(50 * time.Millisecond)}
		if i%2 == 1 {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
		producer := client(opts...)
		for batch := range 5 {
			var records []*kgo.Record
			for n := range 4 {
				r := &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%s-%d-%d-%s", c.name, batch, n, strings.Repeat("snow", 40)), Timestamp: at.Add(time.Duration(n) * time.Second)}
				if n%2 == 0 {
					r.Key = fmt.Appendf(nil, "key-%d", n)
				}
				if n == 3 {
					r.Headers = []kgo.RecordHeader{{Key: "flake", Value: []byte("six")}, {Key: "none"}}
				}
				records = append(records, r)
			}
			if err := producer.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatalf("produce with %s: %v", c.name, err)
			}
			for _, r := range records {
				all = append(all, wrote{r.Offset, r.Timestamp.UnixMilli(), string(r.Key), string(r.Value), c.name, i%2 == 0})
			}
			at = at.Add(time.Hour)
		}
		producer.Close()
	}
	return all
}

// wantWritten compares what Kafka's tool shows of a partition with the records
// that were acknowledged.
func wantWritten(t testing.TB, files map[string]*dumpedFile, want []wrote) {
	t.Helper()
	var records []dumped
	batchAt := map[int64]dumped{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		records = append(records, files[name].records...)
		for _, b := range files[name].batches {
			base, last := b.number(t, "baseOffset"), b.number(t, "lastOffset")
			if n := b.number(t, "count"); n != last-base+1 {
				t.Errorf("batch %v counts %d", b, n)
			}
			for at := base; at <= last; at++ {
				batchAt[at] = b
			}
		}
	}
	if len(records) != len(want) {
		t.Fatalf("%d records are shown, %d were written", len(records), len(want))
	}
	for i, w := range want {
		got := records[i]
		key, keySize := w.key, fmt.Sprint(len(w.key))
		if key == "" {
			keySize = "-1"
		}
		if got["offset"] != fmt.Sprint(w.offset) || got["CreateTime"] != fmt.Sprint(w.timestamp) || got["payload"] != w.value || got["key"] != key ||
			got["keySize"] != keySize || got["valueSize"] != fmt.Sprint(len(w.value)) {
			t.Errorf("wrote %+v, kafka-dump-log shows %v", w, got)
		}
		if b := batchAt[w.offset]; b["compresscodec"] != w.codec || (b["producerId"] != "-1") != w.idempotent {
			t.Errorf("wrote %+v, kafka-dump-log shows the batch %v", w, b)
		}
	}
}

// TestKafkasDumpToolReadsOurLog: after clean stops and after kill -9 the tool
// reads every file of a partition, without a complaint, as what was written,
// and as firn log dump shows it.
func TestKafkasDumpToolReadsOurLog(t *testing.T) {
	tools := testutil.NewKafkaTools(t)
	b := testutil.StartBroker(t, nil)
	const topic = "glacier"
	for _, name := range []string{topic, "stamped"} {
		configs := map[string]*string{"segment.ms": kadm.StringPtr("14400000"), "index.interval.bytes": kadm.StringPtr("500"), "retention.ms": kadm.StringPtr("-1")}
		if name == "stamped" {
			configs = map[string]*string{"message.timestamp.type": kadm.StringPtr("LogAppendTime")}
		}
		if _, err := kadm.NewClient(b.Client()).CreateTopic(t.Context(), 1, 1, configs, name); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(b.DataDir, topic+"-0")
	first := time.UnixMilli(1_700_000_000_000)
	written := writeCodecs(t, b.Client, topic, first)
	writeCodecs(t, b.Client, "stamped", first)
	b.Restart()
	written = append(written, writeCodecs(t, b.Client, topic, first.Add(30*time.Hour))...)
	b.Kill()
	b.Start() // recovers
	written = append(written, writeCodecs(t, b.Client, topic, first.Add(60*time.Hour))...)
	// While the broker runs, beside its lock and in its unfinished end.
	if r := testutil.RunFirn(t, "log", "verify", b.DataDir); r.Code != 0 || !strings.Contains(string(r.Stderr), "a broker uses "+b.DataDir) {
		t.Errorf("beside the broker: exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r := b.Firn("topic", "trim-prefix", "stamped", "--partition", "0", "--before-offset", "6", "--yes"); r.Code != 0 {
		t.Errorf("trim: %s", r.Stderr)
	}
	b.Stop()

	files := kafkaDump(t, tools, dir)
	wantWritten(t, files, written)
	ours := firnDump(t, dir)
	segments, snapshots, entries := 0, 0, 0
	for name, f := range files {
		sameAsKafka(t, name, f, ours[name])
		switch filepath.Ext(name) {
		case ".log":
			segments++
		case ".snapshot":
			snapshots++
		case ".index":
			entries += len(f.entries)
		}
	}
	if segments < 9 || snapshots < segments-1 || entries < 10 {
		t.Errorf("%d segments, %d snapshots, %d index entries: the test wants more to look at", segments, snapshots, entries)
	}
	for name, f := range kafkaDump(t, tools, filepath.Join(b.DataDir, "stamped-0")) {
		for _, batch := range f.batches {
			if batch["LogAppendTime"] == "" {
				t.Errorf("%s: %v is not stamped by the broker", name, batch)
			}
		}
	}
	firnVerify(t, b.DataDir)
	wantTextFiles(t, b.DataDir, dir, int64(len(written)))
}

// wantTextFiles holds the text files against what Kafka writes in them.
func wantTextFiles(t testing.TB, dataDir, dir string, end int64) {
	t.Helper()
	text := func(path string) []string { return strings.Split(string(readFile(t, path)), "\n") }
	lines := text(filepath.Join(dataDir, "recovery-point-offset-checkpoint"))
	if want := []string{"0", "2", fmt.Sprintf("glacier 0 %d", end), "stamped 0 100", ""}; !slices.Equal(lines, want) {
		t.Errorf("recovery points %q, want %q", lines, want)
	}
	lines = text(filepath.Join(dataDir, "log-start-offset-checkpoint"))
	if want := []string{"0", "1", "stamped 0 6", ""}; !slices.Equal(lines, want) {
		t.Errorf("log starts %q, want %q", lines, want)
	}
	lines = text(filepath.Join(dir, "leader-epoch-checkpoint"))
	if len(lines) != 6 || lines[0] != "0" || lines[1] != "3" || lines[5] != "" {
		t.Fatalf("leader epochs %q, want three", lines)
	}
	last := int64(-1)
	for i, line := range lines[2:5] {
		var epoch, start int64
		if _, err := fmt.Sscanf(line, "%d %d", &epoch, &start); err != nil || epoch <= last || start != int64(100*i) {
			t.Errorf("leader epoch %q, want a rising one from offset %d", line, 100*i)
		}
		last = epoch
	}
	lines = text(filepath.Join(dir, "partition.metadata"))
	if len(lines) != 2 || lines[0] != "version: 0" || !strings.HasPrefix(lines[1], "topic_id: ") {
		t.Errorf("partition metadata %q", lines)
	}
}

// TestKafkasDumpToolReadsATransactionIndex: what record writes is what Kafka
// reads.
func TestKafkasDumpToolReadsATransactionIndex(t *testing.T) {
	txns := []record.AbortedTxn{
		{ProducerID: 4, FirstOffset: 170, LastOffset: 200, LastStableOffset: 180},
		{ProducerID: 1 << 40, FirstOffset: 180, LastOffset: 230, LastStableOffset: 231},
	}
	var b []byte
	for _, x := range txns {
		b = record.AppendAbortedTxn(b, x)
	}
	path := filepath.Join(t.TempDir(), "00000000000000000123.txnindex")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(path)
	f := parseDump(t, testutil.NewKafkaTools(t).DumpLog(t, []string{path}))[name]
	if f == nil || len(f.entries) != len(txns) {
		t.Fatalf("%+v", f)
	}
	for i, x := range txns {
		if e := f.entries[i]; e.number(t, "producerId") != x.ProducerID || e.number(t, "firstOffset") != int64(x.FirstOffset) ||
			e.number(t, "lastOffset") != int64(x.LastOffset) || e.number(t, "lastStableOffset") != int64(x.LastStableOffset) || e["version"] != "0" {
			t.Errorf("wrote %+v, kafka-dump-log shows %v", x, e)
		}
	}
	sameAsKafka(t, name, f, firnDump(t, path)[name])
}
