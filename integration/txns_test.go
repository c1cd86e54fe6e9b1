// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"firn/hot"
	"firn/internal/testutil"
	"firn/record"
	"firn/record/recordtest"
)

// injected is what was put into a partition and what of it was committed.
type injected struct {
	committed, all []string // values in the order of the log
	stable, end    int64
}

// injectTransactions writes transactions of several producers, most of them
// ended, into a partition whose broker is stopped: there is no coordinator that
// clients could end them with.
func injectTransactions(t testing.TB, b *testutil.Broker, topic string, rng *rand.Rand, batches int) injected {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	store, err := hot.Open(ctx, hot.Options{Dir: b.DataDir})
	if err != nil {
		t.Fatal(err)
	}
	tp := record.TopicPartition{Topic: topic}
	at := slices.IndexFunc(store.Found(), func(f hot.FoundLog) bool { return f.TopicPartition == tp })
	log, err := store.OpenLog(ctx, tp, store.Found()[at].TopicID, hot.LogOptions{SegmentBytes: 1 << 20, IndexInterval: 512})
	if err != nil {
		t.Fatal(err)
	}
	epoch, _ := log.Epochs().Last()
	put := func(origin hot.Origin, batch []byte) record.Offset {
		done, err := log.AppendFrom(origin, batch, epoch.Epoch)
		if err != nil {
			t.Fatal(err)
		}
		return done.FirstOffset
	}
	var in injected
	const undecided, void, kept = 0, 1, 2
	type value struct {
		text string
		fate *int
	}
	var values []value
	sequences, open, first := map[int64]int32{}, map[int64]*int{}, map[int64]record.Offset{}
	for i := range batches {
		id, n := 1+rng.Int64N(4), 1+rng.IntN(4)
		if fate := open[id]; fate != nil && rng.IntN(4) == 0 {
			*fate = kept - rng.IntN(2)
			put(hot.Coordinator, recordtest.Marker(0, id, 0, record.Marker{Abort: *fate == void}))
			delete(open, id)
			continue
		}
		texts := make([]string, n)
		for k := range texts {
			texts[k] = fmt.Sprintf("batch-%d-record-%d-%0500d", i, k, 0)
		}
		always := kept
		fate, opts := &always, []recordtest.Option{recordtest.Strings(texts...)}
		origin := hot.Client
		if rng.IntN(4) > 0 {
			if fate = open[id]; fate == nil {
				fate = new(int)
			}
			opts = append(opts, recordtest.Producer(id, 0, sequences[id]), recordtest.Transactional())
			origin, sequences[id] = hot.VerifiedClient, sequences[id]+int32(n)
		}
		base := put(origin, recordtest.Batch(0, opts...))
		if origin == hot.VerifiedClient && open[id] == nil {
			open[id], first[id] = fate, base
		}
		for _, text := range texts {
			values = append(values, value{text, fate})
		}
	}
	for id := range maps.Clone(open) { // all but one end
		if len(open) > 1 {
			*open[id] = void
			put(hot.Coordinator, recordtest.Marker(0, id, 0, record.Marker{Abort: true}))
			delete(open, id)
		}
	}
	put(hot.Client, recordtest.Batch(0, recordtest.Strings("the last")))
	in.end = int64(log.EndOffset())
	in.stable = in.end
	for id := range open {
		in.stable = int64(first[id])
	}
	for _, v := range values {
		in.all = append(in.all, v.text)
	}
	in.all = append(in.all, "the last")
	in.committed = committedBelow(t, log, record.Offset(in.stable), func(text string) bool {
		i := slices.IndexFunc(values, func(v value) bool { return v.text == text })
		return *values[i].fate == kept
	})
	if err := store.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return in
}

// committedBelow are the values of the log's data batches below an offset that
// are kept.
func committedBelow(t testing.TB, log *hot.Log, end record.Offset, kept func(string) bool) (out []string) {
	t.Helper()
	for at := log.StartOffset(); at < end; {
		r, err := log.Read(at, end, 1, true)
		if err != nil || r == nil {
			t.Fatalf("read at %d: %v", at, err)
		}
		b := make([]byte, r.Len())
		if n, err := r.ReadAt(b, 0); n < len(b) {
			t.Fatal(err)
		}
		at = r.Next()
		r.Release()
		h := record.Batch(b).Header()
		for one, err := range h.Records(record.Batch(b).Section()) {
			if err != nil {
				t.Fatal(err)
			}
			if !h.IsControl() && kept(string(one.Value)) {
				out = append(out, string(one.Value))
			}
		}
	}
	return out
}

// seen reads a partition from its start, at an isolation level, until a record
// comes that is the last of want, and a little further.
func seen(t testing.TB, b *testutil.Broker, topic string, level kgo.IsolationLevel, want int) (values []string) {
	t.Helper()
	client := consumer(t, b, topic, 0, 0, kgo.FetchIsolationLevel(level), kgo.FetchMaxBytes(40<<10), kgo.FetchMaxPartitionBytes(40<<10))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(values) < want {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d of %d records: %v", len(values), want, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	more, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	client.PollFetches(more).EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	return values
}

// TestReadCommittedSeesWhatWasCommitted: a client sees exactly the committed
// records below the last stable offset, from the local disk and from the store,
// and everything when it asks for that.
func TestReadCommittedSeesWhatWasCommitted(t *testing.T) {
	const topic = "transactions"
	store := newStorage(t, "dir")
	maps.Copy(store.settings, keepLocal)
	b := testutil.StartBroker(t, store.settings)
	createTopic(t, b, topic, 1, "segment.bytes=1048576", "local.retention.ms=1", "retention.ms=-1")
	b.Stop()
	in := injectTransactions(t, b, topic, rand.New(rand.NewPCG(1, 2)), 3000)
	check := func(where string) {
		t.Helper()
		if got := seen(t, b, topic, kgo.ReadCommitted(), len(in.committed)); !slices.Equal(got, in.committed) {
			t.Errorf("%s: read_committed saw %d records, want the %d that were committed", where, len(got), len(in.committed))
		}
		if got := seen(t, b, topic, kgo.ReadUncommitted(), len(in.all)); !slices.Equal(got, in.all) {
			t.Errorf("%s: read_uncommitted saw %d records of %d", where, len(got), len(in.all))
		}
	}
	b.Start()
	check("hot")
	b.Stop()
	for key := range keepLocal {
		b.Set(key, "100ms")
	}
	b.Start()
	segments := segmentsOf(t, b, topic, 0)
	var cold int64 // the segments that end at or below the last stable offset
	for _, s := range segments {
		if s.To <= in.stable {
			cold = s.To
		}
	}
	if cold == 0 || len(segments) < 3 {
		t.Fatalf("nothing can go to the store: stable to %d of %+v", in.stable, segments)
	}
	waitOffLocal(t, b, topic, 0, cold)
	check("cold")
}
