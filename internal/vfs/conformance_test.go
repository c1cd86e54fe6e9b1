// SPDX-License-Identifier: Apache-2.0

package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
)

// rig is a file system and a directory in it that a test may fill.
type rig struct {
	fs  vfs.FS
	dir string
}

func (r rig) path(elem ...string) string { return filepath.Join(append([]string{r.dir}, elem...)...) }

// eachFS runs a test on every form: what holds on the disk must hold in the
// others, or tests that use them prove nothing.
func eachFS(t *testing.T, test func(t *testing.T, r rig)) {
	forms := map[string]func(t *testing.T) rig{
		"disk": func(t *testing.T) rig { return rig{vfs.Disk(), t.TempDir()} },
		"mem": func(t *testing.T) rig {
			m := vfs.NewMem()
			must(t, vfs.MkdirAllSync(m, "/data/logs", 0o755))
			return rig{m, "/data/logs"}
		},
		"faultfs without faults": func(t *testing.T) rig { return rig{faultfs.New(vfs.Disk()), t.TempDir()} },
	}
	for name, open := range forms {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

// put writes a file; it is not synced.
func put(t *testing.T, fsys vfs.FS, path, content string) {
	t.Helper()
	f, err := fsys.OpenFile(path, vfs.Create|os.O_TRUNC, 0o644)
	must(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	must(t, err)
	must(t, f.Close())
}

func get(t *testing.T, fsys vfs.FS, path string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, path, 1<<20)
	must(t, err)
	return string(b)
}

func names(t *testing.T, fsys vfs.FS, path string) []string {
	t.Helper()
	entries, err := fsys.ReadDir(path)
	must(t, err)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) == len(want) {
		same := true
		for i := range got {
			same = same && got[i] == want[i]
		}
		if same {
			return
		}
	}
	t.Errorf("%s: got %v, want %v", what, got, want)
}

func TestReadAndWrite(t *testing.T) {
	eachFS(t, func(t *testing.T, r rig) {
		f, err := r.fs.OpenFile(r.path("a"), vfs.CreateNew, 0o644)
		must(t, err)
		defer f.Close()
		n, err := f.WriteAt([]byte("world"), 6)
		if n != 5 || err != nil {
			t.Fatalf("write: %d, %v", n, err)
		}
		_, err = f.WriteAt([]byte("hello"), 0)
		must(t, err)
		must(t, f.Sync())

		cases := []struct {
			off  int64
			size int
			want string
			err  error
		}{
			{0, 11, "hello\x00world", nil},
			{6, 5, "world", nil},
			{6, 6, "world", io.EOF},
			{10, 1, "d", nil},
			{11, 1, "", io.EOF},
			{100, 1, "", io.EOF},
			{100, 0, "", nil},
		}
		for _, c := range cases {
			p := make([]byte, c.size)
			n, err := f.ReadAt(p, c.off)
			if string(p[:n]) != c.want || err != c.err {
				t.Errorf("read %d at %d: %q, %v", c.size, c.off, p[:n], err)
			}
		}
		if _, err := f.ReadAt(make([]byte, 1), -1); err == nil || err == io.EOF {
			t.Errorf("read at -1: %v", err)
		}
		if _, err := f.WriteAt([]byte("x"), -1); err == nil {
			t.Error("write at -1 went through")
		}
		info, err := f.Stat()
		must(t, err)
		if info.Size() != 11 || info.Name() != "a" || info.IsDir() || !info.Mode().IsRegular() {
			t.Errorf("stat: %s %d %v", info.Name(), info.Size(), info.Mode())
		}
		if f.Name() != r.path("a") {
			t.Errorf("name %q", f.Name())
		}
	})
}

func TestTruncate(t *testing.T) {
	eachFS(t, func(t *testing.T, r rig) {
		put(t, r.fs, r.path("a"), "0123456789")
		f, err := r.fs.OpenFile(r.path("a"), vfs.ReadWrite, 0)
		must(t, err)
		defer f.Close()
		must(t, f.Truncate(4))
		must(t, f.Truncate(8))
		if got := get(t, r.fs, r.path("a")); got != "0123\x00\x00\x00\x00" {
			t.Errorf("after cut and extension: %q", got)
		}
		wantErr(t, "truncate to -1", f.Truncate(-1), syscall.EINVAL)
	})
}

func TestOpenFlags(t *testing.T) {
	eachFS(t, func(t *testing.T, r rig) {
		open := func(path string, flag int) error {
			f, err := r.fs.OpenFile(path, flag, 0o644)
			if err == nil {
				must(t, f.Close())
			} else if f != nil {
				t.Error("a file beside an error")
			}
			return err
		}
		put(t, r.fs, r.path("a"), "abc")
		wantErr(t, "missing", open(r.path("no"), vfs.ReadOnly), fs.ErrNotExist)
		wantErr(t, "missing parent", open(r.path("no", "a"), vfs.Create), fs.ErrNotExist)
		wantErr(t, "file as parent", open(r.path("a", "b"), vfs.Create), syscall.ENOTDIR)
		wantErr(t, "exclusive", open(r.path("a"), vfs.CreateNew), fs.ErrExist)
		wantErr(t, "write a directory", open(r.dir, vfs.ReadWrite), syscall.EISDIR)
		must(t, open(r.dir, vfs.ReadOnly))
		must(t, open(r.path("a"), vfs.Create))
		if got := get(t, r.fs, r.path("a")); got != "abc" {
			t.Errorf("opening with O_CREATE changed the file: %q", got)
		}
		must(t, open(r.path("a"), vfs.ReadWrite|os.O_TRUNC))
		if got := get(t, r.fs, r.path("a")); got != "" {
			t.Errorf("O_TRUNC left %q", got)
		}
	})
}

func TestHandleRights(t *testing.T) {
	eachFS(t, func(t *testing.T, r rig) {
		put(t, r.fs, r.path("a"), "abc")
		f, err := r.fs.OpenFile(r.path("a"), vfs.ReadOnly, 0)
		must(t, err)
		_, err = f.WriteAt([]byte("x"), 0)
		wantErr(t, "write by a reader", err, syscall.EBADF)
		wantErr(t, "truncate by a reader", f.Truncate(0), syscall.EINVAL)
		must(t, f.Close())
		w, err := r.fs.OpenFile(r.path("a"), os.O_WRONLY, 0)
		must(t, err)
		_, err = w.ReadAt(make([]byte, 1), 0)
		wantErr(t, "read by a writer", err, syscall.EBADF)
		must(t, w.Close())

		_, err = f.ReadAt(make([]byte, 1), 0)
		wantErr(t, "read after close", err, fs.ErrClosed)
		_, err = w.WriteAt([]byte("x"), 0)
		wantErr(t, "write after close", err, fs.ErrClosed)
		wantErr(t, "close after close", f.Close(), fs.ErrClosed)
		_, err = f.Stat()
		if err == nil {
			t.Error("stat after close went through")
		}
		if f.Fd() != vfs.InvalidFd {
			t.Error("a closed file has a descriptor")
		}
	})
}

func TestRemove(t *testing.T) {
	eachFS(t, func(t *testing.T, r rig) {
		must(t, r.fs.MkdirAll(r.path("d", "e"), 0o755))
		put(t, r.fs, r.path("d", "a"), "abc")
		wantErr(t, "missing", r.fs.Remove(r.path("no")), fs.ErrNotExist)
		wantErr(t, "full directory", r.fs.Remove(r.path("d")), syscall.ENOTEMPTY)

		f, err := r.fs.OpenFile(r.path("d", "a"), vfs.ReadWrite, 0)
		must(t, err)
		must(t, r.fs.Remove(r.path("d", "a")))
		p := make([]byte, 3)
		if _, err := f.ReadAt(p, 0); err != nil || string(p) != "abc" {
			t.Errorf("an open file must outlive its name: %q, %v", p, err)
		}
		must(t, f.Close())
		must(t, r.fs.Remove(r.path("d", "e")))
		must(t, r.fs.Remove(r.path("d")))
		equal(t, "left", names(t, r.fs, r.dir), []string{})

		must(t, r.fs.MkdirAll(r.path("d", "e", "f"), 0o755))
		put(t, r.fs, r.path("d", "e", "f", "a"), "x")
		must(t, r.fs.RemoveAll(r.path("d")))
		must(t, r.fs.RemoveAll(r.path("d")))
		must(t, r.fs.RemoveAll(r.path("no", "no")))
		equal(t, "left", names(t, r.fs, r.dir), []string{})
	})
}

func TestRename(t *testing.T) {
	eachFS(t, func(t *testing.T, r rig) {
		put(t, r.fs, r.path("a"), "new")
		put(t, r.fs, r.path("b"), "old")
		old, err := r.fs.OpenFile(r.path("b"), vfs.ReadOnly, 0)
		must(t, err)
		defer old.Close()
		must(t, r.fs.Rename(r.path("a"), r.path("b")))
		if got := get(t, r.fs, r.path("b")); got != "new" {
			t.Errorf("renamed over: %q", got)
		}
		p := make([]byte, 3)
		if _, err := old.ReadAt(p, 0); err != nil || string(p) != "old" {
			t.Errorf("an open file must outlive its name: %q, %v", p, err)
		}
		must(t, r.fs.Rename(r.path("b"), r.path("b")))

		must(t, r.fs.MkdirAll(r.path("d"), 0o755))
		must(t, r.fs.MkdirAll(r.path("e"), 0o755))
		must(t, r.fs.Rename(r.path("b"), r.path("d", "b")))
		wantErr(t, "missing", r.fs.Rename(r.path("no"), r.path("x")), fs.ErrNotExist)
		wantErr(t, "missing target parent", r.fs.Rename(r.path("d"), r.path("no", "x")), fs.ErrNotExist)
		wantErr(t, "file over directory", r.fs.Rename(r.path("d", "b"), r.path("e")), fs.ErrExist)
		wantErr(t, "directory over directory", r.fs.Rename(r.path("d"), r.path("e")), fs.ErrExist)
		wantErr(t, "directory over file", r.fs.Rename(r.path("e"), r.path("d", "b")), syscall.ENOTDIR)
		wantErr(t, "directory into itself", r.fs.Rename(r.path("d"), r.path("d", "x")), syscall.EINVAL)
		must(t, r.fs.Rename(r.path("d"), r.path("topic-0.abc-delete")))
		equal(t, "left", names(t, r.fs, r.dir), []string{"e", "topic-0.abc-delete"})
		if got := get(t, r.fs, r.path("topic-0.abc-delete", "b")); got != "new" {
			t.Errorf("in the renamed directory: %q", got)
		}
	})
}

func TestDirectories(t *testing.T) {
	eachFS(t, func(t *testing.T, r rig) {
		must(t, vfs.MkdirAllSync(r.fs, r.path("x", "y"), 0o755))
		must(t, vfs.MkdirAllSync(r.fs, r.path("x", "y"), 0o755))
		put(t, r.fs, r.path("x", "b"), "1")
		put(t, r.fs, r.path("x", "a"), "22")
		entries, err := r.fs.ReadDir(r.path("x"))
		must(t, err)
		equal(t, "entries", names(t, r.fs, r.path("x")), []string{"a", "b", "y"})
		info, err := entries[0].Info()
		must(t, err)
		if info.Size() != 2 || entries[0].IsDir() || !entries[2].IsDir() {
			t.Errorf("entries describe %v", entries)
		}
		_, err = r.fs.ReadDir(r.path("no"))
		wantErr(t, "list missing", err, fs.ErrNotExist)
		_, err = r.fs.ReadDir(r.path("x", "a"))
		wantErr(t, "list a file", err, syscall.ENOTDIR)
		wantErr(t, "directory under a file", r.fs.MkdirAll(r.path("x", "a", "z"), 0o755), syscall.ENOTDIR)
		wantErr(t, "directory where a file is", r.fs.MkdirAll(r.path("x", "a"), 0o755), syscall.ENOTDIR)
		wantErr(t, "directory under a file", vfs.MkdirAllSync(r.fs, r.path("x", "a", "z"), 0o755), syscall.ENOTDIR)
		must(t, r.fs.SyncDir(r.path("x")))
		wantErr(t, "sync missing", r.fs.SyncDir(r.path("no")), fs.ErrNotExist)
		_, err = r.fs.Stat(r.path("no"))
		wantErr(t, "stat missing", err, fs.ErrNotExist)
		st, err := r.fs.Stat(r.path("x"))
		must(t, err)
		if !st.IsDir() || st.Name() != "x" {
			t.Errorf("stat of a directory: %v %q", st.Mode(), st.Name())
		}
	})
}

func TestLock(t *testing.T) {
	eachFS(t, func(t *testing.T, r rig) {
		first, err := r.fs.Lock(r.path(".lock"))
		must(t, err)
		_, err = r.fs.Lock(r.path(".lock"))
		wantErr(t, "second user", err, vfs.ErrLocked)
		other, err := r.fs.Lock(r.path(".other"))
		must(t, err)
		must(t, first.Unlock())
		must(t, first.Unlock())
		again, err := r.fs.Lock(r.path(".lock"))
		must(t, err)
		must(t, first.Unlock())
		_, err = r.fs.Lock(r.path(".lock"))
		wantErr(t, "an old holder's second unlock", err, vfs.ErrLocked)
		must(t, again.Unlock())
		must(t, other.Unlock())
		_, err = r.fs.Lock(r.path("no", ".lock"))
		wantErr(t, "missing directory", err, fs.ErrNotExist)
	})
}

func TestUsage(t *testing.T) {
	eachFS(t, func(t *testing.T, r rig) {
		u, err := r.fs.Usage(r.dir)
		must(t, err)
		if u.Total == 0 || u.Free == 0 || u.Free > u.Total {
			t.Errorf("usage %+v", u)
		}
		_, err = r.fs.Usage(r.path("no"))
		wantErr(t, "usage of a missing path", err, fs.ErrNotExist)
	})
}

func TestReplaceFileAndReadFile(t *testing.T) {
	eachFS(t, func(t *testing.T, r rig) {
		path := r.path("checkpoint")
		put(t, r.fs, path+".tmp", "left behind by a crash, and longer")
		for _, content := range []string{"one", "", "three"} {
			must(t, vfs.ReplaceFile(r.fs, path, []byte(content)))
			if got := get(t, r.fs, path); got != content {
				t.Errorf("replaced: %q, want %q", got, content)
			}
		}
		equal(t, "left", names(t, r.fs, r.dir), []string{"checkpoint"})
		_, err := vfs.ReadFile(r.fs, path, 4)
		wantErr(t, "read beyond the limit", err, vfs.ErrTooLarge)
		_, err = vfs.ReadFile(r.fs, r.path("no"), 4)
		wantErr(t, "read missing", err, fs.ErrNotExist)
		wantErr(t, "replace in a missing directory", vfs.ReplaceFile(r.fs, r.path("no", "a"), nil), fs.ErrNotExist)
		must(t, r.fs.MkdirAll(r.path("d"), 0o755))
		wantErr(t, "replace a directory", vfs.ReplaceFile(r.fs, r.path("d"), nil), fs.ErrExist)
		equal(t, "left", names(t, r.fs, r.dir), []string{"checkpoint", "d"})
	})
}

// One handle is used by an appender, a flusher and many readers at once.
func TestConcurrentHandle(t *testing.T) {
	eachFS(t, func(t *testing.T, r rig) {
		f, err := r.fs.OpenFile(r.path("a"), vfs.Create, 0o644)
		must(t, err)
		const blocks, size = 64, 1000
		var wg sync.WaitGroup
		for i := range blocks {
			wg.Go(func() {
				block := bytes.Repeat([]byte{byte(i + 1)}, size)
				if _, err := f.WriteAt(block, int64(i)*size); err != nil {
					t.Error(err)
				}
				if err := f.Sync(); err != nil {
					t.Error(err)
				}
				got := make([]byte, size)
				if _, err := f.ReadAt(got, int64(i)*size); err != nil || !bytes.Equal(got, block) {
					t.Errorf("block %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		must(t, f.Close())
	})
}
