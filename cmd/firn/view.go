// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
		DataDir:    n.cfg.Log.Dir,
		Durability: n.describeDurability(),
		IO:         console.IOStatus{UncachedRead: m.UncachedRead, UncachedWrite: m.UncachedWrite, Residency: m.Residency, Send: m.Send},
		Store:      v.storeStatus(),
	}
	if err := v.Ready(); err != nil {
		s.Reason = err.Error()
	}
	if usage, err := n.logs.Usage(); err == nil {
		s.Disk = console.DiskStatus{Total: int64(usage.Total), Free: int64(usage.Free), Reserve: int64(n.cfg.Operation.Reserve(usage.Total))}
	}
	oldest := time.Time{}
	for _, partitions := range n.broker.Topics() {
		s.Topics++
		for _, p := range partitions {
			s.Partitions++
			s.Disk.Logs += p.Log().Size()
			v.addPartition(&s, p, &oldest)
		}
	}
	if !oldest.IsZero() {
		s.Store.OldestLocalOnlyMs = max(0, time.Since(oldest).Milliseconds())
	}
	for tp, err := range n.broker.Offline() {
		s.Attention = append(s.Attention, console.PartitionStatus{Topic: tp.Topic, Partition: tp.Partition, State: "offline", Reason: err.Error()})
	}
	slices.SortFunc(s.Attention, func(a, b console.PartitionStatus) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return s, nil
}

func (v *view) storeStatus() console.StoreStatus {
	n := (*node)(v)
	if n.store == nil {
		return console.StoreStatus{Kind: config.StoreNone, OldestLocalOnlyMs: -1}
	}
	s := console.StoreStatus{Kind: n.cfg.Tier.Store, Where: n.storePlace(), State: "active", OldestLocalOnlyMs: -1}
	if capabilities, err := n.probe.get(); err == nil {
		s.Capabilities = strings.Fields(capabilities.String())
	}
	return s
}

// addPartition adds what one partition has in the store, and what of it is on
// this disk alone.
func (v *view) addPartition(s *console.Status, p *partition.Partition, oldest *time.Time) {
	attention := func(state, reason string) {
		s.Attention = append(s.Attention, console.PartitionStatus{
			Topic: p.TopicPartition().Topic, Partition: p.TopicPartition().Partition, State: state, Reason: reason,
		})
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
	} else if state.LagSegments > 0 && s.Store.State == "active" {
		s.Store.State = "copy-lag"
	}
	if state.LastError != nil {
		s.Store.LastError = state.LastError.Error()
	}
	for _, segment := range p.Log().Segments() {
		if segment.NextOffset() <= state.End || segment.Size() == 0 {
			continue
		}
		s.Store.LocalOnlyBytes += segment.Size()
		if at := segment.FirstAppend(); oldest.IsZero() || at.Before(*oldest) {
			*oldest = at
		}
	}
}

// segmentsAtOnce is how many manifest entries are read in one go.
const segmentsAtOnce = 1000

// Segments lists where the segments of a topic are.
func (v *view) Segments(ctx context.Context, topic string, number int32) ([]console.Segment, error) {
	partitions, ok := v.broker.Partitions(topic)
	if !ok {
		return nil, fmt.Errorf("topic %q: %w", topic, console.ErrNotFound)
	}
	if number >= 0 {
		partitions = slices.DeleteFunc(partitions, func(p *partition.Partition) bool { return p.TopicPartition().Partition != number })
		if len(partitions) == 0 {
			return nil, fmt.Errorf("partition %d of topic %q: %w", number, topic, console.ErrNotFound)
		}
	}
	all := []console.Segment{}
	for _, p := range partitions {
		entries, err := chain(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, listSegments(p, entries)...)
	}
	return all, nil
}

// chain reads the whole chain of a partition; none when it has no tier or the
// manifest is not known yet.
func chain(ctx context.Context, p *partition.Partition) ([]tier.Entry, error) {
	if p.Tier() == nil || !p.Tier().Loaded() {
		return nil, nil
	}
	var all []tier.Entry
	for at := p.LogStartOffset(); ; at = all[len(all)-1].To {
		entries, err := p.Tier().Entries(ctx, at, segmentsAtOnce)
		if err != nil {
			return nil, err
		}
		if len(entries) == 0 {
			return all, nil
		}
		all = append(all, entries...)
	}
}

// listSegments merges the chain with what is on local disk.
func listSegments(p *partition.Partition, entries []tier.Entry) []console.Segment {
	local := make(map[int64]*hot.Segment)
	for _, s := range p.Log().Segments() {
		local[int64(s.BaseOffset())] = s
	}
	tp := p.TopicPartition()
	var all []console.Segment
	for _, e := range entries {
		one := console.Segment{Topic: tp.Topic, Partition: tp.Partition, From: int64(e.From), To: int64(e.To), MaxTimestampMs: -1}
		if e.Kind == tier.KindGap {
			one.Tier, one.State = console.TierGap, e.Reason.String()
		} else {
			one.Tier, one.Key = console.TierStore, p.Tier().Key(e)
			one.Bytes, one.ObjectBytes, one.MaxTimestampMs, one.UploadedMs = e.LogSize, e.ObjectSize, e.MaxTimestamp, e.UploadedMs
			if s, ok := local[one.From]; ok && int64(s.NextOffset()) == one.To {
				one.Tier = console.TierBoth
				delete(local, one.From)
			}
		}
		all = append(all, one)
	}
	for _, s := range p.Log().Segments() {
		if local[int64(s.BaseOffset())] == nil || s.NextOffset() == s.BaseOffset() {
			continue
		}
		all = append(all, console.Segment{
			Topic: tp.Topic, Partition: tp.Partition, Tier: console.TierLocal,
			From: int64(s.BaseOffset()), To: int64(s.NextOffset()),
			Bytes: s.Size(), MaxTimestampMs: s.MaxTimestamp(), State: whyLocal(p, s),
		})
	}
	return all
}

// whyLocal is the fixed word for why a segment is not in the store.
func whyLocal(p *partition.Partition, s *hot.Segment) string {
	switch {
	case p.Log().Poisoned() != nil:
		return "poisoned"
	case !s.Sealed():
		return "active"
	case p.Tier() == nil:
		return "excluded"
	}
	if _, reason := p.Tier().Phase(); reason != "" {
		return reason
	}
	return "copy-lag"
}
