// SPDX-License-Identifier: Apache-2.0

package dirstore

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"firn/tier/store"
)

// List implements store.Store. It reads the directories that can hold an
// answer, and none of the others.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]store.Info, bool, error) {
	limit, err := store.CheckList(prefix, after, limit)
	if err != nil {
		return nil, false, err
	}
	w := walk{s: s, ctx: ctx, prefix: prefix, after: after, limit: limit}
	if err := w.dir(""); err != nil {
		return nil, false, s.fail(store.OpList, prefix, err)
	}
	return w.infos, w.more, nil
}

// walk is one List under way.
type walk struct {
	s             *Store
	ctx           context.Context
	prefix, after string
	limit         int
	infos         []store.Info
	more          bool
}

// dir visits the keys that begin with base, which is empty or ends in a slash,
// until the answer is full and one more key was seen.
func (w *walk) dir(base string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := w.s.fs.ReadDir(filepath.Join(w.s.path, filepath.FromSlash(base)))
	if absent(err) || base == "lost+found/" && errors.Is(err, fs.ErrPermission) {
		return nil // pruned meanwhile, or the file system's own
	}
	if err != nil {
		return err
	}
	for _, name := range names(base, entries) {
		if w.more {
			return nil
		}
		key := base + name
		if strings.HasSuffix(name, "/") {
			if w.mayHold(key) {
				if err := w.dir(key); err != nil {
					return err
				}
			}
			continue
		}
		if err := w.file(key); err != nil {
			return err
		}
	}
	return nil
}

// names gives the names of a directory in the order that their keys have: a
// directory sorts as its name and a slash, so that "a.b" and "a-b" come before
// what is in "a". What is neither file nor directory is not ours.
func names(base string, entries []fs.DirEntry) []string {
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		switch {
		case base == "" && e.Name() == tempDir:
		case e.IsDir():
			names = append(names, e.Name()+"/")
		case e.Type().IsRegular():
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// mayHold says whether a key that begins with base can be part of the answer.
func (w *walk) mayHold(base string) bool {
	if !strings.HasPrefix(base, w.prefix) && !strings.HasPrefix(w.prefix, base) {
		return false
	}
	return base > w.after || strings.HasPrefix(w.after, base)
}

func (w *walk) file(key string) error {
	if key <= w.after || !strings.HasPrefix(key, w.prefix) || store.CheckKey(key) != nil {
		return nil
	}
	if len(w.infos) == w.limit {
		// Seen only by name: should it vanish the next List is empty and says
		// that there is no more.
		w.more = true
		return nil
	}
	info, err := w.s.fs.Stat(w.s.pathOf(key))
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	w.infos = append(w.infos, store.Info{Key: key, Size: info.Size(), Modified: info.ModTime()})
	return nil
}
