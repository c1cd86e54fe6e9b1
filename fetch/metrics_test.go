// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestOnlyDeliveriesAreStamped follows a consumer that catches up, waits at the
// tail, goes back, and falls behind.
func TestOnlyDeliveriesAreStamped(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, w *world) {
		p := w.partition()
		p.append(t, 100)
		pass := func(d time.Duration) { <-time.After(d) }
		pass(time.Minute)
		c := w.fetcher.NewConsumer()
		stamp := func(what string, req *Request, want time.Time) {
			t.Helper()
			r, _ := w.fetch(c, req)
			if !r.Appended.Equal(want) {
				t.Errorf("%s: stamped %v, want %v", what, r.Appended, want)
			}
			r.Release()
		}
		stamp("what was there before", ask(second, 1, at(p, 0)), time.Time{})

		due := time.Now().Add(2 * second)
		time.AfterFunc(2*second, func() { p.append(t, 100) })
		stamp("an append while parked", ask(time.Hour, 1, at(p, 1)), due)

		due = time.Now()
		p.append(t, 100)
		pass(second)
		p.append(t, 100)
		stamp("two appends between fetches", ask(time.Hour, 1, at(p, 2)), due)

		pass(time.Minute)
		stamp("the consumer goes back", ask(second, 1, at(p, 0)), time.Time{})

		p.append(t, 100)
		short := ask(second, 1, at(p, 0))
		short.MaxBytes = 1
		stamp("an answer that leaves something", short, time.Time{})
		stamp("so that the next one catches up", ask(second, 1, at(p, 1)), time.Time{})
		c.Close()
	})
}

func TestMetricsTellBytesByClass(t *testing.T) {
	reg := prometheus.NewRegistry()
	bubble(t, Options{Registerer: reg}, func(t *testing.T, w *world) {
		p := w.partition()
		p.append(t, 100)
		c := w.fetcher.NewConsumer()
		r, _ := w.fetch(c, ask(second, 1, at(p, 0)))
		r.Release()
		c.Close()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.Metric {
				got[f.GetName()+"/"+m.Label[0].GetValue()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		if len(got) != 5 || got["firn_fetch_bytes_total/hot"] != 100 || got["firn_fetch_bytes_total/warm"] != 0 {
			t.Errorf("%v", got)
		}
	})
}
