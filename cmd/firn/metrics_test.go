// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// metricRow finds a metric in the table of docs/OPERATIONS.md: name and
// type.
var metricRow = regexp.MustCompile("(?m)^\\| `(firn_[a-z_]+)` \\| (counter|gauge|histogram) \\|[^|]*\\|[^|]*\\| [^|]+ \\|$")

// TestMetricsAreDocumented compares what the admin port of a broker at work
// shows with the list in the documentation.
func TestMetricsAreDocumented(t *testing.T) {
	n := startTestNode(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(n.kafka()), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "clicks", Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + n.admin() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for line := range strings.Lines(string(body)) {
		if f := strings.Fields(line); len(f) == 4 && f[1] == "TYPE" && strings.HasPrefix(f[2], "firn_") {
			shown[f[2]] = f[3]
		}
	}
	doc, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, m := range metricRow.FindAllStringSubmatch(string(doc), -1) {
		documented[m[1]] = m[2]
	}
	if !maps.Equal(shown, documented) {
		for _, name := range slices.Sorted(maps.Keys(shown)) {
			if documented[name] != shown[name] {
				t.Errorf("%s, a %s, is documented as %q", name, shown[name], documented[name])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(documented)) {
			if shown[name] == "" {
				t.Errorf("%s is documented and not shown", name)
			}
		}
	}
	for _, want := range []string{
		`firn_requests_total{api="Produce"} 1`, `firn_tier_unprotected_seconds{topic="clicks"}`,
		`firn_request_seconds_count{api="Produce",phase="handle"} 1`, `firn_store_requests_total{operation="put",result="ok"}`,
		`firn_tail_delivery_seconds_count 0`, `firn_log_flush_seconds_count`, `firn_fetch_bytes_total{class="cold"} 0`, `firn_hot_resident_ratio{dir="`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %q is shown", want)
		}
	}
}

// TestTailDeliveryIsMeasured lets a client wait at the tail of a topic.
func TestTailDeliveryIsMeasured(t *testing.T) {
	n := startTestNode(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(n.kafka()), kgo.AllowAutoTopicCreation(),
		kgo.ConsumeTopics("clicks"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 20 {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "clicks", Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < 1; {
			fetched := client.PollFetches(t.Context())
			if err := fetched.Err(); err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
			got += fetched.NumRecords()
		}
	}
	// The first answers may have found records that were there before them; the
	// others were waited for. An answer is counted once it is sent.
	waitFor(t, "deliveries", func() bool {
		families, err := n.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "firn_tail_delivery_seconds" {
				h := f.Metric[0].Histogram
				return h.GetSampleCount() >= 15 && h.GetSampleCount() <= 20 && h.GetSampleSum() > 0
			}
		}
		return false
	})
}
