// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/console"
	"firn/internal/testutil"
	"firn/record"
)

// gracefully are settings under which deleted objects go soon.
var gracefully = map[string]string{"tier.delete.grace.ms": "1s"}

// startGateway starts a gateway and a broker over it; the store's settings
// have a short grace.
func startGateway(t *testing.T) (*testutil.Gateway, storage, *testutil.Broker) {
	t.Helper()
	g := testutil.StartGateway(t)
	store := storage{tiered(g, "minio", gracefully), func() []string { return g.Keys("") }}
	return g, store, testutil.StartBroker(t, store.settings)
}

// Old records go in both tiers, and what is left is served from its first
// offset.
func TestRetentionOverBothTiers(t *testing.T) {
	for _, one := range []struct {
		name    string
		configs []string
		// keeps bounds what is left of eight segments, in bytes; local what is
		// left of it on the disk.
		least, most           int64
		leastLocal, mostLocal int64
	}{
		{"bytes", []string{"retention.bytes=4194304", "local.retention.ms=1"}, 4 << 20, 6 << 20, 0, 0},
		{"bytes-local", []string{"retention.bytes=5242880", "local.retention.bytes=2097152"}, 5 << 20, 7 << 20, 2 << 20, 4 << 20},
		{"time", []string{"retention.ms=4000", "local.retention.ms=1000"}, 0, 0, 0, 0},
		{"local-time", []string{"retention.ms=-1", "local.retention.ms=2000"}, 8 << 20, 9 << 20, 0, 0},
		{"both-kept", []string{"retention.ms=-1", "local.retention.ms=-1"}, 8 << 20, 9 << 20, 8 << 20, 9 << 20},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			_, store, b := startGateway(t)
			topic := "kept-by-" + one.name
			createTopic(t, b, topic, 1, append(one.configs, "segment.bytes=1048576")...)
			l := newLedger(topic, 0)
			l.fill(t, b, 8*outageSegment+40, outageRecord)

			settled := func() {
				t.Helper()
				waitFor(t, topic+" to be as small as it should be", func() (bool, any) {
					var total, local int64
					segments := segmentsOf(t, b, topic, 0)
					for _, s := range segments {
						total += s.Bytes
						if s.Tier != console.TierStore {
							local += s.Bytes
						}
						if s.Tier == console.TierLocal {
							return false, segments // not in the store yet
						}
					}
					return total >= one.least && total <= one.most && local >= one.leastLocal && local <= one.mostLocal, segments
				})
				waitExact(t, b, store, topic)
			}
			settled()
			start := startOffset(t, b, topic, 0)
			l.wantStart(t, b, start)
			b.Kill()
			b.Start()
			if again := startOffset(t, b, topic, 0); again != start {
				t.Errorf("the log started at %d, and at %d after a kill", start, again)
			}
			l.wantStart(t, b, start)
			l.fill(t, b, 10, outageRecord)
			l.check(t, b, startOffset(t, b, topic, 0))
			settled()
		})
	}
}

// wantStart reads from the first offset, and below it.
func (l *ledger) wantStart(t testing.TB, b *testutil.Broker, start int64) {
	t.Helper()
	l.check(t, b, start)
	c := dialRaw(t, b.Addr)
	defer c.conn.Close()
	for _, below := range []int64{0, start / 2, start - 1} {
		if below < 0 || below >= start {
			continue
		}
		var p kmsg.FetchResponseTopicPartition
		// Until the manifest is read nothing is said to be out of range.
		waitFor(t, "an answer about an old offset", func() (bool, any) {
			p = askFetch(t, c, time.Second, 1, map[string]int64{l.topic: below})[l.topic]
			return p.ErrorCode != kerr.KafkaStorageError.Code, p.ErrorCode
		})
		if p.ErrorCode != kerr.OffsetOutOfRange.Code {
			t.Errorf("%s: offset %d, below the start %d: error %d and %d bytes", l.topic, below, start, p.ErrorCode, len(p.RecordBatches))
		}
		if p.LogStartOffset >= 0 && p.LogStartOffset != start {
			t.Errorf("%s: the answer says that the log starts at %d, want %d", l.topic, p.LogStartOffset, start)
		}
	}
	if segments := segmentsOf(t, b, l.topic, 0); len(segments) > 0 && segments[0].From > start {
		t.Errorf("%s starts at %d, and its first segment at %d", l.topic, start, segments[0].From)
	}
}

// While the store is away, what expires goes without having been uploaded. A
// broker that has not read its manifest deletes nothing at all.
func TestRetentionInAnOutage(t *testing.T) {
	g, store, b := startGateway(t)
	const topic = "expires"
	createTopic(t, b, topic, 1, "segment.bytes=1048576", "retention.bytes=3145728")
	l := newLedger(topic, 0)
	l.fill(t, b, 2*outageSegment, outageRecord)
	waitInStore(t, b, topic, 0, l.end)
	tieredEnd := l.end

	g.Stop()
	l.fill(t, b, 8*outageSegment, outageRecord)
	waitFor(t, "retention to pass what was never uploaded", func() (bool, any) {
		start := startOffset(t, b, topic, 0)
		return start > tieredEnd+outageSegment, start
	})
	start := startOffset(t, b, topic, 0)
	l.check(t, b, start)
	l.wantStart(t, b, start)

	b.Kill()
	b.Start()
	l.fill(t, b, 4*outageSegment, outageRecord)
	time.Sleep(time.Second) // ten looks of retention
	if again := startOffset(t, b, topic, 0); again != start {
		t.Errorf("the log start went from %d to %d with the manifest unread", start, again)
	}
	l.check(t, b, start)

	g.Start()
	waitFor(t, "retention to go on", func() (bool, any) {
		again := startOffset(t, b, topic, 0)
		return again > start, again
	})
	waitInStore(t, b, topic, 0, l.end)
	waitExact(t, b, store, topic)
	l.wantStart(t, b, startOffset(t, b, topic, 0))
}

// topicID is the id of a live topic.
func topicID(t testing.TB, b *testutil.Broker, topic string) record.TopicID {
	t.Helper()
	admin := kadm.NewClient(b.Client())
	defer admin.Close()
	topics, err := admin.ListTopics(t.Context(), topic)
	if err != nil || topics[topic].Err != nil {
		t.Fatalf("look up topic %s: %v %v", topic, err, topics[topic].Err)
	}
	return record.TopicID(topics[topic].ID)
}

func deleteTopic(t testing.TB, b *testutil.Broker, topic string) {
	t.Helper()
	admin := kadm.NewClient(b.Client())
	defer admin.Close()
	if got, err := admin.DeleteTopic(t.Context(), topic); err != nil || got.Err != nil {
		t.Fatalf("delete topic %s: %v %v", topic, err, got.Err)
	}
}

// doomed is a topic that is deleted in some way.
type doomed struct {
	name string
	id   record.TopicID
}

// breed creates a topic with history in both tiers.
func breed(t testing.TB, b *testutil.Broker, name string) doomed {
	t.Helper()
	createTopic(t, b, name, 2, "segment.bytes=1048576", "local.retention.bytes=1")
	for p := range int32(2) {
		l := newLedger(name, p)
		l.fill(t, b, 2*outageSegment, outageRecord)
		waitInStore(t, b, name, p, outageSegment)
	}
	return doomed{name, topicID(t, b, name)}
}

// wantGone waits until nothing is left of the topic, neither in the bucket nor
// on the disk.
func (d doomed) wantGone(t testing.TB, b *testutil.Broker, store storage) {
	t.Helper()
	waitFor(t, "nothing to be left of "+d.name, func() (bool, any) {
		var left []string
		for _, key := range store.list() {
			if strings.Contains(key, "/"+d.id.String()+"/") {
				left = append(left, key)
			}
		}
		dirs, err := filepath.Glob(filepath.Join(b.DataDir, "*-delete"))
		if err != nil {
			t.Fatal(err)
		}
		return len(left) == 0 && len(dirs) == 0, append(left, dirs...)
	})
	b.WaitLog("event=topic_swept topic="+d.name+" topic_id="+d.id.String(), patience)
}

// rebirth creates a topic under the name of a deleted one: it has nothing of
// the old one.
func (d doomed) rebirth(t testing.TB, b *testutil.Broker, store storage) {
	t.Helper()
	for p := range 2 {
		if _, err := os.Stat(filepath.Join(b.DataDir, fmt.Sprintf("%s-%d", d.name, p))); !os.IsNotExist(err) {
			t.Errorf("the directory of %s-%d is still there: %v", d.name, p, err)
		}
	}
	createTopic(t, b, d.name, 1, "segment.bytes=1048576", "local.retention.ms=1")
	if id := topicID(t, b, d.name); id == d.id {
		t.Errorf("%s has the id of the deleted one", d.name)
	}
	l := newLedger(d.name, 0)
	l.wantStart(t, b, 0)
	l.fill(t, b, outageSegment+5, outageRecord)
	waitOffLocal(t, b, d.name, 0, l.end)
	l.check(t, b, 0)
	waitExact(t, b, store, d.name)
}

// A deleted topic takes its objects and its directories along, whatever
// happens meanwhile, and leaves its name to a topic that has nothing of it.
func TestRetentionOfDeletedTopics(t *testing.T) {
	g := testutil.StartGateway(t)
	p := startProxy(t, g)
	store := storage{tiered(g, "s3", map[string]string{"tier.s3.endpoint": p.URL, "tier.delete.grace.ms": "2s"}), func() []string { return g.Keys("") }}
	b := testutil.StartBroker(t, store.settings)

	plain := breed(t, b, "plain")
	deleteTopic(t, b, plain.name)
	plain.rebirth(t, b, store) // before the old one is cleared away

	killed := breed(t, b, "killed")
	deleteTopic(t, b, killed.name)
	b.Kill() // right after the answer
	b.Start()
	killed.rebirth(t, b, store)

	// An upload that is under way when its topic goes lands after the sweep.
	late := breed(t, b, "late")
	released := p.holdUpload(t, late.name)
	deleteTopic(t, b, late.name)
	b.Kill()
	b.Start()
	released()
	p.set(nil)
	late.rebirth(t, b, store)

	outage := breed(t, b, "outage")
	g.Stop()
	deleteTopic(t, b, outage.name)
	createTopic(t, b, outage.name, 1)
	deleteTopic(t, b, outage.name) // one that never reached the bucket
	b.Restart()
	g.Start()
	outage.rebirth(t, b, store)

	for _, d := range []doomed{plain, killed, late, outage} {
		d.wantGone(t, b, store)
	}
	b.Restart()
	for _, d := range []doomed{plain, killed, late, outage} {
		waitExact(t, b, store, d.name)
	}
}

// holdUpload holds the next upload of a topic's segment back until the function
// that it returns is called, and has it arrive then.
func (p *proxy) holdUpload(t *testing.T, topic string) (release func()) {
	t.Helper()
	hit, released, done := make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 1)
	p.set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/data/"+topic+"/") && strings.HasSuffix(r.URL.Path, ".seg") {
			late := readWhole(r)
			select {
			case hit <- struct{}{}:
				<-released
				next.ServeHTTP(discardAnswer{}, late)
				done <- struct{}{}
			default:
			}
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
	<-hit
	return func() {
		close(released)
		<-done
	}
}

// A deletion that the broker does not live to answer happened or did not.
func TestKillInTopicDeletion(t *testing.T) {
	_, store, b := startGateway(t)
	var all []doomed
	for i := range 6 {
		d := breed(t, b, fmt.Sprintf("doomed-%d", i))
		admin := kadm.NewClient(b.Client(kgo.RetryTimeout(time.Second)))
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			_, _ = admin.DeleteTopic(t.Context(), d.name) // it may not be answered
		}()
		time.Sleep(time.Duration(rand.IntN(12)) * time.Millisecond)
		b.Kill()
		admin.Close()
		<-asked
		b.Start()
		left := kadm.NewClient(b.Client())
		topics, err := left.ListTopics(t.Context(), d.name)
		left.Close()
		if err != nil {
			t.Fatal(err)
		}
		if topics.Has(d.name) {
			for p := range int32(2) {
				if start := startOffset(t, b, d.name, p); start != 0 {
					t.Errorf("%s-%d starts at %d", d.name, p, start)
				}
				n := 0
				consume(t, b, d.name, p, 0, 2*outageSegment, func(*kgo.Record) { n++ })
				if n != 2*outageSegment {
					t.Errorf("%s-%d: %d records are left of %d", d.name, p, n, 2*outageSegment)
				}
			}
			deleteTopic(t, b, d.name)
		}
		all = append(all, d)
	}
	for _, d := range all {
		d.wantGone(t, b, store)
	}
}
