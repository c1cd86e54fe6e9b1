// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/wire"
)

// ApiVersions (key 18), versions 0 to 5.
//
// Tells the keys and versions of the table, and the cluster's features.
// Version 3 carries the client's software (KIP-511) and the features
// (KIP-584). An unknown version is answered in version 0 with
// UNSUPPORTED_VERSION and the list, from which the client chooses anew.
// Version 5 may name the cluster and node that the client means to talk to
// (KIP-1242), both or neither; another's client is told to bootstrap anew.
//
// transaction.version and group.version are not named until there are
// transactions and groups: without them clients use neither.

// metadataVersion is the level of Kafka 4.0, the oldest one that implies
// nothing which is not served here.
const (
	metadataVersionFeature = "metadata.version"
	metadataVersionMin     = 7 // Kafka 3.3, the oldest level of Kafka 4
	metadataVersion        = 25
)

func (b *Broker) handleAPIVersions(_ context.Context, r *wire.Request) (wire.Answer, error) {
	if r.Unsupported {
		return reply(wire.ApiVersionsV0(errorCode(errUnsupportedVersion), b.table.ApiKeys())), nil
	}
	req := r.Message.(*kmsg.ApiVersionsRequest)
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	resp.ErrorCode = b.checkIdentity(req)
	resp.ApiKeys = b.table.ApiKeys()
	supported := kmsg.NewApiVersionsResponseSupportedFeature()
	supported.Name, supported.MinVersion, supported.MaxVersion = metadataVersionFeature, metadataVersionMin, metadataVersion
	resp.SupportedFeatures = append(resp.SupportedFeatures, supported)
	finalized := kmsg.NewApiVersionsResponseFinalizedFeature()
	finalized.Name, finalized.MinVersionLevel, finalized.MaxVersionLevel = metadataVersionFeature, metadataVersion, metadataVersion
	resp.FinalizedFeatures = append(resp.FinalizedFeatures, finalized)
	resp.FinalizedFeaturesEpoch = 1
	return reply(resp), nil
}

// checkIdentity compares the cluster and the node that a client means to talk
// to with this one.
func (b *Broker) checkIdentity(req *kmsg.ApiVersionsRequest) int16 {
	m := b.cluster.Metadata()
	switch {
	case (req.ClusterID == nil) != (req.NodeID < 0):
		return errorCode(errInvalidRequest)
	case req.ClusterID != nil && (*req.ClusterID != m.ClusterID || req.NodeID != m.NodeID):
		return codeRebootstrap
	}
	return 0
}
