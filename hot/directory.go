// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"firn/internal/vfs"
	"firn/record"
)

// readMeta reads meta.properties; without the file everything in it is unset.
func (s *Store) readMeta() (record.DirectoryMetadata, error) {
	path := filepath.Join(s.dir, metaName)
	b, err := vfs.ReadFile(s.fs, path, maxSmallFile)
	if errors.Is(err, fs.ErrNotExist) {
		return record.DirectoryMetadata{NodeID: -1}, nil
	}
	if err != nil {
		return record.DirectoryMetadata{}, fmt.Errorf("read whose directory it is: %w", err)
	}
	m, err := record.ParseDirectoryMetadata(b)
	return m, record.InFile(err, path)
}

// Metadata says whose directory it is, by its meta.properties.
func (s *Store) Metadata() record.DirectoryMetadata {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meta
}

// SetMetadata writes down whose directory it is, durably. It is no change of a
// log: the clean-shutdown mark stays.
func (s *Store) SetMetadata(m record.DirectoryMetadata) error {
	if err := s.Failed(); err != nil {
		return err
	}
	if err := vfs.ReplaceFile(s.fs, filepath.Join(s.dir, metaName), m.Marshal()); err != nil {
		s.doubt(err)
		return fmt.Errorf("%w: write whose directory it is: %w", record.ErrStorage, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta = m
	return nil
}

// Partitions is the number of partition directories, open or not.
func (s *Store) Partitions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.logs)
	for tp := range s.found {
		if _, open := s.logs[tp]; !open {
			n++
		}
	}
	return n
}
