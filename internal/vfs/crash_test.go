// SPDX-License-Identifier: Apache-2.0

package vfs_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
)

// newData makes a Mem with a durable, empty /data.
func newData(t *testing.T) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	must(t, vfs.MkdirAllSync(m, "/data", 0o755))
	return m
}

// failer is what *testing.T and *rapid.T share.
type failer interface {
	Helper()
	Fatal(args ...any)
}

// content of a file, or "(none)".
func content(t failer, fsys vfs.FS, path string) string {
	t.Helper()
	if _, err := fsys.Stat(path); err != nil {
		return "(none)"
	}
	b, err := vfs.ReadFile(fsys, path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// I2: a crash keeps what was synced and nothing else.
func TestCrash(t *testing.T) {
	open := func(t *testing.T, m *vfs.Mem, path string) vfs.File {
		f, err := m.OpenFile(path, vfs.Create, 0o644)
		must(t, err)
		return f
	}
	write := func(t *testing.T, f vfs.File, s string, off int64) {
		_, err := f.WriteAt([]byte(s), off)
		must(t, err)
	}
	// durable makes a file whose content and entry are synced.
	durable := func(t *testing.T, m *vfs.Mem, path, s string) vfs.File {
		f := open(t, m, path)
		write(t, f, s, 0)
		must(t, f.Sync())
		must(t, m.SyncDir("/data"))
		return f
	}
	cases := []struct {
		name string
		do   func(t *testing.T, m *vfs.Mem)
		want map[string]string // path → content
	}{
		{"synced file, unsynced entry", func(t *testing.T, m *vfs.Mem) {
			f := open(t, m, "/data/a")
			write(t, f, "x", 0)
			must(t, f.Sync())
		}, map[string]string{"/data/a": "(none)"}},
		{"synced entry, unsynced bytes", func(t *testing.T, m *vfs.Mem) {
			write(t, open(t, m, "/data/a"), "x", 0)
			must(t, m.SyncDir("/data"))
		}, map[string]string{"/data/a": ""}},
		{"append after a sync", func(t *testing.T, m *vfs.Mem) {
			write(t, durable(t, m, "/data/a", "abc"), "def", 3)
		}, map[string]string{"/data/a": "abc"}},
		{"overwrite after a sync", func(t *testing.T, m *vfs.Mem) {
			write(t, durable(t, m, "/data/a", "abc"), "X", 1)
		}, map[string]string{"/data/a": "abc"}},
		{"cut after a sync", func(t *testing.T, m *vfs.Mem) {
			must(t, durable(t, m, "/data/a", "abc").Truncate(1))
		}, map[string]string{"/data/a": "abc"}},
		{"cut, extended, synced", func(t *testing.T, m *vfs.Mem) {
			f := durable(t, m, "/data/a", "abc")
			must(t, f.Truncate(1))
			write(t, f, "Z", 4)
			must(t, f.Sync())
		}, map[string]string{"/data/a": "a\x00\x00\x00Z"}},
		{"removed, not synced", func(t *testing.T, m *vfs.Mem) {
			durable(t, m, "/data/a", "abc")
			must(t, m.Remove("/data/a"))
		}, map[string]string{"/data/a": "abc"}},
		{"removed and synced", func(t *testing.T, m *vfs.Mem) {
			durable(t, m, "/data/a", "abc")
			must(t, m.Remove("/data/a"))
			must(t, m.SyncDir("/data"))
		}, map[string]string{"/data/a": "(none)"}},
		{"renamed over, not synced", func(t *testing.T, m *vfs.Mem) {
			durable(t, m, "/data/a", "old")
			durable(t, m, "/data/b", "new")
			must(t, m.Rename("/data/b", "/data/a"))
		}, map[string]string{"/data/a": "old", "/data/b": "new"}},
		{"renamed over and synced", func(t *testing.T, m *vfs.Mem) {
			durable(t, m, "/data/a", "old")
			durable(t, m, "/data/b", "new")
			must(t, m.Rename("/data/b", "/data/a"))
			must(t, m.SyncDir("/data"))
		}, map[string]string{"/data/a": "new", "/data/b": "(none)"}},
		{"renamed with unsynced bytes", func(t *testing.T, m *vfs.Mem) {
			durable(t, m, "/data/a", "old")
			write(t, open(t, m, "/data/b"), "new", 0)
			must(t, m.Rename("/data/b", "/data/a"))
			must(t, m.SyncDir("/data"))
		}, map[string]string{"/data/a": ""}},
		{"file in an unsynced directory", func(t *testing.T, m *vfs.Mem) {
			must(t, m.MkdirAll("/data/d", 0o755))
			write(t, open(t, m, "/data/d/a"), "x", 0)
			must(t, m.SyncDir("/data/d"))
		}, map[string]string{"/data/d": "(none)", "/data/d/a": "(none)"}},
		{"tree removed, not synced", func(t *testing.T, m *vfs.Mem) {
			must(t, vfs.MkdirAllSync(m, "/data/d", 0o755))
			must(t, vfs.ReplaceFile(m, "/data/d/a", []byte("x")))
			must(t, m.RemoveAll("/data/d"))
		}, map[string]string{"/data/d/a": "x"}},
		{"a sync that failed, then one that went through", func(t *testing.T, m *vfs.Mem) {
			f := durable(t, m, "/data/a", "abc")
			write(t, f, "X", 0)
			f.(interface{ DropUnsynced() }).DropUnsynced()
			if got := content(t, m, "/data/a"); got != "Xbc" {
				t.Errorf("the cache shows %q", got)
			}
			must(t, f.Sync())
		}, map[string]string{"/data/a": "abc"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := newData(t)
			c.do(t, m)
			before, err := tree(m, "/")
			must(t, err)
			killed, crashed := m.Kill(), m.Crash()
			for path, want := range c.want {
				if got := content(t, crashed, path); got != want {
					t.Errorf("%s after the crash: %q, want %q", path, got, want)
				}
				if got := content(t, killed.Crash(), path); got != want {
					t.Errorf("%s after a kill and a crash: %q, want %q", path, got, want)
				}
				if got := content(t, crashed.Crash(), path); got != want {
					t.Errorf("%s after a second crash: %q, want %q", path, got, want)
				}
			}
			for name, fsys := range map[string]vfs.FS{"old": m, "killed": killed} {
				if after, err := tree(fsys, "/"); err != nil || after != before {
					t.Errorf("the %s file system changed: %s, %v", name, after, err)
				}
			}
		})
	}
}

// I3: the old handles and locks do not reach the new file system.
func TestCrashCutsHandlesOff(t *testing.T) {
	m := newData(t)
	f, err := m.OpenFile("/data/a", vfs.Create, 0o644)
	must(t, err)
	_, err = f.WriteAt([]byte("abc"), 0)
	must(t, err)
	must(t, f.Sync())
	must(t, m.SyncDir("/data"))
	_, err = m.Lock("/data/.lock")
	must(t, err)
	must(t, m.SyncDir("/data"))
	for name, next := range map[string]*vfs.Mem{"crash": m.Crash(), "kill": m.Kill(), "keeping": m.CrashKeeping(1)} {
		_, err := f.WriteAt([]byte("X"), 0)
		must(t, err)
		must(t, f.Sync())
		if got := content(t, next, "/data/a"); got != "abc" {
			t.Errorf("%s: an old handle wrote into the new file system: %q", name, got)
		}
		l, err := next.Lock("/data/.lock")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		must(t, l.Unlock())
		g, err := next.OpenFile("/data/a", vfs.ReadWrite, 0)
		must(t, err)
		_, err = g.WriteAt([]byte("new"), 0)
		must(t, err)
		if got := content(t, m, "/data/a"); got != "Xbc" {
			t.Errorf("%s: a new handle wrote into the old file system: %q", name, got)
		}
	}
}

// I2 as a property: random writes and syncs against a model of two byte
// slices, cut off by both kinds of crash.
func TestCrashProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := vfs.NewMem()
		f, err := m.OpenFile("/a", vfs.Create, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		var synced []byte
		history := [][]byte{nil} // every content since the last sync
		fill := byte(0)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			now := bytes.Clone(history[len(history)-1])
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				fill++
				off := rapid.IntRange(0, 12000).Draw(t, "off")
				data := bytes.Repeat([]byte{fill}, rapid.IntRange(1, 9000).Draw(t, "len"))
				if grown := off + len(data); grown > len(now) {
					now = append(now, make([]byte, grown-len(now))...)
				}
				copy(now[off:], data)
				_, err = f.WriteAt(data, int64(off))
			case 2:
				size := rapid.IntRange(0, 20000).Draw(t, "size")
				now = append(now, make([]byte, max(0, size-len(now)))...)[:size]
				err = f.Truncate(int64(size))
			case 3:
				err = f.Sync()
				synced, history = now, nil
			}
			if err != nil {
				t.Fatal(err)
			}
			history = append(history, now)
		}
		if got := content(t, m.Crash(), "/a"); got != string(synced) {
			t.Fatalf("crash: %d bytes, want the %d that were synced", len(got), len(synced))
		}
		seed := rapid.Uint64().Draw(t, "seed")
		kept := content(t, m.CrashKeeping(seed), "/a")
		if again := content(t, m.CrashKeeping(seed), "/a"); again != kept {
			t.Fatal("the same seed gave another result")
		}
		wantWritten(t, kept, append(history, synced))
	})
}

// wantWritten fails when a byte of content was at its place in no version.
func wantWritten(t *rapid.T, content string, versions [][]byte) {
	for i := range len(content) {
		known := content[i] == 0
		for _, v := range versions {
			known = known || i < len(v) && v[i] == content[i]
		}
		if !known {
			t.Fatalf("byte %d is %d, which was never written there", i, content[i])
		}
	}
}

// CrashKeeping really keeps, loses and tears, over enough seeds.
func TestCrashKeepingVaries(t *testing.T) {
	m := newData(t)
	f, err := m.OpenFile("/data/a", vfs.Create, 0o644)
	must(t, err)
	must(t, m.SyncDir("/data"))
	_, err = f.WriteAt(bytes.Repeat([]byte("x"), 8192), 0)
	must(t, err)
	for i := range 4 {
		put(t, m, fmt.Sprintf("/data/new%d", i), "")
	}
	lengths, entries, torn := map[int]bool{}, map[int]bool{}, false
	for seed := range uint64(200) {
		c := m.CrashKeeping(seed)
		got := content(t, c, "/data/a")
		lengths[len(got)] = true
		entries[len(names(t, c, "/data"))] = true
		torn = torn || strings.Contains(got, "x\x00") && strings.Index(got, "x\x00")%4096 != 4095
	}
	if !lengths[0] || len(lengths) < 10 || !torn {
		t.Errorf("lengths %d, torn %v", len(lengths), torn)
	}
	if len(entries) != 5 {
		t.Errorf("numbers of entries kept: %v, want 1 to 5", entries)
	}
}

// I4: whenever the machine stops within ReplaceFile, one of the two contents is
// there; and after it returned, the new one.
func TestReplaceFileSurvivesCrashes(t *testing.T) {
	for step := 1; ; step++ {
		m := newData(t)
		must(t, vfs.ReplaceFile(m, "/data/a", []byte("old")))
		ffs := faultfs.New(m)
		gone := ffs.FailFrom(step, faultfs.IOError())
		err := vfs.ReplaceFile(ffs, "/data/a", []byte("new content"))
		for seed := range uint64(20) {
			got := content(t, m.CrashKeeping(seed), "/data/a")
			if got != "new content" && (err == nil || got != "old") {
				t.Fatalf("machine gone at operation %d (error %v): %q", step, err, got)
			}
		}
		if gone.Fired() == 0 {
			must(t, err)
			if step < 5 {
				t.Fatalf("only %d operations", step)
			}
			return
		}
		wantErr(t, "operation failed", err, syscall.EIO)
		if got := content(t, m.Crash(), "/data/a"); got != "old" && got != "new content" {
			t.Fatalf("machine gone at operation %d: %q", step, got)
		}
		gone.Stop()
		must(t, vfs.ReplaceFile(ffs, "/data/a", []byte("second try")))
		if got := content(t, m.Crash(), "/data/a"); got != "second try" {
			t.Fatalf("after a second try: %q", got)
		}
	}
}

// A full Mem takes what fits, and gives space back when the last reference to
// a file goes.
func TestMemCapacity(t *testing.T) {
	m := newData(t)
	m.SetCapacity(10)
	f, err := m.OpenFile("/data/a", vfs.Create, 0o644)
	must(t, err)
	n, err := f.WriteAt([]byte("0123456"), 0)
	if n != 7 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	n, err = f.WriteAt([]byte("789abc"), 7)
	if n != 3 {
		t.Errorf("%d bytes fitted, want 3", n)
	}
	wantErr(t, "full", err, syscall.ENOSPC)
	n, err = f.WriteAt([]byte("x"), 10)
	if n != 0 {
		t.Error("a byte fitted into nothing")
	}
	wantErr(t, "full", err, syscall.ENOSPC)
	wantErr(t, "extend", f.Truncate(11), syscall.ENOSPC)
	_, err = f.WriteAt([]byte("overwrite!"), 0)
	must(t, err)

	free := func(want uint64) {
		t.Helper()
		u, err := m.Usage("/data")
		must(t, err)
		if u.Total != 10 || u.Free != want {
			t.Errorf("usage %+v, want %d free", u, want)
		}
	}
	must(t, f.Truncate(6))
	free(4)
	must(t, m.Remove("/data/a"))
	free(4)
	must(t, f.Close())
	free(10)
	put(t, m, "/data/b", "12345")
	put(t, m, "/data/c", "1")
	must(t, m.Rename("/data/c", "/data/b"))
	free(9)
	must(t, m.RemoveAll("/data/b"))
	free(10)
	if u, err := m.Kill().Usage("/"); err != nil || u.Free != 10 {
		t.Errorf("after a kill: %+v, %v", u, err)
	}
}

func TestMemRoot(t *testing.T) {
	m := vfs.NewMem()
	put(t, m, "relative", "x")
	if got := content(t, m, "/relative"); got != "x" {
		t.Errorf("relative paths start at the root: %q", got)
	}
	if m.Remove("/") == nil || m.RemoveAll("/") == nil || m.Rename("/", "/x") == nil || m.Rename("/relative", "/") == nil {
		t.Error("the root can be taken away")
	}
	if err := m.MkdirAll("/", 0o755); err != nil {
		t.Error(err)
	}
	if _, err := m.OpenFile("/a", vfs.Create|os.O_APPEND, 0o644); err == nil {
		t.Error("O_APPEND went through")
	}
	f, err := m.OpenFile("/", vfs.ReadOnly, 0)
	must(t, err)
	_, err = f.ReadAt(make([]byte, 1), 0)
	wantErr(t, "read a directory", err, syscall.EISDIR)
	must(t, f.Sync())
	wantErr(t, "sync after close", func() error { must(t, f.Close()); return f.Sync() }(), fs.ErrClosed)
	if f.Fd() != vfs.InvalidFd {
		t.Error("a file in memory has a descriptor")
	}
}
