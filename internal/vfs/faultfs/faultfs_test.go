// SPDX-License-Identifier: Apache-2.0

package faultfs_test

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newFile makes an FS over memory and an open, durable file with "abcdef" in
// it.
func newFile(t *testing.T) (*vfs.Mem, *faultfs.FS, vfs.File) {
	t.Helper()
	m := vfs.NewMem()
	must(t, vfs.ReplaceFile(m, "/a", []byte("abcdef")))
	ffs := faultfs.New(m)
	f, err := ffs.OpenFile("/a", vfs.ReadWrite, 0)
	must(t, err)
	return m, ffs, f
}

func content(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, "/a", 1<<20)
	must(t, err)
	return string(b)
}

func TestWriteFaults(t *testing.T) {
	cases := []struct {
		name  string
		fault faultfs.Fault
		n     int
		err   error
		want  string
	}{
		{"error", faultfs.Error(syscall.EROFS), 0, syscall.EROFS, "abcdef"},
		{"zero fault", faultfs.Fault{}, 0, faultfs.ErrInjected, "abcdef"},
		{"short", faultfs.ShortWrite(2), 2, io.ErrShortWrite, "XYcdef"},
		{"no space", faultfs.NoSpace(1), 1, syscall.ENOSPC, "Xbcdef"},
		{"all written, and yet", faultfs.ShortWrite(99), 3, io.ErrShortWrite, "XYZdef"},
		{"flip is for reads", faultfs.FlipBit(0), 3, nil, "XYZdef"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, ffs, f := newFile(t)
			ffs.FailNth(2, c.fault, faultfs.OpWrite)
			_, err := f.WriteAt([]byte("abc"), 0)
			must(t, err)
			n, err := f.WriteAt([]byte("XYZ"), 0)
			if n != c.n || !errors.Is(err, c.err) {
				t.Errorf("%d, %v; want %d, %v", n, err, c.n, c.err)
			}
			if got := content(t, m); got != c.want {
				t.Errorf("content %q, want %q", got, c.want)
			}
			_, err = f.WriteAt([]byte("ABCDEF"), 0)
			must(t, err)
		})
	}
}

func TestReadFaults(t *testing.T) {
	_, ffs, f := newFile(t)
	read := func() (string, error) {
		p := make([]byte, 4)
		n, err := f.ReadAt(p, 1)
		return string(p[:n]), err
	}
	ffs.FailNth(1, faultfs.FlipBit(8*2+1), faultfs.OpRead)
	if got, err := read(); err != nil || got != "bcfe" {
		t.Errorf("flipped: %q, %v", got, err)
	}
	ffs.FailNth(1, faultfs.Fault{Err: syscall.EIO, Bytes: 2}, faultfs.OpRead)
	if got, err := read(); !errors.Is(err, syscall.EIO) || got != "bc" {
		t.Errorf("torn: %q, %v", got, err)
	}
	if got, err := read(); err != nil || got != "bcde" {
		t.Errorf("after the faults: %q, %v", got, err)
	}
}

// I2: what a failed sync covered stays lost, though a later one goes through.
func TestFailedSyncLosesForGood(t *testing.T) {
	m, ffs, f := newFile(t)
	_, err := f.WriteAt([]byte("XYZ"), 0)
	must(t, err)
	i := ffs.FailNth(1, faultfs.IOError(), faultfs.OpSync)
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	must(t, f.Sync())
	if i.Fired() != 1 {
		t.Errorf("fired %d times", i.Fired())
	}
	if got := content(t, m); got != "XYZdef" {
		t.Errorf("the cache shows %q", got)
	}
	if got := content(t, m.Crash()); got != "abcdef" {
		t.Errorf("after the crash: %q", got)
	}
	vfs.DropClean(f)
	if got := content(t, m); got != "abcdef" {
		t.Errorf("with the cache dropped: %q", got)
	}
	_, err = f.WriteAt([]byte("12"), 2)
	must(t, err)
	vfs.DropClean(f) // what waits to be written stays
	if got := content(t, m); got != "ab12ef" {
		t.Errorf("with a dirty page: %q", got)
	}
	must(t, f.Sync())
	if got := content(t, m.Crash()); got != "ab12ef" {
		t.Errorf("written again: %q", got)
	}
}

func TestFailFromAndStop(t *testing.T) {
	_, ffs, f := newFile(t)
	i := ffs.FailFrom(2, faultfs.NoSpace(0), faultfs.OpWrite, faultfs.OpTruncate)
	results := []error{f.Truncate(5), f.Truncate(4), f.Sync()}
	_, err := f.WriteAt([]byte("x"), 0)
	results = append(results, err)
	i.Stop()
	results = append(results, f.Truncate(3))
	for n, fails := range []bool{false, true, false, true, false} {
		if errors.Is(results[n], syscall.ENOSPC) != fails {
			t.Errorf("operation %d: %v", n, results[n])
		}
	}
	if i.Fired() != 2 {
		t.Errorf("fired %d times, want 2", i.Fired())
	}
}

func TestRules(t *testing.T) {
	_, ffs, f := newFile(t)
	rule := ffs.Inject(faultfs.Rule{
		Match: func(c faultfs.Call) bool { return strings.HasSuffix(c.Path, ".index") || c.To == "/b" },
		Times: 2,
	})
	later := ffs.FailFrom(1, faultfs.Error(syscall.EPERM), faultfs.OpRename)
	if _, err := ffs.OpenFile("/00.index", vfs.Create, 0o644); !errors.Is(err, faultfs.ErrInjected) {
		t.Errorf("matched by path: %v", err)
	}
	if err := ffs.Rename("/a", "/b"); !errors.Is(err, faultfs.ErrInjected) || errors.Is(err, syscall.EPERM) {
		t.Errorf("the oldest rule decides: %v", err)
	}
	if err := ffs.Rename("/a", "/b"); !errors.Is(err, syscall.EPERM) {
		t.Errorf("the next rule when the first is spent: %v", err)
	}
	must(t, f.Sync())
	if rule.Fired() != 2 || later.Fired() != 1 {
		t.Errorf("fired %d and %d times", rule.Fired(), later.Fired())
	}
}

func TestHook(t *testing.T) {
	_, ffs, f := newFile(t)
	var calls []faultfs.Call
	ffs.Hook(func(c faultfs.Call) *faultfs.Fault {
		calls = append(calls, c)
		ffs.Count() // no lock is held
		if c.Op == faultfs.OpWrite && c.Off == 7 {
			fault := faultfs.ShortWrite(1)
			return &fault
		}
		return nil
	})
	_, err := f.WriteAt([]byte("xy"), 3)
	must(t, err)
	n, err := f.WriteAt([]byte("xyz"), 7)
	if n != 1 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%d, %v", n, err)
	}
	ffs.Hook(nil)
	_, err = f.WriteAt([]byte("xyz"), 7)
	must(t, err)
	want := []faultfs.Call{
		{Op: faultfs.OpWrite, Path: "/a", Off: 3, Len: 2, N: 1},
		{Op: faultfs.OpWrite, Path: "/a", Off: 7, Len: 3, N: 2},
	}
	if len(calls) != 2 || calls[0] != want[0] || calls[1] != want[1] {
		t.Errorf("the hook saw %+v", calls)
	}
}

// Every operation is counted, can fail, and has no effect when it does (I1,
// I2, I3).
func TestEveryOperation(t *testing.T) {
	cases := []struct {
		op faultfs.Op
		do func(f *faultfs.FS, file vfs.File) error
	}{
		{faultfs.OpOpen, func(f *faultfs.FS, _ vfs.File) error { _, err := f.OpenFile("/a", vfs.ReadOnly, 0); return err }},
		{faultfs.OpCreate, func(f *faultfs.FS, _ vfs.File) error { _, err := f.OpenFile("/b", vfs.Create, 0); return err }},
		{faultfs.OpRead, func(_ *faultfs.FS, file vfs.File) error { _, err := file.ReadAt(make([]byte, 1), 0); return err }},
		{faultfs.OpWrite, func(_ *faultfs.FS, file vfs.File) error { _, err := file.WriteAt([]byte("x"), 0); return err }},
		{faultfs.OpSync, func(_ *faultfs.FS, file vfs.File) error { return file.Sync() }},
		{faultfs.OpTruncate, func(_ *faultfs.FS, file vfs.File) error { return file.Truncate(1) }},
		{faultfs.OpFileStat, func(_ *faultfs.FS, file vfs.File) error { _, err := file.Stat(); return err }},
		{faultfs.OpClose, func(_ *faultfs.FS, file vfs.File) error { return file.Close() }},
		{faultfs.OpRemove, func(f *faultfs.FS, _ vfs.File) error { return f.Remove("/a") }},
		{faultfs.OpRemoveAll, func(f *faultfs.FS, _ vfs.File) error { return f.RemoveAll("/a") }},
		{faultfs.OpRename, func(f *faultfs.FS, _ vfs.File) error { return f.Rename("/a", "/b") }},
		{faultfs.OpMkdir, func(f *faultfs.FS, _ vfs.File) error { return f.MkdirAll("/d", 0o755) }},
		{faultfs.OpReadDir, func(f *faultfs.FS, _ vfs.File) error { _, err := f.ReadDir("/"); return err }},
		{faultfs.OpStat, func(f *faultfs.FS, _ vfs.File) error { _, err := f.Stat("/a"); return err }},
		{faultfs.OpSyncDir, func(f *faultfs.FS, _ vfs.File) error { return f.SyncDir("/") }},
		{faultfs.OpLock, func(f *faultfs.FS, _ vfs.File) error { _, err := f.Lock("/.lock"); return err }},
		{faultfs.OpUsage, func(f *faultfs.FS, _ vfs.File) error { _, err := f.Usage("/"); return err }},
	}
	for _, c := range cases {
		t.Run(c.op.String(), func(t *testing.T) {
			m, ffs, f := newFile(t)
			before := ffs.Count()
			i := ffs.FailNth(1, faultfs.Fault{}, c.op)
			err := c.do(ffs, f)
			if !errors.Is(err, faultfs.ErrInjected) || i.Fired() != 1 {
				t.Fatalf("%v, fired %d times", err, i.Fired())
			}
			if c.op == faultfs.OpClose {
				_, err := f.ReadAt(make([]byte, 1), 0)
				if !errors.Is(err, fs.ErrClosed) {
					t.Errorf("the inner file is still open: %v", err)
				}
				return
			}
			entries, err := m.ReadDir("/")
			must(t, err)
			if len(entries) != 1 || content(t, m) != "abcdef" {
				t.Errorf("an operation that failed had an effect: %v, %q", entries, content(t, m))
			}
			must(t, c.do(ffs, f))
			if n := ffs.Count(c.op) - before*boolInt(c.op == faultfs.OpOpen); n != 2 {
				t.Errorf("counted %d, want 2", n)
			}
		})
	}
	for _, ops := range [][]faultfs.Op{faultfs.Reads(), faultfs.Writes()} {
		for _, op := range ops {
			if strings.HasPrefix(op.String(), "op(") {
				t.Errorf("%v has no name", op)
			}
		}
	}
	if got := faultfs.Op(99).String(); got != "op(99)" {
		t.Error(got)
	}
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func TestFds(t *testing.T) {
	ffs := faultfs.New(vfs.Disk())
	f, err := ffs.OpenFile(t.TempDir()+"/a", vfs.Create, 0o644)
	must(t, err)
	defer f.Close()
	if f.Fd() != vfs.InvalidFd {
		t.Error("the descriptor leads around the faults")
	}
	ffs.ExposeFds(true)
	if f.Fd() == vfs.InvalidFd {
		t.Error("the descriptor is not exposed")
	}
}
