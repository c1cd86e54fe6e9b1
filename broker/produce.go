// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/partition"
	"firn/record"
	"firn/wire"
)

// Produce (key 0), versions 0 to 11.
//
// Appends are made while the request is handled, in the order of the
// connection's requests; the answer waits for the sync when acks is all.
// acks=0 has no answer, and a failure closes the connection, which is all that
// such a client can notice.
//
// Versions 0 to 2 carry older message formats and are refused in the answer;
// they are advertised because librdkafka otherwise sends gzip and lz4
// uncompressed. 3 to 8 say more in the answer (log start offset in 5, faulty
// records and messages in 8, KIP-467). 9 is flexible, 10 may name the current
// leader (KIP-951), 11 is 10.
//
// There is no transaction coordinator, so that no transaction can be verified: a
// transactional batch is answered with INVALID_TXN_STATE, as by Kafka one of a
// transaction that its partition was not added to, unless its producer has one
// under way there already. Without a transactional id the whole request is
// refused. A client's control batch is an INVALID_RECORD.

// minProduceVersion is the oldest version that carries batches of magic 2.
const minProduceVersion = 3

// appended is one partition of a produce request on its way to its answer.
type appended struct {
	topic, index int // in the response
	ticket       partition.Ticket
}

func (b *Broker) handleProduce(_ context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.ProduceRequest)
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	acks := partition.Acks(req.Acks)
	var waiting []appended
	var failed error
	refused := checkTransactionalID(req)
	for _, t := range req.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			got := kmsg.NewProduceResponseTopicPartition()
			got.Partition, got.BaseOffset, got.LogAppendTime, got.LogStartOffset = p.Partition, -1, -1, -1
			var ticket partition.Ticket
			err := refused
			if err == nil {
				ticket, err = b.produce(req.Version, t.Topic, p.Partition, p.Records, acks)
			}
			if err != nil {
				failed = err
				setProduceError(&got, err)
			} else {
				got.BaseOffset, got.LogAppendTime = int64(ticket.FirstOffset), ticket.LogAppendTimeMs
				got.LogStartOffset = int64(ticket.LogStartOffset)
				waiting = append(waiting, appended{len(resp.Topics), len(topic.Partitions), ticket})
			}
			topic.Partitions = append(topic.Partitions, got)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	if acks == partition.AcksNone {
		if failed != nil {
			return nil, fmt.Errorf("produce with acks=0: %w", failed)
		}
		return nil, nil
	}
	timeout := time.Duration(req.TimeoutMillis) * time.Millisecond
	return func(ctx context.Context) (*wire.Response, error) {
		awaitAppends(ctx, resp, waiting, timeout)
		return &wire.Response{Message: resp}, nil
	}, nil
}

// checkTransactionalID refuses transactional batches without the id by which
// their producer would be authorized. As in Kafka, the first batch of each
// partition is looked at, and all of the request is refused.
func checkTransactionalID(req *kmsg.ProduceRequest) error {
	if req.TransactionID != nil {
		return nil
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if h, err := record.ParseHeader(p.Records); err == nil && h.IsTransactional() && !h.IsControl() {
				return fmt.Errorf("%w: transactional records for %s-%d without a transactional id", errTransactionalID, t.Topic, p.Partition)
			}
		}
	}
	return nil
}

// awaitAppends waits until every append is as durable as it must be and writes
// into the answer what did not become so.
func awaitAppends(ctx context.Context, resp *kmsg.ProduceResponse, waiting []appended, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, w := range waiting {
		if err := w.ticket.Wait(ctx); err != nil {
			got := &resp.Topics[w.topic].Partitions[w.index]
			got.BaseOffset, got.LogAppendTime = -1, -1
			setProduceError(got, err)
		}
	}
}

// produce appends the records for one partition.
func (b *Broker) produce(version int16, topic string, number int32, records []byte, acks partition.Acks) (partition.Ticket, error) {
	switch {
	case version < minProduceVersion:
		return partition.Ticket{}, fmt.Errorf("%w: Produce %d, at least %d is served", errUnsupportedVersion, version, minProduceVersion)
	case acks != partition.AcksNone && acks != partition.AcksLeader && acks != partition.AcksAll:
		return partition.Ticket{}, fmt.Errorf("%w: %d", errInvalidAcks, acks)
	}
	p, err := b.partition(topic, number)
	if err != nil {
		return partition.Ticket{}, err
	}
	if b.disks[p.Store()].full.Load() && !isInternal(topic) {
		return partition.Ticket{}, fmt.Errorf("%w: the free space of %s is below firn.disk.reserve.bytes", record.ErrStorage, p.Store().Dir())
	}
	if len(records) == 0 {
		return partition.Ticket{}, fmt.Errorf("%w: no records for %s-%d", record.ErrInvalidBatch, topic, number)
	}
	return p.Append(records, acks)
}

func setProduceError(got *kmsg.ProduceResponseTopicPartition, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		err = errTimedOut
	}
	got.ErrorCode, got.ErrorMessage = errorCode(err), errorText(err)
}
