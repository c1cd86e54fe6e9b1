// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// sendMethod is how file bytes reach a socket here.
const sendMethod = "sendfile"

// platform is the Linux half of IO. What it knows about a file system, it
// knows by its device number.
type platform struct {
	calls  calls
	chains chains
	home   uint64   // device of the directory that was probed
	disks  sync.Map // device number → *lanes
	seen   windows
}

// chains lists, best first, the methods that worked at the probe; the last of
// each is methodNone.
type chains struct{ read, write, residency []string }

// lanes is what one file system is served by.
type lanes struct{ read, write, residency lane }

// lane is a chain of methods and the place reached in it. It only moves on.
type lane struct {
	chain []string
	at    atomic.Int32
}

func (l *lane) method() string { return l.chain[l.at.Load()] }

// leave moves on from method, unless someone else did so already.
func (l *lane) leave(method string) {
	at := l.at.Load()
	if l.chain[at] == method && method != methodNone {
		l.at.CompareAndSwap(at, at+1)
	}
}

func (p *platform) lanesOf(dev uint64) *lanes {
	if l, ok := p.disks.Load(dev); ok {
		return l.(*lanes)
	}
	l, _ := p.disks.LoadOrStore(dev, &lanes{
		read:      lane{chain: p.chains.read},
		write:     lane{chain: p.chains.write},
		residency: lane{chain: p.chains.residency},
	})
	return l.(*lanes)
}

func (p *platform) methods() Methods {
	l := p.lanesOf(p.home)
	read, residency := l.read.method(), l.residency.method()
	if read == methodFadvise && residency == methodNone {
		read = methodNone // never knows what it may drop
	}
	return describe(read, l.write.method(), residency)
}

// target is one open file as the methods see it.
type target struct {
	file  File
	fd    int
	ino   uint64
	size  int64
	lanes *lanes
}

func (p *platform) target(f File) (target, error) {
	var st unix.Stat_t
	fd := int(f.Fd())
	if err := retryInterrupted(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return target{}, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return target{file: f, fd: fd, ino: st.Ino, size: st.Size, lanes: p.lanesOf(st.Dev)}, nil
}

func (p *platform) readUncached(f File, b []byte, off int64) (int, error) {
	t, err := p.target(f)
	if err != nil {
		return 0, err
	}
	done := 0
	if t.lanes.read.method() == methodDontCache {
		done, err = readFull(b, func(b []byte, done int) (int, error) {
			return p.calls.read(t.fd, b, off+int64(done), unix.RWF_DONTCACHE)
		})
		if !unsupported(err) {
			return done, ioError("read", f, err)
		}
		t.lanes.read.leave(methodDontCache)
	}
	read := f.ReadAt
	if t.lanes.read.method() == methodFadvise {
		read = func(b []byte, off int64) (int, error) { return p.readInWindows(t, b, off) }
	}
	n, err := read(b[done:], off+int64(done))
	return done + n, err
}

func (p *platform) writeUncached(f File, b []byte, off int64) (int, error) {
	t, err := p.target(f)
	if err != nil {
		return 0, err
	}
	done := 0
	if t.lanes.write.method() == methodDontCache {
		for done < len(b) && err == nil {
			var n int
			n, err = p.calls.write(t.fd, b[done:], off+int64(done), unix.RWF_DONTCACHE)
			done += max(n, 0)
		}
		if !unsupported(err) {
			return done, ioError("write", f, err)
		}
		t.lanes.write.leave(methodDontCache)
	}
	n, err := f.WriteAt(b[done:], off+int64(done))
	if err == nil && t.lanes.write.method() == methodFadvise {
		err = p.writeBehind(t, off, int64(len(b)))
	}
	return done + n, err
}

// writeBehind starts writing out each window that [off, off+n) completes, and
// waits for and drops the one before it, so that no more than two windows of a
// file are dirty or cached at a time.
func (p *platform) writeBehind(t target, off, n int64) error {
	for end := (off/windowBytes + 1) * windowBytes; end <= off+n; end += windowBytes {
		err := p.calls.syncRange(t.fd, end-windowBytes, windowBytes, unix.SYNC_FILE_RANGE_WRITE)
		if err == nil && end >= 2*windowBytes {
			behind := end - 2*windowBytes
			err = p.calls.syncRange(t.fd, behind, windowBytes,
				unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
			if err == nil {
				err = p.calls.fadvise(t.fd, behind, windowBytes, unix.FADV_DONTNEED)
			}
		}
		if unsupported(err) {
			t.lanes.write.leave(methodFadvise)
			return nil
		}
		if err != nil {
			// The bytes are in the cache and not on the disk, and this call has
			// taken the error that the next Sync would have reported.
			return ioError("write", t.file, err)
		}
	}
	return nil
}

func (p *platform) dropWritten(f File) {
	t, err := p.target(f)
	if err != nil || t.lanes.write.method() == methodNone {
		return
	}
	// A hint: pages that stay cost memory that the kernel takes back.
	_ = p.calls.fadvise(t.fd, 0, 0, unix.FADV_DONTNEED)
}

// residentPages counts the pages of [off, off+n) that are in the page cache
// and the pages there are; known is false where no method works.
// surelyResident says that all of a range is there, by one call that does not
// need the file's size. What it does not say so of may be there as well.
func (p *platform) surelyResident(f File, off, n int64) bool {
	if n > maxSurely || off > math.MaxInt64-2*maxSurely || p.lanesOf(p.home).residency.method() != methodCachestat {
		return false
	}
	page := int64(os.Getpagesize())
	start := off / page * page
	want := (off+n-start-1)/page + 1
	found, err := p.calls.cachestat(int(f.Fd()), start, want*page)
	return err == nil && found >= want
}

// maxSurely is far above what is sent or asked about at once.
const maxSurely = 1 << 30

func (p *platform) residentPages(f File, off, n int64) (found, want int64, known bool) {
	t, err := p.target(f)
	if err != nil {
		return 0, 0, false
	}
	return p.residentIn(t, off, n)
}

func (p *platform) residentIn(t target, off, n int64) (found, want int64, known bool) {
	end := t.size
	if n < t.size-off {
		end = off + n
	}
	if end <= off {
		return 0, 0, true
	}
	page := int64(os.Getpagesize())
	start := off / page * page
	want = (end-start-1)/page + 1
	if t.lanes.residency.method() == methodCachestat {
		found, err := p.calls.cachestat(t.fd, start, want*page)
		if err == nil {
			return found, want, true
		}
		if !unsupported(err) {
			return 0, 0, false
		}
		t.lanes.residency.leave(methodCachestat)
	}
	if t.lanes.residency.method() == methodMincore {
		found, err := p.mincorePages(t, start, want)
		if err == nil {
			return found, want, true
		}
		if unsupported(err) {
			t.lanes.residency.leave(methodMincore)
		}
	}
	return 0, 0, false
}

// unsupported tells that the kernel, the file system or a container's filter
// does not offer a call or flag at all. EINVAL is among them since arguments
// are checked before: what is left is a flag that is not known.
func unsupported(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) ||
		errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)
}

func ioError(op string, f File, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &fs.PathError{Op: op, Path: f.Name(), Err: err}
}
