// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	probeBytes = 256 << 10
	// probeTries is how often a residency method is asked to prove itself: a
	// machine short of memory may drop or keep a page at any moment.
	probeTries = 3
)

// probePlatform finds the methods that work in dir.
func probePlatform(dir string, want forced) (*platform, error) {
	return probeWith(kernel(), dir, want)
}

func probeWith(c calls, dir string, want forced) (_ *platform, err error) {
	temp, err := os.CreateTemp(dir, ".firn-io-probe-*")
	if err != nil {
		return nil, err
	}
	f := &diskFile{File: temp}
	defer func() { err = errors.Join(err, f.Close()) }()
	// Without a name from here on: nothing is left behind, whatever happens.
	if err := os.Remove(temp.Name()); err != nil {
		return nil, err
	}
	if err := fillProbe(f); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	p := &platform{calls: c}
	// What is being probed is all there is, until chains says what works.
	p.chains = chains{read: uncachedMethods, write: uncachedMethods, residency: residencyMethods}
	found, err := p.probe(f)
	if err != nil {
		return nil, err
	}
	if found, err = found.choose(want); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	return &platform{calls: c, chains: found, home: st.Dev}, nil
}

// fillProbe gives the file its size. On a full disk it is a hole, which the
// page cache holds like any other part of a file: a broker has to come up there
// to serve what it has, and to make room.
func fillProbe(f *diskFile) error {
	_, err := f.WriteAt(make([]byte, probeBytes), 0)
	if !IsFull(err) {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	return f.Truncate(probeBytes)
}

// probe tries every method on a clean file of probeBytes.
func (p *platform) probe(f *diskFile) (chains, error) {
	fd := int(f.Fd())
	page := make([]byte, os.Getpagesize())
	var found chains
	if _, err := p.calls.read(fd, page, 0, unix.RWF_DONTCACHE); err == nil {
		found.read = append(found.read, methodDontCache)
	}
	if _, err := p.calls.write(fd, page, 0, unix.RWF_DONTCACHE); err == nil || IsFull(err) {
		found.write = append(found.write, methodDontCache)
	}
	if err := f.Sync(); err != nil {
		return chains{}, err
	}
	if p.proves(f, methodCachestat) {
		found.residency = append(found.residency, methodCachestat)
	}
	if p.proves(f, methodMincore) {
		found.residency = append(found.residency, methodMincore)
	}
	if p.calls.fadvise(fd, 0, 0, unix.FADV_DONTNEED) == nil {
		// Reading by windows needs to know what was resident before.
		if len(found.residency) > 0 {
			found.read = append(found.read, methodFadvise)
		}
		if p.calls.syncRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE) == nil {
			found.write = append(found.write, methodFadvise)
		}
	}
	found.read = append(found.read, methodNone)
	found.write = append(found.write, methodNone)
	found.residency = append(found.residency, methodNone)
	return found, nil
}

// proves tells whether a residency method sees the file leave the cache and
// come back. Where it does not, it lies (mincore on files that are neither
// owned nor writable; every method where the file system has a cache of its
// own) or there is nothing to be seen (tmpfs); both mean that everything has
// to count as resident.
func (p *platform) proves(f *diskFile, method string) bool {
	l := lane{chain: []string{method, methodNone}}
	t := target{file: f, fd: int(f.Fd()), size: probeBytes, lanes: &lanes{residency: lane{chain: l.chain}}}
	buf := make([]byte, probeBytes)
	for range probeTries {
		if p.calls.fadvise(t.fd, 0, 0, unix.FADV_DONTNEED) != nil {
			return false
		}
		dropped, want, known := p.residentIn(t, 0, probeBytes)
		if !known {
			return false
		}
		if _, err := f.ReadAt(buf, 0); err != nil {
			return false
		}
		back, _, known := p.residentIn(t, 0, probeBytes)
		if known && dropped < want && back == want {
			return true
		}
	}
	return false
}

// choose puts what firn.io.force asks for first, and leaves away what is
// better than that.
func (c chains) choose(want forced) (chains, error) {
	var out chains
	var errs [3]error
	out.residency, errs[0] = from(c.residency, want.residency, "residency")
	read := c.read
	if want.residency == methodNone {
		read = slices.DeleteFunc(slices.Clone(read), func(m string) bool { return m == methodFadvise })
	}
	out.read, errs[1] = from(read, want.uncached, "reading")
	out.write, errs[2] = from(c.write, want.uncached, "writing")
	return out, errors.Join(errs[:]...)
}

func from(chain []string, method, purpose string) ([]string, error) {
	if method == "" {
		return chain, nil
	}
	i := slices.Index(chain, method)
	if i < 0 {
		return nil, fmt.Errorf("%w: %s does not work here for %s", ErrUnknownMethod, method, purpose)
	}
	return chain[i:], nil
}
