// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"firn/internal/vfs"
	"firn/record"
)

// Options say where a Store lives and what it may use.
type Options struct {
	// Dir is the log directory. It is made if it is not there. Required.
	Dir string
	// FS is the file system that holds it. Nil means vfs.Disk().
	FS vfs.FS
	// IO reads and drops bulk data beside the page cache. Nil means plain
	// reads.
	IO *vfs.IO
	// Logger gets one line an event. Nil discards them.
	Logger *slog.Logger
	// MaxOpenFiles bounds the descriptors that stay open though nobody uses
	// them at the moment. Those in use come on top: one for each log that is
	// being written, one for each Region and pinned Segment. 0 means 1,000.
	MaxOpenFiles int
	// IndexCacheBytes bounds the memory for the index pages of sealed
	// segments. 0 means 8 MiB.
	IndexCacheBytes int64
	// CheckpointInterval is the time between two writes of the recovery
	// points, and between two tries of what failed in the background. 0 means
	// a minute.
	CheckpointInterval time.Duration
	// FileDeleteDelay is how long the directory of a deleted log stays. 0
	// means a minute, a negative value none.
	FileDeleteDelay time.Duration
	// RecoveryThreads bounds the logs that are scanned, or closed, at once. 0
	// means one for each CPU.
	RecoveryThreads int
	// NoFsync answers sync requests at once, without a sync
	// (log.acks.all.fsync=false). Sealed segments are synced all the same.
	NoFsync bool
	// HotBytes is how much of the end of each log counts as the hot set, whose
	// residency the metrics tell (fetch.tail.bytes). 0 means 8 MiB.
	HotBytes int64
	// WatchInterval is how often the directory itself is looked at: whether it
	// is still there, and whether its disk has room for the ballast. An error
	// has it tried at once. 0 means never: no failure takes the directory
	// offline, only single logs.
	WatchInterval time.Duration
	// Ballast is the size in bytes of a file that holds space for the moment
	// when the disk is full to its last block; it needs a WatchInterval. 0
	// means none.
	Ballast int64
	// BallastPart bounds the ballast of a small disk to this part of its size:
	// 100 stands for one hundredth. 0 means no bound.
	BallastPart int64
	// Registerer takes the metrics; only one store can be measured on it. Nil
	// means none.
	Registerer prometheus.Registerer
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// EnsureDefaults puts the defaults in the place of zero values.
func (o *Options) EnsureDefaults() {
	if o.FS == nil {
		o.FS = vfs.Disk()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxOpenFiles == 0 {
		o.MaxOpenFiles = 1000
	}
	if o.IndexCacheBytes == 0 {
		o.IndexCacheBytes = 8 << 20
	}
	if o.CheckpointInterval == 0 {
		o.CheckpointInterval = time.Minute
	}
	if o.FileDeleteDelay == 0 {
		o.FileDeleteDelay = time.Minute
	}
	if o.RecoveryThreads == 0 {
		o.RecoveryThreads = runtime.GOMAXPROCS(0)
	}
	if o.HotBytes == 0 {
		o.HotBytes = 8 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Validate reports every fault of options that have their defaults.
func (o *Options) Validate() error {
	var faults []error
	positive := func(name string, ok bool, value any) {
		if !ok {
			faults = append(faults, fmt.Errorf("hot options: %s is %v, must be above 0", name, value))
		}
	}
	if o.Dir == "" {
		faults = append(faults, errors.New("hot options: no directory"))
	}
	if o.WatchInterval < 0 || o.Ballast < 0 || o.Ballast > 0 && o.WatchInterval == 0 {
		faults = append(faults, fmt.Errorf("hot options: WatchInterval is %v and Ballast %d, must not be negative, and a ballast needs an interval", o.WatchInterval, o.Ballast))
	}
	positive("MaxOpenFiles", o.MaxOpenFiles > 0, o.MaxOpenFiles)
	positive("IndexCacheBytes", o.IndexCacheBytes > 0, o.IndexCacheBytes)
	positive("CheckpointInterval", o.CheckpointInterval > 0, o.CheckpointInterval)
	positive("HotBytes", o.HotBytes > 0, o.HotBytes)
	positive("RecoveryThreads", o.RecoveryThreads > 0, o.RecoveryThreads)
	return errors.Join(faults...)
}

// LogOptions configure one log. All but the hooks may change while it is open.
type LogOptions struct {
	// SegmentBytes is segment.bytes, at most 2^31-1. 0 means 1 GiB.
	SegmentBytes int64
	// SegmentAge is segment.ms: a segment rolls when the next batch is this
	// much younger, by its timestamp, than the segment's first. 0 means 7
	// days.
	SegmentAge time.Duration
	// SegmentJitter is segment.jitter.ms: at most this much is taken off
	// SegmentAge, a different part for each segment. 0 means none.
	SegmentJitter time.Duration
	// RollAfter is tier.roll.ms: a segment rolls this long, by the wall clock
	// and a little less by jitter, after its first append. 0 means never.
	RollAfter time.Duration
	// IndexInterval is index.interval.bytes. 0 means 4,096.
	IndexInterval int
	// IndexBytes is segment.index.bytes: a segment rolls when either index
	// has reached it. 0 means 10 MiB.
	IndexBytes int
	// MaxMessageBytes is max.message.bytes, the largest batch. 0 means
	// 1 MiB + 12.
	MaxMessageBytes int
	// LogAppendTime is message.timestamp.type=LogAppendTime.
	LogAppendTime bool
	// TimestampBefore and TimestampAfter are
	// message.timestamp.before.max.ms and .after.max.ms: how far a client's
	// timestamp may lie from the wall clock. 0 means without limit.
	TimestampBefore, TimestampAfter time.Duration
	// ProducerExpiry is producer.id.expiration.ms. 0 means a day.
	ProducerExpiry time.Duration
	// Hooks tell what happens. Those given at the opening stay.
	Hooks Hooks
}

// Hooks are called with no lock of this package held, each from a goroutine of
// the store. They must not block for long, and must not call Store.Close,
// Store.DeleteLog or Log.ResetTo. A nil hook is not called. A call may come as
// soon as the log is open, before OpenLog has returned to its caller.
type Hooks struct {
	// OnDurable says that the log is durable up to, and without, the offset.
	// Two calls may arrive in the wrong order: the larger offset holds.
	OnDurable func(record.Offset)
	// OnSeal says that Sealed has something new.
	OnSeal func()
	// OnPoison says, once, that the log takes no more writes.
	OnPoison func(error)
}

// EnsureDefaults puts the defaults in the place of zero values.
func (o *LogOptions) EnsureDefaults() {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 1 << 30
	}
	if o.SegmentAge == 0 {
		o.SegmentAge = 7 * 24 * time.Hour
	}
	if o.IndexInterval == 0 {
		o.IndexInterval = 4096
	}
	if o.IndexBytes == 0 {
		o.IndexBytes = 10 << 20
	}
	if o.MaxMessageBytes == 0 {
		o.MaxMessageBytes = 1<<20 + record.LogOverhead
	}
	if o.ProducerExpiry == 0 {
		o.ProducerExpiry = 24 * time.Hour
	}
}

// Validate reports every fault of options that have their defaults.
func (o *LogOptions) Validate() error {
	var faults []error
	within := func(name string, value, low, high int64) {
		if value < low || value > high {
			faults = append(faults, fmt.Errorf("log options: %s is %d, must be %d to %d", name, value, low, high))
		}
	}
	within("SegmentBytes", o.SegmentBytes, 1, math.MaxInt32)
	within("SegmentAge", int64(o.SegmentAge), 1, math.MaxInt64)
	within("SegmentJitter", int64(o.SegmentJitter), 0, math.MaxInt64)
	within("RollAfter", int64(o.RollAfter), 0, math.MaxInt64)
	within("IndexInterval", int64(o.IndexInterval), 1, math.MaxInt32)
	within("IndexBytes", int64(o.IndexBytes), record.TimeIndexEntrySize, math.MaxInt32)
	within("MaxMessageBytes", int64(o.MaxMessageBytes), record.HeaderSize, record.MaxBatchSize)
	within("TimestampBefore", int64(o.TimestampBefore), 0, math.MaxInt64)
	within("TimestampAfter", int64(o.TimestampAfter), 0, math.MaxInt64)
	within("ProducerExpiry", int64(o.ProducerExpiry), 1, math.MaxInt64)
	return errors.Join(faults...)
}
