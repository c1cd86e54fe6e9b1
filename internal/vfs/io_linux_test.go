// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// I5: each refusal moves that file system on by one method, once, and the call
// that met it gives the right bytes.
func TestFallBackAtRunTime(t *testing.T) {
	for _, refusal := range []error{unix.ENOSYS, unix.EPERM, unix.EOPNOTSUPP, unix.EINVAL} {
		t.Run(refusal.Error(), func(t *testing.T) {
			m := newMachine(1 << 20)
			o, f := newIO(t, m, allChains())
			home, err := o.target(f)
			if err != nil {
				t.Fatal(err)
			}
			o.home = homeOf(t, f)
			lanes := func() [3]string {
				return [3]string{home.lanes.read.method(), home.lanes.write.method(), home.lanes.residency.method()}
			}
			data := bytes.Repeat([]byte("snow"), 1<<12)
			roundTrip := func() {
				t.Helper()
				if n, err := o.WriteUncached(f, data, 0); n != len(data) || err != nil {
					t.Fatal(n, err)
				}
				got := make([]byte, len(data))
				if n, err := o.ReadUncached(f, got, 0); n != len(got) || err != nil || !bytes.Equal(got, data) {
					t.Fatal(n, err)
				}
			}
			roundTrip()
			want := func(read, write, residency string) {
				t.Helper()
				if got := lanes(); got != [3]string{read, write, residency} {
					t.Errorf("in use: %v", got)
				}
			}
			want(methodDontCache, methodDontCache, methodCachestat)
			m.refuse["preadv2"], m.refuse["pwritev2"] = refusal, refusal
			roundTrip()
			want(methodFadvise, methodFadvise, methodCachestat)
			m.refuse["cachestat"] = refusal
			o.Resident(f, 0, 1)
			want(methodFadvise, methodFadvise, methodMincore)
			m.refuse["mincore"] = refusal
			if !o.Resident(f, 0, 1) {
				t.Error("unknown must count as resident")
			}
			want(methodFadvise, methodFadvise, methodNone)
			roundTrip()
			calls := m.calls["preadv2"]
			roundTrip()
			if m.calls["preadv2"] != calls {
				t.Error("a method that was left is tried again")
			}
			if got := o.Methods(); got != describe(methodNone, methodFadvise, methodNone) {
				t.Errorf("described as %+v", got)
			}
		})
	}
}

func homeOf(t *testing.T, f File) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Dev
}

// A refusal in the middle of a call goes on where the call was, and other file
// systems keep their methods.
func TestFallBackMidway(t *testing.T) {
	m := newMachine(1 << 20)
	o, f := newIO(t, m, allChains())
	want := bytes.Repeat([]byte("0123456789"), 1000)
	if _, err := f.WriteAt(want, 0); err != nil {
		t.Fatal(err)
	}
	inner := o.calls.read
	o.calls.read = func(fd int, p []byte, off int64, flags int) (int, error) {
		if off > 0 {
			return 0, unix.EOPNOTSUPP
		}
		return inner(fd, p[:100], off, flags)
	}
	got := make([]byte, len(want))
	if n, err := o.ReadUncached(f, got, 0); n != len(want) || err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d, %v", n, err)
	}
	home, err := o.target(f)
	if err != nil {
		t.Fatal(err)
	}
	if home.lanes.read.method() != methodFadvise || o.lanesOf(homeOf(t, f)+1).read.method() != methodDontCache {
		t.Error("the fall-back is not the file system's own")
	}
}

// Errors that are no refusal are the caller's, and change no method.
func TestTrueErrorsAreNotFallenBackFrom(t *testing.T) {
	m := newMachine(1 << 20)
	o, f := newIO(t, m, allChains())
	m.refuse["preadv2"], m.refuse["pwritev2"] = unix.EIO, unix.ENOSPC
	if _, err := o.ReadUncached(f, make([]byte, 10), 0); !errors.Is(err, unix.EIO) {
		t.Errorf("read: %v", err)
	}
	if n, err := o.WriteUncached(f, make([]byte, 10), 0); n != 0 || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("write: %d, %v", n, err)
	}
	m.refuse["cachestat"] = unix.EIO
	if !o.Resident(f, 0, 1) {
		t.Error("unknown must count as resident")
	}
	if got := o.lanesOf(homeOf(t, f)); got.read.method() != methodDontCache || got.write.method() != methodDontCache || got.residency.method() != methodCachestat {
		t.Error("a method was left")
	}
}

// The fadvise method leaves what was resident before it came, and nothing else,
// though read-ahead runs before it.
func TestWindowsSpareWhatWasResident(t *testing.T) {
	const windows = 8
	for _, ahead := range []int64{0, 128 << 10, 2 * windowBytes} {
		t.Run(fmt.Sprint("read-ahead ", ahead), func(t *testing.T) {
			m := newMachine(windows*windowBytes - 12345)
			m.ahead = ahead
			o, f := newIO(t, m, chains{read: []string{methodFadvise, methodNone}, write: uncachedMethods, residency: residencyMethods})
			m.touch(2*windowBytes, windowBytes, true)      // hot
			m.touch(5*windowBytes, windowBytes/2, true)    // half hot
			m.touch(3*windowBytes+5*4096, 3*4096, true)    // looked into
			m.touch(7*windowBytes, windowBytes/4096, true) // looked into, the last and short one
			hot := m.count(2*windowBytes, windowBytes)
			buf := make([]byte, 256<<10)
			for off := int64(0); ; {
				n, err := o.ReadUncached(f, buf, off)
				off += int64(n)
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for i := range int64(windows) {
				found := m.count(i*windowBytes, windowBytes)
				switch i {
				case 2, 5:
					if found != hot {
						t.Errorf("window %d: %d pages left, want all %d", i, found, hot)
					}
				default:
					if found != 0 {
						t.Errorf("window %d: %d pages left", i, found)
					}
				}
			}
			if n := len(o.seen.judged); n != 0 {
				t.Errorf("%d judgements are still remembered", n)
			}
		})
	}
}

// Without a way to know what is resident, nothing is dropped.
func TestWindowsDropNothingBlindly(t *testing.T) {
	m := newMachine(2 * windowBytes)
	o, f := newIO(t, m, chains{read: []string{methodFadvise, methodNone}, write: uncachedMethods, residency: residencyMethods})
	m.refuse["cachestat"], m.refuse["mincore"] = unix.EPERM, unix.EPERM
	buf := make([]byte, windowBytes)
	for off := int64(0); off < m.size; off += windowBytes {
		if _, err := o.ReadUncached(f, buf, off); err != nil {
			t.Fatal(err)
		}
	}
	if m.calls["fadvise"] != 0 {
		t.Error("dropped pages of whom it may concern")
	}
}

// What is remembered of windows is bounded.
func TestWindowsAreForgotten(t *testing.T) {
	var w windows
	l := &lanes{}
	for i := range int64(3 * windowsKept) {
		w.put(windowKey{l, 1, i}, judgement{ours: true})
	}
	if len(w.judged) > windowsKept {
		t.Errorf("%d judgements", len(w.judged))
	}
	w.put(windowKey{l, 2, 0}, judgement{ours: true})
	w.put(windowKey{l, 2, 0}, judgement{ours: false})
	if !w.take(windowKey{l, 2, 0}) {
		t.Error("the second judgement won")
	}
	if w.take(windowKey{l, 2, 0}) {
		t.Error("taken twice")
	}
}

// Writing behind drops whole windows once they are on the disk, and a failure
// to write them out is not swallowed.
func TestWriteBehind(t *testing.T) {
	m := newMachine(5 * windowBytes)
	o, f := newIO(t, m, chains{read: uncachedMethods, write: []string{methodFadvise, methodNone}, residency: residencyMethods})
	piece := make([]byte, 3<<20)
	for off := int64(0); off < m.size; off += int64(len(piece)) {
		p := piece[:min(int64(len(piece)), m.size-off)]
		if n, err := o.WriteUncached(f, p, off); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := m.count(0, 4*windowBytes); n != 0 {
		t.Errorf("%d pages of finished windows are left", n)
	}
	if m.count(0, m.size) == 0 {
		t.Error("the last window was dropped before it could be clean")
	}
	o.DropWritten(f)
	if n := m.count(0, m.size); n != 0 {
		t.Errorf("%d pages are left after all", n)
	}
	m.refuse["sync_file_range"] = unix.EIO
	if n, err := o.WriteUncached(f, make([]byte, windowBytes), 0); n != windowBytes || !errors.Is(err, unix.EIO) {
		t.Errorf("a failed write-out: %d, %v", n, err)
	}
	m.refuse["sync_file_range"] = unix.ENOSYS
	if n, err := o.WriteUncached(f, make([]byte, windowBytes), 0); n != windowBytes || err != nil {
		t.Errorf("no write-out to be had: %d, %v", n, err)
	}
	if got := o.lanesOf(homeOf(t, f)).write.method(); got != methodNone {
		t.Errorf("still %s", got)
	}
}

// I6, with the counting done by the kernel in the test: every edge of a range.
func TestResidentRanges(t *testing.T) {
	page := int64(os.Getpagesize())
	for _, method := range residencyMethods[:2] {
		t.Run(method, func(t *testing.T) {
			m := newMachine(20*page - 100)
			o, f := newIO(t, m, chains{read: uncachedMethods, write: uncachedMethods, residency: []string{method, methodNone}})
			if method == methodMincore {
				inner := f.(cachedFile).File.(*diskFile)
				if err := inner.pages.cover(int(inner.Fd()), m.size); err != nil {
					t.Fatal(err)
				}
				m.mapped = inner.pages.addr
				f = inner
			}
			m.touch(4*page, 4*page, true) // 4 to 7
			m.touch(19*page, page, true)  // the last one
			cases := []struct {
				off, n int64
				want   bool
			}{
				{4 * page, 4 * page, true},
				{4 * page, 1, true},
				{4*page - 1, 2, false},
				{4*page + 7, 4*page - 7, true},
				{4*page + 7, 4*page - 6, false},
				{8*page - 1, 1, true},
				{8 * page, 1, false},
				{19 * page, page, true},
				{19 * page, 1 << 40, true},
				{19*page - 1, 1 << 62, false},
				{20 * page, page, true}, // nothing there to be read from the disk
				{0, 0, true},
				{-1, 5, true},
				{0, -5, true},
			}
			for _, c := range cases {
				if got := o.Resident(f, c.off, c.n); got != c.want {
					t.Errorf("[%d, +%d): %v", c.off, c.n, got)
				}
			}
		})
	}
}

// A mapping follows a file that grows, and goes when the file is closed.
func TestPageMapFollowsTheFile(t *testing.T) {
	m := newMachine(0)
	o, cf := newIO(t, m, chains{read: uncachedMethods, write: uncachedMethods, residency: []string{methodMincore, methodNone}})
	f := cf.(cachedFile).File.(*diskFile)
	if err := f.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range int64(16) {
				o.Resident(f, i<<20, 1<<20)
			}
		})
	}
	for i := range int64(6) {
		if err := f.Truncate(minMapBytes << i); err != nil {
			t.Fatal(err)
		}
		o.Resident(f, 0, minMapBytes<<i)
		if f.pages.length < minMapBytes<<i {
			t.Errorf("mapped %d of %d", f.pages.length, minMapBytes<<i)
		}
	}
	wg.Wait()
	g, err := Disk().OpenFile(f.Name(), ReadOnly, 0)
	if err != nil {
		t.Fatal(err)
	}
	o.Resident(g, 0, 1)
	if g.(*diskFile).pages.addr == nil {
		t.Error("no mapping was kept")
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if g.(*diskFile).pages.addr != nil {
		t.Error("the mapping outlives the file")
	}
	before := m.calls["mincore"]
	o.Resident(cf, 0, 1)
	if m.calls["mincore"] != before+1 || o.lanesOf(homeOf(t, f)).residency.method() != methodMincore {
		t.Error("a file without a mapping of its own is not looked at")
	}
}

// The probe believes a residency method only when it saw it tell the truth.
func TestProbe(t *testing.T) {
	cases := []struct {
		name   string
		lacks  []string
		lies   bool // mincore
		blind  bool // dropping does nothing, as on tmpfs
		want   forced
		expect Methods
		err    error
	}{
		{name: "all there", expect: describe(methodDontCache, methodDontCache, methodCachestat)},
		{name: "an older kernel", lacks: []string{"preadv2", "pwritev2", "cachestat"},
			expect: describe(methodFadvise, methodFadvise, methodMincore)},
		{name: "a container that forbids", lacks: []string{"preadv2", "pwritev2", "cachestat", "mincore", "sync_file_range"},
			expect: describe(methodNone, methodNone, methodNone)},
		{name: "mincore lies", lacks: []string{"preadv2", "cachestat"}, lies: true,
			expect: describe(methodNone, methodDontCache, methodNone)},
		{name: "nothing is ever dropped", lacks: []string{"preadv2", "pwritev2"}, blind: true,
			expect: describe(methodNone, methodFadvise, methodNone)},
		{name: "forced down", want: forced{methodFadvise, methodMincore},
			expect: describe(methodFadvise, methodFadvise, methodMincore)},
		{name: "forced, not there", lacks: []string{"preadv2"}, want: forced{uncached: methodDontCache}, err: ErrUnknownMethod},
		{name: "forced, a liar", lies: true, want: forced{residency: methodMincore}, err: ErrUnknownMethod},
		{name: "windows without residency", want: forced{methodFadvise, methodNone}, err: ErrUnknownMethod},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(probeBytes)
			m.mapped, m.lies = unsafe.Pointer(m), c.lies
			for _, call := range c.lacks {
				m.refuse[call] = unix.ENOSYS
			}
			p, err := probeWith(m.probeKernel(c.blind), t.TempDir(), c.want)
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err == nil && p.methods() != c.expect {
				t.Errorf("found %+v", p.methods())
			}
		})
	}
}

// Against the real kernel: where the probe verified a method, it tells a
// dropped file from one that was read, and the uncached methods leave no trace
// of a file that was not in the cache.
func TestRealKernel(t *testing.T) {
	dir := t.TempDir()
	for _, force := range []string{"", "dontcache", "fadvise", "mincore", "fadvise,mincore"} {
		o, err := ProbeIO(dir, force)
		if errors.Is(err, ErrUnknownMethod) {
			continue // not on this kernel; TestProbe covers the choice
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Run(force, func(t *testing.T) { realKernel(t, o, filepath.Join(dir, "a")) })
	}
}

func realKernel(t *testing.T, o *IO, path string) {
	f, err := Disk().OpenFile(path, Create|os.O_TRUNC, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 2*windowBytes + 1<<20
	piece := bytes.Repeat([]byte("ice "), 64<<10)
	for off := int64(0); off < size; off += int64(len(piece)) {
		if _, err := o.WriteUncached(f, piece, off); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	o.DropWritten(f)
	if o.Methods().Residency == "unknown" {
		if !o.Resident(f, 0, size) {
			t.Error("unknown must count as resident")
		}
		return
	}
	cached := func() int64 {
		found, _, known := o.residentPages(f, 0, size)
		if !known {
			t.Fatal("the residency method stopped working")
		}
		return found
	}
	if n := cached(); o.Methods().UncachedWrite != "buffered" && n != 0 {
		t.Errorf("%d pages left by writing", n)
	}
	for off := int64(0); off < size; off += int64(len(piece)) {
		if _, err := o.ReadUncached(f, piece, off); err != nil {
			t.Fatal(err)
		}
	}
	if n := cached(); o.Methods().UncachedRead != "buffered" && n > 64 {
		t.Errorf("%d pages left by reading", n)
	}
	if o.Resident(f, windowBytes, windowBytes) {
		t.Error("a dropped range counts as resident")
	}
	if _, err := f.ReadAt(piece, windowBytes); err != nil {
		t.Fatal(err)
	}
	if !o.Resident(f, windowBytes, int64(len(piece))) {
		t.Error("a range just read does not count as resident")
	}
}

// The lock excludes one taken by fcntl, which is Kafka's, the other way round
// too.
func TestLockExcludesPosixLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	posix := func(kind int16) error {
		l := unix.Flock_t{Type: kind, Whence: io.SeekStart}
		return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &l)
	}
	held, err := Disk().Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := posix(unix.F_WRLCK); !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EACCES) {
		t.Errorf("a POSIX lock beside ours: %v", err)
	}
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := posix(unix.F_WRLCK); err != nil {
		t.Errorf("after unlock: %v", err)
	}
	if _, err := Disk().Lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("beside a POSIX lock: %v", err)
	}
}
