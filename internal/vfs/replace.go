// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// tempSuffix is Kafka's name for the half-written side of a replaced file.
const tempSuffix = ".tmp"

// ReplaceFile gives the file at path new content, durably and all at once:
// after it, or after a crash at any moment within it, the file has either its
// old content or the new one. It writes path + ".tmp", syncs it, renames it
// and syncs the directory. One caller at a time for each path.
//
// After an error the old content may be in place or the new one; when only the
// last step failed, a crash decides.
func ReplaceFile(fsys FS, path string, content []byte) error {
	temp := path + tempSuffix
	if err := writeSynced(fsys, temp, content); err != nil {
		// What is left of it would be overwritten by the next try; taking it
		// away is a courtesy that may fail.
		_ = fsys.Remove(temp)
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if err := fsys.Rename(temp, path); err != nil {
		_ = fsys.Remove(temp)
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("replace %s: sync directory: %w", path, err)
	}
	return nil
}

func writeSynced(fsys FS, path string, content []byte) error {
	f, err := fsys.OpenFile(path, Create|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ErrTooLarge says that a file is larger than its reader is ready for.
var ErrTooLarge = errors.New("file is too large")

// ReadFile reads the whole file at path, which may hold at most limit bytes; a
// larger one gives an error that wraps ErrTooLarge, and none of it is read.
func ReadFile(fsys FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.OpenFile(path, ReadOnly, 0)
	if err != nil {
		return nil, err
	}
	content, err := readAll(f, limit)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return content, nil
}

func readAll(f File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d expected", ErrTooLarge, info.Size(), limit)
	}
	content := make([]byte, info.Size())
	n, err := f.ReadAt(content, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return content[:n], err
}

// MkdirAllSync makes a directory and its missing parents as FS.MkdirAll does,
// and syncs the parent of each one it made, so that the directory is there
// after a crash.
func MkdirAllSync(fsys FS, path string, perm fs.FileMode) error {
	var parents []string
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		_, err := fsys.Stat(p)
		if err == nil || p == filepath.Dir(p) {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("make directory %s: %w", path, err)
		}
		parents = append(parents, filepath.Dir(p))
	}
	if err := fsys.MkdirAll(path, perm); err != nil {
		return fmt.Errorf("make directory %s: %w", path, err)
	}
	for _, p := range parents {
		if err := fsys.SyncDir(p); err != nil {
			return fmt.Errorf("make directory %s: sync %s: %w", path, p, err)
		}
	}
	return nil
}

// IsFull says that an operation failed for want of space: of the disk's, or of
// a quota's.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
