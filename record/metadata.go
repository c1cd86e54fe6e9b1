// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"strconv"
	"strings"
)

// partitionMetadataVersion is the only version of partition.metadata.
const partitionMetadataVersion = 0

// PartitionMetadata is the content of a partition directory's
// partition.metadata file.
type PartitionMetadata struct {
	TopicID TopicID
}

// Marshal is the text of the file. As Kafka writes it, the last line has no
// newline.
func (m PartitionMetadata) Marshal() []byte {
	return fmt.Appendf(nil, "version: %d\ntopic_id: %s", partitionMetadataVersion, m.TopicID)
}

// ParsePartitionMetadata reads such a file. The error wraps
// ErrUnsupportedVersion or is a *CorruptionError; the zero topic id is refused
// as damage.
func ParsePartitionMetadata(b []byte) (PartitionMetadata, error) {
	first, rest, _ := strings.Cut(string(b), "\n")
	text, ok := cutField(first, "version:")
	version, err := strconv.ParseInt(text, 10, 32)
	if !ok || err != nil {
		return PartitionMetadata{}, corrupt(0, "want a line \"version: %d\"", partitionMetadataVersion)
	}
	if version != partitionMetadataVersion {
		return PartitionMetadata{}, fmt.Errorf("%w: partition.metadata of version %d, only %d is known", ErrUnsupportedVersion, version, partitionMetadataVersion)
	}
	at := len(first) + 1
	text, ok = cutField(strings.TrimSuffix(rest, "\n"), "topic_id:")
	if !ok {
		return PartitionMetadata{}, corrupt(at, "want a line \"topic_id: …\" and no more")
	}
	id, err := ParseTopicID(text)
	if err != nil || id.IsZero() {
		return PartitionMetadata{}, corrupt(at, "%q is not a topic id", text)
	}
	return PartitionMetadata{TopicID: id}, nil
}

// cutField takes "name: value" apart, with white space after the colon.
func cutField(line, name string) (string, bool) {
	value, ok := strings.CutPrefix(line, name)
	trimmed := strings.TrimSpace(value)
	return trimmed, ok && len(trimmed) < len(value)
}
