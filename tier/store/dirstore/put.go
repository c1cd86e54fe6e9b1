// SPDX-License-Identifier: Apache-2.0

package dirstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"firn/internal/vfs"
	"firn/tier/store"
)

const (
	// copyBytes is the size of the pieces a body is written in.
	copyBytes = 1 << 20
	// placeTries bounds how often a directory that another process prunes
	// under a Put is made again.
	placeTries = 8
	// maxDurable bounds the set of directories known to be durable; beyond it
	// the set starts anew, which costs some syncs.
	maxDurable = 1 << 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, body store.Source, o store.PutOptions) error {
	if err := store.CheckPut(key, body); err != nil {
		return err
	}
	if reserved(key) {
		return &store.Error{Op: store.OpPut, Key: key, Err: fmt.Errorf("%w: %s is for temporary files", store.ErrInvalidKey, tempDir)}
	}
	if o.IfNoneMatch {
		// Looked at again when the file moves in; here it spares the writing.
		if _, err := s.stat(ctx, key); err == nil {
			return s.taken(key)
		}
	}
	temp, err := s.writeTemp(ctx, body, o.CRC32C)
	if err != nil {
		return s.fail(store.OpPut, key, err)
	}
	path := s.pathOf(key)
	err = s.publish(temp, path, o.IfNoneMatch)
	if err == nil {
		return nil
	}
	// After a rename there is no temporary file any more; after anything else it
	// is rubbish, which the sweep of a later start gets if not this.
	_ = s.fs.Remove(temp.path)
	if errors.Is(err, fs.ErrExist) {
		info, statErr := s.fs.Stat(path)
		directory := statErr == nil && info.IsDir()
		if o.IfNoneMatch && !directory {
			return s.taken(key)
		}
		err = syscall.EISDIR
	}
	return s.fail(store.OpPut, key, err)
}

func (s *Store) taken(key string) error {
	return &store.Error{Op: store.OpPut, Key: key, Kind: store.Exists, Err: fmt.Errorf("%w in directory store %s", store.ErrExists, s.path)}
}

// tempFile is a whole body on its way to its place.
type tempFile struct {
	path string
	// onDisk says that paths are those of the operating system, as they are
	// for a file that has a descriptor.
	onDisk bool
}

// writeTemp writes body to a temporary file and syncs it. After an error there
// is no file.
func (s *Store) writeTemp(ctx context.Context, body store.Source, want *uint32) (tempFile, error) {
	dir := filepath.Join(s.path, tempDir)
	if err := s.fs.MkdirAll(dir, dirPerm); err != nil {
		return tempFile{}, err
	}
	var name [16]byte
	_, _ = rand.Read(name[:])
	path := filepath.Join(dir, hex.EncodeToString(name[:]))
	f, err := s.fs.OpenFile(path, vfs.CreateNew, filePerm)
	if err != nil {
		return tempFile{}, err
	}
	temp := tempFile{path: path, onDisk: f.Fd() != vfs.InvalidFd}
	err = s.copyBody(ctx, f, body, want)
	if err == nil {
		if err = f.Sync(); err == nil {
			s.io.DropWritten(f)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = s.fs.Remove(path)
		return tempFile{}, err
	}
	return temp, nil
}

// bodyError is an error of the body, not of the store.
type bodyError struct{ error }

func (e bodyError) Unwrap() error { return e.error }

func (s *Store) copyBody(ctx context.Context, f vfs.File, body store.Source, want *uint32) error {
	size := body.Size()
	buf := make([]byte, min(size, copyBytes))
	var crc uint32
	for off := int64(0); off < size; off += int64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		buf = buf[:min(size-off, int64(len(buf)))]
		if err := store.ReadSource(body, buf, off); err != nil {
			return bodyError{err}
		}
		if want != nil {
			crc = crc32.Update(crc, castagnoli, buf)
		}
		if _, err := s.io.WriteUncached(f, buf, off); err != nil {
			return err
		}
	}
	if want != nil && crc != *want {
		return bodyError{fmt.Errorf("%w: CRC-32C is %08x, want %08x", store.ErrBodyChanged, crc, *want)}
	}
	return ctx.Err()
}

// publish moves a whole temporary file to its place, durably. A taken place is
// an error that matches fs.ErrExist when exclusive.
func (s *Store) publish(temp tempFile, path string, exclusive bool) error {
	s.tree.RLock()
	defer s.tree.RUnlock()
	dir := filepath.Dir(path)
	var err error
	for range placeTries {
		if err = s.ensureDir(dir); err != nil {
			return err
		}
		if err = s.place(temp, path, exclusive); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		s.forget(dir)
	}
	if err != nil {
		return err
	}
	if err := s.fs.SyncDir(dir); err != nil {
		if exclusive {
			// The name is ours alone, so it can be taken back: the caller that
			// reads back would else find an object that may not last.
			_ = s.fs.Remove(path)
		}
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

func (s *Store) place(temp tempFile, path string, exclusive bool) error {
	if !exclusive {
		return s.fs.Rename(temp.path, path)
	}
	if !temp.onDisk {
		// No other process can reach such a file system: a lock is enough.
		return s.placeLocked(temp.path, path)
	}
	err := os.Link(temp.path, path)
	if err == nil {
		_ = s.fs.Remove(temp.path)
		return nil
	}
	if !unsupported(err) {
		return err
	}
	if err = renameNoReplace(temp.path, path); !unsupported(err) {
		return err
	}
	s.lockedOnly.Store(true)
	return s.placeLocked(temp.path, path)
}

// placeLocked keeps the conditional Puts of this Store apart, and no others.
func (s *Store) placeLocked(temp, path string) error {
	s.exclusive.Lock()
	defer s.exclusive.Unlock()
	_, err := s.fs.Stat(path)
	if err == nil {
		return fs.ErrExist
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.fs.Rename(temp, path)
}

// unsupported says whether a file system cannot do a thing at all.
func unsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM) ||
		errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EMLINK)
}

// ensureDir makes dir and all above it durable, up to the store's own. The
// caller holds tree.
func (s *Store) ensureDir(dir string) error {
	if dir == s.path || s.isDurable(dir) {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := s.ensureDir(parent); err != nil {
		return err
	}
	if err := s.fs.MkdirAll(dir, dirPerm); err != nil {
		return err
	}
	// Synced even if it was there: whoever made it may not have got that far.
	if err := s.fs.SyncDir(parent); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.durable) >= maxDurable {
		clear(s.durable)
	}
	s.durable[dir] = struct{}{}
	return nil
}

func (s *Store) isDurable(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.durable[dir]
	return ok
}

// forget drops what is known about dir and all above it.
func (s *Store) forget(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; dir != s.path; dir = filepath.Dir(dir) {
		delete(s.durable, dir)
	}
}
