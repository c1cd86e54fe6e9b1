// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/wire"
)

// DescribeCluster (key 60), versions 0 to 2.
//
// Names the cluster and its one broker, which is also its controller. Version
// 1 tells brokers from controllers (KIP-919): controllers are not to be
// reached from outside, so that asking for them is refused as Kafka's brokers
// do. Version 2 (KIP-1073) may ask for fenced brokers, of which there are
// none.

const (
	endpointBrokers     = 1
	endpointControllers = 2
)

func (b *Broker) handleDescribeCluster(_ context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.DescribeClusterRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.EndpointType = endpointBrokers
	if req.Version >= 1 && req.EndpointType != endpointBrokers {
		resp.ErrorCode = codeForEndpoint(req.EndpointType)
		text := "this is a broker's endpoint: ask for endpoint type 1"
		resp.ErrorMessage = &text
		return reply(resp), nil
	}
	m := b.cluster.Metadata()
	l := b.listener(r)
	resp.ClusterID = m.ClusterID
	resp.ControllerID = m.NodeID
	broker := kmsg.NewDescribeClusterResponseBroker()
	broker.NodeID, broker.Host, broker.Port = m.NodeID, l.Host, l.Port
	resp.Brokers = append(resp.Brokers, broker)
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	return reply(resp), nil
}
