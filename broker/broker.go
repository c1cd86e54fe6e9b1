// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/cluster"
	"firn/fetch"
	"firn/hot"
	"firn/partition"
	"firn/record"
	"firn/wire"
)

// Broker serves Kafka's requests over the topics of its log directories. All
// methods may be called concurrently.
type Broker struct {
	options Options
	logger  *slog.Logger
	cluster *cluster.Local
	apis    map[kmsg.Key]api
	table   wire.Table

	// epoch is the broker epoch of this start, the leader epoch of all its
	// partitions until the bucket knows better.
	epoch       record.Epoch
	topics      topics
	listeners   listeners
	producerIDs producerIDs
	consumers   consumers
	sessions    *fetch.Sessions
	disks       map[*hot.Store]*disk // those in use at the start; not changed
	// lookups bounds the offset look-ups by time that run at once.
	lookups chan struct{}

	// changeMu lets one creation, change or deletion of a topic run at a time.
	changeMu sync.Mutex
	// saving holds one token while a topic's state is written to the bucket.
	saving chan struct{}
	// swept is signalled when there may be a deleted topic to clear away.
	swept chan struct{}

	ctx    context.Context
	cancel context.CancelFunc
	loops  sync.WaitGroup
}

// maxLookups is how many offset look-ups by time run at once: they may wait
// for the object store.
const maxLookups = 16

// Open opens every topic of the metadata and begins to take care of them. It
// does not wait for the object store. The broker does not own what is in the
// options: the caller closes it after Close.
func Open(ctx context.Context, o Options) (*Broker, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b := &Broker{
		options:  o,
		logger:   o.Logger,
		cluster:  o.Cluster,
		apis:     apis(),
		table:    Table(),
		topics:   newTopics(),
		sessions: fetch.NewSessions(fetch.SessionOptions{Slots: o.FetchSessions, Registerer: o.Registerer}),
		lookups:  make(chan struct{}, maxLookups),
		swept:    make(chan struct{}, 1),
		saving:   make(chan struct{}, 1),
	}
	b.disks = newDisks(o.Logs)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	var err error
	if b.epoch, err = o.Cluster.RaiseBrokerEpoch(ctx, record.NoEpoch); err != nil {
		return nil, fmt.Errorf("raise the broker epoch: %w", err)
	}
	err = b.openTopics(ctx)
	if err == nil {
		err = b.register(o.Registerer)
	}
	if err != nil {
		b.cancel()
		return nil, errors.Join(err, b.topics.close(ctx))
	}
	b.checkDisks()
	b.loops.Go(b.retainLoop)
	b.loops.Go(b.sweepLoop)
	b.loops.Go(b.diskLoop)
	return b, nil
}

// Close ends the loops and closes the partitions' cold tiers. The wire server
// must have been closed before. Errors are joined.
func (b *Broker) Close(ctx context.Context) error {
	b.cancel()
	b.loops.Wait()
	b.consumers.close()
	return b.topics.close(ctx)
}

// partition finds a partition by its topic's name.
func (b *Broker) partition(topic string, number int32) (*partition.Partition, error) {
	t, ok := b.topics.byName(topic)
	if !ok {
		return nil, fmt.Errorf("topic %q: %w", topic, errUnknownTopic)
	}
	return t.partition(number)
}

// consumers are the fetch states of the connections.
type consumers struct {
	mu   sync.Mutex
	byID map[uint64]*fetch.Consumer
}

// of returns the state of the connection, which lives until ctx, the
// connection's, is done.
func (c *consumers) of(ctx context.Context, connection uint64, f *fetch.Fetcher) *fetch.Consumer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one, ok := c.byID[connection]; ok {
		return one
	}
	if c.byID == nil {
		c.byID = make(map[uint64]*fetch.Consumer)
	}
	one := f.NewConsumer()
	c.byID[connection] = one
	context.AfterFunc(ctx, func() { c.remove(connection) })
	return one
}

func (c *consumers) remove(connection uint64) {
	c.mu.Lock()
	one := c.byID[connection]
	delete(c.byID, connection)
	c.mu.Unlock()
	if one != nil {
		one.Close()
	}
}

func (c *consumers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, one := range c.byID {
		one.Close()
		delete(c.byID, id)
	}
}

// partitionByID finds a partition by its topic's id.
func (b *Broker) partitionByID(id record.TopicID, number int32) (*partition.Partition, error) {
	t, ok := b.topics.byID(id)
	if !ok {
		return nil, fmt.Errorf("topic id %s: %w", id, errUnknownTopicID)
	}
	return t.partition(number)
}

// Topics lists the partitions of the live topics that are not offline, for
// whoever shows the broker to a person. The topics' order is not defined.
func (b *Broker) Topics() [][]*partition.Partition {
	all := b.topics.all()
	partitions := make([][]*partition.Partition, len(all))
	for i, t := range all {
		partitions[i] = t.open()
	}
	return partitions
}

// Partitions are those of a live topic that are not offline; ok is false when
// there is no such topic.
func (b *Broker) Partitions(topic string) (partitions []*partition.Partition, ok bool) {
	t, ok := b.topics.byName(topic)
	if !ok {
		return nil, false
	}
	return t.open(), true
}

// Offline lists the partitions that could not be opened, or whose log directory
// has failed since, with the reason.
func (b *Broker) Offline() map[record.TopicPartition]error {
	offline := make(map[record.TopicPartition]error)
	for _, t := range b.topics.all() {
		for i := range t.partitions {
			if err := t.whyOffline(i); err != nil {
				offline[record.TopicPartition{Topic: t.Name, Partition: int32(i)}] = err
			}
		}
	}
	return offline
}
