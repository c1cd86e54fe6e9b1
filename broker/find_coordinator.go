// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/wire"
)

// FindCoordinator (key 10), versions 0 to 6.
//
// There are neither groups nor transactions, so that every search is answered
// with UNSUPPORTED_VERSION. The key is advertised all the same: librdkafka
// takes it as the sign of a broker that knows LZ4, and would send lz4
// uncompressed without a word. From version 4 many keys are asked for at once
// (KIP-699).

const coordinatorOfTransactions = 1

func (b *Broker) handleFindCoordinator(_ context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.FindCoordinatorRequest)
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	err := fmt.Errorf("%w: there are no consumer groups", errUnsupportedVersion)
	if req.CoordinatorType == coordinatorOfTransactions {
		err = fmt.Errorf("%w: there are no transactions", errUnsupportedVersion)
	}
	for _, key := range req.CoordinatorKeys {
		got := kmsg.NewFindCoordinatorResponseCoordinator()
		got.Key, got.NodeID, got.Port = key, -1, -1
		got.ErrorCode, got.ErrorMessage = errorCode(err), errorText(err)
		resp.Coordinators = append(resp.Coordinators, got)
	}
	resp.ErrorCode, resp.ErrorMessage = errorCode(err), errorText(err) // to version 3
	resp.NodeID, resp.Port = -1, -1
	return reply(resp), nil
}
