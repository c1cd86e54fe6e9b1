// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"firn/console"
	"firn/internal/testutil"
	"firn/record"
)

// codecs are Kafka's, as kcat and the batch attributes name them.
var codecs = []struct {
	name    string
	codec   record.Codec
	franz   kgo.CompressionCodec
	kcat    []string // further arguments of kcat
	maxPart int      // of the input that may remain on disk, in percent
}{
	{"none", record.CodecNone, kgo.NoCompression(), nil, 400},
	{"gzip", record.CodecGzip, kgo.GzipCompression(), nil, 60},
	{"snappy", record.CodecSnappy, kgo.SnappyCompression(), []string{"-X", "acks=1"}, 80},
	{"lz4", record.CodecLZ4, kgo.Lz4Compression(), []string{"-X", "enable.idempotence=true"}, 80},
	{"zstd", record.CodecZstd, kgo.ZstdCompression(), []string{"-X", "enable.idempotence=true"}, 60},
}

// textPart is how much text each codec gets, in bytes: 65 MiB in all.
const textPart = 13 << 20

// goSource is the Go toolchain's own source, line by line without the empty
// lines, which kcat drops; in order, as much as all codecs need.
var goSource = sync.OnceValues(func() ([]byte, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find the Go toolchain: %w", err)
	}
	var text []byte
	src := filepath.Join(strings.TrimSpace(string(root)), "src")
	err = filepath.WalkDir(src, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !strings.HasSuffix(path, ".go") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(content) {
			if line = bytes.TrimSuffix(line, []byte("\n")); len(line) > 0 {
				text = append(append(text, line...), '\n')
			}
		}
		if len(text) > len(codecs)*textPart {
			return fs.SkipAll
		}
		return nil
	})
	return text, err
})

// textFor is the part of the source that belongs to codec number i, in whole
// lines.
func textFor(t *testing.T, i int) []byte {
	t.Helper()
	text, err := goSource()
	if err != nil {
		t.Fatal(err)
	}
	if len(text) < len(codecs)*textPart {
		t.Fatalf("the Go toolchain has %d bytes of source, want %d", len(text), len(codecs)*textPart)
	}
	cut := func(at int) int { return at + bytes.IndexByte(text[at:], '\n') + 1 }
	if i == 0 {
		return text[:cut(textPart)]
	}
	return text[cut(i*textPart):cut((i+1)*textPart-1)]
}

// wholeLines is text up to the end of the line that crosses size, or all of it
// when size is 0.
func wholeLines(text []byte, size int) []byte {
	if size == 0 || size >= len(text) {
		return text
	}
	return text[:size+bytes.IndexByte(text[size:], '\n')+1]
}

// digest takes text in and tells one from another.
type digest struct {
	sum   hash.Hash
	bytes int
	lines int
}

func newDigest() *digest { return &digest{sum: sha256.New()} }

func (d *digest) Write(p []byte) (int, error) {
	d.bytes += len(p)
	d.lines += bytes.Count(p, []byte("\n"))
	return d.sum.Write(p)
}

func (d *digest) String() string {
	return fmt.Sprintf("%d lines, %d bytes, SHA-256 %x", d.lines, d.bytes, d.sum.Sum(nil))
}

func digestOf(text []byte) string {
	d := newDigest()
	_, _ = d.Write(text) // it cannot fail
	return d.String()
}

// client is a way to write lines and to read them back.
type client struct {
	name    string
	text    int // bytes of text for each codec; textPart when 0
	produce func(t *testing.T, b *testutil.Broker, topic string, codec int, text []byte)
	consume func(t *testing.T, b *testutil.Broker, topic string, lines int) string // a digest
}

var kcat = client{
	name: "kcat",
	produce: func(t *testing.T, b *testutil.Broker, topic string, codec int, text []byte) {
		t.Helper()
		args := append([]string{"-p", "0", "-z", codecs[codec].name}, codecs[codec].kcat...)
		testutil.NewKcat(t, b.Addr).Produce(t, topic, bytes.NewReader(text), args...)
	},
	consume: func(t *testing.T, b *testutil.Broker, topic string, _ int) string {
		t.Helper()
		d := newDigest()
		testutil.NewKcat(t, b.Addr).Consume(t, topic, d)
		return d.String()
	},
}

var franz = client{
	name: "franz-go",
	produce: func(t *testing.T, b *testutil.Broker, topic string, codec int, text []byte) {
		t.Helper()
		cl := b.Client(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codecs[codec].franz),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(50_000))
		defer cl.Close()
		failed := make(chan error, 1)
		for line := range bytes.Lines(text) {
			cl.Produce(t.Context(), kgo.SliceRecord(bytes.TrimSuffix(line, []byte("\n"))), func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatalf("flush: %v", err)
		}
		select {
		case err := <-failed:
			t.Fatalf("produce: %v", err)
		default:
		}
	},
	consume: func(t *testing.T, b *testutil.Broker, topic string, lines int) string {
		t.Helper()
		d := newDigest()
		next := int64(0)
		consume(t, b, topic, 0, 0, int64(lines), func(r *kgo.Record) {
			if r.Offset != next {
				t.Fatalf("offset %d came after %d", r.Offset, next-1)
			}
			next++
			_, _ = d.Write(append(r.Value, '\n')) // it cannot fail
		})
		return d.String()
	},
}

func TestRealInputKcatS3(t *testing.T)     { realInput(t, "s3", kcat, 0, 1, 2, 3, 4) }
func TestRealInputKcatMinio(t *testing.T)  { realInput(t, "minio", kcat, 0, 4) }
func TestRealInputFranzS3(t *testing.T)    { realInput(t, "s3", franz, 0, 1, 2, 3, 4) }
func TestRealInputFranzMinio(t *testing.T) { realInput(t, "minio", franz, 1) }

// realInput takes real text through a whole life for each codec: produced,
// read while it is local, offloaded, dropped from the local disk, and replayed
// from offset 0 out of the store.
func realInput(t *testing.T, driver string, c client, which ...int) {
	g := testutil.StartGateway(t)
	b := testutil.StartBroker(t, tiered(g, driver, keepLocal))
	texts := make(map[int][]byte)
	topic := func(i int) string { return "text-" + codecs[i].name }
	for _, i := range which {
		texts[i] = wholeLines(textFor(t, i), c.text)
		createTopic(t, b, topic(i), 1, "segment.bytes=1048576", "local.retention.ms=1")
		c.produce(t, b, topic(i), i, texts[i])
		if got, want := c.consume(t, b, topic(i), bytes.Count(texts[i], []byte("\n"))), digestOf(texts[i]); got != want {
			t.Fatalf("%s, %s, local:\n%s came back of\n%s", c.name, codecs[i].name, got, want)
		}
	}
	ends := make(map[int]int64)
	for _, i := range which {
		ends[i] = endOffset(t, b, topic(i), 0)
		if lines := int64(bytes.Count(texts[i], []byte("\n"))); ends[i] != lines {
			t.Errorf("%s, %s: %d records for %d lines", c.name, codecs[i].name, ends[i], lines)
		}
		waitInStore(t, b, topic(i), 0, ends[i])
		onDisk := compareTiers(t, g, b, topic(i))
		checkCodec(t, c.name, i, onDisk, len(texts[i]))
	}

	b.Set("log.retention.check.interval.ms", "100ms")
	b.Restart()
	for _, i := range which {
		waitOffLocal(t, b, topic(i), 0, ends[i])
		for _, path := range logFiles(t, b, topic(i), 0) {
			if n := len(readFile(t, path)); n != 0 {
				t.Errorf("%s still has %d bytes", path, n)
			}
		}
		if got, want := c.consume(t, b, topic(i), int(ends[i])), digestOf(texts[i]); got != want {
			t.Errorf("%s, %s, from the store:\n%s came back of\n%s", c.name, codecs[i].name, got, want)
		}
	}
}

// compareTiers compares every local segment that is also in the store, byte
// for byte, and returns what is on disk, whole batches in order.
func compareTiers(t *testing.T, g *testutil.Gateway, b *testutil.Broker, topic string) []byte {
	t.Helper()
	local := make(map[int64][]byte)
	for _, path := range logFiles(t, b, topic, 0) {
		base, err := record.ParseOffset(strings.TrimSuffix(filepath.Base(path), ".log"))
		if err != nil {
			t.Fatal(err)
		}
		local[int64(base)] = readFile(t, path)
	}
	var all []byte
	both := 0
	for _, s := range segmentsOf(t, b, topic, 0) {
		if s.Tier != console.TierBoth {
			continue
		}
		both++
		object := g.Get(s.Key)
		if !strings.HasSuffix(s.Key, ".seg") || s.ObjectBytes != int64(len(object)) || s.Bytes > s.ObjectBytes {
			t.Errorf("segment %+v has an object of %d bytes", s, len(object))
			continue
		}
		if !bytes.Equal(local[s.From], object[:s.Bytes]) {
			t.Errorf("%s at %d: the log of %d bytes on disk differs from that of %d bytes in the object", topic, s.From, len(local[s.From]), s.Bytes)
		}
		all = append(all, local[s.From]...)
	}
	if both < 2 {
		t.Errorf("%s has %d segments in both tiers, want several", topic, both)
	}
	return all
}

// checkCodec walks through the batches and checks that the client compressed
// them as it was told.
func checkCodec(t *testing.T, who string, i int, log []byte, input int) {
	t.Helper()
	var batches int
	var records, compressed int64
	for rest := log; len(rest) > 0; batches++ {
		batch, after, err := record.SplitBatch(rest)
		if err == nil {
			err = batch.CheckCRC()
		}
		if err != nil {
			t.Fatalf("%s, %s: batch %d: %v", who, codecs[i].name, batches, err)
		}
		h := batch.Header()
		records += int64(h.Count)
		if h.Codec() == codecs[i].codec {
			compressed += int64(h.Count)
		}
		rest = after
	}
	// A client leaves a batch that does not shrink as it is, such as one of a
	// few short lines.
	if records == 0 || compressed < records*99/100 {
		t.Errorf("%s, %s: %d of %d records are in batches of the codec", who, codecs[i].name, compressed, records)
	}
	if percent := len(log) * 100 / input; percent > codecs[i].maxPart || i == 0 && percent < 100 {
		t.Errorf("%s, %s: %d bytes of text take %d on disk, %d %%", who, codecs[i].name, input, len(log), percent)
	}
	t.Logf("%s, %s: %d bytes of text in %d batches of %d bytes", who, codecs[i].name, input, batches, len(log))
}

// A history that lies in both tiers is read from offset 0 without a seam, by
// both clients, while it grows and while its local part moves on.
func TestReplayAcrossBothTiers(t *testing.T) {
	g := testutil.StartGateway(t)
	b := testutil.StartBroker(t, tiered(g, "s3", map[string]string{"tier.roll.ms": "1h"}))
	createTopic(t, b, "seam", 1, "segment.bytes=1048576", "local.retention.bytes=2097152")
	text := textFor(t, 0)[:8<<20]
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	half := bytes.IndexByte(text[4<<20:], '\n') + 4<<20 + 1
	produce := func(text []byte) { franz.produce(t, b, "seam", 0, text) }
	produce(text[:half])
	waitFor(t, "a history in both tiers", func() (bool, any) {
		segments := segmentsOf(t, b, "seam", 0)
		last := segments[len(segments)-1]
		return segments[0].Tier == console.TierStore && last.Tier == console.TierLocal && last.Bytes > 0, segments
	})

	// The second half comes while the first is read: the seam moves under
	// the reader.
	lines := bytes.Count(text, []byte("\n"))
	producer := b.Client(kgo.DefaultProduceTopic("seam"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var records []*kgo.Record
	for line := range bytes.Lines(text[half:]) {
		records = append(records, kgo.SliceRecord(bytes.TrimSuffix(line, []byte("\n"))))
	}
	grown := make(chan error, 1)
	go func() { grown <- producer.ProduceSync(t.Context(), records...).FirstErr() }()
	if got, want := franz.consume(t, b, "seam", lines), digestOf(text); got != want {
		t.Errorf("franz-go, while it grew:\n%s came back of\n%s", got, want)
	}
	if err := <-grown; err != nil {
		t.Fatalf("produce: %v", err)
	}
	for _, c := range []client{kcat, franz} {
		if got, want := c.consume(t, b, "seam", lines), digestOf(text); got != want {
			t.Errorf("%s:\n%s came back of\n%s", c.name, got, want)
		}
	}
	segments := segmentsOf(t, b, "seam", 0)
	if segments[0].Tier != console.TierStore || segments[len(segments)-1].Tier != console.TierLocal {
		t.Errorf("the history does not lie in both tiers: %+v", segments)
	}
	next := int64(0)
	for _, s := range segments {
		if s.From != next || s.To < s.From {
			t.Errorf("segment %+v does not begin at %d", s, next)
		}
		next = s.To
	}

	// From every segment's first and last offset, and from between.
	all := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	for _, s := range segments {
		for _, from := range []int64{s.From, (s.From + s.To) / 2, s.To - 1} {
			if from < s.From || from >= s.To {
				continue
			}
			client := consumer(t, b, "seam", 0, from)
			fetches := client.PollRecords(t.Context(), 1)
			client.Close()
			if r := fetches.Records(); len(r) != 1 || r[0].Offset != from || !bytes.Equal(r[0].Value, all[from]) {
				t.Errorf("read from %d: %v, %v", from, r, fetches.Err())
			}
		}
	}
}
