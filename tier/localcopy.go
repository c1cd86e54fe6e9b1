// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"firn/internal/vfs"
	"firn/record"
)

// localCopyName is the file beside the log that holds the local copy.
const localCopyName = "firn-manifest"

// maxWriters is how many writers a local copy remembers.
const maxWriters = 32

// localCopy is what a partition directory knows of the bucket: the newest head
// that was durable when it was written, and the writers that wrote from this
// directory. A head of any other writer is foreign. A writer is in the copy,
// synced, before its first claim or head.
type localCopy struct {
	writers []WriterID // newest last, at most maxWriters
	head    []byte     // the bytes of the head object; empty when there is none
}

// addWriter puts a writer behind the others, and forgets the oldest.
func addWriter(writers []WriterID, w WriterID) []WriterID {
	if slices.Contains(writers, w) {
		return writers
	}
	writers = append(slices.Clone(writers), w)
	return writers[max(0, len(writers)-maxWriters):]
}

func (c localCopy) encode() []byte {
	b := appendCount(nil, len(c.writers))
	for _, w := range c.writers {
		b = append(b, w[:]...)
	}
	b = appendCount(b, len(c.head))
	return appendFrame(nil, magicLocal, append(b, c.head...))
}

// decodeLocalCopy reads a local copy and the manifest of the head in it, nil
// when there is none. The error is a *record.CorruptionError or wraps
// record.ErrUnsupportedVersion.
func decodeLocalCopy(path string, b []byte) (localCopy, *Manifest, error) {
	body, err := openFrame(path, magicLocal, b)
	if err != nil {
		return localCopy{}, nil, fmt.Errorf("read local copy: %w", err)
	}
	r := newBodyReader(path, body)
	var c localCopy
	for range r.count(len(WriterID{})) {
		c.writers = append(c.writers, r.id())
	}
	c.head = r.take(r.count(1))
	if err := r.end(); err != nil {
		return localCopy{}, nil, fmt.Errorf("read local copy: %w", err)
	}
	if len(c.head) == 0 {
		return c, nil, nil
	}
	m, err := DecodeHead(path, c.head)
	if err != nil {
		return localCopy{}, nil, fmt.Errorf("read local copy: %w", err)
	}
	return c, m, nil
}

// readLocalCopy reads the writers and the manifest of the copy in dir. A file
// that is not there gives neither.
func readLocalCopy(fsys vfs.FS, dir string, id record.TopicID, partition int32) ([]WriterID, *Manifest, error) {
	path := filepath.Join(dir, localCopyName)
	b, err := vfs.ReadFile(fsys, path, maxFrame)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read local copy: %w", err)
	}
	c, m, err := decodeLocalCopy(path, b)
	if err != nil {
		return nil, nil, err
	}
	if m != nil && (m.TopicID != id || m.Partition != partition) {
		return nil, nil, fmt.Errorf("read local copy: %w",
			corrupt(path, frameHeadSize, "manifest of partition %d of topic %v, want partition %d of topic %v", m.Partition, m.TopicID, partition, id))
	}
	return c.writers, m, nil
}

// writeLocalCopy makes the copy durable in dir.
func writeLocalCopy(fsys vfs.FS, dir string, c localCopy) error {
	if err := vfs.ReplaceFile(fsys, filepath.Join(dir, localCopyName), c.encode()); err != nil {
		return fmt.Errorf("write local copy: %w", err)
	}
	return nil
}
