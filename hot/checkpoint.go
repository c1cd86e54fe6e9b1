// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sync"

	"firn/internal/vfs"
	"firn/record"
)

// checkpointFile is one of the offset checkpoints at the top of the log
// directory, with its content in memory. It is safe for concurrent use; the
// writes of concurrent callers are put together.
//
// Entries of partitions that nobody opens stay as they are.
type checkpointFile struct {
	fs   vfs.FS
	path string

	writing sync.Mutex // held while the file is being replaced

	mu      sync.Mutex
	offsets record.OffsetCheckpoint
	changed int // counts changes
	written int // the value of changed that is on disk
}

// openCheckpoint reads the file; one that is not there has no entries.
func openCheckpoint(fsys vfs.FS, path string) (*checkpointFile, error) {
	c := emptyCheckpoint(fsys, path)
	b, err := vfs.ReadFile(fsys, path, maxSmallFile)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	if c.offsets, err = record.ParseOffsetCheckpoint(b); err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", record.InFile(err, path))
	}
	return c, nil
}

func emptyCheckpoint(fsys vfs.FS, path string) *checkpointFile {
	return &checkpointFile{fs: fsys, path: path, offsets: record.OffsetCheckpoint{}}
}

// get is the partition's entry, 0 when there is none.
func (c *checkpointFile) get(tp record.TopicPartition) record.Offset {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offsets[tp]
}

// set changes the partition's entry in memory; write puts it on disk.
func (c *checkpointFile) set(tp record.TopicPartition, o record.Offset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.offsets[tp]; !ok || old != o {
		c.offsets[tp] = o
		c.changed++
	}
}

// remove forgets the partition in memory; write makes that durable.
func (c *checkpointFile) remove(tp record.TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.offsets[tp]; ok {
		delete(c.offsets, tp)
		c.changed++
	}
}

// raise lifts the partition's entry to o, if it is lower, and makes that
// durable.
func (c *checkpointFile) raise(tp record.TopicPartition, o record.Offset) error {
	c.mu.Lock()
	if c.offsets[tp] < o {
		c.offsets[tp] = o
		c.changed++
	}
	c.mu.Unlock()
	return c.write()
}

// write puts all changes that were made before the call on disk.
func (c *checkpointFile) write() error {
	c.mu.Lock()
	want := c.changed
	c.mu.Unlock()
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	if c.written >= want {
		c.mu.Unlock()
		return nil
	}
	offsets, changed := maps.Clone(c.offsets), c.changed
	c.mu.Unlock()
	if err := vfs.ReplaceFile(c.fs, c.path, offsets.Marshal()); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	c.mu.Lock()
	c.written = max(c.written, changed)
	c.mu.Unlock()
	return nil
}
