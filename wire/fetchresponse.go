// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/record"
)

// Versions of Fetch that EncodeFetch can write.
const (
	MinFetchVersion int16 = 4
	MaxFetchVersion int16 = 18

	fetchSessions    int16 = 7  // error code and session id for the whole response
	fetchLogStart    int16 = 5  // log start offset per partition
	fetchReplica     int16 = 11 // preferred read replica
	fetchFlexible    int16 = 12 // compact lengths and tags
	fetchTopicIDs    int16 = 13 // topic ids in place of names
	fetchTopicName   int16 = 12 // the last version with names
	fetchPartitionSz       = 64 // an estimate of one partition without records
)

// TagTier is the number of a tagged field of our own, above all that Kafka uses.
// A client that puts it, empty, into the top level of a Fetch request of a
// flexible version finds it in each partition of the answer that has records:
// the word hot, warm or cold, for the way in which they were read. Whoever does
// not ask never sees it.
const TagTier uint32 = 0xF1B0

// FetchResponse mirrors kmsg.FetchResponse for versions 4 to 18, with records
// as parts instead of bytes, so that they need not be in memory.
type FetchResponse struct {
	// ThrottleMillis is how long the client is asked to wait, in ms.
	ThrottleMillis int32
	// ErrorCode and SessionID are those of the fetch session (version 7 up).
	ErrorCode int16
	SessionID int32
	Topics    []FetchTopic
	// Brokers tells where leaders named in CurrentLeader live (version 16 up
	// by Kafka's use; written in every flexible version when not empty).
	Brokers []kmsg.FetchResponseBroker
}

// FetchTopic is one topic of a FetchResponse.
type FetchTopic struct {
	// Topic is written up to version 12, TopicID from version 13 up.
	Topic      string
	TopicID    record.TopicID
	Partitions []FetchPartition
}

// FetchPartition is one partition of a FetchTopic. Use NewFetchPartition: the
// zero value names broker 0 as the preferred replica.
type FetchPartition struct {
	Partition     int32
	ErrorCode     int16
	HighWatermark record.Offset
	// LastStableOffset and LogStartOffset are record.NoOffset when unknown.
	LastStableOffset record.Offset
	LogStartOffset   record.Offset
	// AbortedTransactions is nil under read_uncommitted, which is written as
	// null and not as an empty list.
	AbortedTransactions []FetchAborted
	// PreferredReadReplica is -1 for none.
	PreferredReadReplica int32
	// DivergingEpoch, CurrentLeader and SnapshotID are written only when not
	// nil, in flexible versions.
	DivergingEpoch *FetchDiverging
	CurrentLeader  *FetchLeader
	SnapshotID     *FetchSnapshot
	// Tier is the value of TagTier, written only when not empty, in flexible
	// versions.
	Tier string
	// Records are whole batches in offset order. None at all is written as an
	// empty record set, never as null, which older clients reject.
	Records []Part
}

// NewFetchPartition is a partition without data and with everything that is
// optional absent.
func NewFetchPartition(partition int32) FetchPartition {
	return FetchPartition{
		Partition:            partition,
		HighWatermark:        record.NoOffset,
		LastStableOffset:     record.NoOffset,
		LogStartOffset:       record.NoOffset,
		PreferredReadReplica: -1,
	}
}

// FetchAborted is one aborted transaction that overlaps the records.
type FetchAborted struct {
	ProducerID  int64
	FirstOffset record.Offset
}

// FetchDiverging tells a fetcher where its log leaves ours.
type FetchDiverging struct {
	Epoch     record.Epoch
	EndOffset record.Offset
}

// FetchLeader names the partition's leader.
type FetchLeader struct {
	LeaderID    int32
	LeaderEpoch record.Epoch
}

// FetchSnapshot is the snapshot to fetch instead of an offset that is gone.
type FetchSnapshot struct {
	EndOffset record.Offset
	Epoch     record.Epoch
}

// EncodeFetch writes r as a whole frame: length field, response header, body.
// The records' parts are put between slices of one new buffer and are not
// copied; their Regions stay the caller's to release. It fails on a version
// it does not know and on a frame that would not fit its 31-bit length.
func EncodeFetch(version int16, correlationID int32, r *FetchResponse) ([]Part, error) {
	if version < MinFetchVersion || version > MaxFetchVersion {
		return nil, fmt.Errorf("encode fetch response: version %d is not between %d and %d", version, MinFetchVersion, MaxFetchVersion)
	}
	e := fetchEncoder{version: version, flexible: version >= fetchFlexible}
	e.buf = make([]byte, 0, r.sizeHint())
	e.buf = append(e.buf, 0, 0, 0, 0)
	e.int32(correlationID)
	e.noTags()
	if err := e.response(r); err != nil {
		return nil, fmt.Errorf("encode fetch response: %w", err)
	}
	total := int64(len(e.buf)) + e.spliced - lengthSize
	if total > math.MaxInt32 {
		return nil, fmt.Errorf("encode fetch response: frame of %d bytes does not fit a 31-bit length", total)
	}
	binary.BigEndian.PutUint32(e.buf, uint32(total))
	return e.parts(), nil
}

func (r *FetchResponse) sizeHint() int {
	n := 64
	for i := range r.Topics {
		t := &r.Topics[i]
		n += 32 + len(t.Topic) + len(t.Partitions)*fetchPartitionSz
		for j := range t.Partitions {
			n += 17 * len(t.Partitions[j].AbortedTransactions)
		}
	}
	return n
}
