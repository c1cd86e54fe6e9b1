// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDefaultsAreAllowed(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range TopicKeys() {
		if seen[k.Name] {
			t.Errorf("%s stands twice in the table", k.Name)
		}
		seen[k.Name] = true
		if err := k.Check(k.Default); err != nil {
			t.Errorf("%s: the default %q is refused: %v", k.Name, k.Default, err)
		}
		if k.Doc == "" {
			t.Errorf("%s has no documentation", k.Name)
		}
	}
	c, err := ParseTopicConfig("t", nil, Defaults{})
	want := TopicConfig{
		Retention: 168 * time.Hour, RetentionBytes: NoLimit,
		LocalRetention: 168 * time.Hour, LocalRetentionBytes: NoLimit,
		SegmentBytes: 1 << 30, SegmentAge: 168 * time.Hour, IndexBytes: 10 << 20, IndexInterval: 4096,
		MaxMessageBytes: 1048588, TimestampBefore: math.MaxInt64, TimestampAfter: time.Hour, MinInsyncReplicas: 1,
	}
	if err != nil || c != want {
		t.Errorf("defaults: %+v, %v, want %+v", c, err, want)
	}
}

func TestParseTopicConfigFaults(t *testing.T) {
	for _, c := range []struct {
		key, value, want string
	}{
		{"segment.bytes", "1048575", "segment.bytes=1048575: want a whole number from 1048576 to 2147483647"},
		{"segment.bytes", "1MiB", "want a whole number"},
		{"retention.ms", "-2", "retention.ms=-2: want a whole number from -1 up"},
		{"cleanup.policy", "compact", "compaction is not supported"},
		{"cleanup.policy", "compact,delete", "compaction is not supported"},
		{"cleanup.policy", "shred", "want delete"},
		{"compression.type", "zstd", "compression.type=zstd: want producer"},
		{"compression.gzip.level", "0", "want -1 or a whole number from 1 to 9"},
		{"message.timestamp.type", "createtime", "want CreateTime or LogAppendTime"},
		{"min.cleanable.dirty.ratio", "1.5", "want a number from 0 to 1"},
		{"min.cleanable.dirty.ratio", "NaN", "want a number from 0 to 1"},
		{"preallocate", "yes", "want true or false"},
		{"remote.copy.lag.ms", "1000", "only 0 is supported"},
		{"remote.storage.enable", "true", "no object store is configured"},
		{"segment.byte", "5", "segment.byte: unknown topic config"},
	} {
		_, err := ParseTopicConfig("t", map[string]string{c.key: c.value}, Defaults{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q", c.key, c.value, err, c.want)
		}
	}
	_, err := ParseTopicConfig("t", map[string]string{"segment.bytes": "1", "retention.ms": "x", "bogus": ""}, Defaults{})
	if n := strings.Count(err.Error(), "\n") + 1; n != 3 {
		t.Errorf("want all three faults at once, got %d: %v", n, err)
	}
}

func TestFaultyConfigCountsAsNotSet(t *testing.T) {
	c, err := ParseTopicConfig("t", map[string]string{"segment.bytes": "1", "retention.bytes": "77"}, Defaults{})
	if err == nil || c.SegmentBytes != 1<<30 || c.RetentionBytes != 77 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestLocalRetention(t *testing.T) {
	tiered := Defaults{Store: true}
	for _, c := range []struct {
		name      string
		set       map[string]string
		d         Defaults
		wantTime  time.Duration
		wantBytes int64
		fault     string
	}{
		{"as the total", map[string]string{"retention.ms": "5000", "retention.bytes": "9"}, tiered, 5 * time.Second, 9, ""},
		{"less", map[string]string{"local.retention.ms": "1000", "local.retention.bytes": "4"}, tiered, time.Second, 4, ""},
		{"nothing stays", map[string]string{"local.retention.ms": "0", "local.retention.bytes": "0"}, tiered, 0, 0, ""},
		{"more than the total", map[string]string{"retention.ms": "1000", "local.retention.ms": "2000"}, tiered, time.Second, NoLimit, "local.retention.ms=2000: must not exceed retention.ms, which is 1000"},
		{"for ever of less", map[string]string{"local.retention.ms": "-1"}, tiered, 168 * time.Hour, NoLimit, "local.retention.ms=-1"},
		{"bytes for ever of less", map[string]string{"retention.bytes": "5", "local.retention.bytes": "-1"}, tiered, 168 * time.Hour, 5, "local.retention.bytes=-1"},
		{"for ever of for ever", map[string]string{"retention.ms": "-1", "local.retention.ms": "-1"}, tiered, NoLimit, NoLimit, ""},
		{"not tiered", map[string]string{"retention.ms": "1000", "local.retention.ms": "2000"}, Defaults{}, time.Second, NoLimit, ""},
		{"the broker's is lowered in silence", map[string]string{"retention.ms": "1000"},
			Defaults{Store: true, Settings: map[string]string{"log.local.retention.ms": "86400000"}}, time.Second, NoLimit, ""},
	} {
		got, err := ParseTopicConfig("t", c.set, c.d)
		if got.LocalRetention != c.wantTime || got.LocalRetentionBytes != c.wantBytes {
			t.Errorf("%s: %s, %d, want %s, %d", c.name, got.LocalRetention, got.LocalRetentionBytes, c.wantTime, c.wantBytes)
		}
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", c.name, err, c.fault)
		}
	}
}

func TestTieredByDefault(t *testing.T) {
	d := Defaults{Store: true, ExcludeTopics: []string{"tmp-*", "scratch"}}
	for topic, want := range map[string]bool{
		"clicks": true, "__consumer_offsets": false, "app-changelog": false, "app-repartition": false,
		"changelog": true, "tmp-1": false, "tmp": true, "scratch": false, "scratch2": true,
	} {
		c, err := ParseTopicConfig(topic, nil, d)
		if err != nil || c.RemoteStorage != want {
			t.Errorf("%s: %v, %v, want %v", topic, c.RemoteStorage, err, want)
		}
		if (Defaults{}).TieredByDefault(topic) {
			t.Errorf("%s is tiered without a store", topic)
		}
	}
	if c, err := ParseTopicConfig("tmp-1", map[string]string{"remote.storage.enable": "true"}, d); err != nil || !c.RemoteStorage {
		t.Errorf("an excluded topic that asks for it: %v, %v", c.RemoteStorage, err)
	}
}

func TestRemoteDeleteTakesAnOrder(t *testing.T) {
	on := map[string]string{"remote.log.delete.on.disable": "true"}
	if c, _ := ParseTopicConfig("t", on, Defaults{}); c.RemoteDelete {
		t.Error("an implicit default deletes")
	}
	on["remote.storage.enable"] = "false"
	if c, _ := ParseTopicConfig("t", on, Defaults{Store: true}); !c.RemoteDelete {
		t.Error("an explicit order does not delete")
	}
}

func find(t *testing.T, entries []ConfigEntry, name string) ConfigEntry {
	t.Helper()
	i := slices.IndexFunc(entries, func(e ConfigEntry) bool { return e.Name == name })
	if i < 0 {
		t.Fatalf("%s is not described", name)
	}
	return entries[i]
}

func TestDescribeTopic(t *testing.T) {
	d := Defaults{Store: true, Settings: map[string]string{"log.retention.hours": "24", "log.retention.minutes": "60"}}
	entries := DescribeTopic("t", map[string]string{"segment.bytes": "2097152"}, d)
	if len(entries) != len(TopicKeys()) {
		t.Errorf("%d entries of %d", len(entries), len(TopicKeys()))
	}
	segment := find(t, entries, "segment.bytes")
	if *segment.Value != "2097152" || segment.Source != SourceTopic || len(segment.Synonyms) != 2 || segment.Synonyms[1].Name != "log.segment.bytes" || *segment.Synonyms[1].Value != "1073741824" {
		t.Errorf("segment.bytes: %+v", segment)
	}
	retention := find(t, entries, "retention.ms")
	if *retention.Value != "3600000" || retention.Source != SourceStaticBroker {
		t.Errorf("retention.ms is %s from %d", *retention.Value, retention.Source)
	}
	var chain []string
	for _, s := range retention.Synonyms {
		chain = append(chain, s.Name+"="+*s.Value)
	}
	if got := strings.Join(chain, " "); got != "log.retention.minutes=60 log.retention.hours=24 log.retention.hours=168" {
		t.Errorf("synonyms of retention.ms: %s", got)
	}
	remote := find(t, entries, "remote.storage.enable")
	if *remote.Value != "true" || remote.Source != SourceDefault || remote.Type != TypeBoolean {
		t.Errorf("remote.storage.enable is %s from %d", *remote.Value, remote.Source)
	}
	if policy := find(t, entries, "cleanup.policy"); *policy.Value != "delete" || policy.Type != TypeList {
		t.Errorf("cleanup.policy: %+v", policy)
	}
}

func TestMillisSaturates(t *testing.T) {
	for n, want := range map[int64]time.Duration{-1: -1, 0: 0, 1500: 1500 * time.Millisecond, math.MaxInt64: math.MaxInt64, math.MaxInt64/1_000_000 + 1: math.MaxInt64} {
		if got := Millis(n); got != want {
			t.Errorf("Millis(%d) = %d, want %d", n, got, want)
		}
	}
}

// TestParseAnything throws words at every key: the result is usable, and
// what is described is what is in force.
func TestParseAnything(t *testing.T) {
	keys := TopicKeys()
	rapid.Check(t, func(t *rapid.T) {
		set := map[string]string{}
		for range rapid.IntRange(0, 6).Draw(t, "keys") {
			k := keys[rapid.IntRange(0, len(keys)-1).Draw(t, "key")]
			set[k.Name] = rapid.OneOf(
				rapid.Just(k.Default), rapid.String(),
				rapid.Map(rapid.Int64(), func(n int64) string { return strconv.FormatInt(n, 10) }),
				rapid.SampledFrom([]string{"true", "false", "delete", "compact", "-1", "-2", "0", ""}),
			).Draw(t, "value")
		}
		before := maps.Clone(set)
		c, err := ParseTopicConfig("t", set, Defaults{Store: true})
		if !maps.Equal(before, set) {
			t.Fatal("the input was changed")
		}
		if c.SegmentBytes < 1<<20 || c.SegmentAge < time.Millisecond || c.MaxMessageBytes < 0 || c.Retention < NoLimit ||
			exceeds(int64(c.LocalRetention), int64(c.Retention)) || exceeds(c.LocalRetentionBytes, c.RetentionBytes) {
			t.Fatalf("%v gives %+v", set, c)
		}
		if err != nil {
			return
		}
		if got := valueOf(DescribeTopic("t", set, Defaults{Store: true}), "segment.bytes"); got != strconv.FormatInt(c.SegmentBytes, 10) {
			t.Fatalf("described as %s, in force %d", got, c.SegmentBytes)
		}
	})
}

func valueOf(entries []ConfigEntry, name string) string {
	for _, e := range entries {
		if e.Name == name {
			return *e.Value
		}
	}
	return ""
}
