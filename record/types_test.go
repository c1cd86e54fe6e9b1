// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"firn/record"
)

func TestParseOffset(t *testing.T) {
	for text, want := range map[string]record.Offset{"0": 0, "42": 42, "00000000000000000042": 42, "9223372036854775807": 1<<63 - 1} {
		if got, err := record.ParseOffset(text); err != nil || got != want {
			t.Errorf("ParseOffset(%q) = %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "x", "1 ", "9223372036854775808"} {
		if got, err := record.ParseOffset(text); err == nil || got != record.NoOffset {
			t.Errorf("ParseOffset(%q) = %d, %v, want an error", text, got, err)
		}
	}
	if got := record.Offset(42).FileName(); got != "00000000000000000042" {
		t.Errorf("file name %q", got)
	}
}

func TestTopicIDRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := record.TopicID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		for _, text := range []string{id.String(), id.String() + "=="} {
			if got, err := record.ParseTopicID(text); err != nil || got != id {
				t.Fatalf("ParseTopicID(%q) = %v, %v", text, got, err)
			}
		}
	})
	good := record.TopicID{1, 2, 3}.String()
	for _, text := range []string{"", good[1:], good + "A", good[:10] + "\n" + good[10:], "!" + good[1:], good + "=", good[:21] + "B"} {
		if _, err := record.ParseTopicID(text); err == nil {
			t.Errorf("ParseTopicID(%q) passed", text)
		}
	}
	if !(record.TopicID{}).IsZero() || (record.TopicID{15: 1}).IsZero() {
		t.Error("IsZero is wrong")
	}
}

func TestParseTopicPartition(t *testing.T) {
	for text, want := range map[string]record.TopicPartition{
		"a-0":          {Topic: "a", Partition: 0},
		"a-b-7":        {Topic: "a-b", Partition: 7},
		"a.b_c-2000":   {Topic: "a.b_c", Partition: 2000},
		"a--1":         {Topic: "a-", Partition: 1},
		"-0-1":         {Topic: "-0", Partition: 1},
		"x-2147483647": {Topic: "x", Partition: 1<<31 - 1},
	} {
		got, err := record.ParseTopicPartition(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("ParseTopicPartition(%q) = %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", "-1", "a-", "a-+1", "a-01", "a-x", "a-2147483648", "..-1", "a/b-1", "ä-1"} {
		if got, err := record.ParseTopicPartition(text); err == nil {
			t.Errorf("ParseTopicPartition(%q) = %+v, want an error", text, got)
		}
	}
}

func TestCheckTopicName(t *testing.T) {
	for _, name := range []string{"a", "A.b-c_9", "...", strings.Repeat("x", record.MaxTopicName)} {
		if err := record.CheckTopicName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "a b", "a/b", "a\x00", "é", strings.Repeat("x", record.MaxTopicName+1)} {
		if err := record.CheckTopicName(name); !errors.Is(err, record.ErrInvalidTopicName) {
			t.Errorf("%q: %v, want ErrInvalidTopicName", name, err)
		}
	}
}
