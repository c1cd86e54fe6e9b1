// SPDX-License-Identifier: Apache-2.0

package dirstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/tier/store"
	"firn/tier/store/dirstore"
	"firn/tier/store/storetest"
)

func open(t *testing.T, o dirstore.Options) *dirstore.Store {
	t.Helper()
	s, err := dirstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s store.Store, key, body string) {
	t.Helper()
	if err := s.Put(t.Context(), key, store.BytesSource([]byte(body)), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestConformanceOnDisk(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		dir := t.TempDir()
		io, err := vfs.ProbeIO(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		return open(t, dirstore.Options{Path: dir, IO: io})
	})
}

func TestConformanceInMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return open(t, dirstore.Options{Path: "/bucket", FS: vfs.NewMem()})
	})
}

func TestOptions(t *testing.T) {
	var se *store.Error
	if _, err := dirstore.New(dirstore.Options{}); !errors.As(err, &se) || se.Kind != store.Permanent {
		t.Errorf("no path: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dirstore.New(dirstore.Options{Path: file}); err == nil {
		t.Error("a file as the directory: no error")
	}
}

// TestEmptyDirectoriesGo attacks I4: the last object of a directory takes it
// along, up to the store's own.
func TestEmptyDirectoriesGo(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dirstore.Options{Path: dir})
	put(t, s, "a/b/c/one", "x")
	put(t, s, "a/b/two", "x")
	if err := s.Delete(t.Context(), []string{"a/b/c/one"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a/b/c")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a/b/c: %v, want it gone", err)
	}
	// A key that names a directory is not there, and deleting it does nothing.
	if err := s.Delete(t.Context(), []string{"a/b"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Head(t.Context(), "a/b/two"); err != nil {
		t.Errorf("a/b/two: %v", err)
	}
	if err := s.Delete(t.Context(), []string{"a/b/two"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a: %v, want it gone", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the store's own directory: %v", err)
	}
}

// TestPutAgainstPrune attacks I4 with writers and deleters of the same
// directories: no Put fails, and each object that was put last is there.
func TestPutAgainstPrune(t *testing.T) {
	for name, o := range map[string]dirstore.Options{
		"disk":   {Path: t.TempDir()},
		"memory": {Path: "/bucket", FS: vfs.NewMem()},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, o)
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					key := fmt.Sprintf("a/b/c/%d", i)
					for round := range 50 {
						options := store.PutOptions{IfNoneMatch: round%2 == 0}
						if err := s.Put(t.Context(), key, store.BytesSource([]byte("x")), options); err != nil {
							t.Errorf("put: %v", err)
						}
						if _, err := s.Head(t.Context(), key); err != nil {
							t.Errorf("head: %v", err)
						}
						if round == 49 {
							return
						}
						if err := s.Delete(t.Context(), []string{key}); err != nil {
							t.Errorf("delete: %v", err)
						}
					}
				})
			}
			wg.Wait()
			if got := contents(t, s); len(got) != 4 {
				t.Errorf("left: %v, want four objects", got)
			}
		})
	}
}

// TestTwoStoresOneWinner attacks conditional Puts from two Stores over one
// directory, as two processes have.
func TestTwoStoresOneWinner(t *testing.T) {
	dir := t.TempDir()
	stores := []*dirstore.Store{open(t, dirstore.Options{Path: dir}), open(t, dirstore.Options{Path: dir})}
	for round := range 20 {
		key := fmt.Sprintf("claim/%d", round)
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				body := store.BytesSource(fmt.Appendf(nil, "%d", i))
				errs[i] = stores[i%2].Put(t.Context(), key, body, store.PutOptions{IfNoneMatch: true})
			})
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Errorf("round %d: %d and %d both won", round, winner, i)
			case err == nil:
				winner = i
			case !errors.Is(err, store.ErrExists):
				t.Errorf("round %d: %v", round, err)
			}
		}
		if got := contents(t, stores[0])[key]; got != fmt.Sprint(winner) {
			t.Errorf("round %d: %d won, and the object says %q", round, winner, got)
		}
	}
}

func TestKeyCannotBeADirectory(t *testing.T) {
	for name, o := range map[string]dirstore.Options{
		"disk":   {Path: t.TempDir()},
		"memory": {Path: "/bucket", FS: vfs.NewMem()},
	} {
		for _, options := range []store.PutOptions{{}, {IfNoneMatch: true}} {
			s := open(t, o)
			put(t, s, "a/b", "x")
			for _, key := range []string{"a", "a/b/c"} {
				err := s.Put(t.Context(), key, store.BytesSource(nil), options)
				if store.KindOf(err) != store.Permanent || err == nil {
					t.Errorf("%s: put %s beside a/b with %+v: %v, want a permanent error", name, key, options, err)
				}
			}
			if got := contents(t, s); len(got) != 1 || got["a/b"] != "x" {
				t.Errorf("%s: left %v", name, got)
			}
		}
	}
}

func TestReservedKeys(t *testing.T) {
	s := open(t, dirstore.Options{Path: t.TempDir()})
	put(t, s, "a", "x") // so that the temporary directory is there
	for _, key := range []string{".firn-tmp", ".firn-tmp/x"} {
		if err := s.Put(t.Context(), key, store.BytesSource(nil), store.PutOptions{}); !errors.Is(err, store.ErrInvalidKey) {
			t.Errorf("put %s: %v", key, err)
		}
		if _, err := s.Head(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("head %s: %v", key, err)
		}
		if _, err := s.GetRange(t.Context(), key, make([]byte, 1), 0); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("get %s: %v", key, err)
		}
		if err := s.Delete(t.Context(), []string{key}); err != nil {
			t.Errorf("delete %s: %v", key, err)
		}
	}
	put(t, s, "b", "x") // the temporary directory is still of use
}

// TestForeignFiles has in the directory what no Put wrote.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dirstore.Options{Path: dir})
	put(t, s, "a/b", "x")
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "bad\x01name"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, s); len(got) != 1 {
		t.Errorf("the store shows %v, want a/b alone", got)
	}
}

// TestSweep leaves what may still be written, and removes what cannot.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	put(t, open(t, dirstore.Options{Path: dir}), "a", "x")
	for name, age := range map[string]time.Duration{"fresh": time.Hour, "stale": 25 * time.Hour} {
		path := filepath.Join(dir, ".firn-tmp", name)
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dirstore.Options{Path: dir})
	if _, err := os.Stat(filepath.Join(dir, ".firn-tmp", "fresh")); err != nil {
		t.Errorf("fresh: %v, want it there", err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".firn-tmp", "stale")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stale: %v, want it gone", err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, ".firn-tmp"))
	if err != nil || len(entries) != 1 {
		t.Errorf("%d temporary files, %v, want the fresh one: a Put cleans up after itself", len(entries), err)
	}
}

func TestErrorKinds(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind store.Kind
	}{
		{syscall.EACCES, store.Permanent}, {syscall.EROFS, store.Permanent}, {syscall.ENAMETOOLONG, store.Permanent},
		{syscall.EIO, store.Retriable}, {syscall.ENOSPC, store.Retriable}, {syscall.EMFILE, store.Retriable},
	} {
		faults := faultfs.New(vfs.NewMem())
		s := open(t, dirstore.Options{Path: "/bucket", FS: faults})
		put(t, s, "k", "x")
		faults.Inject(faultfs.Rule{Times: -1, Fault: faultfs.Error(c.err)})
		_, getErr := s.GetRange(t.Context(), "k", make([]byte, 1), 0)
		_, headErr := s.Head(t.Context(), "k")
		_, _, listErr := s.List(t.Context(), "", "", 0)
		for what, err := range map[string]error{
			"put": s.Put(t.Context(), "k", store.BytesSource(nil), store.PutOptions{}),
			"get": getErr, "head": headErr, "list": listErr, "delete": s.Delete(t.Context(), []string{"k"}),
		} {
			if !errors.Is(err, c.err) || store.KindOf(err) != c.kind {
				t.Errorf("%s meets %v: got %v, which is %v, want %v", what, c.err, err, store.KindOf(err), c.kind)
			}
		}
	}
}
