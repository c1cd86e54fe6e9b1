// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the numbers that a Store keeps itself.
type metrics struct {
	flush     prometheus.Observer
	repairs   *prometheus.CounterVec // by kind
	recovered prometheus.Counter
	scanned   prometheus.Counter
}

// newMetrics makes them on reg, which may be nil, together with the gauges
// that are read from the store at each scrape.
func newMetrics(reg prometheus.Registerer, s *Store) *metrics {
	factory := promauto.With(reg)
	disk := func(name, help string, value func(free, total uint64) uint64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			u, err := s.Usage()
			if err != nil {
				return -1
			}
			return float64(value(u.Free, u.Total))
		})
	}
	disk("firn_disk_free_bytes", "Free space of the file system that holds the data directory, -1 when it cannot be read.",
		func(free, _ uint64) uint64 { return free })
	disk("firn_disk_total_bytes", "Size of the file system that holds the data directory, -1 when it cannot be read.",
		func(_, total uint64) uint64 { return total })
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "firn_hot_resident_ratio",
		Help: "Part of the hot set, the last bytes of every log (fetch.tail.bytes of each), that is in the page cache, from 0 to 1.",
	}, s.ResidentRatio)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "firn_local_log_bytes",
		Help: "Bytes of all segments on the local disk.",
	}, func() float64 {
		var n int64
		for _, l := range s.openLogs() {
			n += l.Size()
		}
		return float64(n)
	})
	m := &metrics{
		flush: factory.NewHistogram(prometheus.HistogramOpts{
			Name:    "firn_log_flush_seconds",
			Help:    "Time of one sync (fdatasync) of one segment file.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16), // 100 µs to 3.3 s
		}),
		repairs: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "firn_log_repairs_total",
			Help: "Files of the local log that were damaged or missing and were made good, and tails that were cut off, by kind.",
		}, []string{"kind"}),
		recovered: factory.NewCounter(prometheus.CounterOpts{
			Name: "firn_log_recoveries_total",
			Help: "Local logs that were scanned when they were opened, since the stop before was not clean.",
		}),
		scanned: factory.NewCounter(prometheus.CounterOpts{
			Name: "firn_log_recovered_bytes_total",
			Help: "Bytes of segments that those scans have read.",
		}),
	}
	for _, kind := range repairKinds {
		m.repairs.WithLabelValues(kind)
	}
	return m
}
