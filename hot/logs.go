// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"firn/internal/vfs"
	"firn/record"
)

// ErrTopicID says that a partition directory belongs to another topic of the
// same name.
var ErrTopicID = errors.New("partition directory has another topic id")

// Found lists the partition directories that are on disk and not open, by
// name. Whether they belong to anybody is for the caller to say.
func (s *Store) Found() []FoundLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.found), func(a, b FoundLog) int {
		return strings.Compare(a.Dir, b.Dir)
	})
}

// FoundSize is the number of bytes in the segments of a partition that is on
// disk and not open.
func (s *Store) FoundSize(f FoundLog) (int64, error) {
	entries, err := s.fs.ReadDir(f.Dir)
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", f.TopicPartition, err)
	}
	var size int64
	for _, e := range entries {
		if _, ok := parseSegmentFile(e.Name(), logSuffix); !ok {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return size, fmt.Errorf("size of %s: %w", f.TopicPartition, err)
		}
		size += info.Size()
	}
	return size, nil
}

// CreateLog makes the directory of a new partition, durably, and opens its
// log. What an earlier CreateLog left unfinished is taken over. The error wraps
// fs.ErrExist when the partition is there, and record.ErrStorage when the disk
// failed.
func (s *Store) CreateLog(ctx context.Context, tp record.TopicPartition, id record.TopicID, o LogOptions) (*Log, error) {
	if id.IsZero() {
		return nil, fmt.Errorf("create log %s: no topic id", tp)
	}
	return s.addLog(ctx, "create", tp, id, o, func(l *Log) error {
		inv, err := s.unfinished(l)
		if err != nil {
			return err
		}
		return s.createDir(l, inv)
	})
}

// unfinished lists what an earlier CreateLog of the same topic has left. The
// error wraps fs.ErrExist when there is more than that: another topic's
// directory, or one with a history.
func (s *Store) unfinished(l *Log) (*inventory, error) {
	id, err := s.readTopicID(l.dir)
	if err != nil {
		return nil, err
	}
	if !id.IsZero() && id != l.id {
		return nil, fmt.Errorf("%s is the directory of topic id %s: %w", l.dir, id, fs.ErrExist)
	}
	inv, err := l.takeInventory()
	if errors.Is(err, fs.ErrNotExist) {
		return &inventory{}, nil
	}
	if err != nil {
		return nil, err
	}
	for _, base := range inv.bases {
		if base != 0 || inv.segments[base].Size() > 0 {
			return nil, fmt.Errorf("%s has a log that goes to offset %d or beyond: %w", l.dir, base, fs.ErrExist)
		}
	}
	return inv, nil
}

// createDir makes the partition directory. partition.metadata comes last: a
// directory without it is unfinished.
func (s *Store) createDir(l *Log, inv *inventory) error {
	if err := s.beginWriting(); err != nil {
		return err
	}
	// What a partition of the same name has left in the checkpoints.
	if err := s.forget(l.tp); err != nil {
		return err
	}
	l.logStart.Store(0)
	if err := s.fs.MkdirAll(l.dir, 0o755); err != nil {
		return err
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return err
	}
	if err := l.begin(inv); err != nil {
		return err
	}
	return s.writeTopicID(l)
}

func (s *Store) writeTopicID(l *Log) error {
	m := record.PartitionMetadata{TopicID: l.id}
	return vfs.ReplaceFile(s.fs, filepath.Join(l.dir, metadataName), m.Marshal())
}

// OpenLog opens the log of a partition that is on disk. After a stop that was
// not clean it recovers it first. A directory without a topic id, as old
// versions of Kafka made them, gets id. The error wraps fs.ErrNotExist when
// there is no such directory, ErrTopicID when it belongs to another topic, a
// *record.CorruptionError when synced data is damaged, and record.ErrStorage
// when the disk failed.
func (s *Store) OpenLog(ctx context.Context, tp record.TopicPartition, id record.TopicID, o LogOptions) (*Log, error) {
	return s.addLog(ctx, "open", tp, id, o, func(l *Log) error {
		if v := s.takeVouched(tp, id); v != nil && l.loadVouched(v) {
			return nil
		}
		found, err := s.readTopicID(l.dir)
		if isDamage(err) {
			l.repaired(repairTopicID, "the file with the topic id is damaged and is written anew", "error", err)
			err = nil
		}
		if err != nil {
			return err
		}
		if !found.IsZero() && found != id {
			return fmt.Errorf("%w: %s, want %s", ErrTopicID, found, id)
		}
		if _, err := s.fs.Stat(l.dir); err != nil {
			return err
		}
		if err := l.load(ctx); err != nil {
			return err
		}
		if found.IsZero() && !id.IsZero() {
			if err := s.beginWriting(); err != nil {
				return err
			}
			return s.writeTopicID(l)
		}
		return nil
	})
}

// addLog reserves the partition's name, has prepare fill the log in, and
// publishes it.
func (s *Store) addLog(ctx context.Context, verb string, tp record.TopicPartition, id record.TopicID, o LogOptions, prepare func(*Log) error) (*Log, error) {
	fail := func(err error) (*Log, error) { return nil, fmt.Errorf("%s log %s: %w", verb, tp, err) }
	o.EnsureDefaults()
	if err := errors.Join(o.Validate(), record.CheckTopicName(tp.Topic), ctx.Err()); err != nil {
		return fail(err)
	}
	if err := s.reserve(tp); err != nil {
		return fail(err)
	}
	l := newLog(s, tp, id, filepath.Join(s.dir, tp.String()), o)
	if err := prepare(l); err != nil {
		l.abandon()
		s.mu.Lock()
		delete(s.logs, tp)
		s.refused[tp] = s.refused[tp] || isDamage(err)
		s.mu.Unlock()
		if err = classify(err); errors.Is(err, record.ErrStorage) {
			s.doubt(err)
		}
		return fail(err)
	}
	l.hooks = o.Hooks
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.abandon()
		return fail(record.ErrClosed)
	}
	if err := s.Failed(); err != nil {
		l.abandon()
		delete(s.logs, tp)
		return fail(err)
	}
	delete(s.found, tp)
	delete(s.refused, tp)
	s.logs[tp] = l
	return l, nil
}

// reserve keeps others from opening the same partition.
func (s *Store) reserve(tp record.TopicPartition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Failed(); err != nil {
		return err
	}
	if s.closed {
		return record.ErrClosed
	}
	if _, there := s.logs[tp]; there {
		return fmt.Errorf("partition is open already: %w", fs.ErrExist)
	}
	s.logs[tp] = nil
	return nil
}

// classify makes an error of the disk a record.ErrStorage and leaves those
// alone that say more.
func classify(err error) error {
	for _, known := range []error{fs.ErrExist, fs.ErrNotExist, ErrTopicID, record.ErrCorruptBatch, record.ErrClosed,
		record.ErrUnsupportedVersion, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", record.ErrStorage, err)
}

// abandon lets the files of a log go that was never used.
func (l *Log) abandon() {
	l.closed.Store(true)
	for _, s := range l.list() {
		l.store.files.drop(&s.handle)
		s.letGo()
	}
}

// DeleteLog closes the log and moves its directory aside, durably: when it
// returns the name is free. The files go after FileDeleteDelay, or at the next
// start; Regions and pins keep what they have until then and beyond.
func (s *Store) DeleteLog(ctx context.Context, l *Log) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed || s.logs[l.tp] != l {
		s.mu.Unlock()
		return fmt.Errorf("delete log %s: %w", l.tp, record.ErrClosed)
	}
	s.logs[l.tp] = nil
	s.mu.Unlock()

	l.shut()
	moved, err := s.moveAside(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if moved != "" {
		s.trash = append(s.trash, trash{dir: moved, due: s.deleteAfter()})
		delete(s.logs, l.tp)
	} else {
		s.logs[l.tp] = l // closed, but it can be tried again
	}
	if err != nil {
		return fmt.Errorf("delete log %s: %w: %w", l.tp, record.ErrStorage, err)
	}
	return nil
}

// DeleteFound moves the directory of a partition aside that was found and never
// opened, be it whole or damaged, durably, as DeleteLog does. The error wraps
// fs.ErrExist when it is open.
func (s *Store) DeleteFound(ctx context.Context, f FoundLog) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.reserve(f.TopicPartition); err != nil {
		return fmt.Errorf("delete log %s: %w", f.TopicPartition, err)
	}
	var o LogOptions
	o.EnsureDefaults()
	moved, err := s.moveAside(newLog(s, f.TopicPartition, f.TopicID, f.Dir, o))
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.logs, f.TopicPartition)
	if moved != "" {
		delete(s.found, f.TopicPartition)
		s.trash = append(s.trash, trash{dir: moved, due: s.deleteAfter()})
	}
	if err != nil {
		return fmt.Errorf("delete log %s: %w: %w", f.TopicPartition, record.ErrStorage, err)
	}
	return nil
}

// moveAside renames the directory of a log that was shut. The path it answers
// is "" when it could not be renamed.
func (s *Store) moveAside(l *Log) (moved string, err error) {
	l.sealMu.Lock()
	defer l.sealMu.Unlock()
	if err := s.beginWriting(); err != nil {
		return "", err
	}
	moved = filepath.Join(s.dir, deletedDir(l.tp))
	if err := s.fs.Rename(l.dir, moved); err != nil {
		return "", err
	}
	for _, seg := range l.list() {
		s.files.drop(&seg.handle)
		s.indexes.forget(seg)
		seg.letGo()
	}
	return moved, errors.Join(s.fs.SyncDir(s.dir), s.forget(l.tp))
}
