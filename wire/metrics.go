// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The phases of a request, in their order.
//
//	queue   its length was read ──▶ it may be read: there is a slot of its
//	        connection and memory for it
//	handle  it was read ──▶ Handle returned; a long poll is in here
//	wait    Handle returned ──▶ the answer is there: earlier answers of the
//	        connection were sent, what it waits for (a sync) has happened
//	send    the answer is there ──▶ all of it was handed to the kernel
const (
	phaseQueue = iota
	phaseHandle
	phaseWait
	phaseSend
	phases
)

var phaseNames = [phases]string{"queue", "handle", "wait", "send"}

// metrics are the numbers of one server. Children of all served keys are made
// at the start, so that a request takes no lock and allocates nothing for them.
type metrics struct {
	apis map[int16]*apiMetrics
	tail prometheus.Observer
}

type apiMetrics struct {
	requests prometheus.Counter
	seconds  [phases]prometheus.Observer
}

// newMetrics makes them on reg, which may be nil.
func newMetrics(reg prometheus.Registerer, s *Server) *metrics {
	factory := promauto.With(reg)
	requests := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "firn_requests_total",
		Help: "Requests that were decoded and handled, by API.",
	}, []string{"api"})
	seconds := factory.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "firn_request_seconds",
		Help:    "Time of requests by API and phase: queue, handle, wait, send.",
		Buckets: []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5},
	}, []string{"api", "phase"})
	m := &metrics{apis: make(map[int16]*apiMetrics, len(s.o.Table))}
	for key := range s.o.Table {
		api := kmsg.NameForKey(key)
		one := &apiMetrics{requests: requests.WithLabelValues(api)}
		for phase, name := range phaseNames {
			one.seconds[phase] = seconds.WithLabelValues(api, name)
		}
		m.apis[key] = one
	}
	m.tail = factory.NewHistogram(prometheus.HistogramOpts{
		Name:    "firn_tail_delivery_seconds",
		Help:    "Time from the append of the oldest batch in an answer at the tail until the answer was handed to the kernel.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 1.6, 25), // 100 µs to 7.9 s
	})
	m.read(factory, s)
	return m
}

// read makes the metrics that the server's counters tell at each scrape.
func (m *metrics) read(factory promauto.Factory, s *Server) {
	counter := func(name, help string, labels prometheus.Labels, value func() uint64) {
		factory.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(value()) })
	}
	const sent, sentHelp = "firn_sent_bytes_total", "Bytes sent to clients, by the path they took to the socket."
	c := &s.counters
	counter(sent, sentHelp, prometheus.Labels{"path": "sendfile"}, c.sendfile.Load)
	counter(sent, sentHelp, prometheus.Labels{"path": "pread"}, c.pread.Load)
	counter(sent, sentHelp, prometheus.Labels{"path": "memory"}, c.memory.Load)
	const closed, closedHelp = "firn_connections_closed_total", "Connections that the broker closed for a fault of the client, by reason."
	counter(closed, closedHelp, prometheus.Labels{"reason": "malformed"}, c.malformed.Load)
	counter(closed, closedHelp, prometheus.Labels{"reason": "unsupported"}, c.unsupported.Load)
	counter(closed, closedHelp, prometheus.Labels{"reason": "slow"}, c.slow.Load)
	counter(closed, closedHelp, prometheus.Labels{"reason": "handshake"}, c.handshakes.Load)
	counter(closed, closedHelp, prometheus.Labels{"reason": "limit"}, c.refused.Load)
	counter("firn_send_cold_chunks_total", "Pieces of answers that had left the page cache between the fetch and the send.", nil, c.cold.Load)
	factory.NewGaugeFunc(prometheus.GaugeOpts{Name: "firn_connections", Help: "Client connections that are open."}, func() float64 {
		return float64(s.Stats().Connections)
	})
}
