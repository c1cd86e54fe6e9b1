// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"firn/config"
	"firn/console"
	"firn/hot"
	"firn/partition"
	"firn/tier"
)

// view is the node as the admin port shows it: console.Source.
type view node

// Ready says what keeps the node from serving.
func (v *view) Ready() error {
	if !v.ready.Load() {
		return errors.New("the broker is starting or stopping")
	}
	return nil
}

// Status describes the node as it is now.
func (v *view) Status(context.Context) (console.Status, error) {
	n := (*node)(v)
	m := n.io.Methods()
	s := console.Status{
		Version:    buildVersion().Version,
		ClusterID:  n.metadata.Metadata().ClusterID,
		NodeID:     n.cfg.Node.ID,
		Ready:      v.ready.Load(),
		StartedMs:  n.started.UnixMilli(),
		Listeners:  n.addresses,
		DataDir:    strings.Join(n.cfg.Log.Dirs, ", "),
		Durability: n.describeDurability(),
		IO:         console.IOStatus{UncachedRead: m.UncachedRead, UncachedWrite: m.UncachedWrite, Residency: m.Residency, Send: m.Send},
		Store:      v.storeStatus(),
	}
	if err := v.Ready(); err != nil {
		s.Reason = err.Error()
	}
	s.LogDirs = v.logDirs()
	s.Disk = tightest(s.LogDirs)
	s.NewestRecordMs = -1
	var alone partition.Unprotected
	for _, partitions := range n.broker.Topics() {
		s.Topics++
		for _, p := range partitions {
			s.Partitions++
			s.Disk.Logs += p.Log().Size()
			alone = alone.Add(p.Unprotected())
			v.addPartition(&s, p)
		}
		if len(partitions) > 0 {
			s.Tiering = append(s.Tiering, topicTiering(partitions, s.Store.Kind))
		}
	}
	slices.SortFunc(s.Tiering, func(a, b console.TopicTiering) int { return strings.Compare(a.Topic, b.Topic) })
	s.Store.LocalOnlyBytes = alone.Bytes
	if alone.Segments > 0 {
		s.Store.OldestLocalOnlyMs = alone.Age(time.Now()).Milliseconds()
	}
	for tp, err := range n.broker.Offline() {
		s.Attention = append(s.Attention, console.PartitionStatus{Topic: tp.Topic, Partition: tp.Partition, State: "offline", Reason: err.Error()})
	}
	slices.SortFunc(s.Attention, func(a, b console.PartitionStatus) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return s, nil
}

// logDirs describes the log directories.
func (v *view) logDirs() []console.LogDirStatus {
	n := (*node)(v)
	logs, partitions := make(map[*hot.Store]int64), make(map[*hot.Store]int)
	for _, topic := range n.broker.Topics() {
		for _, p := range topic {
			logs[p.Store()] += p.Log().Size()
			partitions[p.Store()]++
		}
	}
	var dirs []console.LogDirStatus
	for _, d := range n.logs.Dirs() {
		one := console.LogDirStatus{Dir: d.Path()}
		if err := d.Offline(); err != nil {
			one.Offline = err.Error()
		} else if usage, err := d.Store().Usage(); err != nil {
			one.Offline = err.Error()
		} else {
			one.Partitions = partitions[d.Store()]
			one.Total, one.Free, one.Logs = int64(usage.Total), int64(usage.Free), logs[d.Store()]
			one.Reserve = int64(n.cfg.Operation.Reserve(usage.Total))
		}
		dirs = append(dirs, one)
	}
	return dirs
}

// tightest is the disk of the directory that is nearest to its reserve.
func tightest(dirs []console.LogDirStatus) console.DiskStatus {
	var least console.DiskStatus
	for _, d := range dirs {
		if d.Offline == "" && (least.Total == 0 || d.Free-d.Reserve < least.Free-least.Reserve) {
			least = d.DiskStatus
		}
	}
	least.Logs = 0
	return least
}

func (v *view) storeStatus() console.StoreStatus {
	n := (*node)(v)
	if n.store == nil {
		return console.StoreStatus{Kind: config.StoreNone, OldestLocalOnlyMs: -1}
	}
	s := console.StoreStatus{Kind: n.cfg.Tier.Store, Where: n.storePlace(), State: wordActive, OldestLocalOnlyMs: -1}
	if capabilities, err := n.probe.get(); err == nil {
		s.Capabilities = strings.Fields(capabilities.String())
	}
	return s
}

// addPartition adds what one partition has in the store, its newest record, and
// what is wrong with it.
func (v *view) addPartition(s *console.Status, p *partition.Partition) {
	attention := func(state, reason string) {
		s.Attention = append(s.Attention, console.PartitionStatus{
			Topic: p.TopicPartition().Topic, Partition: p.TopicPartition().Partition, State: state, Reason: reason,
		})
	}
	for _, segment := range p.Log().Segments() {
		if !segment.Sealed() && segment.Size() > 0 {
			s.NewestRecordMs = max(s.NewestRecordMs, segment.MaxTimestamp())
		}
	}
	if err := p.Log().Poisoned(); err != nil {
		attention("poisoned", err.Error())
	}
	if p.Tier() == nil {
		return
	}
	state := p.Tier().State()
	s.Store.Segments += state.Segments
	s.Store.Bytes += state.Bytes
	if state.Phase == tier.ReadOnly {
		attention(tier.ReadOnly.String(), state.Reason)
	}
	if state.Reason == tier.ReasonStoreDown {
		s.Store.State = tier.ReasonStoreDown
	} else if state.LagSegments > 0 && s.Store.State == wordActive {
		s.Store.State = wordCopyLag
	}
	if state.LastError != nil {
		s.Store.LastError = state.LastError.Error()
	}
}
