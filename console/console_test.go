// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSource is a broker with one topic, whose next answers a test sets.
type fakeSource struct {
	ready   error
	err     error
	blocked chan struct{} // closed when a Status call is under way
}

func (f *fakeSource) Ready() error { return f.ready }

func (f *fakeSource) Status(ctx context.Context) (Status, error) {
	if f.blocked != nil {
		close(f.blocked)
		<-ctx.Done()
		return Status{}, ctx.Err()
	}
	return Status{ClusterID: "c", NodeID: 1, Ready: f.ready == nil}, f.err
}

func (f *fakeSource) Segments(_ context.Context, topic string, partition int32) ([]Segment, error) {
	if topic != "clicks" || partition > 0 {
		return nil, fmt.Errorf("topic %s: %w", topic, ErrNotFound)
	}
	if partition == 0 {
		return nil, nil
	}
	return []Segment{{Topic: topic, Tier: TierBoth, From: 0, To: 10, Bytes: 99}}, nil
}

func (f *fakeSource) Explain(_ context.Context, q Question) (Explanation, error) {
	if q.Topic != "clicks" {
		return Explanation{}, fmt.Errorf("topic %s: %w", q.Topic, ErrNotFound)
	}
	return Explanation{Topic: q.Topic, Partition: q.Partition, Asked: q.Offset, Offset: q.TimeMs, Tier: ReadWarm}, nil
}

func listen(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	o.Addresses = []string{"127.0.0.1:0"}
	s, err := Listen(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, "http://" + s.Addrs()[0].String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestEndpoints(t *testing.T) {
	reg := prometheus.NewRegistry()
	count := prometheus.NewCounter(prometheus.CounterOpts{Name: "firn_test_total", Help: "A test."})
	reg.MustRegister(count)
	source := &fakeSource{}
	_, base := listen(t, Options{Source: source, Gatherer: reg})
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{"/healthz", 200, "ok"},
		{"/readyz", 200, "ready"},
		{"/metrics", 200, "firn_test_total 0"},
		{"/debug/pprof/", 200, "goroutine"},
		{"/debug/pprof/heap?debug=1", 200, "heap profile"},
		{"/v1/status", 200, `"cluster_id":"c"`},
		{"/v1/status", 200, `"attention":[]`},
		{"/v1/segments?topic=clicks", 200, `"tier":"both"`},
		{"/v1/segments?topic=clicks&partition=0", 200, "[]"},
		{"/v1/segments?topic=clicks&partition=7", 404, `{"error":"topic clicks: not found"}`},
		{"/v1/segments?topic=nope", 404, "not found"},
		{"/v1/segments", 400, "topic is missing"},
		{"/v1/segments?topic=clicks&partition=x", 400, "want a number from 0 up"},
		{"/v1/segments?topic=clicks&partition=-1", 400, "want a number from 0 up"},
		{"/v1/segments?topic=clicks&partition=4294967296", 400, "want a number from 0 up"},
		{"/v1/explain?topic=clicks&partition=2&offset=7", 200, `"partition":2,"asked":7,"offset":0,"tier":"warm"`},
		{"/v1/explain?topic=clicks&partition=2&time=9", 200, `"asked":-1,"offset":9`},
		{"/v1/explain?topic=nope&partition=0&offset=7", 404, "not found"},
		{"/v1/explain?partition=0&offset=7", 400, "topic is missing"},
		{"/v1/explain?topic=clicks&offset=7", 400, "partition"},
		{"/v1/explain?topic=clicks&partition=0", 400, "want either offset or time"},
		{"/v1/explain?topic=clicks&partition=0&offset=1&time=1", 400, "want either offset or time"},
		{"/v1/explain?topic=clicks&partition=0&offset=-1", 400, "want a number from 0 up"},
		{"/nothing", 404, ""},
	} {
		code, body := get(t, base+c.path)
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %.200s, want %d %s", c.path, code, body, c.code, c.want)
		}
	}
	source.ready = errors.New("opening partitions")
	if code, body := get(t, base+"/readyz"); code != 503 || !strings.Contains(body, "opening partitions") {
		t.Errorf("not ready: %d %s", code, body)
	}
	source.err = errors.New("disk gone")
	if code, body := get(t, base+"/v1/status"); code != 500 || !json.Valid([]byte(body)) || !strings.Contains(body, "disk gone") {
		t.Errorf("I2: %d %s", code, body)
	}
	resp, err := http.Post(base+"/v1/status", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", resp.StatusCode)
	}
}

func TestNoMetrics(t *testing.T) {
	_, base := listen(t, Options{Source: &fakeSource{}})
	if code, _ := get(t, base+"/metrics"); code != 404 {
		t.Errorf("%d", code)
	}
}

func TestLongHeaderI1(t *testing.T) {
	s, _ := listen(t, Options{Source: &fakeSource{}})
	conn, err := net.Dial("tcp", s.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", 2*maxHeaderBytes))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d", resp.StatusCode)
	}
}

// TestCloseCutsOff closes while a request hangs: the request's context ends
// and Close does not outlast its own.
func TestCloseCutsOff(t *testing.T) {
	source := &fakeSource{blocked: make(chan struct{})}
	s, err := Listen(context.Background(), Options{Addresses: []string{"127.0.0.1:0"}, Source: source})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + s.Addrs()[0].String() + "/v1/status")
		if err == nil {
			resp.Body.Close()
		}
		answered <- err
	}()
	<-source.blocked
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	if err := <-answered; err == nil {
		t.Error("the request was answered after all")
	}
}

func TestListenFaults(t *testing.T) {
	s, _ := listen(t, Options{Source: &fakeSource{}})
	taken := s.Addrs()[0].String()
	if _, err := Listen(context.Background(), Options{Addresses: []string{"127.0.0.1:0", taken}, Source: &fakeSource{}}); err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("a taken address: %v", err)
	}
	if err := new(Options).Validate(); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("want two faults, got %v", err)
	}
}
