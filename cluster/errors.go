// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"

	"firn/record"
)

// Kinds of error that changes and OpenLocal return, wrapped with what they
// concern.
var (
	// ErrTopicExists: a topic of that name is there, or one of that name is
	// still being deleted.
	ErrTopicExists = errors.New("topic already exists")
	// ErrTopicCollision: a topic is there whose name differs only in '.' and
	// '_', which metrics cannot tell apart. It matches
	// record.ErrInvalidTopicName as well.
	ErrTopicCollision = fmt.Errorf("%w: collides with an existing topic", record.ErrInvalidTopicName)
	// ErrUnknownTopic: no topic has that id.
	ErrUnknownTopic = errors.New("unknown topic")
	// ErrInvalidPartitions: a partition count that is not allowed.
	ErrInvalidPartitions = errors.New("invalid number of partitions")
	// ErrInUse: another process has the file open.
	ErrInUse = errors.New("metadata file is in use by another process")
	// ErrSchema: the file was written by a version that this one does not
	// know.
	ErrSchema = errors.New("unknown metadata schema version")
	// ErrMismatch: the file belongs to another node or another cluster than
	// the options say.
	ErrMismatch = errors.New("metadata file belongs to somebody else")
	// ErrExhausted: the last producer id or broker epoch was given out.
	ErrExhausted = errors.New("numbers are used up")
)
