// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics is what the admin port shows to Prometheus. Every number is kept by
// the package that it is about and read when it is asked for.
func (n *node) metrics() prometheus.Gatherer {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	counter := func(name, help string, labels prometheus.Labels, value func() float64) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, value))
	}
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	const answered = "firn_fetch_bytes_total"
	const answeredHelp = "Bytes of records that fetches answered, by the class of the read."
	counter(answered, answeredHelp, prometheus.Labels{"class": "hot"}, func() float64 { return float64(n.fetcher.Stats().HotBytes) })
	counter(answered, answeredHelp, prometheus.Labels{"class": "warm"}, func() float64 { return float64(n.fetcher.Stats().WarmBytes) })
	counter(answered, answeredHelp, prometheus.Labels{"class": "cold"}, func() float64 { return float64(n.fetcher.Stats().ColdBytes) })
	const sent = "firn_sent_bytes_total"
	const sentHelp = "Bytes sent to clients, by the path they took to the socket."
	counter(sent, sentHelp, prometheus.Labels{"path": "sendfile"}, func() float64 { return float64(n.server.Stats().SendfileBytes) })
	counter(sent, sentHelp, prometheus.Labels{"path": "pread"}, func() float64 { return float64(n.server.Stats().PreadBytes) })
	counter(sent, sentHelp, prometheus.Labels{"path": "memory"}, func() float64 { return float64(n.server.Stats().MemoryBytes) })
	counter("firn_requests_total", "Requests that were decoded and handled.", nil, func() float64 { return float64(n.server.Stats().Requests) })
	counter("firn_malformed_frames_total", "Frames that cost their connection.", nil, func() float64 { return float64(n.server.Stats().Malformed) })
	gauge("firn_connections", "Client connections that are open.", func() float64 { return float64(n.server.Stats().Connections) })
	gauge("firn_disk_free_bytes", "Free space of the file system that holds the data directory.", func() float64 {
		usage, err := n.logs.Usage()
		if err != nil {
			return -1
		}
		return float64(usage.Free)
	})
	return registry
}
