// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"firn/partition"
	"firn/record"
	"firn/wire"
)

// ListOffsets (key 2), versions 1 to 11.
//
// Finds offsets by time in both tiers, and the marked ones: latest (-1),
// earliest (-2), that of the largest timestamp (-3, version 7, KIP-734), the
// earliest local one (-4, version 8, KIP-405), the last in the cold tier (-5,
// version 9, KIP-1005) and the first not yet there (-6, version 11, KIP-1023).
// Latest, and what is found by time, goes by the isolation level (version 2):
// under read_committed nothing at or above the last stable offset is answered. A look-up that has to read
// the cold tier is bounded by the request's timeout (version 10, KIP-1075), or
// by remote.list.offsets.request.timeout.ms; its connection waits meanwhile,
// nobody else does.

// Timestamps of a ListOffsets request that name an offset.
const (
	timestampLatest          = -1
	timestampEarliest        = -2
	timestampMax             = -3
	timestampEarliestLocal   = -4
	timestampLatestTiered    = -5
	timestampEarliestPending = -6
)

// minVersionOf says from which version on a marked timestamp has its meaning.
var minVersionOf = map[int64]int16{
	timestampMax: 7, timestampEarliestLocal: 8, timestampLatestTiered: 9, timestampEarliestPending: 11,
}

// lookUpsPerRequest is how many partitions of a request are looked up at once.
const lookUpsPerRequest = 4

func (b *Broker) handleListOffsets(ctx context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	timeout := b.options.ListOffsetsTimeout
	if asked := time.Duration(req.TimeoutMillis) * time.Millisecond; asked > 0 {
		timeout = min(timeout, asked)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	var lookUps errgroup.Group
	lookUps.SetLimit(lookUpsPerRequest)
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, len(req.Topics))
	for i, t := range req.Topics {
		resp.Topics[i].Topic = t.Topic
		resp.Topics[i].Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(t.Partitions))
		for j, want := range t.Partitions {
			got := &resp.Topics[i].Partitions[j]
			lookUps.Go(func() error {
				*got = b.listOffset(ctx, req, t.Topic, want)
				return nil
			})
		}
	}
	if err := lookUps.Wait(); err != nil {
		return nil, err
	}
	return reply(resp), nil
}

func (b *Broker) listOffset(ctx context.Context, req *kmsg.ListOffsetsRequest, topic string, want kmsg.ListOffsetsRequestTopicPartition) kmsg.ListOffsetsResponseTopicPartition {
	got := kmsg.NewListOffsetsResponseTopicPartition()
	got.Partition = want.Partition
	p, err := b.partition(topic, want.Partition)
	if err == nil {
		err = checkEpoch(p, record.Epoch(want.CurrentLeaderEpoch))
	}
	if err == nil && req.Version < minVersionOf[want.Timestamp] {
		err = errUnsupportedVersion
	}
	var found partition.TimestampOffset
	if err == nil {
		found, err = b.findOffset(ctx, p, want.Timestamp, isolation(req.IsolationLevel))
	}
	if err != nil {
		got.ErrorCode = errorCode(err)
		got.Timestamp, got.Offset, got.LeaderEpoch = -1, -1, -1
		return got
	}
	got.Timestamp, got.Offset, got.LeaderEpoch = found.Timestamp, int64(found.Offset), int32(found.Epoch)
	return got
}

func (b *Broker) findOffset(ctx context.Context, p *partition.Partition, timestamp int64, level partition.Isolation) (partition.TimestampOffset, error) {
	switch timestamp {
	case timestampLatest:
		return p.At(p.VisibleEnd(level)), nil
	case timestampEarliest:
		return p.Earliest()
	case timestampEarliestLocal:
		return p.At(p.LocalStartOffset()), nil
	case timestampLatestTiered:
		return p.LatestTiered(), nil
	case timestampEarliestPending:
		return p.EarliestPendingUpload(), nil
	}
	if timestamp < timestampMax {
		return partition.TimestampOffset{}, errUnsupportedVersion // a mark of a later Kafka
	}
	select {
	case b.lookups <- struct{}{}:
		defer func() { <-b.lookups }()
	case <-ctx.Done():
		return partition.TimestampOffset{}, ctx.Err()
	}
	if timestamp == timestampMax {
		return p.MaxTimestamp(ctx, level, findTimestamp)
	}
	return p.OffsetForTimestamp(ctx, timestamp, level, findTimestamp)
}
