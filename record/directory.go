// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"strconv"
	"strings"
)

// directoryMetadataVersion is the version of meta.properties that is written.
// Version 0, which old Kafka wrote, calls the node's id broker.id.
const directoryMetadataVersion = 1

// DirectoryMetadata is the content of a log directory's meta.properties: whose
// it is.
type DirectoryMetadata struct {
	// ClusterID is empty when the file does not say.
	ClusterID string
	// NodeID is -1 when the file does not say.
	NodeID int32
	// DirectoryID is Kafka's name for the directory, wherever it is mounted;
	// zero when the file does not say.
	DirectoryID TopicID
	// Firn says that a Firn broker wrote the file, and so that a firn.db
	// belongs to the directory.
	Firn bool
}

// Marshal is the text of the file, in the form of Kafka's version 1 and with
// one property more.
func (m DirectoryMetadata) Marshal() []byte {
	b := fmt.Appendf(nil, "version=%d\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", directoryMetadataVersion, m.ClusterID, m.NodeID, m.DirectoryID)
	if m.Firn {
		b = append(b, "firn.metadata=firn.db\n"...)
	}
	return b
}

// ParseDirectoryMetadata reads such a file, Kafka's included. Properties that
// it does not know are passed over. The error wraps ErrUnsupportedVersion or is
// a *CorruptionError.
func ParseDirectoryMetadata(b []byte) (DirectoryMetadata, error) {
	m, version := DirectoryMetadata{NodeID: -1}, int64(0)
	at := 0
	for line := range strings.Lines(string(b)) {
		start := at
		at += len(line)
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return DirectoryMetadata{}, corrupt(start, "want a line \"name=value\"")
		}
		// Java's properties put a backslash before some characters.
		key, value = strings.TrimSpace(key), strings.ReplaceAll(strings.TrimSpace(value), `\`, "")
		var err error
		switch key {
		case "version":
			version, err = strconv.ParseInt(value, 10, 32)
		case "cluster.id":
			m.ClusterID = value
		case "node.id", "broker.id":
			var id int64
			id, err = strconv.ParseInt(value, 10, 32)
			m.NodeID = int32(id)
		case "directory.id":
			m.DirectoryID, err = ParseTopicID(value)
		case "firn.metadata":
			m.Firn = true
		}
		if err != nil {
			return DirectoryMetadata{}, corrupt(start, "%s is %q", key, value)
		}
	}
	if version < 0 || version > directoryMetadataVersion {
		return DirectoryMetadata{}, fmt.Errorf("%w: meta.properties of version %d, up to %d is known", ErrUnsupportedVersion, version, directoryMetadataVersion)
	}
	return m, nil
}
