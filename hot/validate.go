// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"fmt"
	"time"

	"firn/record"
)

// incoming is one batch of a client, checked.
type incoming struct {
	batch  record.Batch
	header record.Header
	marker record.Marker // of a control batch
}

// checkBatches takes a record set apart and checks all that can be told without
// the log's state. The batches alias b.
func checkBatches(origin Origin, b []byte, o *LogOptions, now time.Time) ([]incoming, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: no batch at all", record.ErrInvalidBatch)
	}
	set := make([]incoming, 0, 1)
	producers := false
	for len(b) > 0 {
		batch, rest, err := record.SplitBatch(b)
		if err != nil {
			return nil, err
		}
		in := incoming{batch: batch, header: batch.Header()}
		if err := in.check(origin, o, now); err != nil {
			return nil, err
		}
		producers = producers || in.header.HasProducer()
		set = append(set, in)
		b = rest
	}
	if producers && len(set) > 1 {
		// As Kafka since Produce 3. A duplicate among several could not be
		// answered with one offset.
		return nil, fmt.Errorf("%w: %d batches, an idempotent producer sends one", record.ErrInvalidBatch, len(set))
	}
	return set, nil
}

func (in *incoming) check(origin Origin, o *LogOptions, now time.Time) error {
	h := in.header
	if origin == Coordinator && h.IsControl() {
		return in.checkMarker(o)
	}
	switch {
	case h.Size() > o.MaxMessageBytes:
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", record.ErrBatchTooLarge, h.Size(), o.MaxMessageBytes)
	case h.IsControl():
		return fmt.Errorf("%w: clients may not write control batches", record.ErrInvalidBatch)
	case h.IsTransactional() && !h.HasProducer():
		return fmt.Errorf("%w: a transactional batch without a producer", record.ErrInvalidBatch)
	case h.Codec() > record.CodecZstd:
		return fmt.Errorf("%w: codec %d is not known", record.ErrInvalidBatch, h.Codec())
	case h.Count == 0 || h.Count != h.LastOffsetDelta+1:
		return fmt.Errorf("%w: %d records with a last offset delta of %d", record.ErrInvalidBatch, h.Count, h.LastOffsetDelta)
	case h.HasProducer() && (h.BaseSequence < 0 || h.ProducerEpoch < 0):
		return fmt.Errorf("%w: producer %d with epoch %d and sequence %d", record.ErrInvalidBatch, h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	}
	if err := in.batch.CheckCRC(); err != nil {
		return err
	}
	if o.LogAppendTime {
		return nil
	}
	if h.IsLogAppendTime() {
		return fmt.Errorf("%w: only the broker may say log-append time", record.ErrInvalidTimestamp)
	}
	if err := checkTimestamp(h.BaseTimestamp, o, now); err != nil {
		return err
	}
	return checkTimestamp(h.MaxTimestamp, o, now)
}

// checkMarker checks a control batch of the transaction coordinator, and reads
// its marker.
func (in *incoming) checkMarker(o *LogOptions) (err error) {
	h := in.header
	if h.Size() > o.MaxMessageBytes {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", record.ErrBatchTooLarge, h.Size(), o.MaxMessageBytes)
	}
	if err := in.batch.CheckCRC(); err != nil {
		return err
	}
	if in.marker, err = h.Marker(in.batch.Section()); err != nil {
		return err
	}
	if !h.IsTransactional() || h.Count != 1 || h.LastOffsetDelta != 0 || h.ProducerEpoch < 0 || h.BaseSequence >= 0 {
		return fmt.Errorf("%w: a control batch of %d records, sequence %d and producer epoch %d", record.ErrInvalidBatch, h.Count, h.BaseSequence, h.ProducerEpoch)
	}
	return nil
}

// checkTimestamp compares a timestamp in ms with the wall clock. The
// timestamps between a batch's first and its largest lie inside compressed
// records and are not looked at.
func checkTimestamp(ms int64, o *LogOptions, now time.Time) error {
	if ms == record.NoTimestamp {
		return nil
	}
	nowMs := now.UnixMilli()
	if o.TimestampBefore > 0 && ms < nowMs-o.TimestampBefore.Milliseconds() {
		return fmt.Errorf("%w: %d is more than %v before %d", record.ErrInvalidTimestamp, ms, o.TimestampBefore, nowMs)
	}
	if o.TimestampAfter > 0 && ms > nowMs+o.TimestampAfter.Milliseconds() {
		return fmt.Errorf("%w: %d is more than %v after %d", record.ErrInvalidTimestamp, ms, o.TimestampAfter, nowMs)
	}
	return nil
}
