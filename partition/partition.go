// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"firn/hot"
	"firn/record"
	"firn/tier"
)

// Options say what Open needs.
type Options struct {
	TopicPartition record.TopicPartition
	TopicID        record.TopicID
	// Store holds the local log. Required.
	Store *hot.Store
	// Create makes a new local log; without it the log must be there.
	Create bool
	// Lost says with Create that the partition is not new: its log was there
	// once. With a Tier it takes no records until the bucket told where its
	// history ends.
	Lost bool
	// Log configures the local log. Its Hooks are set by Open.
	Log hot.LogOptions
	// Tier is the cold tier; nil for a partition that is not tiered.
	Tier *tier.Tier
	// CopyDisabled is remote.log.copy.disable: read from the tier, upload
	// nothing.
	CopyDisabled bool
	// Epoch is the leader epoch of this start.
	Epoch record.Epoch
	// RaiseEpoch gives an epoch of this broker above the given one, durably.
	// It is asked when the bucket knows a higher epoch than Epoch. Required
	// with Tier, and for EnableTier.
	RaiseEpoch func(ctx context.Context, above record.Epoch) (record.Epoch, error)
	// Retention says what ApplyRetention keeps.
	Retention Retention
	// Logger gets the events of the partition. Nil discards them.
	Logger *slog.Logger
	// Now is the clock of retention. Nil means time.Now.
	Now func() time.Time
}

// EnsureDefaults fills in what is optional.
func (o *Options) EnsureDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Validate reports every fault of the options.
func (o *Options) Validate() error {
	var faults []error
	if o.Store == nil {
		faults = append(faults, errors.New("partition options: no store"))
	}
	if o.Tier != nil && o.RaiseEpoch == nil {
		faults = append(faults, errors.New("partition options: a tier without RaiseEpoch"))
	}
	if err := record.CheckTopicName(o.TopicPartition.Topic); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Partition is one topic partition led by this broker. All methods may be
// called concurrently.
type Partition struct {
	tp         record.TopicPartition
	id         record.TopicID
	logger     *slog.Logger
	now        func() time.Time
	raiseEpoch func(ctx context.Context, above record.Epoch) (record.Epoch, error)

	store *hot.Store
	log   *hot.Log
	// cold is nil while the partition is not tiered. Once set it stays.
	cold atomic.Pointer[tier.Log]

	// opened is set once all of the above is: hooks that come before have
	// nothing to tell that Open does not look at itself.
	opened    atomic.Bool
	watchers  watchers
	epoch     atomic.Int32
	retention atomic.Pointer[Retention]

	// closed is set when the partition ends, so that reads that were parked on
	// it do not park again.
	closed atomic.Bool

	// appendMu makes offsets enter the high watermark in the order in which
	// the log gave them out. It is held over the append, which hot serializes
	// anyway; nothing that reads takes it.
	appendMu sync.Mutex
	refusing bool // the disk refused the last append; guarded by appendMu

	mu struct {
		sync.Mutex
		watermark watermark
	}

	// retentionMu lets one retention run at a time.
	retentionMu sync.Mutex
}

// Open opens or creates the partition. It does not wait for the object store:
// the cold tier takes over in the background.
func Open(ctx context.Context, o Options) (*Partition, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := &Partition{
		tp:         o.TopicPartition,
		id:         o.TopicID,
		logger:     o.Logger.With("topic", o.TopicPartition.Topic, "partition", o.TopicPartition.Partition),
		now:        o.Now,
		raiseEpoch: o.RaiseEpoch,
		store:      o.Store,
	}
	p.epoch.Store(int32(o.Epoch))
	p.retention.Store(&o.Retention)

	open := o.Store.OpenLog
	if o.Create {
		open = o.Store.CreateLog
	}
	o.Log.Hooks = hot.Hooks{OnDurable: p.onDurable, OnSeal: p.onSeal, OnPoison: p.onPoison}
	log, err := open(ctx, o.TopicPartition, o.TopicID, o.Log)
	if err != nil {
		return nil, fmt.Errorf("open partition %s: %w", o.TopicPartition, err)
	}
	p.log = log
	p.mu.Lock()
	p.mu.watermark = newWatermark(log.EndOffset())
	p.mu.Unlock()

	if o.Tier != nil {
		if err := p.openTier(ctx, o.Tier, o.CopyDisabled, o.Lost); err != nil {
			return nil, err
		}
	}
	p.opened.Store(true)
	p.onSeal()
	return p, nil
}

// Close stops the work on the cold tier and wakes whoever is parked, to learn
// that the partition is closed. The local log is closed by its store.
func (p *Partition) Close(ctx context.Context) error {
	p.closed.Store(true)
	p.watchers.notify()
	cold := p.Tier()
	if cold == nil {
		return nil
	}
	if err := cold.Close(ctx); err != nil {
		return fmt.Errorf("close the cold tier of partition %s: %w", p.tp, err)
	}
	return nil
}

// Delete closes the partition and moves its local log aside, durably. Its
// objects are the business of the topic's deletion.
func (p *Partition) Delete(ctx context.Context) error {
	err := p.Close(ctx)
	return errors.Join(err, p.store.DeleteLog(ctx, p.log))
}

// TopicPartition names the partition.
func (p *Partition) TopicPartition() record.TopicPartition { return p.tp }

// TopicID is the id of the topic that the partition belongs to.
func (p *Partition) TopicID() record.TopicID { return p.id }

// LeaderEpoch is the epoch under which this broker leads the partition.
func (p *Partition) LeaderEpoch() record.Epoch { return record.Epoch(p.epoch.Load()) }

// SetRetention changes what the next ApplyRetention keeps.
func (p *Partition) SetRetention(r Retention) { p.retention.Store(&r) }

// Store is the log directory that holds the partition.
func (p *Partition) Store() *hot.Store { return p.store }

// Offline is why the partition is not served though it was opened: its log
// directory has failed. Nil while it is served.
func (p *Partition) Offline() error { return p.log.Offline() }

// Log is the local log.
func (p *Partition) Log() *hot.Log { return p.log }

// Tier is the cold tier, nil when the partition has none.
func (p *Partition) Tier() *tier.Log { return p.cold.Load() }

// HighWatermark is the end of what consumers may see.
func (p *Partition) HighWatermark() record.Offset {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.watermark.high
}

// LastStableOffset is the end of what consumers with isolation level
// read_committed may see: the high watermark, or the first offset of the oldest
// transaction that is not over as far as the high watermark tells. Where the
// log start was raised past that, it is the log start, as in Kafka.
func (p *Partition) LastStableOffset() record.Offset {
	high := p.HighWatermark()
	first := p.log.FirstUnstable(high)
	if first >= high {
		return high
	}
	return min(max(first, p.LogStartOffset()), high)
}

// LogStartOffset is the first offset that is kept, in either tier.
func (p *Partition) LogStartOffset() record.Offset {
	start := p.log.LogStartOffset()
	cold := p.Tier()
	if cold == nil {
		return max(start, p.log.StartOffset())
	}
	// The bucket may know a higher one than a directory that was restored.
	return max(start, cold.LogStart())
}

// LocalStartOffset is the first offset on local disk.
func (p *Partition) LocalStartOffset() record.Offset { return p.log.StartOffset() }

// EndOffset is the offset that the next record gets.
func (p *Partition) EndOffset() record.Offset { return p.log.EndOffset() }

// Watch has wake signalled whenever a read may find more than before: the high
// watermark rose or the cold tier changed. wake should have room for one
// value; a value that does not fit is dropped. To lose no wake-up, watch first
// and then read. cancel ends it.
func (p *Partition) Watch(wake chan<- struct{}) (cancel func()) { return p.watchers.add(wake) }

// raise lets the high watermark follow the durable offset.
func (p *Partition) raise(durable record.Offset) {
	p.mu.Lock()
	rose := p.mu.watermark.synced(durable)
	p.mu.Unlock()
	if rose {
		p.watchers.notify()
	}
}

func (p *Partition) onDurable(durable record.Offset) {
	if p.opened.Load() {
		p.raise(durable)
	}
}

func (p *Partition) onSeal() {
	if !p.opened.Load() {
		return
	}
	// A sealed segment is synced; nothing of it may wait for a high watermark
	// that is only late.
	p.raise(p.log.DurableOffset())
	if cold := p.Tier(); cold != nil {
		cold.Wake()
	}
}

func (p *Partition) onPoison(err error) {
	if p.Offline() == nil { // else the directory has told
		p.logger.Error("the local log takes no more writes", "event", "log_poisoned", "error", err)
	}
	p.watchers.notify()
}
