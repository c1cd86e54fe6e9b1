// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"firn/record"
	"firn/wire"
)

// DeleteRecords (key 21, KIP-107), versions 0 to 2.
//
// Raises the log start of partitions, in both tiers; -1 stands for the high
// watermark. It is durable when the answer is sent, whatever the timeout;
// segments and objects that lie wholly below it go in the background. The
// answer carries the log start, which is further on than asked for when it was
// there already. An offset beyond the high watermark is out of range. Internal
// topics are refused. Version 1 is as 0, 2 is flexible.
//
// Kafka Streams sends it every 30 seconds for all its partitions: they share
// the write of one file.

// trimsPerRequest is how many partitions of a request are worked on at once.
const trimsPerRequest = 128

func (b *Broker) handleDeleteRecords(ctx context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.DeleteRecordsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	var trims errgroup.Group
	trims.SetLimit(trimsPerRequest)
	resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, len(req.Topics))
	for i, t := range req.Topics {
		resp.Topics[i].Topic = t.Topic
		resp.Topics[i].Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(t.Partitions))
		for j, want := range t.Partitions {
			got := &resp.Topics[i].Partitions[j]
			trims.Go(func() error {
				logStart, err := b.deleteRecords(ctx, t.Topic, want)
				got.Partition, got.LowWatermark, got.ErrorCode = want.Partition, int64(logStart), errorCode(err)
				return nil
			})
		}
	}
	if err := trims.Wait(); err != nil {
		return nil, err
	}
	return reply(resp), nil
}

func (b *Broker) deleteRecords(ctx context.Context, topic string, want kmsg.DeleteRecordsRequestTopicPartition) (record.Offset, error) {
	if isInternal(topic) {
		return record.NoOffset, fmt.Errorf("%w: the records of %q are the broker's own", record.ErrInvalidTopicName, topic)
	}
	p, err := b.partition(topic, want.Partition)
	if err != nil {
		return record.NoOffset, err
	}
	return p.DeleteRecords(ctx, record.Offset(want.Offset))
}
