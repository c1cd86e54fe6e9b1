// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/record"
	"firn/wire"
)

// DeleteTopics (key 20), versions 1 to 6.
//
// A topic is gone for clients, its deletion is durable and its name is free
// when the answer is sent; local files and objects are removed in the
// background, across restarts. From 5 the answer carries messages, from 6
// topics may be named by id (KIP-516).

func (b *Broker) handleDeleteTopics(ctx context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.DeleteTopicsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	for _, name := range req.TopicNames {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		resp.Topics = append(resp.Topics, b.deleteOne(ctx, t))
	}
	for _, t := range req.Topics {
		resp.Topics = append(resp.Topics, b.deleteOne(ctx, t))
	}
	return reply(resp), nil
}

func (b *Broker) deleteOne(ctx context.Context, want kmsg.DeleteTopicsRequestTopic) kmsg.DeleteTopicsResponseTopic {
	got := kmsg.NewDeleteTopicsResponseTopic()
	got.Topic, got.TopicID = want.Topic, want.TopicID
	var one *topic
	var ok bool
	err := error(errUnknownTopicID)
	switch {
	case want.Topic != nil && want.TopicID != [16]byte{}:
		err = errInvalidRequest // one or the other
	case want.Topic != nil:
		err = errUnknownTopic
		one, ok = b.topics.byName(*want.Topic)
	default:
		one, ok = b.topics.byID(record.TopicID(want.TopicID))
	}
	switch {
	case !ok:
	case !b.options.DeleteTopics:
		err = errDeletionDisabled
	default:
		got.Topic, got.TopicID = &one.Name, one.ID
		err = b.deleteTopic(ctx, one.ID)
	}
	got.ErrorCode, got.ErrorMessage = errorCode(err), errorText(err)
	return got
}
