// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/record"
	"firn/wire"
)

// DeleteTopics (key 20), versions 1 to 6.
//
// A topic is gone for clients, its deletion is durable and its name is free
// when the answer is sent; local files and objects are removed in the
// background, across restarts. From 5 the answer carries messages, from 6
// topics may be named by id (KIP-516). A topic that is named twice is left
// alone.

func (b *Broker) handleDeleteTopics(ctx context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.DeleteTopicsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	wanted := req.Topics
	for _, name := range req.TopicNames {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		wanted = append(wanted, t)
	}
	times := make(map[topicRef]int)
	for _, t := range wanted {
		times[refOf(t)]++
	}
	answered := make(map[topicRef]bool)
	for _, t := range wanted {
		ref := refOf(t)
		if answered[ref] {
			continue
		}
		answered[ref] = true
		if times[ref] == 1 {
			resp.Topics = append(resp.Topics, b.deleteOne(ctx, t))
			continue
		}
		err := fmt.Errorf("%w: the topic is named %d times", errInvalidRequest, times[ref])
		got := kmsg.NewDeleteTopicsResponseTopic()
		got.Topic, got.TopicID = t.Topic, t.TopicID
		got.ErrorCode, got.ErrorMessage = errorCode(err), errorText(err)
		resp.Topics = append(resp.Topics, got)
	}
	return reply(resp), nil
}

// topicRef is what a request calls a topic: a name, an id, or wrongly both.
type topicRef struct {
	name string
	id   record.TopicID
}

func refOf(t kmsg.DeleteTopicsRequestTopic) topicRef {
	ref := topicRef{id: record.TopicID(t.TopicID)}
	if t.Topic != nil {
		ref.name = *t.Topic
	}
	return ref
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
