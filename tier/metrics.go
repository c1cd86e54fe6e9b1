// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// register makes the metrics of the reads on reg, which may be nil. They are
// read from the Reader's counters at each scrape. What concerns a topic is told
// by the broker, and the requests are counted by the store.
func (t *Tier) register(reg prometheus.Registerer) {
	factory := promauto.With(reg)
	counter := func(name, help string, value func(ReaderStats) int64) {
		factory.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(t.reader.Stats())) })
	}
	gauge := func(name, help string, value func(ReaderStats) int64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(t.reader.Stats())) })
	}
	counter("firn_tier_cache_hits_total", "Parts of objects (chunks, indexes) that reads of history found in memory.",
		func(s ReaderStats) int64 { return s.Hits })
	counter("firn_tier_cache_misses_total", "Parts of objects that reads of history had to wait for.",
		func(s ReaderStats) int64 { return s.Misses })
	counter("firn_tier_read_ahead_total", "Parts of objects that were loaded before a read wanted them.",
		func(s ReaderStats) int64 { return s.ReadAhead })
	counter("firn_tier_refetched_total", "Parts of objects that came damaged and were loaded again.",
		func(s ReaderStats) int64 { return s.Refetched })
	counter("firn_tier_corrupt_total", "Parts of objects that came damaged twice, which failed a read.",
		func(s ReaderStats) int64 { return s.Corrupt })
	gauge("firn_tier_held_bytes", "Memory of parts of objects that are being loaded or wait to be used, beside the caches.",
		func(s ReaderStats) int64 { return s.Held })
	gauge("firn_tier_lent_bytes", "Memory of answers from history that are being sent.",
		func(s ReaderStats) int64 { return s.Lent })
}
