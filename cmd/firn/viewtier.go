// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"firn/config"
	"firn/console"
	"firn/hot"
	"firn/partition"
	"firn/tier"
)

// The fixed words for why something is where it is, beside those of package
// tier.
const (
	wordActive    = "active"
	wordRollsIn   = "rolls-in"
	wordCopyLag   = "copy-lag"
	wordExcluded  = "excluded"
	wordPoisoned  = "poisoned"
	wordRetention = "retention"
)

// topicTiering sums up the partitions of one topic, of which there is at least
// one.
func topicTiering(partitions []*partition.Partition, storeKind string) console.TopicTiering {
	t := console.TopicTiering{
		Topic: partitions[0].TopicPartition().Topic, Partitions: len(partitions),
		State: wordExcluded, UnprotectedMs: -1,
	}
	if storeKind == config.StoreNone {
		t.State = config.StoreNone
	}
	var alone partition.Unprotected
	for _, p := range partitions {
		t.LocalBytes += p.Log().Size()
		cold := p.Tier()
		if cold == nil {
			continue
		}
		alone = alone.Add(p.Unprotected())
		state := cold.State()
		t.Segments += state.Segments
		t.Bytes += state.Bytes
		t.LagSegments += state.LagSegments
		t.LagBytes += state.LagBytes
		word := partitionWord(p, state)
		if t.State == wordExcluded || badness(word) > badness(t.State) {
			t.State = word
		}
		if state.LastError != nil {
			t.LastError = state.LastError.Error()
		}
	}
	t.UnprotectedBytes = alone.Bytes
	if alone.Segments > 0 {
		t.UnprotectedMs = alone.Age(time.Now()).Milliseconds()
	}
	return t
}

// partitionWord is the word for a tiered partition as a whole.
func partitionWord(p *partition.Partition, state tier.State) string {
	switch {
	case p.Log().Poisoned() != nil:
		return wordPoisoned
	case state.Reason != "":
		return state.Reason
	case state.LagSegments > 0:
		return wordCopyLag
	}
	return wordActive
}

// badness orders words, so that a topic shows its worst partition.
func badness(word string) int {
	switch word {
	case wordActive:
		return 0
	case wordCopyLag:
		return 1
	case tier.ReasonCopyDisabled, tier.ReasonOpenTransaction:
		return 2
	case tier.ReasonStoreDown:
		return 3
	}
	return 4 // somebody has to act
}

// segmentsAtOnce is how many manifest entries are read in one go.
const segmentsAtOnce = 1000

// Segments lists where the segments of a topic are.
func (v *view) Segments(ctx context.Context, topic string, number int32) ([]console.Segment, error) {
	partitions, err := v.partitions(topic, number)
	if err != nil {
		return nil, err
	}
	all := []console.Segment{}
	for _, p := range partitions {
		entries, err := chain(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, v.listSegments(p, entries)...)
	}
	return all, nil
}

// partitions are those of a topic, or the one of a number from 0 up.
func (v *view) partitions(topic string, number int32) ([]*partition.Partition, error) {
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
	return partitions, nil
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
func (v *view) listSegments(p *partition.Partition, entries []tier.Entry) []console.Segment {
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
			one.Tier, one.Key, one.State = console.TierStore, p.Tier().Key(e), wordRetention
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
		one := console.Segment{
			Topic: tp.Topic, Partition: tp.Partition, Tier: console.TierLocal,
			From: int64(s.BaseOffset()), To: int64(s.NextOffset()),
			Bytes: s.Size(), MaxTimestampMs: s.MaxTimestamp(),
		}
		one.State, one.RollsInMs = v.whyLocal(p, s)
		all = append(all, one)
	}
	return all
}

// whyLocal is the fixed word for why a segment is not in the store, and for
// rolls-in, when that is at the latest, in ms from now.
func (v *view) whyLocal(p *partition.Partition, s *hot.Segment) (word string, rollsInMs int64) {
	cold := p.Tier()
	switch {
	case p.Log().Poisoned() != nil:
		return wordPoisoned, 0
	case cold == nil && s.Sealed():
		return wordExcluded, 0
	case !s.Sealed():
		if after := v.cfg.Tier.RollAfter; cold != nil && after > 0 && s.Size() > 0 {
			return wordRollsIn, max(1, (after - time.Since(s.FirstAppend())).Milliseconds())
		}
		return wordActive, 0
	}
	if _, reason := cold.Phase(); reason != "" {
		return reason, 0
	}
	return wordCopyLag, 0
}
