// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options configure a Fetcher.
type Options struct {
	// WarmWorkers read local segments that are not in the page cache; one
	// background reader fills a disk. 0 means 1. One more worker is kept for
	// reads near the end of a log.
	WarmWorkers int
	// ColdWorkers wait for the object store (remote.log.reader.threads). 0
	// means 10.
	ColdWorkers int
	// QueueLength bounds how many reads wait for a worker of a pool
	// (remote.log.reader.max.pending.tasks). 0 means 1,000. What does not fit
	// is read by a later fetch.
	QueueLength int
	// MemoryBytes bounds the memory of all warm and cold reads together, from
	// before they start until their answers are sent: half of it is for warm
	// reads, half for cold ones. 0 means 128 MiB, or twice FetchMemoryBytes
	// where that is more.
	MemoryBytes int64
	// FetchMemoryBytes bounds what one connection may have reserved of either
	// half (fetch.cold.max.bytes), but for a single batch that is larger. 0
	// means 4 MiB.
	FetchMemoryBytes int
	// TailBytes is how near to the end of its log a read must begin to count
	// as a read of the tail (fetch.tail.bytes). 0 means 8 MiB.
	TailBytes int64
	// ColdWait is how long a fetch that has no other data waits for its warm
	// and cold reads (remote.fetch.max.wait.ms). 0 means 500 ms.
	ColdWait time.Duration
	// ReadTimeout bounds one cold read. 0 means 60 s.
	ReadTimeout time.Duration
	// KeepReady is how long the result of a read waits for the next fetch
	// before it is dropped; it may be half as long again. 0 means 10 s.
	KeepReady time.Duration
	// Logger gets what went wrong in reads. Nil discards it.
	Logger *slog.Logger
	// Registerer takes the metrics; only one Fetcher can be measured on it.
	// Nil means none.
	Registerer prometheus.Registerer
}

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	setDefault(&o.WarmWorkers, 1)
	setDefault(&o.ColdWorkers, 10)
	setDefault(&o.QueueLength, 1000)
	setDefault(&o.FetchMemoryBytes, 4<<20)
	setDefault(&o.MemoryBytes, max(128<<20, lanes*int64(o.FetchMemoryBytes)))
	setDefault(&o.TailBytes, 8<<20)
	setDefault(&o.ColdWait, 500*time.Millisecond)
	setDefault(&o.ReadTimeout, time.Minute)
	setDefault(&o.KeepReady, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every fault of the options, after EnsureDefaults.
func (o *Options) Validate() error {
	var faults []error
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"WarmWorkers", int64(o.WarmWorkers)},
		{"ColdWorkers", int64(o.ColdWorkers)},
		{"QueueLength", int64(o.QueueLength)},
		{"FetchMemoryBytes", int64(o.FetchMemoryBytes)},
		{"TailBytes", o.TailBytes},
		{"ColdWait", int64(o.ColdWait)},
		{"ReadTimeout", int64(o.ReadTimeout)},
		{"KeepReady", int64(o.KeepReady)},
	} {
		if field.value < 1 {
			faults = append(faults, fmt.Errorf("fetch options: %s is %d, must be positive", field.name, field.value))
		}
	}
	if o.MemoryBytes/lanes < int64(o.FetchMemoryBytes) {
		faults = append(faults, fmt.Errorf("fetch options: MemoryBytes %d is less than twice FetchMemoryBytes, %d", o.MemoryBytes, o.FetchMemoryBytes))
	}
	return errors.Join(faults...)
}
