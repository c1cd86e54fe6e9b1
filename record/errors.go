// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
)

// Kinds of error that packages above return, wrapped with what they were
// doing. The broker maps them to Kafka's error codes in one place.
var (
	// ErrOffsetOutOfRange: the offset lies in neither tier. It may be
	// answered only by somebody who knows both ends of the partition.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrCorruptBatch: a batch whose CRC or lengths are wrong.
	ErrCorruptBatch = errors.New("corrupt batch")
	// ErrInvalidBatch: a batch that is whole but not allowed (count, control
	// bits, codec).
	ErrInvalidBatch = errors.New("invalid batch")
	// ErrUnsupportedMagic: a message set older than magic 2.
	ErrUnsupportedMagic = errors.New("unsupported message format")
	// ErrBatchTooLarge: a batch over max.message.bytes.
	ErrBatchTooLarge = errors.New("batch too large")
	// ErrInvalidTimestamp: a timestamp outside the range the topic accepts.
	ErrInvalidTimestamp = errors.New("timestamp out of the accepted range")
	// ErrOutOfOrderSequence: an idempotent producer left a gap.
	ErrOutOfOrderSequence = errors.New("out of order sequence number")
	// ErrDuplicateSequence: a duplicate older than the five batches that are
	// remembered, so that its offset cannot be told.
	ErrDuplicateSequence = errors.New("duplicate sequence number")
	// ErrInvalidProducerEpoch: the producer was fenced by a newer epoch.
	ErrInvalidProducerEpoch = errors.New("invalid producer epoch")
	// ErrFencedEpoch: the caller knows an older leader epoch than we do.
	ErrFencedEpoch = errors.New("fenced leader epoch")
	// ErrUnknownEpoch: the caller knows a newer leader epoch than we do.
	ErrUnknownEpoch = errors.New("unknown leader epoch")
	// ErrStorage: the disk or the object store failed; the caller may try
	// again. It costs one partition alone.
	ErrStorage = errors.New("storage failure")
	// ErrNotReady: the data is on its way (a cold read that outlasted the
	// wait of its request); trying again will find it.
	ErrNotReady = errors.New("not ready yet")
	// ErrReadOnly: the partition takes no writes until an operator decides.
	ErrReadOnly = errors.New("partition is read-only")
	// ErrClosed: the object was closed.
	ErrClosed = errors.New("closed")
)

// CorruptionError says that stored bytes are not what was written. It is the
// only kind of error that repair acts on. It matches ErrCorruptBatch.
type CorruptionError struct {
	// Path is the file or object key.
	Path string
	// Position is the byte in it at which the damage starts.
	Position int64
	// Reason says what was expected.
	Reason string
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("corrupt data in %s at byte %d: %s", e.Path, e.Position, e.Reason)
}

// Is makes every corruption match ErrCorruptBatch.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorruptBatch }
