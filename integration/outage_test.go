// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"firn/console"
	"firn/internal/testutil"
)

// outage is one way in which a store fails.
type outage struct {
	name string
	// begin and end are nil for what the proxy does alone.
	begin, end func(g *testutil.Gateway)
	fault      fault
	// reads says that reads alone are hurt: uploads go on, though what is read
	// back of them is not believed.
	reads bool
	// hangs says that requests are not even refused.
	hangs bool
}

var outages = []outage{
	{name: "refuses", begin: (*testutil.Gateway).Stop, end: (*testutil.Gateway).Start},
	{name: "cuts", fault: cutConnection},
	{name: "answers-500", fault: answerError(http.StatusInternalServerError, "InternalError")},
	{name: "slow-down", fault: answerError(http.StatusServiceUnavailable, "SlowDown")},
	{name: "denies", fault: answerError(http.StatusForbidden, "AccessDenied")},
	{name: "late-success", fault: lateSuccess},
	{name: "cuts-ranges", fault: onRange(cutBody), reads: true},
	{name: "short-ranges", fault: onRange(shortBody), reads: true},
	{name: "flips-bits", fault: onRange(flipBit), reads: true},
	{name: "hangs", begin: (*testutil.Gateway).Pause, end: (*testutil.Gateway).Resume, hangs: true},
}

const (
	outageRecord = 16 << 10
	// outageSegment is how many of them fill a segment of 1 MiB.
	outageSegment = 63
)

// stage is a broker over a store that can be hurt, with history that lies in
// the store alone and a topic at whose tail a consumer waits.
type stage struct {
	gateway *testutil.Gateway
	proxy   *proxy
	store   storage
	broker  *testutil.Broker
	cold    map[string]*ledger
	hot     *ledger
	tail    *kgo.Client
}

func newStage(t *testing.T, driver string) *stage {
	g := testutil.StartGateway(t)
	s := &stage{gateway: g, proxy: startProxy(t, g), cold: make(map[string]*ledger), hot: newLedger("hot", 0)}
	s.store = storage{tiered(g, driver, map[string]string{"tier.s3.endpoint": s.proxy.URL, "tier.delete.grace.ms": "1s"}),
		func() []string { return g.Keys("") }}
	if driver == "minio" { // without any cache: every read is a request
		maps.Copy(s.store.settings, map[string]string{"tier.cache.bytes": "0", "tier.index.cache.bytes": "0", "tier.prefetch.bytes": "0"})
	}
	s.broker = testutil.StartBroker(t, s.store.settings)
	createTopic(t, s.broker, "hot", 1, "segment.bytes=1048576", "local.retention.ms=1")
	for _, o := range outages {
		// Each outage has history of its own: nobody has read it before.
		topic := "cold-" + o.name
		s.cold[topic] = newLedger(topic, 0)
		createTopic(t, s.broker, topic, 1, "segment.bytes=1048576", "local.retention.ms=1")
		s.cold[topic].fill(t, s.broker, outageSegment*3/2, outageRecord)
	}
	for topic, l := range s.cold {
		waitOffLocal(t, s.broker, topic, 0, l.end)
	}
	s.tail = consumer(t, s.broker, "hot", 0, 0)
	s.goOn(t, 1)
	return s
}

// goOn produces to the hot topic and has the tail see every record.
func (s *stage) goOn(t *testing.T, n int) {
	t.Helper()
	next := s.hot.end
	s.hot.fill(t, s.broker, n, outageRecord)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for next < s.hot.end {
		fetches := s.tail.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("the tail at %d of %d: %v", next, s.hot.end, err)
		}
		for r := range fetches.RecordsAll() {
			if r.Offset != next {
				t.Fatalf("the tail got offset %d after %d", r.Offset, next-1)
			}
			next = r.Offset + 1
		}
	}
}

// A store that fails in any way disturbs nothing but the reads that need it,
// and those only as long as it fails.
func TestOutage(t *testing.T) {
	for _, driver := range []string{"s3", "minio"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, driver)
			for _, o := range outages {
				t.Run(o.name, func(t *testing.T) { s.endure(t, o) })
			}
			s.hot.check(t, s.broker, 0)
		})
	}
}

func (s *stage) endure(t *testing.T, o outage) {
	cold := s.cold["cold-"+o.name]
	before := logFiles(t, s.broker, "hot", 0)
	if o.begin != nil {
		o.begin(s.gateway)
	}
	s.proxy.set(o.fault)

	s.goOn(t, outageSegment*2) // two segments are sealed, at least
	s.wantColdRefused(t, cold, o)
	s.goOn(t, 10)
	s.wantAllLocal(t, before)
	s.waitRetries(t, o)
	s.wantAllLocal(t, before)

	s.proxy.set(nil)
	if o.end != nil {
		o.end(s.gateway)
	}
	cold.check(t, s.broker, 0)
	s.hot.check(t, s.broker, 0)
	waitOffLocal(t, s.broker, "hot", 0, s.hot.end)
	waitExact(t, s.broker, s.store, "hot")
	waitFor(t, "the store to be active", func() (bool, any) {
		state := statusOf(t, s.broker).Store
		return state.State == "active" && state.LastError == "", state
	})
}

// wantColdRefused reads history and the tail in one fetch: the tail is
// answered at once, history with an error that clients retry, or not yet.
func (s *stage) wantColdRefused(t *testing.T, cold *ledger, o outage) {
	t.Helper()
	c := dialRaw(t, s.broker.Addr)
	defer c.conn.Close()
	// MinBytes 1 and a wait that would not end within the test: only the
	// tail's data can answer it. A segment is local until it is in the store.
	got := askFetch(t, c, 10*time.Minute, 1, map[string]int64{cold.topic: 0, "hot": s.hot.end - 1})
	if p := got["hot"]; p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Errorf("the tail beside a cold read: error %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
	sure := false
	for range 200 {
		got := askFetch(t, c, time.Second, 1, map[string]int64{cold.topic: 0})
		p := got[cold.topic]
		switch {
		case len(p.RecordBatches) > 0:
			t.Fatalf("%d bytes came from a store that %s", len(p.RecordBatches), o.name)
		case p.ErrorCode == kerr.KafkaStorageError.Code:
			sure = true
		case p.ErrorCode != 0:
			t.Fatalf("the cold read is answered with %v", kerr.ErrorForCode(p.ErrorCode))
		}
		if p.LogStartOffset != 0 || p.HighWatermark != cold.end {
			t.Errorf("the cold partition goes from %d to %d, want 0 to %d", p.LogStartOffset, p.HighWatermark, cold.end)
		}
		if sure || o.hangs {
			return // what hangs is answered empty until its deadline
		}
	}
	t.Errorf("no error came from a store that %s", o.name)
}

// wantAllLocal fails the test when a log file went although the store has not
// taken it.
func (s *stage) wantAllLocal(t *testing.T, before []string) {
	t.Helper()
	var missing int64 = -1
	segments := segmentsOf(t, s.broker, "hot", 0)
	next := segments[0].From
	for _, one := range segments {
		if one.From != next && missing < 0 {
			missing = next
		}
		next = one.To
	}
	if segments[0].From != 0 || missing >= 0 || next < s.hot.end {
		t.Errorf("offsets of %q are in neither tier: %+v", before, segments)
	}
}

// waitRetries waits until what failed was tried again more than once.
func (s *stage) waitRetries(t *testing.T, o outage) {
	t.Helper()
	if o.hangs {
		return // one request takes longer than the test
	}
	from := s.proxy.requests(http.MethodPut)
	waitFor(t, "uploads to be tried again", func() (bool, any) {
		now := s.proxy.requests(http.MethodPut)
		return now >= from+2, now
	})
	state := statusOf(t, s.broker).Store
	if state.LastError == "" || state.OldestLocalOnlyMs < 0 {
		t.Errorf("the status does not tell of the outage: %+v", state)
	}
}

// A broker whose data directory is bound to a store starts without it, serves
// what it has, and catches up when the store is back.
func TestOutageAtStart(t *testing.T) {
	s := newStage(t, "minio")
	cold := s.cold["cold-refuses"]
	s.goOn(t, outageSegment*2)
	waitInStore(t, s.broker, "hot", 0, s.hot.end)
	s.broker.Stop()
	s.gateway.Stop()
	s.broker.Start()

	s.hot.fill(t, s.broker, outageSegment*2, outageRecord)
	s.wantColdRefused(t, cold, outages[0])
	createTopic(t, s.broker, "born-in-the-outage", 1, "segment.bytes=1048576", "local.retention.ms=1")
	born := newLedger("born-in-the-outage", 0)
	born.fill(t, s.broker, outageSegment*2, outageRecord)
	born.check(t, s.broker, 0)
	waitFor(t, "the status to tell", func() (bool, any) {
		state := statusOf(t, s.broker)
		return state.Store.State == "store-down", state
	})
	s.broker.Kill() // once more, with what was appended meanwhile
	s.broker.Start()
	s.hot.fill(t, s.broker, 10, outageRecord)
	born.fill(t, s.broker, 10, outageRecord)

	s.gateway.Start() // only to hang
	s.gateway.Pause()
	s.broker.Restart()
	s.hot.fill(t, s.broker, 10, outageRecord)
	s.hot.check(t, s.broker, s.hot.end-20)

	s.gateway.Resume()
	waitOffLocal(t, s.broker, "hot", 0, s.hot.end)
	waitOffLocal(t, s.broker, "born-in-the-outage", 0, born.end)
	for _, l := range append(slices.Collect(maps.Values(s.cold)), s.hot, born) {
		l.check(t, s.broker, 0)
	}
	waitExact(t, s.broker, s.store, "hot")
	waitExact(t, s.broker, s.store, "born-in-the-outage")
	for _, key := range s.store.list() {
		if strings.Contains(key, "/topics/") {
			return
		}
	}
	t.Error("the bucket describes no topic")
}

// The first start of a data directory must reach its store: what is wrong is
// said, and nothing is left behind that would bind the directory.
func TestOutageAtFirstStart(t *testing.T) {
	g := testutil.StartGateway(t)
	for _, one := range []struct {
		name string
		set  map[string]string
		code int
		want []string
	}{
		{"wrong secret", map[string]string{"tier.s3.secret.access.key": "not-it"}, 1, []string{"never bound", "SignatureDoesNotMatch"}},
		{"unknown key", map[string]string{"tier.s3.access.key.id": "nobody"}, 1, []string{"never bound", "the access key is unknown there"}},
		{"no bucket", map[string]string{"tier.s3.bucket": "not-there"}, 1, []string{"never bound", "not-there"}},
		{"nobody there", map[string]string{"tier.s3.endpoint": "http://127.0.0.1:1"}, 3, []string{"never bound", "connection refused"}},
	} {
		for _, driver := range []string{"s3", "minio"} {
			t.Run(one.name+"/"+driver, func(t *testing.T) {
				b := testutil.NewBroker(t, tiered(g, driver, one.set))
				b.Launch()
				exit := b.WaitExit(patience)
				if exit.Code != one.code {
					t.Errorf("exit code %d, want %d", exit.Code, one.code)
				}
				for _, want := range one.want {
					if !strings.Contains(exit.Stderr, want) {
						t.Errorf("the error does not say %q:\n%s", want, exit.Stderr)
					}
				}
				if strings.Contains(exit.Stderr, "not-it") || strings.Contains(exit.Stderr, g.SecretKey) {
					t.Errorf("the error tells a secret:\n%s", exit.Stderr)
				}
				for key := range one.set {
					b.Set(key, tiered(g, driver, nil)[key])
				}
				b.Start() // the same directory, put right
				if kind := statusOf(t, b).Store; kind.Kind != driver {
					t.Errorf("%+v", console.StoreStatus(kind))
				}
				b.Stop()
				for _, key := range g.Keys("") { // for the next one: this bucket holds no cluster
					if err := g.Client().RemoveObject(t.Context(), g.Bucket, key, removeOptions); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}
