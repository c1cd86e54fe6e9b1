// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Unit is what a numeric config counts.
type Unit int8

const (
	// UnitNone: a plain number, or no number at all.
	UnitNone Unit = iota
	// UnitMs: milliseconds.
	UnitMs
	// UnitBytes: bytes.
	UnitBytes
)

// TopicKey is one row of the table of topic configs.
type TopicKey struct {
	// Name is Kafka's name.
	Name string
	Type ConfigType
	Unit Unit
	// Default is the value, in plain numbers, when neither the topic nor a
	// broker setting says otherwise.
	Default string
	// Synonyms are the broker settings that give the default, the strongest
	// first.
	Synonyms []Synonym
	// Doc says what the config does here, in one or two sentences.
	Doc string

	check func(value string) error
}

// Synonym is a broker setting that a topic config falls back to.
type Synonym struct {
	Name string
	// Factor turns the setting's number into the config's: 3,600,000 for
	// hours that become milliseconds. Zero stands for one.
	Factor int64
}

// Check tells whether the value is allowed. It judges the value alone; rules
// between configs are ParseTopicConfig's. The error says what is allowed.
func (k TopicKey) Check(value string) error { return k.check(value) }

// TopicKeys is the table of all topic configs, in the order of names. The
// caller may keep the slice but not write through it.
func TopicKeys() []TopicKey { return topicKeys() }

var topicKeys = sync.OnceValue(func() []TopicKey {
	keys := slices.Concat(retentionKeys(), segmentKeys(), messageKeys(), compactionKeys(), remoteKeys(), otherKeys())
	slices.SortFunc(keys, func(a, b TopicKey) int { return strings.Compare(a.Name, b.Name) })
	return keys
})

const (
	maxLong = "9223372036854775807"
	minute  = 60_000
	hour    = 60 * minute
)

func retentionKeys() []TopicKey {
	return []TopicKey{
		{Name: "cleanup.policy", Type: TypeList, Default: "delete", Synonyms: same("log.cleanup.policy"),
			Doc:   "What happens to old records. Only delete is supported.",
			check: onlyDelete},
		{Name: "retention.ms", Type: TypeLong, Unit: UnitMs, Default: "604800000",
			Synonyms: []Synonym{{Name: "log.retention.ms"}, {Name: "log.retention.minutes", Factor: minute}, {Name: "log.retention.hours", Factor: hour}},
			Doc:      "How long records are kept in all, locally and in the object store together. -1 keeps them for ever.",
			check:    number(-1, math.MaxInt64)},
		{Name: "retention.bytes", Type: TypeLong, Unit: UnitBytes, Default: "-1", Synonyms: same("log.retention.bytes"),
			Doc:   "How many bytes of a partition are kept in all, locally and in the object store together. -1 sets no limit.",
			check: number(-1, math.MaxInt64)},
		{Name: "local.retention.ms", Type: TypeLong, Unit: UnitMs, Default: "-2", Synonyms: same("log.local.retention.ms"),
			Doc:   "How long records that are safe in the object store also stay on the local disk. -2 means as long as retention.ms says.",
			check: number(-2, math.MaxInt64)},
		{Name: "local.retention.bytes", Type: TypeLong, Unit: UnitBytes, Default: "-2", Synonyms: same("log.local.retention.bytes"),
			Doc:   "How many bytes of a partition stay on the local disk once they are safe in the object store. -2 means as many as retention.bytes says.",
			check: number(-2, math.MaxInt64)},
	}
}

func segmentKeys() []TopicKey {
	return []TopicKey{
		{Name: "segment.bytes", Type: TypeInt, Unit: UnitBytes, Default: "1073741824", Synonyms: same("log.segment.bytes"),
			Doc:   "Size at which a segment is closed and the next one begun.",
			check: number(1<<20, math.MaxInt32)},
		{Name: "segment.ms", Type: TypeLong, Unit: UnitMs, Default: "604800000",
			Synonyms: []Synonym{{Name: "log.roll.ms"}, {Name: "log.roll.hours", Factor: hour}},
			Doc:      "Age, in the time of its records, at which a segment is closed even when it is not full.",
			check:    number(1, math.MaxInt64)},
		{Name: "segment.jitter.ms", Type: TypeLong, Unit: UnitMs, Default: "0",
			Synonyms: []Synonym{{Name: "log.roll.jitter.ms"}, {Name: "log.roll.jitter.hours", Factor: hour}},
			Doc:      "Largest random time taken off segment.ms, so that partitions do not all roll at once.",
			check:    number(0, math.MaxInt64)},
		{Name: "segment.index.bytes", Type: TypeInt, Unit: UnitBytes, Default: "10485760", Synonyms: same("log.index.size.max.bytes"),
			Doc:   "Size of the offset index at which a segment is closed.",
			check: number(4, math.MaxInt32)},
		{Name: "index.interval.bytes", Type: TypeInt, Unit: UnitBytes, Default: "4096", Synonyms: same("log.index.interval.bytes"),
			Doc:   "Bytes of log between two entries of the offset index.",
			check: number(0, math.MaxInt32)},
		{Name: "file.delete.delay.ms", Type: TypeLong, Unit: UnitMs, Default: "60000", Synonyms: same("log.segment.delete.delay.ms"),
			Doc:   "Time between taking a segment out of the log and deleting its files. The setting of the broker rules for all topics; the config of a topic is stored and reported.",
			check: number(0, math.MaxInt64)},
		{Name: "preallocate", Type: TypeBoolean, Default: "false", Synonyms: same("log.preallocate"),
			Doc:   "Stored and reported; segments are never preallocated.",
			check: boolean},
		{Name: "flush.messages", Type: TypeLong, Default: maxLong, Synonyms: same("log.flush.interval.messages"),
			Doc:   "Stored and reported; records are synced for acks=all and in the background.",
			check: number(1, math.MaxInt64)},
		{Name: "flush.ms", Type: TypeLong, Unit: UnitMs, Default: maxLong, Synonyms: same("log.flush.interval.ms"),
			Doc:   "Stored and reported; records are synced for acks=all and in the background.",
			check: number(0, math.MaxInt64)},
	}
}

func messageKeys() []TopicKey {
	return []TopicKey{
		{Name: "max.message.bytes", Type: TypeInt, Unit: UnitBytes, Default: "1048588", Synonyms: same("message.max.bytes"),
			Doc:   "Largest batch of records that is accepted, as it comes, compressed or not.",
			check: number(0, math.MaxInt32)},
		{Name: "message.timestamp.type", Type: TypeString, Default: "CreateTime", Synonyms: same("log.message.timestamp.type"),
			Doc:   "Whether a record keeps the time its producer gave it (CreateTime) or gets the broker's (LogAppendTime).",
			check: oneOf("CreateTime", "LogAppendTime")},
		{Name: "message.timestamp.before.max.ms", Type: TypeLong, Unit: UnitMs, Default: maxLong, Synonyms: same("log.message.timestamp.before.max.ms"),
			Doc:   "How far a record's time may lie behind the broker's clock. Ignored with LogAppendTime.",
			check: number(0, math.MaxInt64)},
		{Name: "message.timestamp.after.max.ms", Type: TypeLong, Unit: UnitMs, Default: "3600000", Synonyms: same("log.message.timestamp.after.max.ms"),
			Doc:   "How far a record's time may lie ahead of the broker's clock. Ignored with LogAppendTime.",
			check: number(0, math.MaxInt64)},
		{Name: "compression.type", Type: TypeString, Default: "producer", Synonyms: same("compression.type"),
			Doc:   "Codec of the stored batches. Only producer is supported: batches are kept as they came.",
			check: onlyProducer},
		{Name: "compression.gzip.level", Type: TypeInt, Default: "-1", Synonyms: same("compression.gzip.level"),
			Doc:   "Stored and reported; batches are kept as they came.",
			check: gzipLevel},
		{Name: "compression.lz4.level", Type: TypeInt, Default: "9", Synonyms: same("compression.lz4.level"),
			Doc:   "Stored and reported; batches are kept as they came.",
			check: number(1, 17)},
		{Name: "compression.zstd.level", Type: TypeInt, Default: "3", Synonyms: same("compression.zstd.level"),
			Doc:   "Stored and reported; batches are kept as they came.",
			check: number(-131072, 22)},
	}
}

func compactionKeys() []TopicKey {
	const doc = "Stored and reported; it concerns compacted topics, which are not supported."
	return []TopicKey{
		{Name: "delete.retention.ms", Type: TypeLong, Unit: UnitMs, Default: "86400000", Synonyms: same("log.cleaner.delete.retention.ms"),
			Doc: doc, check: number(0, math.MaxInt64)},
		{Name: "min.compaction.lag.ms", Type: TypeLong, Unit: UnitMs, Default: "0", Synonyms: same("log.cleaner.min.compaction.lag.ms"),
			Doc: doc, check: number(0, math.MaxInt64)},
		{Name: "max.compaction.lag.ms", Type: TypeLong, Unit: UnitMs, Default: maxLong, Synonyms: same("log.cleaner.max.compaction.lag.ms"),
			Doc: doc, check: number(1, math.MaxInt64)},
		{Name: "min.cleanable.dirty.ratio", Type: TypeDouble, Default: "0.5", Synonyms: same("log.cleaner.min.cleanable.ratio"),
			Doc: doc, check: ratio},
	}
}

func remoteKeys() []TopicKey {
	return []TopicKey{
		{Name: "remote.storage.enable", Type: TypeBoolean, Default: "false",
			Doc:   "Whether closed segments go to the object store. When a store is configured it is true unless set, except for internal topics, *-changelog, *-repartition and tier.exclude.topics. It can be turned on while the topic is in use, and not off again: remote.log.copy.disable stops the copying.",
			check: boolean},
		{Name: "remote.log.copy.disable", Type: TypeBoolean, Default: "false",
			Doc:   "Stops copying to the object store; what is there stays readable.",
			check: boolean},
		{Name: "remote.log.delete.on.disable", Type: TypeBoolean, Default: "false",
			Doc:   "Stored and reported; in Kafka it says that turning remote.storage.enable off deletes what lies in the object store, and here that cannot be turned off.",
			check: boolean},
		{Name: "remote.copy.lag.ms", Type: TypeLong, Unit: UnitMs, Default: "0", Synonyms: same("log.remote.copy.lag.ms"),
			Doc:   "Delay of the upload of a closed segment. Only 0, upload at once, is supported.",
			check: onlyDefault("0", "closed segments are uploaded at once")},
		{Name: "remote.copy.lag.bytes", Type: TypeLong, Unit: UnitBytes, Default: "-1", Synonyms: same("log.remote.copy.lag.bytes"),
			Doc:   "Delay of the upload of a closed segment, in bytes of log. Only -1 is supported.",
			check: onlyDefault("-1", "closed segments are uploaded at once")},
	}
}

func otherKeys() []TopicKey {
	return []TopicKey{
		{Name: "min.insync.replicas", Type: TypeInt, Default: "1", Synonyms: same("min.insync.replicas"),
			Doc:   "Stored and reported; a lone broker has one replica of everything and does not enforce it.",
			check: number(1, math.MaxInt32)},
		{Name: "unclean.leader.election.enable", Type: TypeBoolean, Default: "false", Synonyms: same("unclean.leader.election.enable"),
			Doc:   "Stored and reported; a lone broker has no elections.",
			check: boolean},
	}
}

func same(name string) []Synonym { return []Synonym{{Name: name}} }

func number(lo, hi int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err == nil && n >= lo && n <= hi {
			return nil
		}
		if hi == math.MaxInt64 {
			return fmt.Errorf("want a whole number from %d up", lo)
		}
		return fmt.Errorf("want a whole number from %d to %d", lo, hi)
	}
}

func boolean(v string) error {
	if _, err := parseBool(v); err != nil {
		return err
	}
	return nil
}

// parseBool takes what Kafka takes: true and false in any case.
func parseBool(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("want true or false")
}

func ratio(v string) error {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("want a number from 0 to 1")
	}
	return nil
}

func oneOf(allowed ...string) func(string) error {
	return func(v string) error {
		if slices.Contains(allowed, v) {
			return nil
		}
		return fmt.Errorf("want %s", strings.Join(allowed, " or "))
	}
}

func onlyDefault(def, why string) func(string) error {
	return func(v string) error {
		if v == def {
			return nil
		}
		return fmt.Errorf("only %s is supported: %s", def, why)
	}
}

func onlyDelete(v string) error {
	if v == "delete" {
		return nil
	}
	for p := range strings.SplitSeq(v, ",") {
		if p = strings.TrimSpace(p); p != "delete" && p != "compact" {
			return fmt.Errorf("want delete")
		}
	}
	return fmt.Errorf("want delete; compaction is not supported")
}

func onlyProducer(v string) error {
	switch v {
	case "producer":
		return nil
	case "uncompressed", "none", "gzip", "snappy", "lz4", "zstd":
		return fmt.Errorf("want producer; the broker does not compress batches anew")
	}
	return fmt.Errorf("want producer")
}

func gzipLevel(v string) error {
	if n, err := strconv.Atoi(v); err == nil && (n == -1 || n >= 1 && n <= 9) {
		return nil
	}
	return fmt.Errorf("want -1 or a whole number from 1 to 9")
}
