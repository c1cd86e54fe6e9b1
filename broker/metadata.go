// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/cluster"
	"firn/record"
	"firn/wire"
)

// Metadata (key 3), versions 0 to 13.
//
// Names the broker, at the address of the listener that the client came in by,
// and the topics asked for: all of them when version 0 names none and when
// later ones send null. An unknown topic is created if the broker and the
// request (version 4) both allow it; the answer then has it already. Version
// 8 may ask for authorized operations (KIP-430): without an authorizer that is
// all of them. From 10 topics may be asked for by id (KIP-516). 13 can tell
// the client to bootstrap anew, which is never needed here.

// Operations that an authorizer could allow, as bits of Kafka's AclOperation.
const (
	topicOperations   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	clusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

func (b *Broker) handleMetadata(ctx context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.MetadataRequest)
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	m := b.cluster.Metadata()
	l := b.listener(r)
	broker := kmsg.NewMetadataResponseBroker()
	broker.NodeID, broker.Host, broker.Port = m.NodeID, l.Host, l.Port
	resp.Brokers = append(resp.Brokers, broker)
	resp.ClusterID, resp.ControllerID = &m.ClusterID, m.NodeID
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}

	switch {
	case req.Topics == nil, req.Version == 0 && len(req.Topics) == 0:
		for _, t := range m.Topics() {
			if one, ok := b.topics.byID(t.ID); ok {
				resp.Topics = append(resp.Topics, b.describeTopic(one, req))
			}
		}
	default:
		create := b.options.AutoCreateTopics && (req.Version < 4 || req.AllowAutoTopicCreation)
		for _, t := range req.Topics {
			resp.Topics = append(resp.Topics, b.lookUpTopic(ctx, t, req, create))
		}
	}
	return reply(resp), nil
}

// lookUpTopic answers for one topic that was asked for by name or by id. Who
// asks by id leaves the name null or, as Java does, empty.
func (b *Broker) lookUpTopic(ctx context.Context, want kmsg.MetadataRequestTopic, req *kmsg.MetadataRequest, create bool) kmsg.MetadataResponseTopic {
	if id := record.TopicID(want.TopicID); want.Topic == nil || id != (record.TopicID{}) {
		if one, ok := b.topics.byID(id); ok {
			return b.describeTopic(one, req)
		}
		want.Topic = nil
		return missingTopic(want, errUnknownTopicID)
	}
	one, ok := b.topics.byName(*want.Topic)
	if ok {
		return b.describeTopic(one, req)
	}
	err := record.CheckTopicName(*want.Topic)
	if err == nil {
		err = errUnknownTopic
	}
	if create && errors.Is(err, errUnknownTopic) && !isInternal(*want.Topic) {
		one, err = b.createTopic(ctx, cluster.CreateTopic{Name: *want.Topic, Partitions: b.options.NumPartitions})
		if errors.Is(err, cluster.ErrTopicExists) {
			// Another request was faster, or its deletion is not over.
			if one, ok = b.topics.byName(*want.Topic); ok {
				err = nil
			} else {
				err = errUnknownTopic
			}
		}
	}
	if err != nil {
		return missingTopic(want, err)
	}
	return b.describeTopic(one, req)
}

func missingTopic(want kmsg.MetadataRequestTopic, err error) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID = want.Topic, want.TopicID
	t.ErrorCode = errorCode(err)
	return t
}

func (b *Broker) describeTopic(one *topic, req *kmsg.MetadataRequest) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID, t.IsInternal = &one.Name, one.ID, isInternal(one.Name)
	if req.IncludeTopicAuthorizedOperations {
		t.AuthorizedOperations = topicOperations
	}
	node := []int32{b.cluster.Metadata().NodeID}
	for i, p := range one.partitions {
		part := kmsg.NewMetadataResponseTopicPartition()
		part.Partition, part.Replicas = int32(i), node
		if one.whyOffline(i) != nil {
			part.ErrorCode, part.Leader, part.LeaderEpoch = codeOffline, -1, -1
			part.OfflineReplicas = node
		} else {
			part.Leader, part.LeaderEpoch, part.ISR = node[0], int32(p.LeaderEpoch()), node
		}
		t.Partitions = append(t.Partitions, part)
	}
	return t
}
