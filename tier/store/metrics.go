// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Results of a request, as the metrics name them: a result of an error is its
// Kind.
const (
	resultOK        = "ok"
	resultNotFound  = "not_found"
	resultExists    = "exists"
	resultRetriable = "retriable"
	resultPermanent = "permanent"
)

// measuredOps are the operations that are counted.
var measuredOps = [...]Op{OpPut, OpGet, OpHead, OpList, OpDelete}

// metrics are the numbers of one store. Every child exists from the start, so
// that a request costs no look-up and a scrape shows zeros.
type metrics struct {
	requests map[Op]map[string]prometheus.Counter
	seconds  map[Op]prometheus.Observer
	written  prometheus.Counter
	read     prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	factory := promauto.With(reg)
	requests := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "firn_store_requests_total",
		Help: "Requests to the object store, every attempt counted, by operation and result.",
	}, []string{"operation", "result"})
	seconds := factory.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "firn_store_request_seconds",
		Help:    "Time of requests to the object store, failed ones included, by operation.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 16), // 1 ms to 33 s
	}, []string{"operation"})
	bytes := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "firn_store_bytes_total",
		Help: "Bytes of object bodies that requests to the object store moved, by direction.",
	}, []string{"direction"})
	m := &metrics{
		requests: map[Op]map[string]prometheus.Counter{}, seconds: map[Op]prometheus.Observer{},
		written: bytes.WithLabelValues("written"), read: bytes.WithLabelValues("read"),
	}
	for _, op := range measuredOps {
		m.seconds[op] = seconds.WithLabelValues(string(op))
		m.requests[op] = map[string]prometheus.Counter{}
		for _, result := range []string{resultOK, resultNotFound, resultExists, resultRetriable, resultPermanent} {
			m.requests[op][result] = requests.WithLabelValues(string(op), result)
		}
	}
	return m
}

// result is the metrics' word for how a request ended.
func result(err error) string {
	if err == nil {
		return resultOK
	}
	switch KindOf(err) {
	case NotFound:
		return resultNotFound
	case Exists:
		return resultExists
	case Retriable:
		return resultRetriable
	}
	return resultPermanent
}

// WithMetrics makes a store that counts and times the calls of s. It belongs
// inside WithRetry, so that every attempt counts. Only one store can be
// measured on a Registerer; with nil s itself is returned.
func WithMetrics(s Store, reg prometheus.Registerer) Store {
	if reg == nil {
		return s
	}
	return &measured{Store: s, m: newMetrics(reg)}
}

// measured is what WithMetrics makes.
type measured struct {
	Store
	m *metrics
}

func (s *measured) Unwrap() Store { return s.Store }

func (s *measured) done(op Op, started time.Time, err error) {
	s.m.seconds[op].Observe(time.Since(started).Seconds())
	s.m.requests[op][result(err)].Inc()
}

func (s *measured) Put(ctx context.Context, key string, body Source, o PutOptions) error {
	started := time.Now()
	err := s.Store.Put(ctx, key, body, o)
	s.done(OpPut, started, err)
	if err == nil {
		s.m.written.Add(float64(body.Size()))
	}
	return err
}

func (s *measured) GetRange(ctx context.Context, key string, p []byte, off int64) (int, error) {
	started := time.Now()
	n, err := s.Store.GetRange(ctx, key, p, off)
	s.done(OpGet, started, err)
	s.m.read.Add(float64(max(n, 0)))
	return n, err
}

func (s *measured) Head(ctx context.Context, key string) (Info, error) {
	started := time.Now()
	info, err := s.Store.Head(ctx, key)
	s.done(OpHead, started, err)
	return info, err
}

func (s *measured) List(ctx context.Context, prefix, after string, limit int) ([]Info, bool, error) {
	started := time.Now()
	infos, more, err := s.Store.List(ctx, prefix, after, limit)
	s.done(OpList, started, err)
	return infos, more, err
}

func (s *measured) Delete(ctx context.Context, keys []string) error {
	started := time.Now()
	err := s.Store.Delete(ctx, keys)
	s.done(OpDelete, started, err)
	return err
}
