// SPDX-License-Identifier: Apache-2.0

//go:build integration

// Package integration runs the broker as a process of its own against real
// clients and a real S3 server, as its users do.
package integration

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/console"
	"firn/internal/testutil"
)

const (
	// patience bounds every wait for something that should take a moment.
	patience = 60 * time.Second
	// pollPause is the time between two looks at something that cannot be
	// waited for otherwise.
	pollPause = 20 * time.Millisecond
)

// waitFor looks until ready is true. What it returned last is shown when that
// does not come to pass.
func waitFor(t testing.TB, what string, ready func() (ok bool, state any)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ok, state := ready()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s; last seen: %+v", patience, what, state)
		}
		time.Sleep(pollPause)
	}
}

// tiered are the settings of a broker over a gateway that offloads and drops
// what it may at once; more overrides them.
func tiered(g *testutil.Gateway, driver string, more map[string]string) map[string]string {
	settings := g.Settings(driver)
	maps.Copy(settings, map[string]string{
		"tier.s3.access.key.id":                        g.AccessKey,
		"tier.s3.secret.access.key":                    g.SecretKey,
		"tier.roll.ms":                                 "1s",
		"log.retention.check.interval.ms":              "100ms",
		"log.segment.delete.delay.ms":                  "0",
		"remote.log.manager.task.retry.backoff.ms":     "50ms",
		"remote.log.manager.task.retry.backoff.max.ms": "500ms",
	})
	maps.Copy(settings, more)
	return settings
}

// keepLocal is a setting under which no local segment goes before a restart
// with another one.
var keepLocal = map[string]string{"log.retention.check.interval.ms": "1h"}

// createTopic creates a topic with configs as key=value.
func createTopic(t testing.TB, b *testutil.Broker, topic string, partitions int32, configs ...string) {
	t.Helper()
	set := make(map[string]*string)
	for _, c := range configs {
		key, value, _ := strings.Cut(c, "=")
		set[key] = &value
	}
	r, err := kadm.NewClient(b.Client()).CreateTopic(t.Context(), partitions, 1, set, topic)
	if err != nil {
		t.Fatalf("create topic %s: %v %s", topic, err, r.ErrMessage)
	}
}

// adminGet fills into with what the admin port answers.
func adminGet(t testing.TB, b *testutil.Broker, path string, query url.Values, into any) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get(b.AdminURL + path + "?" + query.Encode())
	if err != nil {
		t.Fatalf("ask the admin port: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read the admin port's answer: %v", err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the admin port answers %s to %s: %s", resp.Status, path, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("decode the admin port's answer to %s: %v\n%s", path, err, body)
	}
}

// segmentsOf lists the segments of a topic's partition by offset.
func segmentsOf(t testing.TB, b *testutil.Broker, topic string, partition int32) []console.Segment {
	t.Helper()
	var segments []console.Segment
	adminGet(t, b, "/v1/segments", url.Values{"topic": {topic}, "partition": {fmt.Sprint(partition)}}, &segments)
	return segments
}

// statusOf is what firn status shows.
func statusOf(t testing.TB, b *testutil.Broker) console.Status {
	t.Helper()
	var s console.Status
	adminGet(t, b, "/v1/status", nil, &s)
	return s
}

// waitInStore waits until the store has every record of a partition below end.
func waitInStore(t testing.TB, b *testutil.Broker, topic string, partition int32, end int64) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%s-%d to be in the store up to %d", topic, partition, end), func() (bool, any) {
		segments := segmentsOf(t, b, topic, partition)
		var stored int64
		for _, s := range segments {
			if s.Tier == console.TierStore || s.Tier == console.TierBoth {
				stored = max(stored, s.To)
			}
		}
		return stored >= end, segments
	})
}

// waitOffLocal waits until no record of a partition below end is on the local
// disk, and the store has them.
func waitOffLocal(t testing.TB, b *testutil.Broker, topic string, partition int32, end int64) {
	t.Helper()
	waitInStore(t, b, topic, partition, end)
	waitFor(t, fmt.Sprintf("%s-%d to leave the local disk up to %d", topic, partition, end), func() (bool, any) {
		segments := segmentsOf(t, b, topic, partition)
		for _, s := range segments {
			if s.From < end && s.Tier != console.TierStore && s.Tier != console.TierGap {
				return false, segments
			}
		}
		return true, nil
	})
}

// endOffset is the partition's high watermark.
func endOffset(t testing.TB, b *testutil.Broker, topic string, partition int32) int64 {
	t.Helper()
	ends, err := kadm.NewClient(b.Client()).ListEndOffsets(t.Context(), topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatalf("list end offsets: %v", err)
	}
	end, _ := ends.Lookup(topic, partition)
	return end.Offset
}

// logFiles are the partition's .log files, by base offset.
func logFiles(t testing.TB, b *testutil.Broker, topic string, partition int32) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(b.DataDir, fmt.Sprintf("%s-%d", topic, partition), "*.log"))
	if err != nil {
		t.Fatalf("list the log files: %v", err)
	}
	return files
}

// readFile is a file that has to be there.
func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// consumer makes a client that reads one partition from an offset.
func consumer(t testing.TB, b *testutil.Broker, topic string, partition int32, from int64, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return b.Client(append([]kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}),
		kgo.FetchMaxWait(time.Second),
	}, opts...)...)
}

// consume reads one partition from an offset until a record at or above end-1
// came, and hands every record to each.
func consume(t testing.TB, b *testutil.Broker, topic string, partition int32, from, end int64, each func(*kgo.Record)) {
	t.Helper()
	client := consumer(t, b, topic, partition, from)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for next := from; next < end; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s-%d at %d of %d: %v", topic, partition, next, end, err)
		}
		for r := range fetches.RecordsAll() {
			each(r)
			next = r.Offset + 1
		}
	}
}

// produceAll produces records of one partition in order and waits until all
// are acknowledged.
func produceAll(t testing.TB, b *testutil.Broker, topic string, partition int32, values []string, opts ...kgo.Opt) {
	t.Helper()
	client := b.Client(append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	defer client.Close()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatalf("produce to %s-%d: %v", topic, partition, err)
	}
}

// numbered are n values that differ and say which they are.
func numbered(from, n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprintf("value-%d", from+i)
	}
	return values
}

// raw is a connection on which a test writes frames of its own.
type raw struct {
	t           testing.TB
	conn        net.Conn
	formatter   *kmsg.RequestFormatter
	correlation int32
}

// dialRaw connects to the broker; the connection is closed with the test.
func dialRaw(t testing.TB, addr string) *raw {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatalf("connect to the broker: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
	return &raw{t: t, conn: conn, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw"))}
}

// frame is the request as it goes over the wire, its length included. It takes
// the next correlation id.
func (c *raw) frame(req kmsg.Request) []byte {
	c.correlation++
	return c.formatter.AppendRequest(nil, req, c.correlation)
}

// write sends bytes as they are.
func (c *raw) write(b []byte) {
	c.t.Helper()
	if err := c.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatalf("write to the broker: %v", err)
	}
}

// send sends a request without waiting for its answer.
func (c *raw) send(req kmsg.Request) { c.t.Helper(); c.write(c.frame(req)) }

// receive reads the answer to a request that was sent, the next in order.
func (c *raw) receive(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	resp := req.ResponseKind()
	body := c.body()
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if len(body) == 0 || body[0] != 0 {
			c.t.Fatalf("the answer to %s %d has no empty header tags", kmsg.NameForKey(req.Key()), req.GetVersion())
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatalf("decode the answer to %s %d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp
}

// body reads an answer behind its correlation id, whatever that is.
func (c *raw) body() []byte {
	c.t.Helper()
	b, err := c.readFrame()
	if err != nil {
		c.t.Fatalf("read an answer: %v", err)
	}
	return b[4:]
}

// readFrame reads an answer, correlation id first.
func (c *raw) readFrame() ([]byte, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > 256<<20 {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(c.conn, b)
	return b, err
}

// wantClosed fails the test unless the broker ends the connection without
// another answer.
func (c *raw) wantClosed(why string) {
	c.t.Helper()
	b, err := c.readFrame()
	var timeout net.Error
	switch {
	case err == nil:
		c.t.Errorf("%s: answered with %d bytes, want the connection closed", why, len(b))
	case errors.As(err, &timeout) && timeout.Timeout():
		c.t.Errorf("%s: the connection stayed open", why)
	}
}

// ask sends a request at its version and returns the answer.
func ask[R kmsg.Response](c *raw, req kmsg.Request) R {
	c.t.Helper()
	c.send(req)
	resp, ok := c.receive(req).(R)
	if !ok {
		c.t.Fatalf("%T is not the answer to %T", resp, req)
	}
	return resp
}
