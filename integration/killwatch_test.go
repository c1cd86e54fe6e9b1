// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"firn/internal/testutil"
)

// watch is a consumer at the tail that lives through all deaths of the broker:
// a process that dies takes back nothing that anybody saw.
type watch struct {
	client *kgo.Client
	cancel context.CancelFunc
	done   sync.WaitGroup
	loss   error // a loss that the client told of; set before done
}

// startWatch watches the topics that keep their records.
func (l *load) startWatch(t testing.TB, b *testutil.Broker, topics []killTopic) *watch {
	t.Helper()
	from := make(map[string]map[int32]kgo.Offset)
	for _, topic := range topics {
		if topic.expires {
			continue
		}
		from[topic.name] = make(map[int32]kgo.Offset)
		for p := range topic.partitions {
			from[topic.name][p] = kgo.NewOffset().AtStart()
		}
	}
	w := &watch{client: b.Client(kgo.ConsumePartitions(from), kgo.MetadataMinAge(50*time.Millisecond), kgo.FetchMaxWait(100*time.Millisecond))}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.done.Go(func() { l.follow(ctx, w) })
	t.Cleanup(w.stop)
	return w
}

func (w *watch) stop() {
	w.cancel()
	w.done.Wait()
	w.client.Close()
}

// follow notes in the ledgers what the consumer sees.
func (l *load) follow(ctx context.Context, w *watch) {
	for ctx.Err() == nil {
		fetches := w.client.PollFetches(ctx)
		var loss *kgo.ErrDataLoss
		for _, e := range fetches.Errors() {
			if errors.As(e.Err, &loss) && w.loss == nil {
				w.loss = loss
			}
		}
		for r := range fetches.RecordsAll() {
			l.ledgers[r.Topic][r.Partition].see(r)
		}
	}
}

// see notes a record that a consumer was given.
func (l *ledger) see(r *kgo.Record) {
	n, err := numberOf(l.topic, l.partition, r.Value)
	if err != nil {
		n = -1 // check compares it with what is there in the end
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[r.Offset] = n
}

// witnessed copies what a consumer saw so far.
func (l *ledger) witnessed() map[int64]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := make(map[int64]int, len(l.seen))
	for offset, n := range l.seen {
		seen[offset] = n
	}
	return seen
}

// wantNoLoss ends the watch and fails the test when the consumer was told of a
// loss, has seen nothing, or the broker has met something that a death of its
// process does not explain.
func (l *load) wantNoLoss(t testing.TB, b *testutil.Broker, w *watch) {
	t.Helper()
	w.stop()
	if w.loss != nil {
		t.Errorf("the consumer at the tail: %v", w.loss)
	}
	total := 0
	for _, ledgers := range l.ledgers {
		for _, one := range ledgers {
			total += len(one.witnessed())
		}
	}
	if total < 100 {
		t.Errorf("the consumer at the tail saw only %d records", total)
	}
	t.Logf("the consumer at the tail saw %d records", total)
	logs := b.Logs()
	if !strings.Contains(logs, "event=log_recovered") {
		t.Error("nothing was ever recovered")
	}
	for _, event := range []string{"log_poison", "log_lost_tail", "log_below_start", "recovery_points_lost", "batch_damaged"} {
		if strings.Contains(logs, "event="+event) {
			t.Errorf("the broker told of %s", event)
		}
	}
}
