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
	// ErrInvalidTxnState: a batch that does not fit the state of its
	// producer's transaction.
	ErrInvalidTxnState = errors.New("invalid transaction state")
	// ErrFencedCoordinator: a marker of a transaction coordinator that has
	// been replaced.
	ErrFencedCoordinator = errors.New("fenced transaction coordinator")
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
	// ErrUnsupportedVersion: a file of a format version that this build does
	// not know. It is refused, and never taken for damage or for an empty
	// file.
	ErrUnsupportedVersion = errors.New("unsupported format version")
	// ErrClosed: the object was closed.
	ErrClosed = errors.New("closed")
)

// CorruptionError says that stored bytes are not what was written. It is the
// only kind of error that repair acts on. It matches ErrCorruptBatch.
type CorruptionError struct {
	// Path is the file or object key. It is empty where a codec of this
	// package found the damage; whoever read the file names it with InFile.
	Path string
	// Position is the byte in it at which the damage starts.
	Position int64
	// Reason says what was expected.
	Reason string
}

// Error names the file, the position and what was expected.
func (e *CorruptionError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("corrupt data at byte %d: %s", e.Position, e.Reason)
	}
	return fmt.Sprintf("corrupt data in %s at byte %d: %s", e.Path, e.Position, e.Reason)
}

// Is makes every corruption match ErrCorruptBatch.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorruptBatch }

// InFile puts path into err when err is or wraps a CorruptionError that does
// not name a file yet, and wraps any other error with the path. A nil err
// stays nil.
func InFile(err error, path string) error {
	if err == nil {
		return nil
	}
	var c *CorruptionError
	if errors.As(err, &c) {
		if c.Path == "" {
			return &CorruptionError{Path: path, Position: c.Position, Reason: c.Reason}
		}
		return err
	}
	return fmt.Errorf("read %s: %w", path, err)
}

// corrupt is a CorruptionError that does not know its file.
func corrupt(position int, format string, args ...any) error {
	return &CorruptionError{Position: int64(position), Reason: fmt.Sprintf(format, args...)}
}

// atPosition moves a CorruptionError found in a part of a file to where the
// part starts.
func atPosition(err error, start int) error {
	var c *CorruptionError
	if errors.As(err, &c) {
		return &CorruptionError{Path: c.Path, Position: c.Position + int64(start), Reason: c.Reason}
	}
	return err
}
