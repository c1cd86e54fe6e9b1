// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"firn/internal/testutil"
)

// Further clients on the way that realInput goes, with every codec they have.

// furtherText is how much text they get for each codec, in bytes: some
// segments also when it is compressed.
const furtherText = 5 << 20

func TestRealInputSarama(t *testing.T)  { realInput(t, "s3", saramaText, 0, 1, 2, 3, 4) }
func TestRealInputKafkaJS(t *testing.T) { realInput(t, "minio", kafkaJS, 0, 1, 2, 3, 4) }

// saramaCodecs are sarama's names for codecs, in their order.
var saramaCodecs = []sarama.CompressionCodec{
	sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD,
}

// saramaChunk is how many messages are handed to sarama at once.
const saramaChunk = 20_000

var saramaText = client{
	name: "sarama",
	text: furtherText,
	produce: func(t *testing.T, b *testutil.Broker, topic string, codec int, text []byte) {
		t.Helper()
		config := sarama.NewConfig() // its defaults, but for what the test is about
		config.Producer.Return.Successes = true
		config.Producer.Compression = saramaCodecs[codec]
		config.Producer.Partitioner = sarama.NewManualPartitioner
		producer, err := sarama.NewSyncProducer([]string{b.Addr}, config)
		if err != nil {
			t.Fatalf("make a producer: %v", err)
		}
		defer producer.Close()
		var chunk []*sarama.ProducerMessage
		send := func() {
			if err := producer.SendMessages(chunk); err != nil {
				t.Fatalf("produce: %v", err)
			}
			chunk = chunk[:0]
		}
		for line := range bytes.Lines(text) {
			chunk = append(chunk, &sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(bytes.TrimSuffix(line, []byte("\n")))})
			if len(chunk) == saramaChunk {
				send()
			}
		}
		send()
	},
	consume: func(t *testing.T, b *testutil.Broker, topic string, lines int) string {
		t.Helper()
		consumer, err := sarama.NewConsumer([]string{b.Addr}, sarama.NewConfig())
		if err != nil {
			t.Fatalf("make a consumer: %v", err)
		}
		defer consumer.Close()
		partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
		if err != nil {
			t.Fatalf("consume: %v", err)
		}
		defer partition.Close()
		d := newDigest()
		timeout := time.After(2 * patience)
		for next := range int64(lines) {
			select {
			case m := <-partition.Messages():
				if m.Offset != next {
					t.Fatalf("offset %d came after %d", m.Offset, next-1)
				}
				_, _ = d.Write(append(m.Value, '\n')) // it cannot fail
			case <-timeout:
				t.Fatalf("%d of %d messages came", next, lines)
			}
		}
		return d.String()
	},
}

// kafkaJS writes by KafkaJS's producer, and asks its admin client for
// metadata and offsets. KafkaJS's consumer wants a consumer group, which there
// is none of yet: reading goes by the fetch and the decoding that lie below
// that consumer. So that the test does not rest on them alone, franz-go reads
// the same.
var kafkaJS = client{
	name: "KafkaJS",
	text: furtherText,
	produce: func(t *testing.T, b *testutil.Broker, topic string, codec int, text []byte) {
		t.Helper()
		c := roundtripJS(t, "produce", b.Addr, topic, codecs[codec].name)
		c.Stdin = bytes.NewReader(text)
		c.MustRun(t)
	},
	consume: func(t *testing.T, b *testutil.Broker, topic string, lines int) string {
		t.Helper()
		d := newDigest()
		c := roundtripJS(t, "consume", b.Addr, topic)
		c.Stdout = d
		c.MustRun(t)
		if other := franz.consume(t, b, topic, lines); other != d.String() {
			t.Errorf("KafkaJS read\n%s and franz-go\n%s", d, other)
		}
		return d.String()
	},
}

// roundtripJS is the script of testdata/kafkajs, with the packages that make
// tools installs.
func roundtripJS(t *testing.T, args ...string) testutil.Command {
	t.Helper()
	root := testutil.RepoRoot(t)
	return testutil.Command{
		Path: testutil.FindProgram(t, "node", "TEST_NODE"),
		Args: append([]string{filepath.Join(root, "integration", "testdata", "kafkajs", "roundtrip.js")}, args...),
		Env:  []string{"NODE_PATH=" + filepath.Join(root, ".cache", "kafkajs", "node_modules")},
	}
}
