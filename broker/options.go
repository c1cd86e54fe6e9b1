// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"firn/cluster"
	"firn/fetch"
	"firn/hot"
	"firn/tier"
)

// Options say what a Broker is made of and how it behaves. Logs, Cluster and
// Fetcher are required.
type Options struct {
	Logs    *hot.Disks
	Cluster *cluster.Local
	Fetcher *fetch.Fetcher
	// Tier is the cold tier; nil when no store is configured.
	Tier *tier.Tier

	// TopicDefaults are what the broker's settings contribute to topics.
	TopicDefaults cluster.Defaults
	// BrokerConfigs are what DescribeConfigs answers for the broker.
	BrokerConfigs []cluster.ConfigEntry
	// RollAfter is tier.roll.ms: tiered topics seal a segment so long after
	// its first append. 0 turns it off.
	RollAfter time.Duration
	// ProducerExpiry is producer.id.expiration.ms. 0 means one day.
	ProducerExpiry time.Duration
	// NumPartitions is num.partitions, for topics that do not say. 0 means 1.
	NumPartitions int32
	// AutoCreateTopics is auto.create.topics.enable.
	AutoCreateTopics bool
	// ClampReplication accepts replication factors over 1 and makes them 1
	// (firn.replication.factor.clamp).
	ClampReplication bool
	// MaxFetchBytes is fetch.max.bytes, the most that one answer carries. 0
	// means 55 MiB.
	MaxFetchBytes int
	// FetchSessions is how many fetch sessions there may be
	// (max.incremental.fetch.session.cache.slots). 0 means 1,000, negative none.
	FetchSessions int
	// RetentionInterval is log.retention.check.interval.ms. 0 means 5 min.
	RetentionInterval time.Duration
	// DeleteTopics is delete.topic.enable: clients may delete topics.
	DeleteTopics bool
	// DeleteGrace is tier.delete.grace.ms: the objects of a deleted topic are
	// looked for once more after so long.
	DeleteGrace time.Duration
	// DiskReserve is firn.disk.reserve.bytes for a disk of the given size:
	// produce to its partitions stops below so much free space. Nil means no
	// reserve.
	DiskReserve func(total uint64) uint64
	// ListOffsetsTimeout is remote.list.offsets.request.timeout.ms. 0 means
	// 30 s.
	ListOffsetsTimeout time.Duration
	// StoreTimeout bounds the write of a topic's state to the object store
	// before its creation or deletion goes on without it. 0 means 5 s.
	StoreTimeout time.Duration
	// OpenThreads is how many partitions open at the same time. 0 means two
	// per processor.
	OpenThreads int
	// Logger gets the broker's events. Nil discards them.
	Logger *slog.Logger
	// Registerer takes the metrics; only one Broker can be measured on it. Nil
	// means none.
	Registerer prometheus.Registerer
	// Now is the clock of retention. Nil means time.Now.
	Now func() time.Time
}

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	setDefault(&o.ProducerExpiry, 24*time.Hour)
	setDefault(&o.NumPartitions, 1)
	setDefault(&o.MaxFetchBytes, 55<<20)
	setDefault(&o.RetentionInterval, 5*time.Minute)
	setDefault(&o.ListOffsetsTimeout, 30*time.Second)
	setDefault(&o.StoreTimeout, 5*time.Second)
	setDefault(&o.OpenThreads, 2*runtime.GOMAXPROCS(0))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.DiskReserve == nil {
		o.DiskReserve = func(uint64) uint64 { return 0 }
	}
	if o.Now == nil {
		o.Now = time.Now
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
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf("broker options: "+format, args...))
		}
	}
	fault(o.Logs == nil, "Logs is required")
	fault(o.Cluster == nil, "Cluster is required")
	fault(o.Fetcher == nil, "Fetcher is required")
	fault(o.NumPartitions < 1, "NumPartitions is %d, must be positive", o.NumPartitions)
	fault(o.MaxFetchBytes < 1024, "MaxFetchBytes is %d, must be at least 1024", o.MaxFetchBytes)
	fault(o.RetentionInterval < 0, "RetentionInterval is %v, must be positive", o.RetentionInterval)
	fault(o.OpenThreads < 1, "OpenThreads is %d, must be positive", o.OpenThreads)
	return errors.Join(faults...)
}
