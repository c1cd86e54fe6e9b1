// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/console"
	"firn/internal/testutil"
)

// storage is an object store that a test may look into.
type storage struct {
	settings map[string]string
	// list names all objects.
	list func() []string
}

// newStorage makes an empty store of a kind: dir, or minio or s3 over a
// gateway of its own.
func newStorage(t testing.TB, kind string) storage {
	t.Helper()
	if kind == "dir" {
		dir := filepath.Join(t.TempDir(), "store")
		settings := tiered(&testutil.Gateway{}, "dir", map[string]string{"tier.dir.path": dir})
		maps.DeleteFunc(settings, func(key, _ string) bool { return strings.HasPrefix(key, "tier.s3.") })
		return storage{settings, func() []string { return filesUnder(t, dir) }}
	}
	g := testutil.StartGateway(t)
	return storage{tiered(g, kind, nil), func() []string { return g.Keys("") }}
}

// filesUnder lists the files below a directory by their slash-separated paths
// in it. Files that go meanwhile are left out.
func filesUnder(t testing.TB, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
			return nil
		case err != nil:
			return err
		case !d.IsDir():
			relative, err := filepath.Rel(dir, path)
			files = append(files, filepath.ToSlash(relative))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatalf("list %s: %v", dir, err)
	}
	return files
}

// segmentKeys are those of the keys that name segments of a topic.
func segmentKeys(keys []string, topic string) []string {
	var found []string
	for _, key := range keys {
		if strings.HasSuffix(key, ".seg") && strings.Contains(key, "/data/"+topic+"/") {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return found
}

// namedKeys are the keys of the segments that the broker says are in the store.
func namedKeys(t testing.TB, b *testutil.Broker, topic string) []string {
	t.Helper()
	var segments []console.Segment
	adminGet(t, b, "/v1/segments", url.Values{"topic": {topic}}, &segments)
	var keys []string
	for _, s := range segments {
		if s.Key != "" {
			keys = append(keys, s.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

// waitExact waits until the store holds the topic's segments that the manifest
// names and no others.
func waitExact(t testing.TB, b *testutil.Broker, store storage, topic string) {
	t.Helper()
	waitFor(t, "the store to hold exactly what the manifest of "+topic+" names", func() (bool, any) {
		named, stored := namedKeys(t, b, topic), segmentKeys(store.list(), topic)
		return slices.Equal(named, stored), fmt.Sprintf("named %d: %q\nstored %d: %q", len(named), named, len(stored), stored)
	})
}

// payload is the value of the n-th record of a ledger. It says whose it is and
// cannot be mistaken for another one.
func payload(topic string, partition int32, n, size int) []byte {
	head := fmt.Sprintf("%s/%d/%d|", topic, partition, n)
	b := append(make([]byte, 0, max(size, len(head))), head...)
	for x := uint64(n)*0x9e3779b97f4a7c15 + 1; len(b) < size; x ^= x << 7 {
		x ^= x >> 9
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b[:max(size, len(head))]
}

// numberOf reads the number out of a payload and checks all of it.
func numberOf(topic string, partition int32, value []byte) (int, error) {
	var n int
	head, _, _ := bytes.Cut(value, []byte("|"))
	if _, err := fmt.Sscanf(string(head), topic+"/%d/%d", new(int), &n); err != nil {
		return 0, fmt.Errorf("value %.60q: %w", value, err)
	}
	if !bytes.Equal(value, payload(topic, partition, n, len(value))) {
		return 0, fmt.Errorf("value %.60q is not what was produced", value)
	}
	return n, nil
}

// ledger is what the producers of one partition were told. It may be used
// concurrently.
type ledger struct {
	topic     string
	partition int32

	mu    sync.Mutex
	acked map[int64]int // number of the record by the offset it was acknowledged at
	end   int64         // after the last acknowledged offset
	tries int           // number of the next record that is tried but once
	seen  map[int64]int // number of the record that a consumer saw at the offset
}

func newLedger(topic string, partition int32) *ledger {
	return &ledger{topic: topic, partition: partition, acked: make(map[int64]int), seen: make(map[int64]int)}
}

func (l *ledger) ack(offset int64, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[offset] = n
	l.end = max(l.end, offset+1)
}

// promised copies what was acknowledged so far.
func (l *ledger) promised() (acked map[int64]int, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.acked), l.end
}

// check reads the partition from an offset to the last acknowledged one: every
// acknowledged record is at its offset, offsets have no holes, and the
// records are in the order in which they were produced, none of them twice.
// What a consumer saw is still there, and leader epochs never fall.
func (l *ledger) check(t testing.TB, b *testutil.Broker, from int64) {
	t.Helper()
	acked, end := l.promised()
	seen, epoch := l.witnessed(), int32(-1)
	next, last, faults := from, -1, 0
	fault := func(format string, args ...any) {
		t.Helper()
		if faults++; faults <= 5 {
			t.Errorf("%s-%d: %s", l.topic, l.partition, fmt.Sprintf(format, args...))
		}
	}
	consume(t, b, l.topic, l.partition, from, end, func(r *kgo.Record) {
		t.Helper()
		if r.Offset != next && (r.Offset < next || r.Offset > startOffset(t, b, l.topic, l.partition)) {
			fault("offset %d follows %d", r.Offset, next-1)
		}
		next = r.Offset + 1
		n, err := numberOf(l.topic, l.partition, r.Value)
		if err != nil {
			fault("offset %d: %v", r.Offset, err)
			return
		}
		if n <= last {
			fault("record %d at offset %d comes after record %d", n, r.Offset, last)
		}
		last = n
		if r.LeaderEpoch < epoch {
			fault("offset %d has the leader epoch %d after %d", r.Offset, r.LeaderEpoch, epoch)
		}
		epoch = r.LeaderEpoch
		if was, ok := seen[r.Offset]; ok && was != n {
			fault("offset %d holds record %d, a consumer saw record %d there", r.Offset, n, was)
		}
		if want, ok := acked[r.Offset]; ok && want != n {
			fault("offset %d holds record %d, record %d was acknowledged there", r.Offset, n, want)
		}
		delete(acked, r.Offset)
	})
	if len(acked) > 0 {
		from = max(from, startOffset(t, b, l.topic, l.partition)) // retention may have gone on
	}
	for _, offset := range slices.Sorted(maps.Keys(acked)) {
		if offset >= from {
			fault("record %d, acknowledged at offset %d, is lost", acked[offset], offset)
		}
	}
}

// fill produces n more records of size bytes each, all acknowledged by the
// disk.
func (l *ledger) fill(t testing.TB, b *testutil.Broker, n, size int) {
	t.Helper()
	client := b.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	first := len(l.acked)
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: l.topic, Partition: l.partition, Value: payload(l.topic, l.partition, first+i, size)}
	}
	for i, r := range client.ProduceSync(t.Context(), records...) {
		if r.Err != nil {
			t.Fatalf("produce to %s-%d: %v", l.topic, l.partition, r.Err)
		}
		l.ack(r.Record.Offset, first+i)
	}
}

// fault is what happens to a request on its way to the store. It answers the
// request itself, or passes it on by next.
type fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// proxy stands between the broker and the gateway and hurts what passes.
type proxy struct {
	URL string

	mu    sync.Mutex
	fault fault
	seen  map[string]int // requests by method
}

// startProxy starts a proxy before the gateway. It ends with the test.
func startProxy(t testing.TB, g *testutil.Gateway) *proxy {
	t.Helper()
	target, err := url.Parse(g.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true}
	forward := &httputil.ReverseProxy{
		// The host is signed: it stays what the broker asked for.
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host },
		Transport: transport,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			panic(http.ErrAbortHandler) // a connection that breaks, as the gateway's would
		},
	}
	p := &proxy{seen: make(map[string]int)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		hurt := p.fault
		p.seen[r.Method]++
		p.mu.Unlock()
		if hurt == nil {
			forward.ServeHTTP(w, r)
			return
		}
		hurt(w, r, forward)
	}))
	p.URL = server.URL
	t.Cleanup(func() {
		p.set(nil)
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return p
}

// set begins a fault, or with nil ends it.
func (p *proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// requests is how many requests of a method came so far.
func (p *proxy) requests(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[method]
}

// answerError answers as a store does that has a trouble of its own.
func answerError(status int, code string) fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>broken on purpose</Message></Error>`, code)
		}
	}
}

// cutConnection breaks the connection without an answer.
func cutConnection(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// lateSuccess lets the request happen and answers 500 all the same.
func lateSuccess(w http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	answerError(http.StatusInternalServerError, "InternalError")(w, r, nil)
}

// onRange applies change to the bodies of ranged reads, everything else
// passes. An answer that comes back shorter than its length says breaks off.
func onRange(change func(h http.Header, body []byte) []byte) fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodGet || r.Header.Get("Range") == "" {
			next.ServeHTTP(w, r)
			return
		}
		got := httptest.NewRecorder()
		next.ServeHTTP(got, r)
		body := change(got.Header(), got.Body.Bytes())
		maps.Copy(w.Header(), got.Header())
		w.WriteHeader(got.Code)
		if _, err := w.Write(body); err != nil || fmt.Sprint(len(body)) != got.Header().Get("Content-Length") {
			panic(http.ErrAbortHandler)
		}
	}
}

// cutBody ends ranges in the middle of their bytes.
func cutBody(_ http.Header, body []byte) []byte { return body[:len(body)/2] }

// shortBody answers ranges with fewer bytes than were asked for, and says so.
func shortBody(h http.Header, body []byte) []byte {
	body = body[:len(body)/2]
	h.Set("Content-Length", fmt.Sprint(len(body)))
	return body
}

// flipBit changes one bit of each range.
func flipBit(_ http.Header, body []byte) []byte {
	body = bytes.Clone(body)
	if len(body) > 0 {
		body[len(body)/2] ^= 0x10
	}
	return body
}

// askFetch is one Fetch for partition 0 of each topic, by its offset.
func askFetch(t testing.TB, c *raw, maxWait time.Duration, minBytes int32, from map[string]int64) map[string]kmsg.FetchResponseTopicPartition {
	t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.Version = 12 // the last one that names topics
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(maxWait.Milliseconds()), minBytes, 8<<20
	for _, topic := range slices.Sorted(maps.Keys(from)) {
		p := kmsg.NewFetchRequestTopicPartition()
		p.FetchOffset, p.PartitionMaxBytes = from[topic], 1<<20
		one := kmsg.NewFetchRequestTopic()
		one.Topic, one.Partitions = topic, append(one.Partitions, p)
		req.Topics = append(req.Topics, one)
	}
	got := make(map[string]kmsg.FetchResponseTopicPartition)
	for _, topic := range ask[*kmsg.FetchResponse](c, req).Topics {
		got[topic.Topic] = topic.Partitions[0]
	}
	return got
}

// tryDial connects once; nil when nobody listens.
func tryDial(addr string) net.Conn {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil
	}
	return c
}

// startOffset is the first offset that the partition keeps, in either tier.
func startOffset(t testing.TB, b *testutil.Broker, topic string, partition int32) int64 {
	t.Helper()
	var start int64
	waitFor(t, "the start offset of "+topic, func() (bool, any) {
		admin := kadm.NewClient(b.Client())
		defer admin.Close()
		starts, err := admin.ListStartOffsets(t.Context(), topic)
		if err == nil {
			err = starts.Error()
		}
		at, _ := starts.Lookup(topic, partition)
		start = at.Offset
		return err == nil, err
	})
	return start
}

// removeOptions are none.
var removeOptions minio.RemoveObjectOptions

// readWhole is the request with its whole body at hand, so that it can be sent
// when its connection is gone.
func readWhole(r *http.Request) *http.Request {
	body, err := io.ReadAll(r.Body)
	late := r.Clone(context.WithoutCancel(r.Context()))
	late.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		late.Body = io.NopCloser(iotest.ErrReader(err))
	}
	return late
}
