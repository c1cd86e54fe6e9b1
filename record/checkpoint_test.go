// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/record"
)

func TestOffsetCheckpointRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := record.OffsetCheckpoint(rapid.MapOf(
			rapid.Custom(func(t *rapid.T) record.TopicPartition {
				return record.TopicPartition{Topic: rapid.StringMatching(`[a-z][a-zA-Z0-9._-]{0,20}`).Draw(t, "topic"), Partition: rapid.Int32Min(0).Draw(t, "partition")}
			}),
			rapid.Map(rapid.Int64Min(0), func(v int64) record.Offset { return record.Offset(v) }),
		).Draw(t, "checkpoint"))
		got, err := record.ParseOffsetCheckpoint(c.Marshal())
		if err != nil || !maps.Equal(got, c) {
			t.Fatalf("got %v, %v, want %v", got, err, c)
		}
		if !bytes.Equal(got.Marshal(), c.Marshal()) {
			t.Fatal("the text is not the same for the same content")
		}
	})
}

func TestParseOffsetCheckpointRefuses(t *testing.T) {
	tests := []struct {
		name, text string
		at         int64
	}{
		{"a version alone", "0\n", 2},
		{"no newline", "0\n1\na 0 12", 4},
		{"fewer entries than announced", "0\n2\na 0 1\n", 10},
		{"more entries than announced", "0\n0\na 0 1\n", 10},
		{"a negative count", "0\n-1\n", 2},
		{"a count that is none", "0\nx\n", 2},
		{"two fields in the count", "0\n1 1\na 0 1\n", 2},
		{"a version that is none", "v\n0\n", 0},
		{"two fields in the version", "0 0\n0\n", 0},
		{"an empty line", "0\n1\n\n", 4},
		{"two fields", "0\n1\na 0\n", 4},
		{"a bad topic", "0\n1\n.. 0 1\n", 4},
		{"a bad partition", "0\n1\na -1 1\n", 4},
		{"a bad offset", "0\n1\na 0 -1\n", 4},
		{"an offset past int64", "0\n1\na 0 9223372036854775808\n", 4},
		{"a partition twice", "0\n2\na 0 1\na 0 2\n", 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := record.ParseOffsetCheckpoint([]byte(tt.text))
			requireCorruption(t, err, tt.at)
			if c != nil {
				t.Errorf("got %v beside the error", c)
			}
		})
	}
	if _, err := record.ParseOffsetCheckpoint([]byte("1\n0\n")); !errors.Is(err, record.ErrUnsupportedVersion) || errors.Is(err, record.ErrCorruptBatch) {
		t.Errorf("version 1: %v", err)
	}
	if c, err := record.ParseOffsetCheckpoint(nil); err != nil || c == nil || len(c) != 0 {
		t.Errorf("an empty file: %v, %v", c, err)
	}
}

func TestPartitionMetadata(t *testing.T) {
	id := record.TopicID{1, 2, 3, 4}
	m := record.PartitionMetadata{TopicID: id}
	for _, text := range []string{string(m.Marshal()), string(m.Marshal()) + "\n", "version:  0\ntopic_id:\t" + id.String()} {
		if got, err := record.ParsePartitionMetadata([]byte(text)); err != nil || got != m {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "version: 0", "version: 0\n", "version:0\ntopic_id: " + id.String(), "version: x\ntopic_id: " + id.String(),
		"version: 0\ntopic_id: ", "version: 0\ntopic_id: short", "version: 0\nother: " + id.String(),
		"version: 0\ntopic_id: " + id.String() + "\nmore", "version: 0\ntopic_id: " + record.TopicID{}.String(),
	} {
		if got, err := record.ParsePartitionMetadata([]byte(text)); !errors.Is(err, record.ErrCorruptBatch) || got != (record.PartitionMetadata{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if _, err := record.ParsePartitionMetadata([]byte("version: 1\ntopic_id: x")); !errors.Is(err, record.ErrUnsupportedVersion) {
		t.Errorf("version 1: %v", err)
	}
}

// FuzzTextFiles: what parses is written back to a text that parses to the
// same.
func FuzzTextFiles(f *testing.F) {
	f.Add([]byte("0\n2\na 0 1\na 1 2\n"))
	f.Add([]byte("0\n2\n0 0\n3 17\n"))
	f.Add(record.PartitionMetadata{TopicID: record.TopicID{9}}.Marshal())
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := record.ParseOffsetCheckpoint(b); err == nil {
			again, err := record.ParseOffsetCheckpoint(c.Marshal())
			if err != nil || !maps.Equal(c, again) {
				t.Fatalf("%v came back as %v, %v", c, again, err)
			}
		}
		if es, err := record.ParseEpochs(b); err == nil {
			again, err := record.ParseEpochs(es.Marshal())
			if err != nil || !slices.Equal(es, again) {
				t.Fatalf("%v came back as %v, %v", es, again, err)
			}
		}
		if m, err := record.ParsePartitionMetadata(b); err == nil {
			if again, err := record.ParsePartitionMetadata(m.Marshal()); err != nil || again != m {
				t.Fatalf("%v came back as %v, %v", m, again, err)
			}
		}
	})
}
