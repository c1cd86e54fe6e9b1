// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"firn/record"
)

const second = time.Second

// I1: what is hot is answered at once, whatever cold and warm reads do.
func TestHotDataNeverWaits(t *testing.T) {
	for _, minBytes := range []int{0, 1, 100} {
		bubble(t, Options{}, func(t *testing.T, w *world) {
			held := make(gate)
			hotOne, coldOne, warmOne := w.partition(), w.cold(batchesOf(0, 500)...), w.partition()
			hotOne.append(t, 500)
			warmOne.append(t, 500)
			warmOne.setPaged(true)
			coldOne.onCold = held.wait
			warmOne.onLocal = func(bool) error { return held.wait(w.fetcher.ctx, 0) }
			c := w.fetcher.NewConsumer()
			r, took := w.fetch(c, ask(30*second, minBytes, at(coldOne, 0), at(warmOne, 0), at(hotOne, 0)))
			w.wantTook(took, 0)
			w.wantEmpty(r, 0)
			w.wantEmpty(r, 1)
			w.wantData(r, 2, ClassHot, 0, 1)
			r.Release()
			// Both other reads began, all the same, and answer the next one.
			close(held)
			synctest.Wait()
			r, took = w.fetch(c, ask(30*second, minBytes, at(coldOne, 0), at(warmOne, 0), at(hotOne, 1)))
			w.wantTook(took, 0)
			w.wantData(r, 0, ClassCold, 0, 1)
			w.wantData(r, 1, ClassWarm, 0, 1)
			w.wantEmpty(r, 2)
			r.Release()
			c.Close()
		})
	}
}

// Too few hot bytes wait as long as they would without a cold partition beside
// them, and not for its deadline.
func TestHotDataBelowMinBytesWaitsNoLongerForCold(t *testing.T) {
	bubble(t, Options{ColdWait: 10 * second}, func(t *testing.T, w *world) {
		hotOne, coldOne := w.partition(), w.cold(batchesOf(0, 500)...)
		hotOne.append(t, 500)
		coldOne.onCold = make(gate).wait
		c := w.fetcher.NewConsumer()
		r, took := w.fetch(c, ask(second, 1000, at(hotOne, 0), at(coldOne, 0)))
		w.wantTook(took, second)
		w.wantData(r, 0, ClassHot, 0, 1)
		r.Release()
		c.Close()
	})
}

func TestColdReadOutlivesItsFetch(t *testing.T) {
	bubble(t, Options{ColdWait: 2 * second}, func(t *testing.T, w *world) {
		held := make(gate)
		p := w.cold(batchesOf(0, 500, 500)...)
		p.onCold = held.wait
		c := w.fetcher.NewConsumer()
		r, took := w.fetch(c, ask(second, 1, at(p, 0)))
		w.wantTook(took, 2*second)
		w.wantEmpty(r, 0)
		if got := r.Partitions[0]; got.HighWatermark != 2 || got.LastStableOffset != 2 || got.LogStartOffset != 0 {
			t.Errorf("offsets of the empty answer: %+v", got)
		}
		r.Release()
		held <- nil
		synctest.Wait()
		r, took = w.fetch(c, ask(second, 1, at(p, 0)))
		w.wantTook(took, 0)
		w.wantData(r, 0, ClassCold, 0, 2)
		if !r.Bulk {
			t.Error("a cold answer is not bulk")
		}
		r.Release()
		if got := p.asked(); len(got) != 1 {
			t.Errorf("cold reads at %v, want one", got)
		}
		if s := w.fetcher.Stats(); s.ColdBytes != 1000 || s.HotBytes != 0 || s.WarmBytes != 0 {
			t.Errorf("stats %+v", s)
		}
		c.Close()
	})
}

func TestParkedFetchIsWokenByTheColdRead(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		p := w.cold(batchesOf(0, 500)...)
		p.onCold = func(context.Context, record.Offset) error { <-time.After(300 * time.Millisecond); return nil }
		c := w.fetcher.NewConsumer()
		// One byte under MinBytes: data off the tail goes out all the same.
		r, took := w.fetch(c, ask(30*second, 501, at(p, 0)))
		w.wantTook(took, 300*time.Millisecond)
		w.wantData(r, 0, ClassCold, 0, 1)
		r.Release()
		c.Close()
	})
}

func TestMovingOnDropsTheRead(t *testing.T) {
	for _, ready := range []bool{false, true} {
		bubble(t, Options{}, func(t *testing.T, w *world) {
			held := make(gate, 1)
			p := w.cold(batchesOf(0, 500, 600)...)
			p.onCold = func(ctx context.Context, from record.Offset) error {
				if from == 0 {
					return held.wait(ctx, from)
				}
				return nil
			}
			c := w.fetcher.NewConsumer()
			r, _ := w.fetch(c, ask(0, 1, at(p, 0)))
			r.Release()
			if ready {
				held <- nil
				synctest.Wait()
			}
			r, took := w.fetch(c, ask(second, 1, at(p, 1)))
			w.wantTook(took, 0)
			w.wantData(r, 0, ClassCold, 1, 2)
			r.Release()
			synctest.Wait()
			w.wantFree()
			c.Close()
		})
	}
}

func TestResultsNobodyComesForAreDropped(t *testing.T) {
	bubble(t, Options{KeepReady: 10 * second}, func(t *testing.T, w *world) {
		p := w.cold(batchesOf(0, 500)...)
		held := make(gate)
		p.onCold = held.wait
		c := w.fetcher.NewConsumer()
		r, _ := w.fetch(c, ask(0, 1, at(p, 0)))
		r.Release()
		held <- nil
		synctest.Wait()
		if used, _ := w.used(laneCold); used != 500 {
			t.Fatalf("%d bytes are held for the next fetch, want 500", used)
		}
		<-time.After(15 * second)
		synctest.Wait()
		w.wantFree()
		// It is read again when somebody comes after all.
		p.onCold = nil
		r, _ = w.fetch(c, ask(second, 1, at(p, 0)))
		w.wantData(r, 0, ClassCold, 0, 1)
		r.Release()
		c.Close()
	})
}

// I5.
func TestStorageErrorsWait(t *testing.T) {
	kinds := map[string]error{
		"storage":   record.ErrStorage,
		"unknown":   errBroken,
		"corrupt":   &record.CorruptionError{Path: "object", Reason: "bad"},
		"not ready": record.ErrNotReady,
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, w *world) {
				p, other := w.cold(batchesOf(0, 500)...), w.partition()
				p.onCold = func(context.Context, record.Offset) error { return kind }
				c := w.fetcher.NewConsumer()
				for range 2 {
					r, took := w.fetch(c, ask(3*second, 1, at(p, 0), at(other, 0)))
					w.wantTook(took, 3*second)
					if err := r.Partitions[0].Err; !errors.Is(err, record.ErrStorage) || errors.Is(err, record.ErrOffsetOutOfRange) {
						t.Errorf("error %v, want a storage error", err)
					}
					w.wantEmpty(r, 1)
					r.Release()
				}
				if n := len(p.asked()); n != 2 {
					t.Errorf("%d reads for two fetches", n)
				}
				// The other partition is not held up.
				time.AfterFunc(second, func() { other.append(t, 100) })
				r, took := w.fetch(c, ask(3*second, 1, at(p, 0), at(other, 0)))
				w.wantTook(took, second)
				w.wantData(r, 1, ClassHot, 0, 1)
				if !errors.Is(r.Partitions[0].Err, record.ErrStorage) {
					t.Errorf("error %v beside data", r.Partitions[0].Err)
				}
				r.Release()
				c.Close()
			})
		})
	}
}

func TestOutOfRangeAnswersAtOnce(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		p, other := w.partition(), w.partition()
		p.append(t, 100)
		c := w.fetcher.NewConsumer()
		r, took := w.fetch(c, ask(3*second, 1, at(other, 0), at(p, 2)))
		w.wantTook(took, 0)
		w.wantEmpty(r, 0)
		if !errors.Is(r.Partitions[1].Err, record.ErrOffsetOutOfRange) {
			t.Errorf("error %v", r.Partitions[1].Err)
		}
		r.Release()
		c.Close()
	})
}

// A cold tier that has no such offset any more is not believed alone: the
// second look at both tells.
func TestColdOutOfRangeIsLookedAtAgain(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		p := w.cold(batchesOf(0, 500, 500)...)
		p.onCold = func(context.Context, record.Offset) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.logStart = 1
			return record.ErrOffsetOutOfRange
		}
		c := w.fetcher.NewConsumer()
		r, took := w.fetch(c, ask(3*second, 1, at(p, 0)))
		w.wantTook(took, 0)
		if err := r.Partitions[0].Err; !errors.Is(err, record.ErrOffsetOutOfRange) || r.Partitions[0].LogStartOffset != 1 {
			t.Errorf("%+v", r.Partitions[0])
		}
		r.Release()
		c.Close()
	})
}

func TestColdReadEndsAtItsTimeout(t *testing.T) {
	bubble(t, Options{ReadTimeout: 5 * second}, func(t *testing.T, w *world) {
		p := w.cold(batchesOf(0, 500)...)
		p.onCold = make(gate).wait
		c := w.fetcher.NewConsumer()
		r, took := w.fetch(c, ask(8*second, 1, at(p, 0)))
		w.wantTook(took, 8*second)
		if !errors.Is(r.Partitions[0].Err, record.ErrStorage) {
			t.Errorf("error %v", r.Partitions[0].Err)
		}
		r.Release()
		c.Close()
	})
}

// Between the chain's end and the local start nothing is left; the fetch goes
// on at the local start.
func TestGapGoesOnAtTheLocalStart(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		p := w.partition()
		p.setHistory(batchesOf(0, 300, 300)...)
		if err := p.log.ResetTo(t.Context(), 10, nil, nil); err != nil {
			t.Fatal(err)
		}
		p.append(t, 400)
		p.append(t, 400)
		c := w.fetcher.NewConsumer()
		// The gap is known: local at once.
		r, took := w.fetch(c, ask(second, 1, at(p, 5)))
		w.wantTook(took, 0)
		w.wantData(r, 0, ClassHot, 10, 12)
		r.Release()
		// The chain has it as an entry: the cold read finds that out.
		p.mu.Lock()
		p.coldEnd = 10
		p.mu.Unlock()
		r, took = w.fetch(c, ask(second, 1, at(p, 5)))
		w.wantTook(took, 0)
		w.wantData(r, 0, ClassCold, 10, 12)
		r.Release()
		c.Close()
	})
}

// The local start passes the offset between the two looks: the cold tier has
// it, in the same fetch.
func TestLocalStartMovesDuringTheFetch(t *testing.T) {
	for _, paged := range []bool{false, true} {
		bubble(t, Options{}, func(t *testing.T, w *world) {
			p := w.partition()
			p.append(t, 300)
			p.append(t, 300)
			p.setPaged(paged)
			p.setHistory(batchesOf(0, 300, 300)...)
			p.onLocal = func(bool) error {
				p.onLocal = nil
				if err := p.log.Roll(context.Background()); err != nil {
					return err
				}
				_, err := p.log.DropBefore(context.Background(), 2)
				return err
			}
			c := w.fetcher.NewConsumer()
			r, took := w.fetch(c, ask(second, 1, at(p, 0)))
			w.wantTook(took, 0)
			w.wantData(r, 0, ClassCold, 0, 2)
			r.Release()
			c.Close()
		})
	}
}

// A local start that moves every time ends in an error that clients repeat.
func TestLocalStartThatKeepsMoving(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		p := w.partition()
		p.append(t, 300)
		p.onLocal = func(bool) error { return record.ErrOffsetOutOfRange }
		c := w.fetcher.NewConsumer()
		r, took := w.fetch(c, ask(second, 1, at(p, 0)))
		w.wantTook(took, second)
		if err := r.Partitions[0].Err; !errors.Is(err, record.ErrStorage) || errors.Is(err, record.ErrOffsetOutOfRange) {
			t.Errorf("error %v", err)
		}
		r.Release()
		c.Close()
	})
}

// Cold partitions take turns, however many there are and whatever the order
// of the request.
func TestColdPartitionsTakeTurns(t *testing.T) {
	const partitions, batch = 23, 1000
	bubble(t, Options{FetchMemoryBytes: 4 * batch, MemoryBytes: 100 * batch}, func(t *testing.T, w *world) {
		var wants []PartitionRequest
		for range partitions {
			wants = append(wants, PartitionRequest{Partition: w.cold(batchesOf(0, batch)...), MaxBytes: batch})
		}
		c := w.fetcher.NewConsumer()
		served := make([]int, partitions)
		for range 3 * partitions {
			synctest.Wait() // or the scheduler's turns would be measured
			r, _ := w.fetch(c, ask(second, 1, slices.Clone(wants)...))
			for i := range r.Partitions {
				if r.Partitions[i].Bytes != nil {
					served[i]++
				}
			}
			r.Release()
		}
		if least, most := slices.Min(served), slices.Max(served); least < 3 || most > least+3 {
			t.Errorf("served %v times", served)
		}
		c.Close()
	})
}

// A request that names a partition twice gets it once and loses nothing.
func TestPartitionNamedTwice(t *testing.T) {
	for _, second := range []record.Offset{0, 1} {
		bubble(t, Options{}, func(t *testing.T, w *world) {
			held := make(gate)
			p := w.cold(batchesOf(0, 500, 500)...)
			p.onCold = held.wait
			c := w.fetcher.NewConsumer()
			for range 3 {
				r, _ := w.fetch(c, ask(time.Second, 1, at(p, 0), at(p, second)))
				r.Release()
			}
			if n := len(p.asked()); n != 1 {
				t.Errorf("%d reads under way", n)
			}
			close(held)
			synctest.Wait()
			r, took := w.fetch(c, ask(time.Second, 1, at(p, 0), at(p, second)))
			w.wantTook(took, 0)
			w.wantData(r, 0, ClassCold, 0, 2)
			r.Release()
			c.Close()
		})
	}
}
