// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"firn/hot"
	"firn/partition"
	"firn/record"
)

// diskInterval is how often the log directories are looked at. At 1 GiB/s a
// disk loses so much of its reserve before produce stops.
const diskInterval = time.Second

// disk is what the broker knows of one log directory in use.
type disk struct {
	// full says that records of clients must wait for room.
	full atomic.Bool
	// failed says that the failure of the directory has been dealt with. Only
	// the disk loop touches it.
	failed bool
}

func newDisks(logs *hot.Disks) map[*hot.Store]*disk {
	disks := make(map[*hot.Store]*disk)
	for _, s := range logs.Online() {
		disks[s] = new(disk)
	}
	return disks
}

func (b *Broker) diskLoop() { b.every(diskInterval, nil, b.checkDisks) }

// checkDisks compares the free space of each directory with the reserve, and
// ends the work on partitions whose directory has failed.
func (b *Broker) checkDisks() {
	for s, d := range b.disks {
		if s.Failed() == nil {
			b.checkSpace(s, d)
		} else if !d.failed {
			d.failed = true
			b.abandon(s)
		}
	}
}

// checkSpace compares the free space with the reserve. An error of the file
// system changes nothing: the append itself will meet it.
func (b *Broker) checkSpace(s *hot.Store, d *disk) {
	usage, err := s.Usage()
	if err != nil {
		b.logger.Warn("cannot tell the free space of the disk", "event", "disk_unknown", "dir", s.Dir(), "error", err)
		return
	}
	full := usage.Free < b.options.DiskReserve(usage.Total) || s.Exhausted()
	if d.full.Swap(full) != full {
		b.logger.Warn("free space crossed firn.disk.reserve.bytes", "event", "disk_reserve",
			"dir", s.Dir(), "produce_stopped", full, "free_bytes", usage.Free)
	}
}

// abandon ends the work on the cold tier for the partitions of a directory that
// has failed: what it would write lies there. Their clients are told by what
// they ask next.
func (b *Broker) abandon(s *hot.Store) {
	for _, t := range b.topics.all() {
		for _, p := range t.opened() {
			if p.Store() != s {
				continue
			}
			if err := p.Close(b.ctx); err != nil && b.ctx.Err() == nil {
				b.logger.Warn("an offline partition does not end its uploads", "event", "offline_close_failed",
					"topic", t.Name, "partition", p.TopicPartition().Partition, "error", err)
			}
		}
	}
}

// places are the log directories as those see them who make partitions. They
// count with what they have chosen already.
type places struct {
	stores []*hot.Store
	spaces []hot.Space
}

// places looks at the directories in use. One whose free space cannot be told
// is no place for a new partition.
func (b *Broker) places() *places {
	p := &places{}
	for _, s := range b.options.Logs.Online() {
		usage, err := s.Usage()
		if err != nil {
			b.logger.Warn("cannot tell the free space of the disk", "event", "disk_unknown", "dir", s.Dir(), "error", err)
			continue
		}
		p.stores = append(p.stores, s)
		p.spaces = append(p.spaces, hot.Space{Free: usage.Free, Reserve: b.options.DiskReserve(usage.Total), Partitions: s.Partitions()})
	}
	return p
}

// next chooses the directory of one more partition.
func (p *places) next() (*hot.Store, error) {
	i := hot.Place(p.spaces)
	if i < 0 {
		return nil, fmt.Errorf("%w: no log directory takes a new partition", record.ErrStorage)
	}
	p.spaces[i].Partitions++
	return p.stores[i], nil
}

// foundLog is a partition directory on one of the disks.
type foundLog struct {
	hot.FoundLog
	store *hot.Store
}

// foundLogs lists the partition directories that are on disk and not open.
func (b *Broker) foundLogs() []foundLog {
	var found []foundLog
	for _, s := range b.options.Logs.Online() {
		for _, f := range s.Found() {
			found = append(found, foundLog{f, s})
		}
	}
	return found
}

// chooseStores finds the directory of each partition of a topic from number
// first on: where its log was found, or the place of a new one. It answers by
// number, from first on, with the error of those that must stay offline: a log
// that is in two directories, of which nobody can say which is right, or in
// none while one that may have it is offline. found is nil for partitions that
// never were.
func (b *Broker) chooseStores(one *topic, first int32, found map[int32][]foundLog) ([]partition.Options, []error) {
	options, errs := make([]partition.Options, one.Partitions-first), make([]error, one.Partitions-first)
	where, unfinished := b.places(), b.unfinished(one, first, found)
	for i := first; i < one.Partitions; i++ {
		o, err := b.partitionOptions(one.Topic, one.config, i), &errs[i-first]
		there := found[i]
		switch missing := b.options.Logs.Offline(); {
		case len(there) == 1:
			o.Store = there[0].store
		case len(there) > 1:
			*err = &misplaced{fmt.Sprintf("it is in two log directories, %s and %s: stop the broker and move one of them away", there[0].Dir, there[1].Dir)}
		case found != nil && missing != nil:
			*err = &misplaced{fmt.Sprintf("it is in none of the log directories in use, and not all are: %v", missing)}
		default:
			o.Create, o.Lost = true, found != nil
			if o.Store = unfinished[i]; o.Store == nil {
				o.Store, *err = where.next()
			}
		}
		if o.Lost {
			b.logger.Warn("the directory of a partition is not there: it begins anew", "event", "partition_lost", "topic", one.Name, "partition", i)
		}
		options[i-first] = o
	}
	return options, errs
}

// unfinished are the directories of those new partitions of a topic that an
// earlier try, cut short by a crash, has made already: made once more elsewhere
// they would be in two.
func (b *Broker) unfinished(one *topic, first int32, found map[int32][]foundLog) map[int32]*hot.Store {
	stores := make(map[int32]*hot.Store)
	if found != nil {
		return stores
	}
	for _, f := range b.foundLogs() {
		if f.TopicID == one.ID && f.TopicPartition.Partition >= first {
			stores[f.TopicPartition.Partition] = f.store
		}
	}
	return stores
}

// misplaced says why a partition stays offline though no disk may be at fault.
type misplaced struct{ why string }

func (m *misplaced) Error() string { return m.why }

// delete moves a partition directory aside that is not open.
func (f foundLog) delete(ctx context.Context) error { return f.store.DeleteFound(ctx, f.FoundLog) }
