// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// checkpointVersion is the only version of Kafka's checkpoint files.
const checkpointVersion = 0

// OffsetCheckpoint is the content of a checkpoint file at the top of a log
// directory: recovery-point-offset-checkpoint, log-start-offset-checkpoint or
// replication-offset-checkpoint.
type OffsetCheckpoint map[TopicPartition]Offset

// Marshal is the text of the file, ordered by topic and partition.
func (c OffsetCheckpoint) Marshal() []byte {
	order := slices.SortedFunc(maps.Keys(c), func(a, b TopicPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	b := appendCheckpointHead(nil, len(c))
	for _, tp := range order {
		b = fmt.Appendf(b, "%s %d %d\n", tp.Topic, tp.Partition, c[tp])
	}
	return b
}

// ParseOffsetCheckpoint reads such a file; an empty file, which Kafka makes
// before the first checkpoint, has no entries. The error wraps
// ErrUnsupportedVersion or is a *CorruptionError.
func ParseOffsetCheckpoint(b []byte) (OffsetCheckpoint, error) {
	c := OffsetCheckpoint{}
	err := parseCheckpoint(b, 3, func(at int, fields []string) error {
		if err := CheckTopicName(fields[0]); err != nil {
			return corrupt(at, "%q is not a topic name", fields[0])
		}
		partition, err := strconv.ParseInt(fields[1], 10, 32)
		if err != nil || partition < 0 {
			return corrupt(at, "%q is not a partition number", fields[1])
		}
		offset, err := ParseOffset(fields[2])
		if err != nil {
			return corrupt(at, "%q is not an offset", fields[2])
		}
		tp := TopicPartition{Topic: fields[0], Partition: int32(partition)}
		if _, twice := c[tp]; twice {
			return corrupt(at, "partition %s appears twice", tp)
		}
		c[tp] = offset
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// appendCheckpointHead writes the two lines that every checkpoint file begins
// with: the version and the number of entries, of which each has a line.
func appendCheckpointHead(b []byte, entries int) []byte {
	return fmt.Appendf(b, "%d\n%d\n", checkpointVersion, entries)
}

// parseCheckpoint reads a checkpoint file and calls entry for every line after
// the head, with the byte at which the line starts and its fields, of which
// there are exactly want. Every line must end in a newline: a file that was
// cut within its last number would otherwise read as another number.
func parseCheckpoint(b []byte, want int, entry func(at int, fields []string) error) error {
	if len(b) == 0 {
		return nil
	}
	at, line := 0, 0
	declared := 0
	for ; len(b) > at; line++ {
		end := bytes.IndexByte(b[at:], '\n')
		if end < 0 {
			return corrupt(at, "the last line does not end")
		}
		fields := strings.Fields(string(b[at : at+end]))
		var err error
		switch line {
		case 0:
			err = checkCheckpointVersion(at, fields)
		case 1:
			declared, err = parseCount(at, fields)
		default:
			if len(fields) != want {
				return corrupt(at, "line has %d fields, want %d", len(fields), want)
			}
			err = entry(at, fields)
		}
		if err != nil {
			return err
		}
		at += end + 1
	}
	if line < 2 || line-2 != declared {
		return corrupt(at, "%d entries were announced, %d are there", declared, max(line-2, 0))
	}
	return nil
}

func checkCheckpointVersion(at int, fields []string) error {
	if len(fields) != 1 {
		return corrupt(at, "the first line has %d fields, want the version alone", len(fields))
	}
	version, err := strconv.ParseInt(fields[0], 10, 32)
	if err != nil {
		return corrupt(at, "%q is not a version", fields[0])
	}
	if version != checkpointVersion {
		return fmt.Errorf("%w: checkpoint of version %d, only %d is known", ErrUnsupportedVersion, version, checkpointVersion)
	}
	return nil
}

func parseCount(at int, fields []string) (int, error) {
	if len(fields) != 1 {
		return 0, corrupt(at, "the second line has %d fields, want the number of entries alone", len(fields))
	}
	n, err := strconv.ParseInt(fields[0], 10, 32)
	if err != nil || n < 0 {
		return 0, corrupt(at, "%q is not a number of entries", fields[0])
	}
	return int(n), nil
}
