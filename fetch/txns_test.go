// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"firn/hot"
	"firn/record"
	"firn/record/recordtest"
)

// abortedFirst is what withTransactions makes of its first record.
var abortedFirst = []record.AbortedTxn{{ProducerID: 1, FirstOffset: 0, LastOffset: 2, LastStableOffset: 1}}

// withTransactions is a partition of three batches: one of a transaction that
// the third aborts, and one of a transaction that is open.
func (w *world) withTransactions() *fakePartition {
	w.t.Helper()
	p := w.partition()
	for _, id := range []int64{1, 2} {
		b := recordtest.Batch(0, recordtest.Producer(id, 0, 0), recordtest.Transactional())
		if _, err := p.log.AppendFrom(hot.VerifiedClient, b, 0); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := p.log.AppendFrom(hot.Coordinator, recordtest.Marker(0, 1, 0, record.Marker{Abort: true}), 0); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func committed(req *Request) *Request {
	req.ReadCommitted = true
	return req
}

// TestReadCommittedNamesTheAborted, by each class: the answer ends at the last
// stable offset, and names what was aborted below it.
func TestReadCommittedNamesTheAborted(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		local := w.withTransactions()
		cold := w.cold(batchOf(0, 1000), batchOf(1, 1000))
		cold.coldAborted = abortedFirst
		c := w.fetcher.NewConsumer()
		defer c.Close()
		for _, tt := range []struct {
			of          *fakePartition
			class       Class
			stable, end record.Offset
		}{{local, ClassHot, 1, 3}, {local, ClassWarm, 1, 3}, {cold, ClassCold, 2, 2}} {
			tt.of.setPaged(tt.class == ClassWarm)
			r, _ := w.fetch(c, committed(ask(time.Minute, 1, at(tt.of, 0))))
			w.wantData(r, 0, tt.class, 0, tt.stable)
			if got := r.Partitions[0].Aborted; !slices.Equal(got, abortedFirst) {
				t.Errorf("%v: aborted are %v, want %v", tt.class, got, abortedFirst)
			}
			r.Release()
			r, _ = w.fetch(c, ask(time.Minute, 1, at(tt.of, 0)))
			w.wantData(r, 0, tt.class, 0, tt.end)
			if got := r.Partitions[0].Aborted; got != nil {
				t.Errorf("%v: read_uncommitted is told of %v", tt.class, got)
			}
			r.Release()
		}
	})
}

// A read of everything that is ready must not answer who may see less.
func TestAReadIsForItsIsolationLevel(t *testing.T) {
	bubble(t, Options{ColdWait: time.Millisecond}, func(t *testing.T, w *world) {
		p := w.withTransactions()
		p.setPaged(true)
		gate := make(chan struct{})
		p.onLocal = func(bool) error { <-gate; return nil }
		c := w.fetcher.NewConsumer()
		defer c.Close()
		r, _ := w.fetch(c, ask(time.Millisecond, 1, at(p, 0)))
		w.wantEmpty(r, 0)
		r.Release()
		close(gate)
		synctest.Wait() // the read of all three batches is ready
		r, _ = w.fetch(c, committed(ask(time.Minute, 1, at(p, 0))))
		w.wantData(r, 0, ClassWarm, 0, 1)
		if got := r.Partitions[0].Aborted; !slices.Equal(got, abortedFirst) {
			t.Errorf("aborted are %v, want %v", got, abortedFirst)
		}
		r.Release()
	})
}

// Without the list of the aborted there is no committed answer: it costs the
// partition a storage error, or another look when the local start has moved.
func TestNoListOfTheAbortedNoAnswer(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		p := w.withTransactions()
		c := w.fetcher.NewConsumer()
		defer c.Close()
		for _, paged := range []bool{false, true} {
			p.setPaged(paged)
			p.onAborted = func() error { return errBroken }
			r, _ := w.fetch(c, committed(ask(time.Second, 1, at(p, 0))))
			if got := r.Partitions[0]; !errors.Is(got.Err, record.ErrStorage) || got.Region != nil || got.Bytes != nil {
				t.Errorf("paged %v: %+v, want a storage error and no data", paged, got)
			}
			r.Release()
			moved := false
			p.onAborted = func() error {
				if !moved {
					moved = true
					return record.ErrOffsetOutOfRange
				}
				return nil
			}
			r, _ = w.fetch(c, committed(ask(time.Second, 1, at(p, 0))))
			if got := r.Partitions[0]; got.Err != nil || !slices.Equal(got.Aborted, abortedFirst) {
				t.Errorf("paged %v, after a move: %+v", paged, got)
			}
			r.Release()
		}
	})
}
