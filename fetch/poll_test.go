// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"firn/record"
)

// An append between the first look and the registration of the wake-up is
// seen by the second look.
func TestNoWakeUpIsLost(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		p := w.partition()
		p.onWatch = func() { p.append(t, 100) }
		c := w.fetcher.NewConsumer()
		r, took := w.fetch(c, ask(time.Hour, 1, at(p, 0)))
		w.wantTook(took, 0)
		w.wantData(r, 0, ClassHot, 0, 1)
		r.Release()
		c.Close()
	})
}

// Nor is one in any other moment: a consumer gets every record, each fetch
// long before its time is up.
func TestTailFollowsEveryAppend(t *testing.T) {
	const records = 2000
	bubble(t, Options{}, func(t *testing.T, w *world) {
		p, quiet := w.partition(), w.partition()
		go func() {
			for range records {
				p.append(t, 100)
			}
		}()
		c := w.fetcher.NewConsumer()
		for next := record.Offset(0); next < records; {
			r, took := w.fetch(c, ask(time.Hour, 1, at(quiet, 0), at(p, next)))
			w.wantTook(took, 0)
			first, after := spanOf(t, data(t, r.Partitions[1]))
			if first != next {
				t.Fatalf("got offset %d, want %d", first, next)
			}
			next = after
			r.Release()
		}
		if n := p.watchers() + quiet.watchers(); n != 0 {
			t.Errorf("%d watchers are left", n)
		}
		c.Close()
	})
}

func TestPollIsWokenByTheHighWatermark(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		p := w.partition()
		p.setHigh(0)
		p.append(t, 100)
		p.append(t, 100)
		time.AfterFunc(2*second, func() { p.setHigh(1) })
		c := w.fetcher.NewConsumer()
		r, took := w.fetch(c, ask(time.Hour, 1, at(p, 0)))
		w.wantTook(took, 2*second)
		w.wantData(r, 0, ClassHot, 0, 1)
		r.Release()
		// At the high watermark and below the log's end: empty, not an error.
		r, took = w.fetch(c, ask(second, 1, at(p, 1)))
		w.wantTook(took, second)
		w.wantEmpty(r, 0)
		r.Release()
		c.Close()
	})
}

func TestMinBytesAndMaxWait(t *testing.T) {
	for _, c := range []struct {
		name     string
		wait     time.Duration
		minBytes int
		have     int           // batches of 100 bytes there from the start
		every    time.Duration // and one more each so often; 0: none
		took     time.Duration
		got      int // batches
	}{
		{"data is there", time.Minute, 1, 1, 0, 0, 1},
		{"enough data is there", time.Minute, 200, 2, 0, 0, 2},
		{"nothing, and no wait", 0, 1, 0, 0, 0, 0},
		{"nothing is enough", time.Minute, 0, 0, 0, 0, 0},
		{"a negative minimum is none", time.Minute, -1, 0, 0, 0, 0},
		{"too little, and no wait", 0, 1000, 1, 0, 0, 1},
		{"too little until the end", 3 * second, 1000, 1, 0, 3 * second, 1},
		{"nothing until the end", 3 * second, 1, 0, 0, 3 * second, 0},
		{"enough after a while", time.Minute, 300, 1, second, 2 * second, 3},
		{"more than there will be", 5500 * time.Millisecond, 10000, 0, second, 5500 * time.Millisecond, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, w *world) {
				p := w.partition()
				for range c.have {
					p.append(t, 100)
				}
				stop, stopped := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					for c.every > 0 {
						select {
						case <-time.After(c.every):
							p.append(t, 100)
						case <-stop.Done():
							return
						}
					}
				}()
				consumer := w.fetcher.NewConsumer()
				r, took := w.fetch(consumer, ask(c.wait, c.minBytes, at(p, 0)))
				w.wantTook(took, c.took)
				if n := len(data(t, r.Partitions[0])); n != 100*c.got {
					t.Errorf("%d bytes, want %d", n, 100*c.got)
				}
				r.Release()
				stopped()
				<-done
				consumer.Close()
			})
		})
	}
}

// Clients close with a fetch that names nothing: no append could end its wait.
func TestNothingToReadIsNotWaitedFor(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		c := w.fetcher.NewConsumer()
		for _, wants := range [][]PartitionRequest{nil, {{}, {}}} {
			r, took := w.fetch(c, ask(time.Minute, 1, wants...))
			w.wantTook(took, 0)
			r.Release()
		}
		c.Close()
	})
}

// A fetch that would not wait at all waits for cold data, or it would never
// get any; one with an error to tell does not wait longer than that.
func TestNoWaitStillWaitsForCold(t *testing.T) {
	for _, minBytes := range []int{0, 1} {
		bubble(t, Options{ColdWait: 700 * time.Millisecond}, func(t *testing.T, w *world) {
			p := w.cold(batchesOf(0, 500)...)
			p.onCold = func(context.Context, record.Offset) error { <-time.After(time.Second); return nil }
			c := w.fetcher.NewConsumer()
			wait := time.Duration(0)
			if minBytes == 0 {
				wait = time.Minute
			}
			r, took := w.fetch(c, ask(wait, minBytes, at(p, 0), PartitionRequest{}))
			w.wantTook(took, 700*time.Millisecond)
			w.wantEmpty(r, 0)
			w.wantEmpty(r, 1)
			r.Release()
			r, took = w.fetch(c, ask(wait, minBytes, at(p, 0)))
			w.wantTook(took, 300*time.Millisecond)
			w.wantData(r, 0, ClassCold, 0, 1)
			r.Release()
			c.Close()
		})
	}
}

func TestMaxBytes(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		a, b := w.partition(), w.partition()
		for range 5 {
			a.append(t, 100)
			b.append(t, 100)
		}
		c := w.fetcher.NewConsumer()
		for _, one := range []struct {
			name          string
			all, each     int
			wantA, wantB  record.Offset
			offsetA       record.Offset
			emptyA, noneB bool
		}{
			{name: "all fits", all: 1000, each: 1000, wantA: 5, wantB: 5},
			{name: "each partition's limit", all: 1000, each: 250, wantA: 2, wantB: 2},
			{name: "the limit of all", all: 350, each: 1000, wantA: 3, noneB: true},
			{name: "the limit of all, one batch more", all: 400, each: 300, wantA: 3, wantB: 1},
			{name: "the first batch is over both limits", all: 10, each: 5, wantA: 1, noneB: true},
			{name: "no bytes at all", all: 0, each: 0, wantA: 1, noneB: true},
			{name: "the first batch of the second partition", all: 10, each: 5, offsetA: 5, emptyA: true, wantB: 1},
		} {
			req := ask(0, 1, PartitionRequest{Partition: a, Offset: one.offsetA}, at(b, 0))
			req.MaxBytes = one.all
			req.Partitions[0].MaxBytes, req.Partitions[1].MaxBytes = one.each, one.each
			r, _ := w.fetch(c, req)
			if one.emptyA {
				w.wantEmpty(r, 0)
			} else {
				w.wantData(r, 0, ClassHot, 0, one.wantA)
			}
			if one.noneB {
				w.wantEmpty(r, 1)
			} else {
				w.wantData(r, 1, ClassHot, 0, one.wantB)
			}
			r.Release()
			if t.Failed() {
				t.Fatal(one.name)
			}
		}
		c.Close()
	})
}

// A cold result that finds no room beside hot data goes first in the next
// answer: neither starves the other.
func TestResultWithoutRoomGoesFirstNextTime(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		hotOne, coldOne := w.partition(), w.cold(batchesOf(0, 900)...)
		for range 20 {
			hotOne.append(t, 200)
		}
		c := w.fetcher.NewConsumer()
		var next record.Offset
		var hots, colds int
		for range 10 {
			req := ask(second, 1, at(hotOne, next), at(coldOne, 0))
			req.MaxBytes, req.Partitions[0].MaxBytes, req.Partitions[1].MaxBytes = 1000, 200, 1000
			r, took := w.fetch(c, req)
			w.wantTook(took, 0)
			if r.Partitions[0].Region != nil {
				next = r.Partitions[0].Region.Next()
				hots++
			}
			if r.Partitions[1].Bytes != nil {
				colds++
			}
			r.Release()
			synctest.Wait()
		}
		if hots < 5 || colds < 3 {
			t.Errorf("of ten fetches %d answered hot and %d cold data", hots, colds)
		}
		c.Close()
	})
}

func TestBulkIsWhatIsNotTail(t *testing.T) {
	bubble(t, Options{TailBytes: 350}, func(t *testing.T, w *world) {
		p := w.partition()
		for range 10 {
			p.append(t, 100)
		}
		c := w.fetcher.NewConsumer()
		for _, paged := range []bool{false, true} {
			p.setPaged(paged)
			for o := record.Offset(0); o < 10; o++ {
				r, _ := w.fetch(c, ask(second, 1, at(p, o)))
				if want := o < 7; r.Bulk != want {
					t.Errorf("at offset %d of 10, paged %v: bulk is %v", o, paged, r.Bulk)
				}
				r.Release()
			}
		}
		c.Close()
	})
}

func TestReadCommittedEndsAtTheLastStableOffset(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		p := &stable{w.partition()}
		p.append(t, 100)
		p.append(t, 100)
		c := w.fetcher.NewConsumer()
		req := ask(0, 1, at(p, 0))
		req.ReadCommitted = true
		r, _ := w.fetch(c, req)
		w.wantData(r, 0, ClassHot, 0, 1)
		r.Release()
		c.Close()
	})
}

// stable is a partition whose last stable offset is 1.
type stable struct{ *fakePartition }

func (*stable) LastStableOffset() record.Offset { return 1 }

func TestFetchEnds(t *testing.T) {
	ends := map[string]struct {
		end  func(w *world, c *Consumer, cancel func())
		want error
	}{
		"with its context":  {func(_ *world, _ *Consumer, cancel func()) { cancel() }, context.Canceled},
		"with its consumer": {func(_ *world, c *Consumer, _ func()) { c.Close() }, record.ErrClosed},
		"with the fetcher":  {func(w *world, _ *Consumer, _ func()) { w.fetcher.cancel() }, record.ErrClosed},
		"when it drains":    {func(w *world, _ *Consumer, _ func()) { w.fetcher.Drain() }, nil},
	}
	for name, one := range ends {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, w *world) {
				p, coldOne := w.partition(), w.cold(batchesOf(0, 500)...)
				coldOne.onCold = make(gate).wait
				c := w.fetcher.NewConsumer()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(second, func() { one.end(w, c, cancel) })
				started := time.Now()
				r, err := c.Fetch(ctx, ask(time.Hour, 1, at(p, 0), at(coldOne, 0)))
				if !errors.Is(err, one.want) {
					t.Errorf("error %v, want %v", err, one.want)
				}
				if r != nil {
					r.Release()
				}
				w.wantTook(time.Since(started), second)
				if n := p.watchers(); n != 0 {
					t.Errorf("%d watchers are left", n)
				}
				if one.want == record.ErrClosed {
					if _, err := c.Fetch(t.Context(), ask(0, 0)); !errors.Is(err, record.ErrClosed) {
						t.Errorf("a fetch after the end: %v", err)
					}
				}
				c.Close()
			})
		})
	}
}
