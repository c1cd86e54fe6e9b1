// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
)

// Source is what the console shows. All methods may be called concurrently
// and must return soon after ctx ends.
type Source interface {
	// Ready is nil when requests of clients are taken, else it says what is
	// missing.
	Ready() error
	// Status describes the broker as it is now.
	Status(ctx context.Context) (Status, error)
	// Segments lists the segments and gaps of a topic by partition and
	// offset; partition -1 means all. The error wraps ErrNotFound when there
	// is no such topic or partition.
	Segments(ctx context.Context, topic string, partition int32) ([]Segment, error)
	// Explain says where a read of one offset, or of one time, would go. The
	// error wraps ErrNotFound when there is no such topic, partition, offset
	// or time.
	Explain(ctx context.Context, q Question) (Explanation, error)
}

// Question is what an Explanation is asked for.
type Question struct {
	Topic     string
	Partition int32
	// Offset is asked about, or when it is below 0 the first record at
	// TimeMs, in ms since the Unix epoch, or later.
	Offset int64
	TimeMs int64
}

// ErrNotFound is the error of a Source that does not know what it was asked
// about.
var ErrNotFound = errors.New("not found")

// Error is what /v1 answers when it cannot answer.
type Error struct {
	Message string `json:"error"`
}

// Status is the broker at a glance. Bytes are plain numbers, times are ms
// since the Unix epoch, durations ms.
type Status struct {
	Version   string `json:"version"`
	ClusterID string `json:"cluster_id"`
	NodeID    int32  `json:"node_id"`
	// Ready says whether requests of clients are taken; Reason says what is
	// missing when not.
	Ready     bool     `json:"ready"`
	Reason    string   `json:"reason,omitempty"`
	StartedMs int64    `json:"started_ms"`
	Listeners []string `json:"listeners"`
	// DataDir names the log directories, LogDirs describes them.
	DataDir string         `json:"data_dir"`
	LogDirs []LogDirStatus `json:"log_dirs"`
	// Durability says in a sentence what an acknowledgement means.
	Durability string `json:"durability"`
	// Disk is that of the directory which is nearest to its reserve; Logs
	// counts those of all.
	Disk       DiskStatus  `json:"disk"`
	IO         IOStatus    `json:"io"`
	Topics     int         `json:"topics"`
	Partitions int         `json:"partitions"`
	Store      StoreStatus `json:"store"`
	// NewestRecordMs is the highest timestamp of the records that are being
	// written, -1 when there is none.
	NewestRecordMs int64 `json:"newest_record_ms"`
	// Tiering is how far each topic is in the object store, by name.
	Tiering []TopicTiering `json:"tiering"`
	// Attention lists the partitions that need a look, with the reason.
	Attention []PartitionStatus `json:"attention"`
}

// TopicTiering is how far one topic is in the object store.
type TopicTiering struct {
	Topic      string `json:"topic"`
	Partitions int    `json:"partitions"`
	// State is a fixed word: active when all goes well, copy-lag while closed
	// segments wait, excluded for a topic that stays on the local disk, or
	// the reason of the partition that is worst off, such as store-down.
	State     string `json:"state"`
	LastError string `json:"last_error,omitempty"`
	// LagSegments and LagBytes are the closed segments that are not in the
	// store yet.
	LagSegments int   `json:"lag_segments"`
	LagBytes    int64 `json:"lag_bytes"`
	// UnprotectedBytes is everything that is not, the open segments included,
	// and UnprotectedMs the age of its oldest record: the recovery point if
	// the disk dies now. -1 when everything is in the store, and when the
	// topic is excluded, and nothing ever will be.
	UnprotectedBytes int64 `json:"unprotected_bytes"`
	UnprotectedMs    int64 `json:"unprotected_ms"`
	// Segments and Bytes are what the store has, LocalBytes what the local
	// disk has.
	Segments   int64 `json:"segments"`
	Bytes      int64 `json:"bytes"`
	LocalBytes int64 `json:"local_bytes"`
}

// LogDirStatus is one log directory. One that is offline has nothing but the
// reason.
type LogDirStatus struct {
	Dir string `json:"dir"`
	// Offline is why it is not in use, empty while it is.
	Offline    string `json:"offline,omitempty"`
	Partitions int    `json:"partitions"`
	DiskStatus
}

// DiskStatus is the file system of a log directory, in bytes.
type DiskStatus struct {
	Total   int64 `json:"total"`
	Free    int64 `json:"free"`
	Reserve int64 `json:"reserve"`
	// Logs is what the local segments take up.
	Logs int64 `json:"logs"`
}

// IOStatus names the methods that were found for the page cache.
type IOStatus struct {
	UncachedRead  string `json:"uncached_read"`
	UncachedWrite string `json:"uncached_write"`
	Residency     string `json:"residency"`
	Send          string `json:"send"`
}

// StoreStatus is the object store.
type StoreStatus struct {
	// Kind is none, dir, s3 or minio.
	Kind string `json:"kind"`
	// Where is the directory, or endpoint and bucket.
	Where string `json:"where,omitempty"`
	// State is a fixed word: active, store-down, copy-lag.
	State        string   `json:"state,omitempty"`
	LastError    string   `json:"last_error,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
	Segments     int64    `json:"segments"`
	Bytes        int64    `json:"bytes"`
	// OldestLocalOnlyMs is the age of the oldest record of a tiered topic
	// that is not in the store yet: what a dead disk loses. -1 when
	// everything is there.
	OldestLocalOnlyMs int64 `json:"oldest_local_only_ms"`
	// LocalOnlyBytes is how much that is.
	LocalOnlyBytes int64 `json:"local_only_bytes"`
}

// PartitionStatus is a partition that needs a look.
type PartitionStatus struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// State is a fixed word, such as poisoned, read-only or store-down.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// Where a segment lies.
const (
	TierLocal = "local"
	TierStore = "store"
	TierBoth  = "both"
	// TierGap is no segment: offsets that are in neither tier.
	TierGap = "gap"
)

// Segment is a segment of a partition, or a gap between two.
type Segment struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Tier is one of the Tier constants.
	Tier string `json:"tier"`
	// From is the first offset, To the first one after the segment.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Bytes is the size of the log, ObjectBytes that of the object with its
	// indexes, 0 where there is none.
	Bytes       int64 `json:"bytes"`
	ObjectBytes int64 `json:"object_bytes,omitempty"`
	// MaxTimestampMs is the highest timestamp of a record, -1 when unknown.
	MaxTimestampMs int64 `json:"max_timestamp_ms"`
	// UploadedMs is when the object was stored, 0 when it is not.
	UploadedMs int64 `json:"uploaded_ms,omitempty"`
	// Key is the object's key.
	Key string `json:"key,omitempty"`
	// State is a fixed word that says why a segment is not in the store, or why
	// it is not deleted. Not in the store: active (it is being written),
	// rolls-in (it is closed in RollsInMs at the latest), copy-lag (it waits
	// for its upload), store-down, open-transaction, copy-disabled, excluded
	// (its topic is not tiered), poisoned, and the words that make a partition
	// read-only. Not deleted: retention. Of a gap, why its offsets are nowhere.
	State     string `json:"state,omitempty"`
	RollsInMs int64  `json:"rolls_in_ms,omitempty"`
}

// Ways in which a read is answered.
const (
	ReadHot  = "hot"
	ReadWarm = "warm"
	ReadCold = "cold"
)

// Explanation says where a read would go.
type Explanation struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Offset is where the read begins: what was asked for or, where that is in
	// no tier, the next offset that is.
	Asked  int64 `json:"asked"`
	Offset int64 `json:"offset"`
	// Tier is one of the Read constants, and Why says in a sentence why.
	Tier string `json:"tier"`
	Why  string `json:"why"`
	// Key is the object's key, for cold and wherever the store has a copy as
	// well; File is the segment's file, for hot and warm.
	Key  string `json:"key,omitempty"`
	File string `json:"file,omitempty"`
	// Position and Bytes are where the batch lies in the object or file that is
	// read.
	Position int64 `json:"position"`
	Bytes    int64 `json:"bytes"`
	// From and To bound the batch's offsets, To exclusive; Epoch is its leader
	// epoch.
	From  int64 `json:"from"`
	To    int64 `json:"to"`
	Epoch int32 `json:"epoch"`
	// Visible says whether consumers may see it: it lies below the high
	// watermark.
	Visible bool `json:"visible"`
	// InMemory says of a cold read that its bytes are in memory already.
	InMemory bool `json:"in_memory,omitempty"`
}
