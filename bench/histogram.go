// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math/bits"
	"sync"
	"time"
)

const (
	// subBits gives 32 buckets to each power of two: a quantile is at most
	// 3.2 % above the true one.
	subBits    = 5
	subBuckets = 1 << subBits
	buckets    = (64 - subBits) * subBuckets
)

// Histogram counts durations in buckets whose width is a thirty-second of
// their power of two. The zero value is empty. It is not safe for concurrent
// use.
type Histogram struct {
	counts [buckets]uint64
	count  uint64
	max    time.Duration
}

// bucketOf is the bucket of v nanoseconds: the five bits below the highest one
// set, and the power of two.
func bucketOf(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)<<subBits + int(v>>shift) - subBuckets
}

// upperOf is the largest value that falls into a bucket.
func upperOf(bucket int) uint64 {
	if bucket < subBuckets {
		return uint64(bucket)
	}
	shift := bucket>>subBits - 1
	return (uint64(bucket&(subBuckets-1)+subBuckets)+1)<<shift - 1
}

// Record counts d; what is negative counts as 0.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(uint64(d))]++
	h.count++
	h.max = max(h.max, d)
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.max = max(h.max, other.max)
}

// Count is how many durations were recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Max is the longest of them, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile is the duration that the share q, from 0 to 1, of all does not
// exceed; 0 for an empty histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := max(uint64(q*float64(h.count)+0.5), 1)
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(time.Duration(upperOf(i)), h.max)
		}
	}
	return h.max
}

// Latency is the summary of a Histogram, in milliseconds.
type Latency struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

// Summary is the histogram in a few figures.
func (h *Histogram) Summary() Latency {
	return Latency{
		Count: h.count,
		P50:   milliseconds(h.Quantile(0.50)),
		P99:   milliseconds(h.Quantile(0.99)),
		P999:  milliseconds(h.Quantile(0.999)),
		Max:   milliseconds(h.max),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// maxSeconds bounds a Series; later seconds count into the last one.
const maxSeconds = 24 * 60 * 60

// Series is a Histogram for each second of a run. All methods may be called
// concurrently.
type Series struct {
	start time.Time

	mu      sync.Mutex
	seconds []*Histogram // nil where nothing was recorded
}

// NewSeries makes a Series whose first second begins at start.
func NewSeries(start time.Time) *Series { return &Series{start: start} }

// Start is when the first second begins.
func (s *Series) Start() time.Time { return s.start }

// Record counts d into the second that holds at.
func (s *Series) Record(at time.Time, d time.Duration) {
	second := min(max(int(at.Sub(s.start)/time.Second), 0), maxSeconds)
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.seconds) <= second {
		s.seconds = append(s.seconds, nil)
	}
	if s.seconds[second] == nil {
		s.seconds[second] = new(Histogram)
	}
	s.seconds[second].Record(d)
}

// Window sums up the seconds that lie wholly between from and to, or, when
// there is none, those that overlap.
func (s *Series) Window(from, to time.Time) *Histogram {
	h := s.window(from, to, true)
	if h.Count() == 0 {
		h = s.window(from, to, false)
	}
	return h
}

func (s *Series) window(from, to time.Time, wholly bool) *Histogram {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := new(Histogram)
	for i, h := range s.seconds {
		begin := s.start.Add(time.Duration(i) * time.Second)
		end := begin.Add(time.Second)
		inside := !begin.Before(from) && !end.After(to)
		overlaps := begin.Before(to) && end.After(from)
		if h != nil && (inside || !wholly && overlaps) {
			sum.Merge(h)
		}
	}
	return sum
}

// Total sums up all seconds.
func (s *Series) Total() *Histogram {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := new(Histogram)
	for _, h := range s.seconds {
		if h != nil {
			sum.Merge(h)
		}
	}
	return sum
}

// Second is one second of a Series.
type Second struct {
	Second int `json:"second"`
	Latency
}

// Seconds lists the seconds in which something was recorded.
func (s *Series) Seconds() []Second {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []Second{}
	for i, h := range s.seconds {
		if h != nil {
			all = append(all, Second{i, h.Summary()})
		}
	}
	return all
}
