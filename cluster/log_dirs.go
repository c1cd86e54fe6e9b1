// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"

	"firn/record"
)

// LogDir is a log directory that belongs to the broker. Without the list a disk
// that is not mounted could not be told from a new one.
type LogDir struct {
	ID record.TopicID
	// Path is where it was the last time, absolute.
	Path string
}

// logDirRecord is one of them in the JSON of keyLogDirs.
type logDirRecord struct {
	ID   string `json:"id"`
	Path string `json:"path"`
}

// LogDirs are the log directories that belong to the broker, none for a file
// that never heard of any. The list is the caller's.
func (l *Local) LogDirs() []LogDir {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.logDirs)
}

// SetLogDirs replaces the list, durably. The same one changes nothing.
func (l *Local) SetLogDirs(ctx context.Context, dirs []LogDir) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Equal(dirs, l.logDirs) {
		return nil
	}
	records := make([]logDirRecord, len(dirs))
	for i, d := range dirs {
		records[i] = logDirRecord{ID: d.ID.String(), Path: d.Path}
	}
	b, err := json.Marshal(records)
	if err != nil {
		return fmt.Errorf("note the log directories: %w", err)
	}
	err = l.updateLocked(ctx, "note the log directories", func(tx *bolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(keyLogDirs, b)
	})
	if err == nil {
		l.logDirs = slices.Clone(dirs)
	}
	return err
}

// loadLogDirs reads the list of the meta bucket.
func loadLogDirs(meta *bolt.Bucket) ([]LogDir, error) {
	b := meta.Get(keyLogDirs)
	if b == nil {
		return nil, nil
	}
	var records []logDirRecord
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&records); err != nil {
		return nil, fmt.Errorf("%s: %w", keyLogDirs, err)
	}
	dirs := make([]LogDir, len(records))
	for i, r := range records {
		id, err := record.ParseTopicID(r.ID)
		if err != nil || id.IsZero() || !filepath.IsAbs(r.Path) {
			return nil, fmt.Errorf("%s: %q at %q is no log directory", keyLogDirs, r.ID, r.Path)
		}
		dirs[i] = LogDir{ID: id, Path: r.Path}
	}
	return dirs, nil
}
