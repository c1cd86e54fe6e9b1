// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// NoLimit in a retention field says that nothing is removed on its account.
const NoLimit = -1

// TopicConfig is what a topic's configs come to, with all defaults applied,
// in the types that the packages below take. Milliseconds beyond what a
// Duration holds (292 years) become the longest Duration.
type TopicConfig struct {
	// Retention and RetentionBytes bound the partition over both tiers;
	// NoLimit sets no bound.
	Retention      time.Duration
	RetentionBytes int64
	// LocalRetention and LocalRetentionBytes bound what stays on the local
	// disk once it is in the store. The -2 of Kafka is resolved: they equal
	// Retention and RetentionBytes then. NoLimit sets no bound.
	LocalRetention      time.Duration
	LocalRetentionBytes int64

	SegmentBytes  int64
	SegmentAge    time.Duration // of record time
	SegmentJitter time.Duration
	IndexBytes    int
	IndexInterval int // bytes of log per index entry

	MaxMessageBytes int
	LogAppendTime   bool
	TimestampBefore time.Duration
	TimestampAfter  time.Duration

	// RemoteStorage says whether the topic is tiered, by its own word or by
	// the implicit default.
	RemoteStorage     bool
	RemoteCopyDisable bool
	// RemoteDelete says that what lies in the store must go, because the
	// topic itself turned tiering off and asks for it. An implicit default
	// that changed is never an order to delete.
	RemoteDelete bool

	// MinInsyncReplicas is reported only.
	MinInsyncReplicas int
}

// Defaults is what a broker's settings contribute to the configs of topics.
// The zero value is a broker without settings and without a store.
type Defaults struct {
	// Settings holds the broker settings that were set, among those that the
	// table names as synonyms: plain numbers, in the setting's own unit.
	Settings map[string]string
	// Store says whether an object store is configured.
	Store bool
	// ExcludeTopics are topic names, with * and ? as wildcards, that are not
	// tiered unless they say so themselves.
	ExcludeTopics []string
}

// TieredByDefault says whether the topic is tiered when it does not say
// anything itself: a store is configured, and the topic is neither internal
// nor one that a stream processor rebuilds, nor excluded.
func (d Defaults) TieredByDefault(topic string) bool {
	if !d.Store || strings.HasPrefix(topic, "__") ||
		strings.HasSuffix(topic, "-changelog") || strings.HasSuffix(topic, "-repartition") {
		return false
	}
	for _, pattern := range d.ExcludeTopics {
		if ok, err := path.Match(pattern, topic); ok && err == nil {
			return false
		}
	}
	return true
}

// fallback is the value of a config that the topic does not set.
func (d Defaults) fallback(topic string, k TopicKey) string {
	if k.Name == "remote.storage.enable" {
		return strconv.FormatBool(d.TieredByDefault(topic))
	}
	for _, s := range k.Synonyms {
		if v, ok := d.Settings[s.Name]; ok {
			return scale(v, s.Factor)
		}
	}
	return k.Default
}

// scale multiplies a number; values below zero are marks (no limit, as the
// other one) and stay, values beyond an int64 become the largest.
func scale(v string, factor int64) string {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || factor <= 1 || n < 0 {
		return v
	}
	if n > math.MaxInt64/factor {
		return maxLong
	}
	return strconv.FormatInt(n*factor, 10)
}

// ParseTopicConfig turns what is set on a topic into a TopicConfig. set holds
// plain numbers, by Kafka's names. The error names every fault at once: key,
// value and what is allowed; a faulty key counts as not set in the
// TopicConfig, so that a broker can go on with a topic whose stored config an
// older version allowed.
func ParseTopicConfig(topic string, set map[string]string, d Defaults) (TopicConfig, error) {
	var faults []error
	values := make(map[string]string)
	known := make(map[string]bool)
	for _, k := range TopicKeys() {
		known[k.Name] = true
		values[k.Name] = d.fallback(topic, k)
		v, ok := set[k.Name]
		if !ok {
			continue
		}
		if err := k.check(v); err != nil {
			faults = append(faults, fault(k.Name, v, err))
			continue
		}
		values[k.Name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !known[name] {
			faults = append(faults, fmt.Errorf("%s: unknown topic config", name))
		}
	}
	c := typed(values)
	c.RemoteDelete = !c.RemoteStorage && set["remote.storage.enable"] != "" && values["remote.log.delete.on.disable"] == "true"
	faults = append(faults, c.rules(set, values, d)...)
	return c, errors.Join(faults...)
}

func fault(name, value string, err error) error { return fmt.Errorf("%s=%s: %w", name, value, err) }

// rules checks what concerns more than one config. A local limit beyond the
// total one is a fault only where the topic asks for it and is tiered; one
// that comes from the broker's settings is lowered in silence.
func (c *TopicConfig) rules(set, values map[string]string, d Defaults) []error {
	var faults []error
	if c.RemoteStorage && !d.Store {
		faults = append(faults, errors.New("remote.storage.enable=true: no object store is configured; set tier.store"))
	}
	if exceeds(int64(c.LocalRetention), int64(c.Retention)) {
		if _, own := set["local.retention.ms"]; own && c.RemoteStorage {
			faults = append(faults, fmt.Errorf("local.retention.ms=%s: must not exceed retention.ms, which is %s", values["local.retention.ms"], values["retention.ms"]))
		}
		c.LocalRetention = c.Retention
	}
	if exceeds(c.LocalRetentionBytes, c.RetentionBytes) {
		if _, own := set["local.retention.bytes"]; own && c.RemoteStorage {
			faults = append(faults, fmt.Errorf("local.retention.bytes=%s: must not exceed retention.bytes, which is %s", values["local.retention.bytes"], values["retention.bytes"]))
		}
		c.LocalRetentionBytes = c.RetentionBytes
	}
	return faults
}

// exceeds compares two limits of which NoLimit is the largest.
func exceeds(part, whole int64) bool {
	return whole != NoLimit && (part == NoLimit || part > whole)
}

// typed reads values that the table has checked. A broker setting that is no
// number cannot come this far: config checks it with the same table.
func typed(values map[string]string) TopicConfig {
	num := func(name string) int64 {
		n, _ := strconv.ParseInt(values[name], 10, 64)
		return n
	}
	ms := func(name string) time.Duration { return Millis(num(name)) }
	flag := func(name string) bool {
		b, _ := parseBool(values[name])
		return b
	}
	c := TopicConfig{
		Retention:           ms("retention.ms"),
		RetentionBytes:      num("retention.bytes"),
		LocalRetention:      ms("local.retention.ms"),
		LocalRetentionBytes: num("local.retention.bytes"),
		SegmentBytes:        num("segment.bytes"),
		SegmentAge:          ms("segment.ms"),
		SegmentJitter:       ms("segment.jitter.ms"),
		IndexBytes:          int(num("segment.index.bytes")),
		IndexInterval:       int(num("index.interval.bytes")),
		MaxMessageBytes:     int(num("max.message.bytes")),
		LogAppendTime:       values["message.timestamp.type"] == "LogAppendTime",
		TimestampBefore:     ms("message.timestamp.before.max.ms"),
		TimestampAfter:      ms("message.timestamp.after.max.ms"),
		RemoteStorage:       flag("remote.storage.enable"),
		RemoteCopyDisable:   flag("remote.log.copy.disable"),
		MinInsyncReplicas:   int(num("min.insync.replicas")),
	}
	const asTotal = -2
	if num("local.retention.ms") == asTotal {
		c.LocalRetention = c.Retention
	}
	if c.LocalRetentionBytes == asTotal {
		c.LocalRetentionBytes = c.RetentionBytes
	}
	return c
}

// Millis turns milliseconds into a Duration. Values beyond what a Duration
// holds become the longest one; negative values are marks, not
// times, and stay what they are.
func Millis(n int64) time.Duration {
	switch {
	case n < 0:
		return time.Duration(n)
	case n > math.MaxInt64/int64(time.Millisecond):
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}
