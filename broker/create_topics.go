// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/cluster"
	"firn/wire"
)

// CreateTopics (key 19), versions 2 to 7.
//
// Creates each topic by itself: one that is refused does not touch the others.
// -1 for partitions or replicas takes the broker's default (KIP-464). There is
// one broker, so that a replication factor over 1 is refused unless
// firn.replication.factor.clamp accepts it, and an assignment may name this
// broker alone. From 5 the answer carries the configs in force (KIP-525), from
// 7 the topic's id. The topic is there when the answer is sent, whatever the
// timeout.

func (b *Broker) handleCreateTopics(ctx context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.CreateTopicsRequest)
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
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
		got := kmsg.NewCreateTopicsResponseTopic()
		got.Topic = t.Topic
		err := fmt.Errorf("%w: topic %q is named %d times", errInvalidRequest, t.Topic, times[t.Topic])
		if times[t.Topic] == 1 {
			err = b.createOne(ctx, t, req.ValidateOnly, &got)
		}
		got.ErrorCode, got.ErrorMessage = errorCode(err), errorText(err)
		resp.Topics = append(resp.Topics, got)
	}
	return reply(resp), nil
}

func (b *Broker) createOne(ctx context.Context, t *kmsg.CreateTopicsRequestTopic, validateOnly bool, got *kmsg.CreateTopicsResponseTopic) error {
	partitions, err := b.partitionsOf(t)
	if err != nil {
		return err
	}
	c := cluster.CreateTopic{Name: t.Topic, Partitions: partitions, Config: make(map[string]string)}
	for _, config := range t.Configs {
		if config.Value == nil {
			return fmt.Errorf("%w: %s has no value", errInvalidConfig, config.Name)
		}
		c.Config[config.Name] = *config.Value
	}
	if _, err := cluster.ParseTopicConfig(c.Name, c.Config, b.options.TopicDefaults); err != nil {
		return fmt.Errorf("%w: %w", errInvalidConfig, err)
	}
	if err := b.cluster.Metadata().CheckCreate(c); err != nil {
		return err
	}
	if !validateOnly {
		one, err := b.createTopic(ctx, c)
		if err != nil {
			return err
		}
		got.TopicID = one.ID
	}
	got.NumPartitions, got.ReplicationFactor = partitions, 1
	for _, e := range cluster.DescribeTopic(c.Name, c.Config, b.options.TopicDefaults) {
		config := kmsg.NewCreateTopicsResponseTopicConfig()
		config.Name, config.Value, config.ReadOnly = e.Name, e.Value, e.ReadOnly
		config.Source, config.IsSensitive = int8(e.Source), e.Sensitive
		got.Configs = append(got.Configs, config)
	}
	return nil
}

// partitionsOf is the number of partitions that the request comes to, after
// its replicas were checked.
func (b *Broker) partitionsOf(t *kmsg.CreateTopicsRequestTopic) (int32, error) {
	if len(t.ReplicaAssignment) > 0 {
		return b.assignedPartitions(t)
	}
	switch {
	case t.ReplicationFactor == -1 || t.ReplicationFactor == 1:
	case t.ReplicationFactor > 1 && b.options.ClampReplication:
		b.logger.Warn("the replication factor is taken as 1", "event", "replication_clamped", "topic", t.Topic, "asked", t.ReplicationFactor)
	default:
		return 0, fmt.Errorf("%w: %d, there is 1 broker (firn.replication.factor.clamp=true accepts more)", errInvalidReplication, t.ReplicationFactor)
	}
	switch {
	case t.NumPartitions == -1:
		return b.options.NumPartitions, nil
	case t.NumPartitions < 1:
		return 0, fmt.Errorf("%w: %d, must be positive", errInvalidPartitions, t.NumPartitions)
	}
	return t.NumPartitions, nil
}

// assignedPartitions checks an assignment of replicas by the client: the
// partitions 0 to n-1, each on this broker alone.
func (b *Broker) assignedPartitions(t *kmsg.CreateTopicsRequestTopic) (int32, error) {
	if t.NumPartitions != -1 || t.ReplicationFactor != -1 {
		return 0, fmt.Errorf("%w: an assignment comes with partitions and replication factor -1", errInvalidRequest)
	}
	node := b.cluster.Metadata().NodeID
	seen := make(map[int32]bool)
	for _, a := range t.ReplicaAssignment {
		if len(a.Replicas) != 1 || a.Replicas[0] != node {
			return 0, fmt.Errorf("%w: partition %d is assigned to %v, broker %d is the only one", errInvalidAssignment, a.Partition, a.Replicas, node)
		}
		if a.Partition < 0 || int(a.Partition) >= len(t.ReplicaAssignment) || seen[a.Partition] {
			return 0, fmt.Errorf("%w: partition %d, want 0 to %d, each once", errInvalidAssignment, a.Partition, len(t.ReplicaAssignment)-1)
		}
		seen[a.Partition] = true
	}
	return int32(len(t.ReplicaAssignment)), nil
}
