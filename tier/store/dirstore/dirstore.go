// SPDX-License-Identifier: Apache-2.0

package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"firn/internal/vfs"
	"firn/tier/store"
)

const (
	// tempDir holds bodies that are not whole yet.
	tempDir = ".firn-tmp"
	// tempAge is how old a temporary file must be before New takes it for the
	// rest of a crash: longer than any upload, since another process may be
	// writing here.
	tempAge = 24 * time.Hour

	dirPerm  = 0o755
	filePerm = 0o644
)

// Options says where the objects are.
type Options struct {
	// Path is the directory, made if it is not there. Required.
	Path string
	// FS is the file system. Nil: vfs.Disk.
	FS vfs.FS
	// IO reads and writes beside the page cache. Nil: through it.
	IO *vfs.IO
}

// EnsureDefaults fills in what is nil.
func (o *Options) EnsureDefaults() {
	if o.FS == nil {
		o.FS = vfs.Disk()
	}
}

// Validate reports every fault.
func (o *Options) Validate() error {
	if o.Path == "" {
		return errors.New("the path of the directory store is empty")
	}
	return nil
}

// Store is a store.Store over a directory. Several processes may use one
// directory, as long as one of them writes.
type Store struct {
	path string
	fs   vfs.FS
	io   *vfs.IO

	// tree keeps directories from being pruned (Lock) while a Put needs them
	// (RLock).
	tree sync.RWMutex
	// exclusive serialises conditional Puts where the file system has no
	// operation that refuses a taken name.
	exclusive sync.Mutex
	// lockedOnly says that the file system was found to be like that.
	lockedOnly atomic.Bool

	mu sync.Mutex
	// durable is the set of directories known to survive a crash, so that a Put
	// need not sync every level above it. mu guards it.
	durable map[string]struct{}
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Adaptive = (*Store)(nil)
)

// New opens the store at o.Path and clears away what crashes left behind. The
// error is a *store.Error.
func New(o Options) (*Store, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, &store.Error{Op: "open", Err: err}
	}
	s := &Store{path: filepath.Clean(o.Path), fs: o.FS, io: o.IO, durable: make(map[string]struct{})}
	if err := vfs.MkdirAllSync(s.fs, s.path, dirPerm); err != nil {
		return nil, s.fail("open", "", err)
	}
	if err := s.sweep(time.Now()); err != nil {
		return nil, s.fail("open", "", err)
	}
	return s, nil
}

// sweep removes temporary files that no living process can be writing.
func (s *Store) sweep(now time.Time) error {
	dir := filepath.Join(s.path, tempDir)
	entries, err := s.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read temporary files: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < tempAge {
			continue
		}
		if err := s.fs.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove temporary file: %w", err)
		}
	}
	return nil
}

// pathOf is where the object of a checked key lies.
func (s *Store) pathOf(key string) string { return filepath.Join(s.path, filepath.FromSlash(key)) }

// GetRange implements store.Store.
func (s *Store) GetRange(ctx context.Context, key string, p []byte, off int64) (int, error) {
	if err := store.CheckGet(key, p, off); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := s.getRange(ctx, key, p, off)
	if err != nil {
		return n, s.fail(store.OpGet, key, err)
	}
	return n, nil
}

func (s *Store) getRange(ctx context.Context, key string, p []byte, off int64) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if reserved(key) {
		return 0, fs.ErrNotExist
	}
	f, err := s.fs.OpenFile(s.pathOf(key), vfs.ReadOnly, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if info.IsDir() {
		return 0, fs.ErrNotExist
	}
	have := min(int64(len(p)), max(0, info.Size()-off))
	if have > 0 {
		n, err = s.io.ReadUncached(f, p[:have], off)
		if int64(n) < have {
			return n, fmt.Errorf("%w: %d of %d bytes at %d: %w", errTorn, n, have, off, err)
		}
	}
	if n < len(p) {
		return n, store.PastEnd(off, len(p), info.Size())
	}
	return n, nil
}

// Head implements store.Store.
func (s *Store) Head(ctx context.Context, key string) (store.Info, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Info{}, &store.Error{Op: store.OpHead, Key: key, Err: err}
	}
	info, err := s.stat(ctx, key)
	if err != nil {
		return store.Info{}, s.fail(store.OpHead, key, err)
	}
	return store.Info{Key: key, Size: info.Size(), Modified: info.ModTime()}, nil
}

func (s *Store) stat(ctx context.Context, key string) (fs.FileInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if reserved(key) {
		return nil, fs.ErrNotExist
	}
	info, err := s.fs.Stat(s.pathOf(key))
	if err == nil && info.IsDir() {
		err = fs.ErrNotExist
	}
	return info, err
}

// Capabilities implements store.Store.
func (s *Store) Capabilities() store.Capabilities {
	return store.Capabilities{
		Name:           "dir " + s.path,
		ConditionalPut: !s.lockedOnly.Load(),
		BulkDelete:     true,
		Multipart:      true,
		Checksums:      true,
	}
}

// Detect implements store.Adaptive: it finds out whether the file system can
// refuse a taken name.
func (s *Store) Detect(ctx context.Context, scratch string) (store.Capabilities, error) {
	err := s.Put(ctx, scratch, store.BytesSource(nil), store.PutOptions{IfNoneMatch: true})
	if err != nil {
		return store.Capabilities{}, err
	}
	if err := s.Delete(ctx, []string{scratch}); err != nil {
		return store.Capabilities{}, err
	}
	return s.Capabilities(), nil
}

// Close implements store.Store; there is nothing to give back.
func (s *Store) Close() error { return nil }

// reserved says whether a key would fall among the temporary files.
func reserved(key string) bool {
	first, _, _ := strings.Cut(key, "/")
	return first == tempDir
}

// errTorn marks a file that gave fewer bytes than it has.
var errTorn = errors.New("short read")

// absent says whether an error means that there is no such file. ENOTDIR means
// that a directory of the key is an object.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// fail makes a *store.Error of what the file system, the context or a body
// ended with.
func (s *Store) fail(op store.Op, key string, err error) error {
	var body bodyError
	e := &store.Error{Op: op, Key: key, Kind: store.Retriable, Err: err}
	switch {
	case errors.As(err, &body):
		e.Kind = store.Permanent
	case errors.Is(err, errTorn), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Kind = store.Permanent
	case op != store.OpPut && absent(err):
		e.Kind = store.NotFound
		e.Err = fmt.Errorf("%w in directory store %s", store.ErrNotFound, s.path)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		e.Kind = store.Permanent
		e.Err = fmt.Errorf("directory store %s: check that this user may write there and that it is not mounted read-only: %w", s.path, err)
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		e.Kind = store.Permanent
		e.Err = fmt.Errorf("directory store %s: a key cannot be the directory of another, or longer than the file system allows: %w", s.path, err)
	}
	return e
}
