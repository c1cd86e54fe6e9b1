// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/internal/testutil"
)

// anonymousMemory is what the broker holds of memory that is no file's, in
// bytes.
func anonymousMemory(t testing.TB, b *testutil.Broker) int64 {
	t.Helper()
	status := string(readFile(t, fmt.Sprintf("/proc/%d/status", b.Pid())))
	var kilobytes int64
	for _, field := range []string{"RssAnon", "RssShmem"} {
		found := regexp.MustCompile(field + `:\s+(\d+) kB`).FindStringSubmatch(status)
		if found == nil {
			t.Fatalf("%s is not in the status of the broker:\n%s", field, status)
		}
		n, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		kilobytes += n
	}
	return kilobytes << 10
}

// deaf connects a client that asks for megabytes, again and again, and never
// reads an answer.
func deaf(t testing.TB, b *testutil.Broker, topic string, asks int) net.Conn {
	t.Helper()
	c := dialRaw(t, b.Addr)
	if err := c.conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	for range asks {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 12, 500, 1, 16<<20
		p := kmsg.NewFetchRequestTopicPartition()
		p.PartitionMaxBytes = 16 << 20
		one := kmsg.NewFetchRequestTopic()
		one.Topic, one.Partitions = topic, append(one.Partitions, p)
		req.Topics = append(req.Topics, one)
		c.send(req)
	}
	return c.conn
}

// Clients that stop reading cost others nothing, hold no more memory than the
// budgets allow, and are cut off.
func TestSlowClients(t *testing.T) {
	const (
		perTier = 20
		asks    = 5
		// maxMemory is the bar for a broker at full load.
		maxMemory = 250 << 20
	)
	g := testutil.StartGateway(t)
	settings := tiered(g, "minio", gracefully)
	maps.Copy(settings, map[string]string{"fetch.send.timeout.ms": "3s"})
	b := testutil.StartBroker(t, settings)
	createTopic(t, b, "deaf-hot", 1)
	createTopic(t, b, "deaf-cold", 1, "segment.bytes=1048576", "local.retention.ms=1")
	hot, cold := newLedger("deaf-hot", 0), newLedger("deaf-cold", 0)
	hot.fill(t, b, 16*outageSegment, outageRecord)
	cold.fill(t, b, 16*outageSegment, outageRecord)
	waitOffLocal(t, b, "deaf-cold", 0, cold.end)

	var clients []net.Conn
	for range perTier {
		clients = append(clients, deaf(t, b, "deaf-hot", asks), deaf(t, b, "deaf-cold", asks))
	}
	most := int64(0)
	for strings.Count(b.Logs(), "event=client_slow") == 0 {
		hot.fill(t, b, 5, outageRecord)
		hot.check(t, b, hot.end-20)
		cold.check(t, b, 0)
		most = max(most, anonymousMemory(t, b))
	}
	waitFor(t, "all of them to be cut off", func() (bool, any) {
		most = max(most, anonymousMemory(t, b))
		n := strings.Count(b.Logs(), "event=client_slow")
		return n == len(clients), n
	})
	if os.Getenv("TEST_FIRN_RACE") == "" && most > maxMemory { // the race detector's shadow counts, too
		t.Errorf("the broker held %d MiB", most>>20)
	}
	t.Logf("the broker held %d MiB at most", most>>20)
	for _, c := range clients {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, c)
		if errors.Is(err, os.ErrDeadlineExceeded) || n >= 16<<20 {
			t.Errorf("a client that was cut off could still read %d bytes: %v", n, err)
		}
	}
	hot.check(t, b, 0)
	cold.check(t, b, 0)
}
