// SPDX-License-Identifier: Apache-2.0

package config

import (
	"log/slog"
	"net"
	"strconv"
	"time"

	"firn/cluster"
)

// Config is the broker's settings, complete and without fault. Nobody writes
// to it; it may be read by all.
type Config struct {
	Node      Node
	Network   Network
	Topics    Topics
	Log       Log
	Fetch     Fetch
	Tier      Tier
	Operation Operation

	values map[string]value // by setting, every one of the table
}

// Node is who this broker is.
type Node struct {
	ID int32
}

// Network is how clients connect.
type Network struct {
	// Listeners has at least one element; names and addresses differ.
	Listeners []Listener
	// TLS is what all listeners with TLS have in common.
	TLS TLS
	// MaxRequestBytes is the size of the largest frame.
	MaxRequestBytes int
	// RequestMemory bounds the bytes of all frames that are held at once; it
	// is at least MaxRequestBytes.
	RequestMemory       int64
	MaxConnections      int
	MaxConnectionsPerIP int
	IdleTimeout         time.Duration
	// SendTimeout closes a connection that takes no byte for so long.
	SendTimeout time.Duration
}

// Listener is one address that clients connect to.
type Listener struct {
	// Name is in capitals.
	Name string
	Bind Address
	// TLS says that clients speak TLS, as Network.TLS says.
	TLS bool
	// Advertised is what clients are told. Its port is 0 when Bind's is and
	// nothing else was set: the bound port is meant.
	Advertised Address
}

// Address is a host, which may be empty for all interfaces, and a port.
type Address struct {
	Host string
	Port int
}

// String is host:port, with brackets around an IPv6 address.
func (a Address) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// Topics is what topics get when they do not say otherwise.
type Topics struct {
	Partitions        int32
	ReplicationFactor int16
	AutoCreate        bool
	// DeleteEnable says whether clients may delete topics.
	DeleteEnable bool
	// ClampReplication lowers replication factors above 1 instead of
	// refusing them.
	ClampReplication bool
	// Defaults goes to cluster.ParseTopicConfig and cluster.DescribeTopic.
	Defaults cluster.Defaults
}

// Log is the local log.
type Log struct {
	// Dirs are the log directories, at least one; none is in another.
	Dirs []string
	// AcksAllFsync says whether acks=all waits for the disk.
	AcksAllFsync           bool
	RetentionCheckInterval time.Duration
	// CheckpointInterval is the time between two writes of the recovery
	// point.
	CheckpointInterval time.Duration
	// FileDeleteDelay is the time between taking a file out of the log and
	// deleting it.
	FileDeleteDelay time.Duration
	RecoveryThreads int
	ProducerExpiry  time.Duration
}

// Fetch is how reads are served.
type Fetch struct {
	// MaxBytes bounds one answer.
	MaxBytes int
	// TailBytes is how far below a log's end a read counts as the tail's.
	TailBytes int64
	// BulkBytesPerSecond bounds the answers that are not the tail's. 0: by the
	// number of processors; negative: not at all.
	BulkBytesPerSecond int64
	// ColdMaxBytes bounds what one fetch takes from the store or past the
	// page cache.
	ColdMaxBytes int
	// Sessions is how many incremental fetch sessions are kept.
	Sessions int
	// RemoteMaxWait bounds a fetch's wait for the store.
	RemoteMaxWait time.Duration
	// RemoteListOffsetsTimeout bounds a look-up by time in the store.
	RemoteListOffsetsTimeout time.Duration
	// ReaderThreads is the number of reads of the store that run at once.
	ReaderThreads int
}

// The kinds of store that Tier.Store names.
const (
	StoreNone  = "none"
	StoreDir   = "dir"
	StoreS3    = "s3"
	StoreMinio = "minio"
)

// Tier is the object store and what goes to it.
type Tier struct {
	// Store is one of StoreNone, StoreDir, StoreS3 and StoreMinio.
	Store string
	// DirPath is the directory of StoreDir.
	DirPath string
	S3      S3
	// Prefix begins every key, without slashes at its ends; it may be empty.
	Prefix string
	// RollAfter closes a tiered topic's open segment; 0 never does.
	RollAfter   time.Duration
	DeleteGrace time.Duration
	// ChunkBytes is a multiple of 1 MiB.
	ChunkBytes      int64
	CacheBytes      int64
	IndexCacheBytes int64
	PrefetchBytes   int64
	// Uploaders is the number of segments that are uploaded at once.
	Uploaders int
	// RetryBackoff and RetryBackoffMax are the shortest and the longest wait
	// before another try.
	RetryBackoff    time.Duration
	RetryBackoffMax time.Duration
}

// Enabled says whether there is a store.
func (t Tier) Enabled() bool { return t.Store != StoreNone }

// S3 is how a bucket is reached, for StoreS3 and StoreMinio alike.
type S3 struct {
	// Endpoint is an http or https URL; empty means AWS.
	Endpoint string
	Bucket   string
	// Region may be empty, for what the environment says.
	Region    string
	PathStyle bool
	// AccessKeyID and SecretAccessKey are both set or both empty; empty means
	// the credentials that the AWS tools would find. They are secret.
	AccessKeyID     string
	SecretAccessKey string
}

// LogValue keeps the credentials out of logs.
func (s S3) LogValue() slog.Value {
	return slog.GroupValue(slog.String("endpoint", s.Endpoint), slog.String("bucket", s.Bucket), slog.String("region", s.Region))
}

// String keeps the credentials out of formatted output.
func (s S3) String() string {
	return "bucket " + s.Bucket + " at " + s.Endpoint + " in " + s.Region
}

// GoString keeps the credentials out of %#v.
func (s S3) GoString() string { return s.String() }

// Operation is what an operator sees and bounds.
type Operation struct {
	// AdminListeners are the addresses of the admin port; none when it is
	// off.
	AdminListeners []Address
	LogLevel       slog.Level
	LogJSON        bool
	// DiskReserveBytes is the free space that produce requests must leave; -1
	// takes Reserve's rule.
	DiskReserveBytes int64
	// IOForce goes to vfs.ProbeIO.
	IOForce string
}

// Reserve is the free space, in bytes, that must stay on a disk of total
// bytes: what was set, or else the larger of 1 GiB and 5 % of the disk, but
// at most 10 % of it.
func (o Operation) Reserve(total uint64) uint64 {
	if o.DiskReserveBytes >= 0 {
		return uint64(o.DiskReserveBytes)
	}
	return min(max(1<<30, total/20), total/10)
}
