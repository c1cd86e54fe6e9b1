// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"time"
)

// Options are what the workloads have in common. What one has no use for, it
// does not look at.
type Options struct {
	// Broker is the host:port of a broker; raw frames go to it whoever leads.
	Broker string
	// Topic must exist, with so many Partitions. 0 means 1.
	Topic      string
	Partitions int
	// Clients are the connections that work at once. 0 means 1.
	Clients int
	// Duration bounds the run. 0 means 10 s.
	Duration time.Duration
	// Rate is in records a second over all clients; 0 is a closed loop.
	Rate float64
	// RecordBytes is the size of a value. 0 means 1 KiB.
	RecordBytes int
	// BatchBytes bounds a batch, and BatchBytes times InFlight what a client
	// has on its way. 0 means 64 KiB.
	BatchBytes int
	// InFlight is how many requests a connection has on its way. 0 means 5.
	InFlight int
	// Acks is 0, 1 or -1 for all.
	Acks int16
	// Codec is the compression, by name. Empty means none.
	Codec string
	// FetchBytes is how much a fetch asks for. 0 means 1 MiB.
	FetchBytes int
	// Raw sends frames encoded beforehand in place of a full client.
	Raw bool
}

// EnsureDefaults fills in what is zero.
func (o *Options) EnsureDefaults() {
	setDefault(&o.Partitions, 1)
	setDefault(&o.Clients, 1)
	setDefault(&o.Duration, 10*time.Second)
	setDefault(&o.RecordBytes, 1<<10)
	setDefault(&o.BatchBytes, 64<<10)
	setDefault(&o.InFlight, 5)
	setDefault(&o.Codec, "none")
	setDefault(&o.FetchBytes, 1<<20)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every fault, after EnsureDefaults.
func (o *Options) Validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(o.Broker == "", "no broker is named")
	fault(o.Topic == "", "no topic is named")
	fault(o.Partitions < 1, "%d partitions: want at least 1", o.Partitions)
	fault(o.Clients < 1 || o.Clients > 10_000, "%d clients: want 1 to 10000", o.Clients)
	fault(o.Duration < 0, "a duration of %v: want a positive one", o.Duration)
	fault(!(o.Rate >= 0 && o.Rate <= 1e8), "a rate of %v: want 0 to 1e8 records a second", o.Rate)
	fault(o.RecordBytes < MinValueBytes || o.RecordBytes > MaxValueBytes, "records of %d bytes: want %d to %d", o.RecordBytes, MinValueBytes, MaxValueBytes)
	fault(o.BatchBytes < o.RecordBytes || o.BatchBytes > 64<<20, "batches of %d bytes: want at least one record, and at most 64 MiB", o.BatchBytes)
	fault(o.InFlight < 1 || o.InFlight > 1000, "%d requests in flight: want 1 to 1000", o.InFlight)
	fault(o.Acks < -1 || o.Acks > 1, "acks %d: want 0, 1 or all", o.Acks)
	fault(codecs[o.Codec] == nil, "codec %q: want one of %v", o.Codec, Codecs())
	fault(o.FetchBytes < 1 || o.FetchBytes > 128<<20, "fetches of %d bytes: want 1 to 128 MiB", o.FetchBytes)
	return errors.Join(faults...)
}

func (o *Options) prepare() error {
	o.EnsureDefaults()
	return o.Validate()
}

// Throughput is the result of a workload that moves records.
type Throughput struct {
	Seconds          float64 `json:"seconds"`
	Records          int64   `json:"records"`
	Bytes            int64   `json:"bytes"`
	RecordsPerSecond float64 `json:"records_per_second"`
	MiBPerSecond     float64 `json:"mib_per_second"`
	// Latency is that of whole requests with raw frames, and of records with
	// a full client.
	Latency   Latency  `json:"latency"`
	PerSecond []Second `json:"per_second"`
}

func throughput(records, size int64, took time.Duration, latencies *Series) Throughput {
	s := took.Seconds()
	return Throughput{
		Seconds: s, Records: records, Bytes: size,
		RecordsPerSecond: float64(records) / s, MiBPerSecond: float64(size) / (1 << 20) / s,
		Latency: latencies.Total().Summary(), PerSecond: latencies.Seconds(),
	}
}
