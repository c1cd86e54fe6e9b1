// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/wire"
)

// api is one row of the table of what the broker serves.
type api struct {
	versions wire.Versions
	handle   func(*Broker, context.Context, *wire.Request) (wire.Answer, error)
}

// apis is the table of keys, versions and handlers. Produce is advertised from
// 0, or librdkafka would send gzip and lz4 uncompressed, and refuses 0 to 2 in
// its answer, and FindCoordinator, which it takes as the sign of lz4, refuses
// all. Produce and InitProducerId stop where transactions of version 2 begin.
func apis() map[kmsg.Key]api {
	return map[kmsg.Key]api{
		kmsg.Produce:                 {wire.Versions{Min: 0, Max: 11}, (*Broker).handleProduce},
		kmsg.Fetch:                   {wire.Versions{Min: 4, Max: 18}, (*Broker).handleFetch},
		kmsg.ListOffsets:             {wire.Versions{Min: 1, Max: 11}, (*Broker).handleListOffsets},
		kmsg.Metadata:                {wire.Versions{Min: 0, Max: 13}, (*Broker).handleMetadata},
		kmsg.ApiVersions:             {wire.Versions{Min: 0, Max: 5}, (*Broker).handleAPIVersions},
		kmsg.FindCoordinator:         {wire.Versions{Min: 0, Max: 6}, (*Broker).handleFindCoordinator},
		kmsg.CreateTopics:            {wire.Versions{Min: 2, Max: 7}, (*Broker).handleCreateTopics},
		kmsg.DeleteTopics:            {wire.Versions{Min: 1, Max: 6}, (*Broker).handleDeleteTopics},
		kmsg.DeleteRecords:           {wire.Versions{Min: 0, Max: 2}, (*Broker).handleDeleteRecords},
		kmsg.InitProducerID:          {wire.Versions{Min: 0, Max: 4}, (*Broker).handleInitProducerID},
		kmsg.OffsetForLeaderEpoch:    {wire.Versions{Min: 2, Max: 4}, (*Broker).handleOffsetForLeaderEpoch},
		kmsg.DescribeConfigs:         {wire.Versions{Min: 1, Max: 4}, (*Broker).handleDescribeConfigs},
		kmsg.AlterConfigs:            {wire.Versions{Min: 0, Max: 2}, (*Broker).handleAlterConfigs},
		kmsg.DescribeLogDirs:         {wire.Versions{Min: 0, Max: 5}, (*Broker).handleDescribeLogDirs},
		kmsg.CreatePartitions:        {wire.Versions{Min: 0, Max: 3}, (*Broker).handleCreatePartitions},
		kmsg.IncrementalAlterConfigs: {wire.Versions{Min: 0, Max: 1}, (*Broker).handleIncrementalAlterConfigs},
		kmsg.DescribeCluster:         {wire.Versions{Min: 0, Max: 2}, (*Broker).handleDescribeCluster},
	}
}

// Table is what the broker serves, as wire.Options wants it.
func Table() wire.Table {
	table := make(wire.Table)
	for key, a := range apis() {
		table[int16(key)] = a.versions
	}
	return table
}

// Handle answers one request: it is the wire.Handler of the server.
func (b *Broker) Handle(ctx context.Context, r *wire.Request) (wire.Answer, error) {
	a, ok := b.apis[kmsg.Key(r.Key)]
	if !ok {
		return nil, fmt.Errorf("no handler for API key %d", r.Key)
	}
	return a.handle(b, ctx, r)
}

// reply is the Answer that is ready already.
func reply(message kmsg.Response) wire.Answer {
	return func(context.Context) (*wire.Response, error) {
		return &wire.Response{Message: message}, nil
	}
}
