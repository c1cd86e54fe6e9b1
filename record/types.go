// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Offset is the position of a record in its partition, counted from 0.
type Offset int64

// NoOffset stands for an offset that is not known or not there. It is the -1
// of Kafka's protocol.
const NoOffset Offset = -1

// ParseOffset reads an offset as String writes it, or as the 20 digits of a
// segment's file name.
func ParseOffset(s string) (Offset, error) {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < 0 {
		return NoOffset, fmt.Errorf("parse offset %q: want a number from 0 up", s)
	}
	return Offset(v), nil
}

// String is the offset in decimal.
func (o Offset) String() string { return strconv.FormatInt(int64(o), 10) }

// FileName is the offset in 20 digits, as in the names of segment files.
func (o Offset) FileName() string { return fmt.Sprintf("%020d", int64(o)) }

// Epoch is a leader epoch: it rises with every leadership of a partition and
// fences what an earlier leader still sends.
type Epoch int32

// NoEpoch stands for an epoch that is not known. It is the -1 of Kafka's
// protocol.
const NoEpoch Epoch = -1

// TopicID identifies one life of a topic: a topic deleted and created again
// under the same name has another id.
type TopicID [16]byte

// topicIDText is the length of a topic id as text.
const topicIDText = 22

// ParseTopicID reads what TopicID.String wrote; the padding "==" may follow.
func ParseTopicID(s string) (TopicID, error) {
	text := strings.TrimSuffix(s, "==")
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	// The decoder skips line breaks, hence the length of the text as well.
	if err != nil || len(text) != topicIDText || len(b) != len(TopicID{}) {
		return TopicID{}, fmt.Errorf("parse topic id %q: want %d characters of URL-safe base64", s, topicIDText)
	}
	return TopicID(b), nil
}

// String is the id as Kafka writes it: 22 characters of URL-safe base64.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// IsZero says whether the id is the all-zero id, which stands for "no id" in
// Kafka's protocol.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// TopicPartition names one partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// ParseTopicPartition reads a partition directory's name, "<topic>-<partition>".
func ParseTopicPartition(s string) (TopicPartition, error) {
	i := strings.LastIndexByte(s, '-')
	if i <= 0 {
		return TopicPartition{}, fmt.Errorf("parse partition name %q: want <topic>-<partition>", s)
	}
	n, err := strconv.ParseInt(s[i+1:], 10, 32)
	// One partition has one name, so that two directories never claim it.
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != s[i+1:] {
		return TopicPartition{}, fmt.Errorf("parse partition name %q: %q is not a partition number", s, s[i+1:])
	}
	if err := CheckTopicName(s[:i]); err != nil {
		return TopicPartition{}, fmt.Errorf("parse partition name %q: %w", s, err)
	}
	return TopicPartition{Topic: s[:i], Partition: int32(n)}, nil
}

// String is the partition directory's name, "<topic>-<partition>".
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.FormatInt(int64(tp.Partition), 10)
}

// MaxTopicName is the longest topic name that Kafka allows, in bytes.
const MaxTopicName = 249

// ErrInvalidTopicName marks a topic name that Kafka does not allow.
var ErrInvalidTopicName = errors.New("invalid topic name")

// CheckTopicName applies Kafka's rule for topic names: 1 to 249 characters of
// [a-zA-Z0-9._-], and neither "." nor "..". The error wraps
// ErrInvalidTopicName. The rule also makes every legal name safe as one
// element of a path.
func CheckTopicName(name string) error {
	if name == "" || name == "." || name == ".." {
		return fmt.Errorf("%w %q: must not be empty, \".\" or \"..\"", ErrInvalidTopicName, name)
	}
	if len(name) > MaxTopicName {
		return fmt.Errorf("%w: %d characters, at most %d are allowed", ErrInvalidTopicName, len(name), MaxTopicName)
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !ok {
			return fmt.Errorf("%w %q: only a-z, A-Z, 0-9, '.', '_' and '-' are allowed", ErrInvalidTopicName, name)
		}
	}
	return nil
}
