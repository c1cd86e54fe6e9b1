// SPDX-License-Identifier: Apache-2.0

package dirstore

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"firn/tier/store"
)

// Delete implements store.Store. Each directory is synced once, and removed if
// nothing is left in it.
func (s *Store) Delete(ctx context.Context, keys []string) error {
	if err := store.CheckKeys(keys); err != nil {
		return err
	}
	dirs := make(map[string]struct{})
	for _, key := range keys {
		if err := s.unlink(ctx, key); err != nil {
			return s.fail(store.OpDelete, key, err)
		}
		// Also for a key that was not there: an earlier Delete may have failed
		// between removing and syncing.
		dirs[filepath.Dir(s.pathOf(key))] = struct{}{}
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if err := s.fs.SyncDir(dir); err != nil && !absent(err) {
			return s.fail(store.OpDelete, "", fmt.Errorf("sync directory: %w", err))
		}
		s.prune(dir)
	}
	return nil
}

func (s *Store) unlink(ctx context.Context, key string) error {
	// The look spares a directory of that name from being removed as empty.
	if _, err := s.stat(ctx, key); err != nil {
		if absent(err) {
			return nil
		}
		return err
	}
	if err := s.fs.Remove(s.pathOf(key)); err != nil && !absent(err) {
		return err
	}
	return nil
}

// prune removes dir and those above it as far as they are empty. What cannot
// be removed stays: an empty directory harms nobody, and one that comes back
// after a crash neither.
func (s *Store) prune(dir string) {
	s.tree.Lock()
	defer s.tree.Unlock()
	for ; dir != s.path; dir = filepath.Dir(dir) {
		info, err := s.fs.Stat(dir)
		if err == nil && !info.IsDir() {
			return
		}
		if err == nil {
			err = s.fs.Remove(dir)
		}
		if err != nil && !absent(err) {
			return
		}
		s.mu.Lock()
		delete(s.durable, dir)
		s.mu.Unlock()
	}
}
