// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/wire"
)

// CreatePartitions (key 37, KIP-195), versions 0 to 3.
//
// Gives each topic by itself so many partitions in all: more than it has,
// never fewer. An assignment names the replicas of the new ones, and can name
// this broker alone. The partitions are there and the change is durable when
// the answer is sent, whatever the timeout. Version 2 is flexible; 3 allows
// throttling (KIP-599), which is not done.

func (b *Broker) handleCreatePartitions(ctx context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.CreatePartitionsRequest)
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	times := make(map[string]int)
	for _, t := range req.Topics {
		times[t.Topic]++
	}
	answered := make(map[string]bool)
	for i := range req.Topics {
		t := &req.Topics[i]
		if answered[t.Topic] {
			continue
		}
		answered[t.Topic] = true
		err := fmt.Errorf("%w: topic %q is named %d times", errInvalidRequest, t.Topic, times[t.Topic])
		if times[t.Topic] == 1 {
			err = b.createPartitions(ctx, t, req.ValidateOnly)
		}
		got := kmsg.NewCreatePartitionsResponseTopic()
		got.Topic = t.Topic
		got.ErrorCode, got.ErrorMessage = errorCode(err), errorText(err)
		resp.Topics = append(resp.Topics, got)
	}
	return reply(resp), nil
}

func (b *Broker) createPartitions(ctx context.Context, t *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	if len(t.Assignment) > 0 {
		one, ok := b.topics.byName(t.Topic)
		if !ok {
			return fmt.Errorf("topic %q: %w", t.Topic, errUnknownTopic)
		}
		if err := b.checkNewReplicas(t, one.Partitions); err != nil {
			return err
		}
	}
	return b.growTopic(ctx, t.Topic, t.Count, validateOnly)
}

// checkNewReplicas checks an assignment of new partitions by the client: one
// entry for each, with this broker alone. A topic that grows meanwhile is
// found later.
func (b *Broker) checkNewReplicas(t *kmsg.CreatePartitionsRequestTopic, before int32) error {
	if more := int64(t.Count) - int64(before); more > 0 && int64(len(t.Assignment)) != more {
		return fmt.Errorf("%w: %d partitions are new, %d are assigned", errInvalidAssignment, more, len(t.Assignment))
	}
	node := b.cluster.Metadata().NodeID
	for i, a := range t.Assignment {
		if len(a.Replicas) != 1 || a.Replicas[0] != node {
			return fmt.Errorf("%w: partition %d is assigned to %v, broker %d is the only one", errInvalidAssignment, int64(before)+int64(i), a.Replicas, node)
		}
	}
	return nil
}
