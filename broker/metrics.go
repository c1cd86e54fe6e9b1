// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"firn/partition"
)

// topicMetrics tells at each scrape what the broker's topics are like. It keeps
// nothing itself, so that topics come and go with the broker's.
type topicMetrics struct {
	broker *Broker

	topics, partitions, offline                    *prometheus.Desc
	unprotected, lagBytes, lagSegments, storeBytes *prometheus.Desc
}

// register makes the broker's metrics on reg, which may be nil.
func (b *Broker) register(reg prometheus.Registerer) error {
	if reg == nil {
		return nil
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	err := reg.Register(&topicMetrics{
		broker:      b,
		topics:      desc("firn_topics", "Live topics."),
		partitions:  desc("firn_partitions", "Partitions of live topics that are open."),
		offline:     desc("firn_partitions_offline", "Partitions that could not be opened or take no more writes."),
		unprotected: desc("firn_tier_unprotected_seconds", "Age of the oldest record that is not in the object store, 0 when all are: what a dead disk would lose.", "topic"),
		lagBytes:    desc("firn_tier_copy_lag_bytes", "Bytes of closed segments that are not in the object store yet.", "topic"),
		lagSegments: desc("firn_tier_copy_lag_segments", "Closed segments that are not in the object store yet.", "topic"),
		storeBytes:  desc("firn_tier_stored_bytes", "Bytes of the log that are in the object store.", "topic"),
	})
	if err != nil {
		return fmt.Errorf("register the metrics of topics: %w", err)
	}
	return nil
}

// Describe is prometheus.Collector's.
func (m *topicMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.topics, m.partitions, m.offline, m.unprotected, m.lagBytes, m.lagSegments, m.storeBytes} {
		out <- d
	}
}

// Collect is prometheus.Collector's.
func (m *topicMetrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	now := m.broker.options.Now()
	topics := m.broker.topics.all()
	open, bad := 0, len(m.broker.Offline())
	for _, t := range topics {
		var alone partition.Unprotected
		var lagBytes, bytes int64
		var lagSegments int
		tiered := false
		for _, p := range t.open() {
			open++
			if p.Log().Poisoned() != nil {
				bad++
			}
			cold := p.Tier()
			if cold == nil {
				continue
			}
			tiered = true
			alone = alone.Add(p.Unprotected())
			state := cold.State()
			lagBytes += state.LagBytes
			lagSegments += state.LagSegments
			bytes += state.Bytes
		}
		if tiered {
			gauge(m.unprotected, alone.Age(now).Seconds(), t.Name)
			gauge(m.lagBytes, float64(lagBytes), t.Name)
			gauge(m.lagSegments, float64(lagSegments), t.Name)
			gauge(m.storeBytes, float64(bytes), t.Name)
		}
	}
	gauge(m.topics, float64(len(topics)))
	gauge(m.partitions, float64(open))
	gauge(m.offline, float64(bad))
}
