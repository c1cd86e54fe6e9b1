// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/cluster"
	"firn/wire"
)

// DescribeConfigs (key 32), versions 1 to 4.
//
// Answers for topics and for this broker, whole or the names asked for, with
// sources and synonyms (KIP-226), and from version 3 with types and
// documentation (KIP-569). The broker's loggers cannot be set one by one and
// are answered as none; other kinds of resources are refused.

func (b *Broker) handleDescribeConfigs(_ context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for _, want := range req.Resources {
		got := kmsg.NewDescribeConfigsResponseResource()
		got.ResourceType, got.ResourceName = want.ResourceType, want.ResourceName
		entries, err := b.configsOf(want)
		got.ErrorCode, got.ErrorMessage = errorCode(err), errorText(err)
		for _, e := range entries {
			if want.ConfigNames == nil || slices.Contains(want.ConfigNames, e.Name) {
				got.Configs = append(got.Configs, describeConfig(e, req))
			}
		}
		resp.Resources = append(resp.Resources, got)
	}
	return reply(resp), nil
}

func (b *Broker) configsOf(want kmsg.DescribeConfigsRequestResource) ([]cluster.ConfigEntry, error) {
	node := strconv.Itoa(int(b.cluster.Metadata().NodeID))
	switch want.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		t, ok := b.topics.byName(want.ResourceName)
		if !ok {
			return nil, fmt.Errorf("topic %q: %w", want.ResourceName, errUnknownTopic)
		}
		return cluster.DescribeTopic(t.Name, t.Config, b.options.TopicDefaults), nil
	case kmsg.ConfigResourceTypeBroker:
		// An empty name asks for what is set for all brokers dynamically.
		if want.ResourceName == "" {
			return nil, nil
		}
		if want.ResourceName != node {
			return nil, fmt.Errorf("%w: this is broker %s, not %q", errInvalidRequest, node, want.ResourceName)
		}
		return b.options.BrokerConfigs, nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		return nil, nil
	}
	return nil, fmt.Errorf("%w: configs of resource type %d are not kept here", errInvalidRequest, want.ResourceType)
}

func describeConfig(e cluster.ConfigEntry, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.ReadOnly, c.IsSensitive = e.Name, e.Value, e.ReadOnly, e.Sensitive
	c.Source, c.ConfigType = kmsg.ConfigSource(e.Source), kmsg.ConfigType(e.Type)
	if req.IncludeSynonyms {
		for _, s := range e.Synonyms {
			synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			synonym.Name, synonym.Value, synonym.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
			c.ConfigSynonyms = append(c.ConfigSynonyms, synonym)
		}
	}
	if req.IncludeDocumentation {
		c.Documentation = &e.Doc
	}
	return c
}
