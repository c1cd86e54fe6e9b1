// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/internal/testutil"
	"firn/record/recordtest"
)

const (
	// killRounds is how often a broker dies in the normal run, on each store.
	// TEST_KILL_ROUNDS raises it.
	killRounds = 8
	// killRecord is the size of a record under load, and killPace the time
	// between two of one partition: about 1.5 MiB/s, so that a segment of the
	// smallest size fills in less than a second.
	killRecord = 8 << 10
	killPace   = 5 * time.Millisecond
)

// killTopic is a topic under load.
type killTopic struct {
	name       string
	partitions int32
	// leader makes its producers ask for acks=1, without idempotence.
	leader bool
	// expires says that retention takes its oldest records away.
	expires bool
	configs []string
}

// killTopics are hit in every stage of a record's life: the first two go up
// and leave the disk, the third one loses its history meanwhile.
var killTopics = []killTopic{
	{name: "synced", partitions: 3, configs: []string{"segment.bytes=1048576", "local.retention.bytes=1"}},
	{name: "cached", partitions: 2, leader: true, configs: []string{"segment.bytes=1048576", "local.retention.bytes=2097152"}},
	{name: "short", partitions: 2, expires: true, configs: []string{"segment.bytes=1048576", "retention.bytes=4194304", "local.retention.bytes=1048576"}},
}

// load is producers that go on whatever becomes of the broker.
type load struct {
	ledgers map[string][]*ledger
	clients []*kgo.Client
	cancel  context.CancelFunc
	done    sync.WaitGroup
	failure atomic.Pointer[string]
}

func startLoad(t testing.TB, b *testutil.Broker, topics []killTopic) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{ledgers: make(map[string][]*ledger), cancel: cancel}
	t.Cleanup(func() {
		cancel()
		for _, c := range l.clients {
			c.Close() // ends the Produce that a producer may be blocked in
		}
		l.done.Wait()
	})
	for _, topic := range topics {
		createTopic(t, b, topic.name, topic.partitions, topic.configs...)
		client := b.Client(
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.MaxBufferedRecords(256),
			kgo.MetadataMinAge(50*time.Millisecond),
			kgo.RetryBackoffFn(func(int) time.Duration { return 30 * time.Millisecond }),
		)
		l.clients = append(l.clients, client)
		for p := range topic.partitions {
			one := newLedger(topic.name, p)
			l.ledgers[topic.name] = append(l.ledgers[topic.name], one)
			if topic.leader {
				l.done.Go(func() { one.produceLeader(ctx, b.Addr) })
			} else {
				l.done.Go(func() { one.produceIdempotent(ctx, client, l.fail) })
			}
		}
	}
	return l
}

func (l *load) fail(err error) {
	text := err.Error()
	l.failure.CompareAndSwap(nil, &text)
}

// stop ends the producers and waits until what they sent is acknowledged.
func (l *load) stop(t testing.TB) {
	t.Helper()
	l.cancel()
	l.done.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, c := range l.clients {
		if err := c.Flush(ctx); err != nil {
			t.Fatalf("wait for the last acknowledgements: %v", err)
		}
	}
	l.check(t)
}

// check fails the test when an idempotent producer gave up a record.
func (l *load) check(t testing.TB) {
	t.Helper()
	if failure := l.failure.Load(); failure != nil {
		t.Fatalf("an idempotent producer gave up: %s", *failure)
	}
}

// produceIdempotent produces one record after the other, many at a time, with
// acks=all. The client repeats them until they are acknowledged.
func (l *ledger) produceIdempotent(ctx context.Context, client *kgo.Client, fail func(error)) {
	pace := time.NewTicker(killPace)
	defer pace.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		r := &kgo.Record{Topic: l.topic, Partition: l.partition, Value: payload(l.topic, l.partition, n, killRecord)}
		client.Produce(context.Background(), r, func(r *kgo.Record, err error) {
			switch {
			case err == nil:
				l.ack(r.Offset, n)
			case ctx.Err() == nil:
				fail(fmt.Errorf("%s-%d, record %d: %w", l.topic, l.partition, n, err))
			}
		})
		<-pace.C
	}
}

// produceLeader produces one record after the other with acks=1 and without
// idempotence. What is not acknowledged is not repeated, so that nothing can be
// there twice.
func (l *ledger) produceLeader(ctx context.Context, addr string) {
	pace := time.NewTicker(killPace)
	defer pace.Stop()
	var conn net.Conn
	for n := 0; ctx.Err() == nil; n++ {
		<-pace.C
		if conn == nil {
			if conn = tryDial(addr); conn == nil {
				continue
			}
		}
		offset, err := produceOnce(conn, l.topic, l.partition, payload(l.topic, l.partition, n, killRecord))
		switch {
		case err != nil:
			_ = conn.Close()
			conn = nil
		case offset >= 0:
			l.ack(offset, n)
		}
	}
	if conn != nil {
		_ = conn.Close()
	}
}

// produceOnce produces one record with acks=1 and returns its offset, negative
// when the broker refused it.
func produceOnce(conn net.Conn, topic string, partition int32, value []byte) (int64, error) {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 8, 1, 30_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition = partition
	p.Records = recordtest.Batch(0, recordtest.Values(value), recordtest.Timestamp(time.Now().UnixMilli()))
	one := kmsg.NewProduceRequestTopic()
	one.Topic, one.Partitions = topic, append(one.Partitions, p)
	req.Topics = append(req.Topics, one)
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)); err != nil {
		return 0, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return 0, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(conn, body); err != nil {
		return 0, err
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = req.Version
	if err := resp.ReadFrom(body[4:]); err != nil {
		return 0, err
	}
	got := resp.Topics[0].Partitions[0]
	if got.ErrorCode != 0 {
		return -1, nil
	}
	return got.BaseOffset, nil
}

// killSettings make everything happen often.
func killSettings(store storage) map[string]string {
	settings := maps.Clone(store.settings)
	maps.Copy(settings, map[string]string{
		"tier.delete.grace.ms":                    "500",
		"tier.roll.ms":                            "500",
		"log.retention.check.interval.ms":         "100",
		"log.flush.offset.checkpoint.interval.ms": "300",
	})
	return settings
}

// A broker that dies at any moment of its work loses no acknowledged record,
// keeps the order, doubles nothing, and leaves no object behind.
func TestKillUnderLoad(t *testing.T) {
	rounds := killRounds
	if text := os.Getenv("TEST_KILL_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("TEST_KILL_ROUNDS: %v", err)
		}
		rounds = n
	}
	for _, kind := range []string{"dir", "minio"} {
		t.Run(kind, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			store := newStorage(t, kind)
			b := testutil.StartBroker(t, killSettings(store))
			l := startLoad(t, b, killTopics)
			w := l.startWatch(t, b, killTopics)
			verified := make(map[*ledger]int64)
			for range rounds {
				time.Sleep(time.Duration(200+random.IntN(900)) * time.Millisecond)
				b.Kill()
				for random.IntN(3) == 0 { // again, while it comes up
					b.Launch()
					time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
					b.Kill()
				}
				b.Start()
				l.check(t)
				l.verify(t, b, verified)
			}
			l.stop(t)
			l.replay(t, b)
			l.wantBusy(t)
			l.wantNoLoss(t, b, w)
			for _, topic := range killTopics {
				for p := range topic.partitions {
					waitInStore(t, b, topic.name, p, endOffset(t, b, topic.name, p))
				}
				waitExact(t, b, store, topic.name)
			}
			l.replay(t, b)
		})
	}
}

// wantBusy fails the test when the load was none: a test that kills an idle
// broker shows nothing.
func (l *load) wantBusy(t testing.TB) {
	t.Helper()
	for topic, ledgers := range l.ledgers {
		for _, one := range ledgers {
			acked, end := one.promised()
			t.Logf("%s-%d: %d records acknowledged, up to offset %d", topic, one.partition, len(acked), end)
			if len(acked) < 100 {
				t.Errorf("%s-%d: only %d records were acknowledged", topic, one.partition, len(acked))
			}
		}
	}
}

// verify reads what was acknowledged since it was called last, beginning a
// little before that.
func (l *load) verify(t testing.TB, b *testutil.Broker, verified map[*ledger]int64) {
	t.Helper()
	for _, topic := range killTopics {
		for _, one := range l.ledgers[topic.name] {
			_, end := one.promised()
			one.check(t, b, max(verified[one], startOffset(t, b, topic.name, one.partition)))
			verified[one] = max(0, end-20)
		}
	}
}

// replay reads everything from its beginning.
func (l *load) replay(t testing.TB, b *testutil.Broker) {
	t.Helper()
	for _, topic := range killTopics {
		for _, one := range l.ledgers[topic.name] {
			start := startOffset(t, b, topic.name, one.partition)
			if start != 0 && !topic.expires {
				t.Errorf("%s-%d starts at %d", topic.name, one.partition, start)
			}
			one.check(t, b, start)
		}
	}
}

// killPoint is a moment in the broker's dealings with the store.
type killPoint struct {
	name   string
	method string
	// part is in the keys of the requests that count.
	part string
	// after lets the request happen before the broker dies.
	after bool
}

// The broker dies at each request of an upload, a manifest write, a takeover
// and a deletion, before it reaches the store and before its answer comes back.
func TestKillAtRequestsToTheStore(t *testing.T) {
	g := testutil.StartGateway(t)
	p := startProxy(t, g)
	store := storage{tiered(g, "s3", map[string]string{"tier.s3.endpoint": p.URL}), func() []string { return g.Keys("") }}
	settings := killSettings(store)
	b := testutil.StartBroker(t, settings)
	topics := killTopics[:1]
	l := startLoad(t, b, append(topics, killTopics[2]))
	for _, part := range []killPoint{
		{"segment", http.MethodPut, ".seg", false}, {"head", http.MethodPut, "/head/", false},
		{"claim", http.MethodPut, "/claim/", false}, {"footer", http.MethodGet, ".seg", false},
		{"fence", http.MethodGet, "list-type", false}, {"delete", "", "delete", false},
	} {
		for _, after := range []bool{false, true} {
			part.after = after
			p.killAt(t, b, part)
			b.Start()
			l.check(t)
		}
	}
	l.stop(t)
	for _, topic := range []killTopic{killTopics[0], killTopics[2]} {
		for _, one := range l.ledgers[topic.name] {
			waitInStore(t, b, topic.name, one.partition, endOffset(t, b, topic.name, one.partition))
			one.check(t, b, startOffset(t, b, topic.name, one.partition))
		}
		waitExact(t, b, store, topic.name)
	}
}

// killAt kills the broker when a request of the kind is at the proxy. A claim
// is made at a start only, so that one is caused.
func (p *proxy) killAt(t testing.TB, b *testutil.Broker, point killPoint) {
	t.Helper()
	hit, released := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p.set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !point.matches(r) {
			next.ServeHTTP(w, r)
			return
		}
		mine := false
		once.Do(func() { mine = true })
		if !mine {
			next.ServeHTTP(w, r)
			return
		}
		if point.after {
			// Whether the broker lives or not, the request arrives whole.
			next.ServeHTTP(discardAnswer{}, r)
		}
		close(hit)
		<-released
		panic(http.ErrAbortHandler)
	})
	if point.part == "/claim/" {
		b.Kill()
		b.Launch()
	}
	select {
	case <-hit:
	case <-time.After(patience):
		t.Errorf("no request for %s came", point.name)
	}
	b.Kill()
	p.set(nil)
	close(released)
}

func (k killPoint) matches(r *http.Request) bool {
	if k.part == "delete" {
		return r.Method == http.MethodDelete || r.Method == http.MethodPost && strings.Contains(r.URL.RawQuery, "delete")
	}
	return r.Method == k.method && strings.Contains(r.URL.Path+"?"+r.URL.RawQuery, k.part)
}

// discardAnswer takes an answer that nobody will see.
type discardAnswer struct{}

func (discardAnswer) Header() http.Header         { return make(http.Header) }
func (discardAnswer) Write(b []byte) (int, error) { return len(b), nil }
func (discardAnswer) WriteHeader(int)             {}
