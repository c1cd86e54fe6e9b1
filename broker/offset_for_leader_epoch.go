// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/partition"
	"firn/record"
	"firn/wire"
)

// OffsetForLeaderEpoch (key 23), versions 2 to 4.
//
// Tells where the records of a leader epoch end (KIP-101, KIP-320), so that a
// consumer that saw an acks=1 record which a power cut took back can tell.
// The newest epoch at or below the one asked for is answered, with its end;
// both are -1 when none is known. Version 3 names the replica that asks, which
// changes nothing here.

func (b *Broker) handleOffsetForLeaderEpoch(_ context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.OffsetForLeaderEpochRequest)
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = t.Topic
		for _, want := range t.Partitions {
			got := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			got.Partition, got.LeaderEpoch, got.EndOffset = want.Partition, int32(record.NoEpoch), int64(record.NoOffset)
			p, err := b.partition(t.Topic, want.Partition)
			if err == nil {
				err = checkEpoch(p, record.Epoch(want.CurrentLeaderEpoch))
			}
			if err == nil {
				epoch, end := p.EpochEnd(record.Epoch(want.LeaderEpoch))
				got.LeaderEpoch, got.EndOffset = int32(epoch), int64(end)
			}
			got.ErrorCode = errorCode(err)
			topic.Partitions = append(topic.Partitions, got)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return reply(resp), nil
}

// checkEpoch compares the leader epoch that a client knows with the
// partition's; record.NoEpoch is not checked.
func checkEpoch(p *partition.Partition, known record.Epoch) error {
	switch current := p.LeaderEpoch(); {
	case known == record.NoEpoch || known == current:
		return nil
	case known < current:
		return record.ErrFencedEpoch
	default:
		return record.ErrUnknownEpoch
	}
}
