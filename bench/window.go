// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"firn/record"
)

// WindowReads is a consumer that is a little behind: an open loop of fetches
// at random offsets of what is local of partition 0. It is what suffers first
// when a replay pushes the hot set out of memory.
type WindowReads struct {
	// Broker and Topic are as in Options.
	Broker, Topic string
	// From and To are the window.
	From, To record.Offset
	// Rate is in fetches a second; FetchBytes what each asks for.
	Rate       float64
	FetchBytes int

	latencies *Series
}

// NewWindowReads checks the fields and makes the series.
func NewWindowReads(w WindowReads) (*WindowReads, error) {
	if w.From >= w.To || w.Rate <= 0 || w.FetchBytes < 1 {
		return nil, fmt.Errorf("window reads of offsets %d to %d at %v a second: there is nothing to read", w.From, w.To, w.Rate)
	}
	w.latencies = NewSeries(time.Now())
	return &w, nil
}

// Latencies are those seen so far, by the time at which the answers came.
func (w *WindowReads) Latencies() *Series { return w.latencies }

// Run reads until ctx ends, which is no failure.
func (w *WindowReads) Run(ctx context.Context) error {
	c, err := dial(ctx, w.Broker)
	if err != nil {
		return err
	}
	defer c.close()
	random := rand.New(rand.NewPCG(1, 2)) // any will do, and every run reads the same
	clock := pace{time.Now(), w.Rate}
	f := fetchRequest{topic: w.Topic, maxBytes: int32(w.FetchBytes), minBytes: 1, maxWait: 500 * time.Millisecond}
	for n := int64(0); sleepUntil(ctx, clock.due(n)); n++ {
		f.offset = w.From + record.Offset(random.Int64N(int64(w.To-w.From)))
		// A read that is not ready is answered empty: it counts until it
		// has come.
		for got := (fetched{}); len(got.batches) == 0; {
			if got, err = c.fetch(f); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("read the hot window: %w", err)
			}
		}
		now := time.Now()
		w.latencies.Record(now, now.Sub(clock.due(n)))
	}
	return nil
}
