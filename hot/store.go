// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"firn/internal/vfs"
	"firn/record"
)

// maxOffset is above every offset that a record can have.
const maxOffset = record.Offset(math.MaxInt64)

// Store is one log directory and the logs in it. It owns the directory's lock,
// its checkpoints, the clean-shutdown mark and the goroutines that work for
// all logs. All methods may be called concurrently, but nothing after Close.
type Store struct {
	dir     string
	fs      vfs.FS
	io      *vfs.IO
	logger  *slog.Logger
	now     func() time.Time
	noFsync bool
	lock    vfs.Unlocker

	checkpointEvery time.Duration
	deleteDelay     time.Duration
	threads         int
	hotBytes        int64
	metrics         *metrics
	opened          time.Time // of the real clock, for AppendedAt

	recoveryPoints *checkpointFile
	pointsLost     bool // the file was damaged: nothing is known to be synced
	logStarts      *checkpointFile
	files          *fileCache
	indexes        *indexCache
	health         health
	ballast        ballast
	windows        windows
	flusher        *queue
	sealer         *queue

	clean    bool          // the last stop was clean
	dirty    atomic.Bool   // the clean mark is gone
	used     atomic.Bool   // something was changed, or tried to be, since the opening
	scanning chan struct{} // one slot for each recovery that may run

	stop chan struct{} // closed to end the goroutines
	wg   sync.WaitGroup

	markMu sync.Mutex // removes the clean mark

	mu     sync.Mutex
	closed bool
	meta   record.DirectoryMetadata // of meta.properties
	found  map[record.TopicPartition]FoundLog
	logs   map[record.TopicPartition]*Log // nil while a log is being opened or deleted
	// vouched is what the last clean stop says of logs that were not opened
	// yet, and refused are those that could not be opened.
	vouched    map[record.TopicPartition]*vouchedLog
	vouchedSum uint32 // CRC of the file
	refused    map[record.TopicPartition]bool
	trash      []trash
}

// FoundLog is a partition directory that is on disk and not open.
type FoundLog struct {
	TopicPartition record.TopicPartition
	// TopicID is what the directory says; zero when it does not say.
	TopicID record.TopicID
	Dir     string
	// IDDamaged says that the file with the topic id is damaged. Only the name
	// of the directory tells whose it is, and OpenLog writes the file anew.
	IDDamaged bool
}

// trash is a directory that was moved aside for deletion.
type trash struct {
	dir string
	due time.Time
}

// Open takes a log directory into use: it makes it if need be, locks it, reads
// the checkpoints, and lists what is there. It opens no log. The error wraps
// vfs.ErrLocked when somebody else, Kafka included, uses the directory.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := vfs.MkdirAllSync(o.FS, o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("open log directory %s: %w", o.Dir, err)
	}
	lock, err := o.FS.Lock(filepath.Join(o.Dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("open log directory %s: %w", o.Dir, err)
	}
	s := newStore(o, lock)
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open log directory %s: %w", o.Dir, err), lock.Unlock())
	}
	s.run(func() { s.flusher.serve(s.stop, maxParallelSyncs, (*Log).flush) })
	s.run(func() { s.sealer.serve(s.stop, s.threads, (*Log).complete) })
	s.run(s.janitor)
	if s.health.every > 0 {
		s.run(s.watch)
	}
	return s, nil
}

func newStore(o Options, lock vfs.Unlocker) *Store {
	s := &Store{
		dir: o.Dir, fs: o.FS, io: o.IO, logger: o.Logger, now: o.Now, noFsync: o.NoFsync, lock: lock,
		checkpointEvery: o.CheckpointInterval, deleteDelay: o.FileDeleteDelay, threads: o.RecoveryThreads,
		hotBytes: o.HotBytes, opened: time.Now(),
		files:    newFileCache(o.FS, o.MaxOpenFiles),
		indexes:  newIndexCache(o.IndexCacheBytes),
		flusher:  newQueue(func(l *Log) *atomic.Bool { return &l.syncWanted }),
		sealer:   newQueue(func(l *Log) *atomic.Bool { return &l.sealWanted }),
		scanning: make(chan struct{}, o.RecoveryThreads),
		stop:     make(chan struct{}),
		health:   newHealth(o.WatchInterval),
		ballast:  ballast{bytes: o.Ballast, part: o.BallastPart},
		found:    map[record.TopicPartition]FoundLog{},
		logs:     map[record.TopicPartition]*Log{},
		refused:  map[record.TopicPartition]bool{},
	}
	s.metrics = newMetrics(o.Registerer, s)
	return s
}

// load reads the checkpoints, the clean mark and the names of the partitions.
func (s *Store) load() error {
	var err error
	if s.health.lockFile, err = s.fs.Stat(filepath.Join(s.dir, lockName)); err != nil {
		return err
	}
	if s.meta, err = s.readMeta(); err != nil {
		return err
	}
	if err := s.loadBallast(); err != nil {
		return err
	}
	s.recoveryPoints, err = openCheckpoint(s.fs, filepath.Join(s.dir, recoveryPointName))
	var damage *record.CorruptionError
	if errors.As(err, &damage) {
		// Without recovery points everything is scanned, which is safe.
		s.repaired(repairCheckpoint, "recovery points are lost: every log will be scanned", "event", "recovery_points_lost", "error", err)
		s.recoveryPoints = emptyCheckpoint(s.fs, filepath.Join(s.dir, recoveryPointName))
		s.pointsLost, err = true, nil
	}
	if err != nil {
		return err
	}
	switch _, err := s.fs.Stat(filepath.Join(s.dir, cleanName)); {
	case err == nil:
		s.clean = true
		s.readVouched()
		s.restorePoints()
	case errors.Is(err, fs.ErrNotExist):
		s.dirty.Store(true)
	default:
		return err
	}
	if err := s.readLogStarts(); err != nil {
		return err
	}
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := s.loadDir(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadDir takes note of one directory. What is no partition is left alone.
func (s *Store) loadDir(name string) error {
	dir := filepath.Join(s.dir, name)
	if isDeletedDir(name) {
		s.trash = append(s.trash, trash{dir: dir, due: s.now()})
		return nil
	}
	tp, err := record.ParseTopicPartition(name)
	if err != nil || tp.String() != name {
		return nil
	}
	if v := s.vouchedDir(tp); v != nil {
		s.found[tp] = FoundLog{TopicPartition: tp, TopicID: v.id, Dir: dir}
		return nil
	}
	id, err := s.readTopicID(dir)
	damaged := isDamage(err)
	if err != nil && !damaged {
		return err
	}
	s.found[tp] = FoundLog{TopicPartition: tp, TopicID: id, Dir: dir, IDDamaged: damaged}
	return nil
}

// readTopicID reads partition.metadata; without the file the id is zero.
func (s *Store) readTopicID(dir string) (record.TopicID, error) {
	path := filepath.Join(dir, metadataName)
	b, err := vfs.ReadFile(s.fs, path, maxSmallFile)
	if errors.Is(err, fs.ErrNotExist) {
		return record.TopicID{}, nil
	}
	if err != nil {
		return record.TopicID{}, err
	}
	m, err := record.ParsePartitionMetadata(b)
	return m.TopicID, record.InFile(err, path)
}

// Dir is the log directory.
func (s *Store) Dir() string { return s.dir }

// Clean says whether the store was stopped clean the last time, so that no log
// needs a scan.
func (s *Store) Clean() bool { return s.clean }

// Usage tells the size and the free space of the disk, in bytes.
func (s *Store) Usage() (vfs.DiskUsage, error) {
	u, err := s.fs.Usage(s.dir)
	if err != nil {
		return u, fmt.Errorf("usage of %s: %w", s.dir, err)
	}
	return u, nil
}

// beginWriting is called before anything in the directory is changed: the
// first time it removes the clean-shutdown mark, durably.
func (s *Store) beginWriting() error {
	if err := s.Failed(); err != nil {
		return err
	}
	s.used.Store(true)
	if s.dirty.Load() {
		return nil
	}
	s.markMu.Lock()
	defer s.markMu.Unlock()
	if s.dirty.Load() {
		return nil
	}
	for _, name := range []string{cleanName, vouchedName} {
		if err := s.fs.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove clean-shutdown mark: %w", err)
		}
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return fmt.Errorf("remove clean-shutdown mark: sync directory: %w", err)
	}
	s.dirty.Store(true)
	return nil
}

// run starts a goroutine that Close waits for.
func (s *Store) run(work func()) { s.wg.Go(work) }

// Close stops all work, makes every log durable and closes it, writes the
// checkpoints and, if nothing failed, the clean-shutdown mark, and gives the
// lock back. Regions and pins that are still out keep their files. When ctx
// ends early the logs that were not reached stay to be recovered, as after a
// crash. A second call does nothing.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	var logs []*Log
	for _, l := range s.logs {
		if l != nil {
			logs = append(logs, l)
		}
	}
	s.mu.Unlock()

	for _, l := range logs {
		l.shut()
	}
	close(s.stop)
	s.wg.Wait() // nobody but us works on the logs from here on

	if s.Failed() != nil {
		return s.abandonLogs(logs)
	}
	var mu sync.Mutex
	var errs []error
	forEach(logs, s.threads, func(l *Log) {
		err := ctx.Err()
		if err == nil {
			err = l.finish()
		}
		if err != nil {
			mu.Lock()
			errs = append(errs, fmt.Errorf("close log %s: %w", l.tp, err))
			mu.Unlock()
		}
	})
	s.wg.Wait() // hooks that the last syncs have called
	// A start that ends before it opens a log, after a crash, vouches for nothing.
	vouch := !s.dirty.Load() || s.used.Load()
	if vouch {
		errs = append(errs, s.recoveryPoints.write(), s.logStarts.write())
	}
	if vouch && errors.Join(errs...) == nil {
		errs = append(errs, s.writeVouched(logs))
	}
	if errors.Join(errs...) == nil && s.dirty.Load() && s.used.Load() {
		errs = append(errs, s.markClean())
	}
	if n := s.files.close(); n > 0 {
		s.logger.Warn("segment files are still in use at the close", "event", "close_files_in_use", "files", n)
	}
	errs = append(errs, s.lock.Unlock())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close log directory %s: %w", s.dir, err)
	}
	return nil
}

// abandonLogs is the end of Close when the directory has failed: nothing of it
// is touched. Why it failed was told when it did.
func (s *Store) abandonLogs(logs []*Log) error {
	for _, l := range logs {
		l.abandon()
	}
	s.files.close()
	if err := s.lock.Unlock(); err != nil {
		s.logger.Warn("the lock of a failed directory is not given back", "event", "log_dir_unlock", "dir", s.dir, "error", err)
	}
	return nil
}

// markClean writes the clean-shutdown mark in Kafka's form. The broker epoch
// in it is -1, "not known".
func (s *Store) markClean() error {
	return vfs.ReplaceFile(s.fs, filepath.Join(s.dir, cleanName), []byte(`{"version":0,"brokerEpoch":-1}`))
}
