// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// register makes the metrics of the Fetcher on reg, which may be nil. They are
// read from its counters at each scrape, so that a fetch does nothing for them.
func (f *Fetcher) register(reg prometheus.Registerer) {
	factory := promauto.With(reg)
	for class := ClassHot; class <= ClassCold; class++ {
		factory.NewCounterFunc(prometheus.CounterOpts{
			Name:        "firn_fetch_bytes_total",
			Help:        "Bytes of records that fetches answered, by the class of the read.",
			ConstLabels: prometheus.Labels{"class": class.String()},
		}, func() float64 { return float64(f.bytes[class].Load()) })
	}
	for in, class := range [lanes]Class{laneWarm: ClassWarm, laneCold: ClassCold} {
		factory.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "firn_fetch_memory_bytes",
			Help:        "Memory that reads past the page cache and from the object store hold, by class.",
			ConstLabels: prometheus.Labels{"class": class.String()},
		}, func() float64 { return float64(f.memory[in].inUse()) })
	}
}

// rewound is how long before the last look of a consumer that had everything a
// batch may have been appended and still be news to it: it was not visible yet,
// since its sync was not over. An older one means that the consumer has gone
// back, or was given another partition.
const rewound = 10 * time.Second

// stampTail notes in an answer of the tail when the oldest of its batches was
// appended. The consumer had everything when it looked last, at the time seen,
// so that the time until the answer is sent is a delivery.
func (r *Result) stampTail(seen time.Time) {
	if r.Bulk {
		return
	}
	var oldest time.Time
	for i := range r.Partitions {
		region := r.Partitions[i].Region
		if region == nil {
			continue
		}
		at, ok := region.AppendedAt()
		if !ok || at.Before(seen.Add(-rewound)) {
			return
		}
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	r.Appended = oldest
}

// exhausts says whether the round left nothing for its consumer to read.
func (c *call) exhausts(r *round) bool {
	if r.pending > 0 {
		return false
	}
	for i := range r.result.Partitions {
		got := &r.result.Partitions[i]
		switch {
		case got.Err != nil, len(got.Bytes) > 0:
			return false
		case got.Region != nil && got.Region.Next() < c.limit(got):
			return false
		case got.Region == nil && c.request.Partitions[i].readable() && c.request.Partitions[i].Offset < c.limit(got):
			return false // there was no room for it
		}
	}
	return true
}
