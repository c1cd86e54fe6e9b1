// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"firn/record"
)

// LocalOptions says how the metadata file is opened.
type LocalOptions struct {
	// Path is the file, usually firn.db in the data directory, which must
	// exist.
	Path string
	// NodeID is the id of this broker. A file of another node is refused.
	NodeID int32
	// ClusterID names the cluster of a new file, as a restore does; empty
	// makes a random one. A file of another cluster is refused.
	ClusterID string
	// Healthy says why nothing may be written any more: the disk of the file
	// has failed, and touching a mapped page of it would end the process. Nil
	// means that it always may.
	Healthy func() error
	// LockWait bounds the wait for another process that has the file open;
	// zero means one second.
	LockWait time.Duration
	// Logger takes a line for a new file and, at debug level, one for each
	// change to topics; nil discards them.
	Logger *slog.Logger
	// Now is the clock for creation times; nil means time.Now.
	Now func() time.Time
	// NewID makes topic ids and the cluster id; nil means NewTopicID.
	NewID func() (record.TopicID, error)
}

// EnsureDefaults fills in what is not set.
func (o *LocalOptions) EnsureDefaults() {
	if o.LockWait == 0 {
		o.LockWait = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = NewTopicID
	}
}

// Validate names every fault of the options.
func (o *LocalOptions) Validate() error {
	var errs []error
	if o.Path == "" {
		errs = append(errs, errors.New("cluster: Path is empty"))
	}
	if o.NodeID < 0 {
		errs = append(errs, fmt.Errorf("cluster: NodeID is %d, want 0 or more", o.NodeID))
	}
	if o.ClusterID != "" {
		if err := CheckClusterID(o.ClusterID); err != nil {
			errs = append(errs, fmt.Errorf("cluster: %w", err))
		}
	}
	if o.LockWait < 0 {
		errs = append(errs, fmt.Errorf("cluster: LockWait is %s, want 0 or more", o.LockWait))
	}
	return errors.Join(errs...)
}

// Local is the metadata backend of a lone broker: one bbolt file. All methods
// may be called concurrently; changes are applied one after another.
type Local struct {
	o        LocalOptions
	db       *bolt.DB
	snapshot atomic.Pointer[Metadata]

	mu      sync.Mutex // held across a commit and the publishing of it
	storeID string
	// storeSeen says that the store was found to bear storeID.
	storeSeen bool
	logDirs   []LogDir
	closed    bool
}

// OpenLocal opens the metadata file, or makes a new one with a cluster id of
// its own. The error wraps ErrInUse, ErrSchema, ErrMismatch, or is a
// *record.CorruptionError when the content does not make sense; the file is
// left as it was in all of these cases.
func OpenLocal(ctx context.Context, o LocalOptions) (*Local, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open metadata file %s: %w", o.Path, err)
	}
	l := &Local{o: o}
	var file *os.File
	if err := l.open(&file); err != nil {
		if l.db != nil {
			err = errors.Join(err, l.db.Close())
		} else if file != nil {
			abandon(file)
		}
		return nil, fmt.Errorf("open metadata file %s: %w", o.Path, err)
	}
	return l, nil
}

// open opens the file, sets it up when it is new, and loads it. bbolt maps
// the file and trusts it, so a damaged one shows itself as a panic or a
// fault inside the mapping: both become a corruption error here, while
// nothing but this call depends on the file. file is set to what bbolt opened.
func (l *Local) open(file **os.File) (err error) {
	defer faultsPanic()()
	defer recoverCorruption(l.o.Path, &err)
	db, err := bolt.Open(l.o.Path, 0o600, &bolt.Options{
		Timeout: l.o.LockWait,
		OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, perm)
			*file = f
			return f, err
		},
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return ErrInUse
	case err != nil && isSystemError(err):
		return err
	case err != nil: // what bbolt itself says about the content
		return &record.CorruptionError{Path: l.o.Path, Reason: err.Error()}
	}
	l.db = db
	fresh := false
	if err := db.View(func(tx *bolt.Tx) error {
		fresh = tx.Bucket(bucketMeta) == nil
		return nil
	}); err != nil {
		return err
	}
	if fresh {
		if err := l.initialise(); err != nil {
			return err
		}
	}
	return db.View(l.load)
}

// initialise sets up a new file in one commit and makes its directory entry
// durable, so that a file without a meta bucket is always one that was never
// used.
func (l *Local) initialise() error {
	id := l.o.ClusterID
	if id == "" {
		fresh, err := l.o.NewID()
		if err != nil {
			return err
		}
		id = fresh.String()
	}
	err := l.db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucket(bucketMeta)
		if err != nil {
			return err
		}
		_, err = tx.CreateBucket(bucketTopics)
		return errors.Join(err,
			putInt(meta, keySchema, SchemaVersion),
			meta.Put(keyClusterID, []byte(id)),
			putInt(meta, keyNodeID, int64(l.o.NodeID)),
			meta.Put(keyStoreID, nil),
			putInt(meta, keyVersion, 0),
			putInt(meta, keyBrokerEpoch, int64(record.NoEpoch)),
			putInt(meta, keyProducerID, 0),
		)
	})
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	l.o.Logger.Info("new metadata file", "event", "metadata_created", "path", l.o.Path, "cluster", id, "node", l.o.NodeID)
	return syncDir(filepath.Dir(l.o.Path))
}

// load checks the whole file and publishes the first snapshot.
func (l *Local) load(tx *bolt.Tx) error {
	corrupt := func(err error) error {
		return &record.CorruptionError{Path: l.o.Path, Reason: err.Error()}
	}
	meta := tx.Bucket(bucketMeta)
	schema, err := getInt(meta, keySchema, 0, math.MaxInt64)
	if err != nil {
		return corrupt(err)
	}
	if schema != SchemaVersion {
		return fmt.Errorf("%w: the file has %d, this version knows %d", ErrSchema, schema, SchemaVersion)
	}
	topicsBucket := tx.Bucket(bucketTopics)
	if topicsBucket == nil {
		return corrupt(errors.New("the topics bucket is missing"))
	}
	clusterID := string(meta.Get(keyClusterID))
	node, errNode := getInt(meta, keyNodeID, 0, math.MaxInt32)
	version, errVersion := getInt(meta, keyVersion, 0, math.MaxInt64)
	_, errEpoch := getInt(meta, keyBrokerEpoch, int64(record.NoEpoch), math.MaxInt32)
	_, errProducer := getInt(meta, keyProducerID, 0, math.MaxInt64)
	topics, errTopics := loadTopics(topicsBucket)
	logDirs, errDirs := loadLogDirs(meta)
	if err := errors.Join(CheckClusterID(clusterID), errNode, errVersion, errEpoch, errProducer, errTopics, errDirs); err != nil {
		return corrupt(err)
	}
	if int32(node) != l.o.NodeID {
		return fmt.Errorf("%w: it was made by node %d, this is node %d", ErrMismatch, node, l.o.NodeID)
	}
	if l.o.ClusterID != "" && l.o.ClusterID != clusterID {
		return fmt.Errorf("%w: it is of cluster %s, this is cluster %s", ErrMismatch, clusterID, l.o.ClusterID)
	}
	l.logDirs = logDirs
	l.storeID = string(meta.Get(keyStoreID))
	l.storeSeen = string(meta.Get(keyStoreSeen)) == storeSeen
	l.snapshot.Store(newMetadata(version, clusterID, int32(node), topics))
	return nil
}

// Metadata is the newest snapshot. It never blocks.
func (l *Local) Metadata() *Metadata { return l.snapshot.Load() }

// Close waits for a change under way and closes the file. Later changes
// return record.ErrClosed; snapshots stay usable. A second Close does nothing.
func (l *Local) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if err := l.db.Close(); err != nil {
		return fmt.Errorf("close metadata file %s: %w", l.o.Path, err)
	}
	return nil
}

// updateLocked runs one durable commit. A commit cannot be abandoned half
// way, so ctx only counts before it starts.
func (l *Local) updateLocked(ctx context.Context, doing string, f func(tx *bolt.Tx) error) error {
	if l.closed {
		return fmt.Errorf("%s: %w", doing, record.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if l.o.Healthy != nil {
		if err := l.o.Healthy(); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	err := l.db.Update(f)
	if isSystemError(err) {
		return fmt.Errorf("%s: %w: %w", doing, record.ErrStorage, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// syncDir makes the entries of a directory durable. bbolt lies outside the
// file system seam of the logs, and so does its directory entry.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory to sync it: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
