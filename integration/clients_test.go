// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
	kafkago "github.com/segmentio/kafka-go"

	"firn/internal/testutil"
)

// message is a record as every client has it.
type message struct {
	offset             int64
	key, value, header string
}

// messages are what the tests of further clients write: about 3 MiB, three
// segments.
func messages() []message {
	text := make([]byte, 1000)
	for i := range text {
		text[i] = "The quick brown fox jumps over the lazy dog. "[i%45]
	}
	all := make([]message, 3000)
	for i := range all {
		all[i] = message{offset: int64(i), key: fmt.Sprintf("key-%d", i), value: fmt.Sprintf("%d %s", i, text), header: fmt.Sprintf("header-%d", i)}
	}
	return all
}

// throughBothTiers writes messages to a topic, reads them back while they are
// local, and again when only the store has them.
func throughBothTiers(t *testing.T, b *testutil.Broker, topic string, write func([]message), read func(n int) []message) {
	t.Helper()
	createTopic(t, b, topic, 1, "segment.bytes=1048576", "local.retention.ms=1")
	want := messages()
	write(want)
	for _, tier := range []string{"at once", "from the store"} {
		got := read(len(want))
		if len(got) != len(want) {
			t.Fatalf("%s: %d messages came back, want %d", tier, len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s: message %d came back as %.100v", tier, i, got[i])
			}
		}
		waitOffLocal(t, b, topic, 0, int64(len(want)))
	}
}

func TestSarama(t *testing.T) {
	b := testutil.StartBroker(t, tiered(testutil.StartGateway(t), "s3", nil))
	for _, codec := range []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD} {
		t.Run(codec.String(), func(t *testing.T) {
			t.Parallel()
			topic := "sarama-" + codec.String()
			config := sarama.NewConfig()
			config.Version = sarama.MaxVersion
			config.Producer.Return.Successes = true
			config.Producer.RequiredAcks = sarama.WaitForAll
			config.Producer.Idempotent = true
			config.Net.MaxOpenRequests = 1
			config.Producer.Compression = codec
			config.Producer.Partitioner = sarama.NewManualPartitioner
			throughBothTiers(t, b, topic,
				func(all []message) { saramaWrite(t, b.Addr, config, topic, all) },
				func(n int) []message { return saramaRead(t, b.Addr, config, topic, n) })
		})
	}
}

func saramaWrite(t *testing.T, addr string, config *sarama.Config, topic string, all []message) {
	t.Helper()
	producer, err := sarama.NewSyncProducer([]string{addr}, config)
	if err != nil {
		t.Fatalf("make a producer: %v", err)
	}
	defer producer.Close()
	var batch []*sarama.ProducerMessage
	for _, m := range all {
		batch = append(batch, &sarama.ProducerMessage{
			Topic: topic, Key: sarama.StringEncoder(m.key), Value: sarama.StringEncoder(m.value),
			Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte(m.header)}},
		})
	}
	if err := producer.SendMessages(batch); err != nil {
		t.Fatalf("produce: %v", err)
	}
	for i, m := range batch {
		if m.Offset != int64(i) {
			t.Fatalf("message %d was acknowledged at offset %d", i, m.Offset)
		}
	}
}

func saramaRead(t *testing.T, addr string, config *sarama.Config, topic string, n int) []message {
	t.Helper()
	consumer, err := sarama.NewConsumer([]string{addr}, config)
	if err != nil {
		t.Fatalf("make a consumer: %v", err)
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		t.Fatalf("consume: %v", err)
	}
	defer partition.Close()
	var all []message
	timeout := time.After(patience)
	for len(all) < n {
		select {
		case m := <-partition.Messages():
			all = append(all, message{m.Offset, string(m.Key), string(m.Value), string(m.Headers[0].Value)})
		case err := <-partition.Errors():
			t.Fatalf("consume: %v", err)
		case <-timeout:
			t.Fatalf("%d of %d messages came", len(all), n)
		}
	}
	return all
}

func TestKafkaGo(t *testing.T) {
	b := testutil.StartBroker(t, tiered(testutil.StartGateway(t), "s3", nil))
	for _, codec := range []kafkago.Compression{0, kafkago.Gzip, kafkago.Snappy, kafkago.Lz4, kafkago.Zstd} {
		name := "none"
		if codec != 0 {
			name = codec.String()
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "kafka-go-" + name
			throughBothTiers(t, b, topic,
				func(all []message) { kafkaGoWrite(t, b.Addr, codec, topic, all) },
				func(n int) []message { return kafkaGoRead(t, b.Addr, topic, n) })
		})
	}
}

func kafkaGoWrite(t *testing.T, addr string, codec kafkago.Compression, topic string, all []message) {
	t.Helper()
	// A transport of its own: the shared one remembers which topics there
	// were a moment ago.
	transport := &kafkago.Transport{}
	defer transport.CloseIdleConnections()
	w := &kafkago.Writer{
		Addr: kafkago.TCP(addr), Topic: topic, Compression: codec, RequiredAcks: kafkago.RequireAll,
		BatchTimeout: time.Millisecond, Transport: transport,
	}
	var batch []kafkago.Message
	for _, m := range all {
		batch = append(batch, kafkago.Message{
			Key: []byte(m.key), Value: []byte(m.value), Headers: []kafkago.Header{{Key: "h", Value: []byte(m.header)}},
		})
	}
	if err := w.WriteMessages(t.Context(), batch...); err != nil {
		t.Fatalf("produce: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatalf("close the writer: %v", err)
	}
}

func kafkaGoRead(t *testing.T, addr, topic string, n int) []message {
	t.Helper()
	r := kafkago.NewReader(kafkago.ReaderConfig{Brokers: []string{addr}, Topic: topic, Partition: 0, MinBytes: 1, MaxBytes: 10 << 20, MaxWait: time.Second})
	defer r.Close()
	if err := r.SetOffset(kafkago.FirstOffset); err != nil {
		t.Fatalf("go to the first offset: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []message
	for len(all) < n {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			t.Fatalf("consume, %d of %d messages: %v", len(all), n, err)
		}
		all = append(all, message{m.Offset, string(m.Key), string(m.Value), string(m.Headers[0].Value)})
	}
	return all
}
