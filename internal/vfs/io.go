// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"firn/internal/bulk"
)

// Methods names how IO does what it does, in words for a person.
type Methods struct {
	UncachedRead  string // dontcache, fadvise or buffered
	UncachedWrite string // dontcache, fadvise or buffered
	Residency     string // cachestat, mincore, or unknown: everything counts as resident
	Send          string // how file bytes reach a socket: sendfile, or read and write
}

// The methods, which are also the words that firn.io.force takes.
const (
	methodDontCache = "dontcache"
	methodFadvise   = "fadvise"
	methodCachestat = "cachestat"
	methodMincore   = "mincore"
	methodNone      = "none"
)

// methods in the order of preference; the last of each always works.
var (
	uncachedMethods  = []string{methodDontCache, methodFadvise, methodNone}
	residencyMethods = []string{methodCachestat, methodMincore, methodNone}
)

// IO reads and writes bulk data beside the page cache, and tells what is in it.
// It may be used by any number of goroutines on any number of files. A method
// that a file system refuses is left for the next best one there, for good.
//
// A nil *IO works: reads and writes are plain ones and everything counts as
// resident. Files without a descriptor (InvalidFd) are treated the same way.
type IO struct {
	*platform
}

// ErrUnknownMethod says that firn.io.force names what does not exist, or what
// does not work here.
var ErrUnknownMethod = errors.New("I/O method not available")

// ProbeIO finds out what the kernel and the file system that holds dir can do,
// with a small file that it makes in dir and removes. force, a comma list of
// dontcache, fadvise, cachestat, mincore and none, fixes a method instead of
// taking the best: none stands for no method where the other words leave one
// open. A word that is unknown, or a method that does not work in dir, is an
// error that wraps ErrUnknownMethod.
func ProbeIO(dir, force string) (*IO, error) {
	want, err := parseForce(force)
	if err != nil {
		return nil, err
	}
	p, err := probePlatform(dir, want)
	if err != nil {
		return nil, fmt.Errorf("probe I/O methods in %s: %w", dir, err)
	}
	return &IO{platform: p}, nil
}

// forced is what firn.io.force asks for; "" leaves the choice to the probe.
type forced struct{ uncached, residency string }

func parseForce(force string) (forced, error) {
	var want forced
	var none bool
	for word := range strings.SplitSeq(force, ",") {
		word = strings.TrimSpace(word)
		switch {
		case word == "":
		case word == methodNone:
			none = true
		case slices.Contains(uncachedMethods, word) && want.uncached == "":
			want.uncached = word
		case slices.Contains(residencyMethods, word) && want.residency == "":
			want.residency = word
		case slices.Contains(uncachedMethods, word), slices.Contains(residencyMethods, word):
			return forced{}, fmt.Errorf("%w: %q beside another of its kind", ErrUnknownMethod, word)
		default:
			return forced{}, fmt.Errorf("%w: %q is none of dontcache, fadvise, cachestat, mincore, none", ErrUnknownMethod, word)
		}
	}
	if none && want.uncached == "" {
		want.uncached = methodNone
	}
	if none && want.residency == "" {
		want.residency = methodNone
	}
	return want, nil
}

// Methods tells what is in use for the file system that was probed, as of now.
func (o *IO) Methods() Methods {
	if o == nil {
		return describe(methodNone, methodNone, methodNone)
	}
	return o.methods()
}

func describe(read, write, residency string) Methods {
	word := func(method, none string) string {
		if method == methodNone {
			return none
		}
		return method
	}
	return Methods{
		UncachedRead:  word(read, "buffered"),
		UncachedWrite: word(write, "buffered"),
		Residency:     word(residency, "unknown"),
		Send:          sendMethod,
	}
}

// ReadUncached reads as f.ReadAt does and leaves the page cache to others as
// well as the method can. It is meant for long sequential reads at multiples of
// the page size, and reads in pieces of readPiece with a yield of the thread
// after each.
func (o *IO) ReadUncached(f File, p []byte, off int64) (int, error) {
	if o == nil || f.Fd() == InvalidFd || off < 0 || len(p) == 0 {
		return f.ReadAt(p, off)
	}
	done := 0
	for {
		piece := p[done:min(len(p), done+readPiece)]
		n, err := o.readUncached(f, piece, off+int64(done))
		done += n
		if err != nil || done == len(p) {
			return done, err
		}
		bulk.Yield()
	}
}

// readPiece is read at a time. Measured beside a reader of 64 KiB that somebody
// waits for: its p99 is 0.9 ms with pieces of 256 KiB, and 7.7 ms with 1 MiB.
const readPiece = 256 << 10

// WriteUncached writes as f.WriteAt does and keeps what it wrote out of the
// page cache as well as the method can. It makes nothing durable. It is meant
// for writing new files from front to end.
func (o *IO) WriteUncached(f File, p []byte, off int64) (int, error) {
	if o == nil || f.Fd() == InvalidFd || off < 0 || len(p) == 0 {
		return f.WriteAt(p, off)
	}
	return o.writeUncached(f, p, off)
}

// DropWritten takes out of the page cache what WriteUncached may have left
// there: the last windows of the file, by some methods. Call it after Sync,
// since only clean pages can be dropped. It is a hint and reports no error.
func (o *IO) DropWritten(f File) {
	if o != nil && f.Fd() != InvalidFd {
		o.dropWritten(f)
	}
}

// Resident tells whether the bytes [off, off+n) of f are all in the page
// cache, without touching them; what lies beyond the end of the file does not
// count. Where no method works, the answer is true.
func (o *IO) Resident(f File, off, n int64) bool {
	if o == nil || f.Fd() == InvalidFd || off < 0 || n <= 0 {
		return true
	}
	if o.surelyResident(f, off, n) {
		return true
	}
	found, want, known := o.residentPages(f, off, n)
	return !known || found >= want
}

// ResidentPages counts the pages of [off, off+n) of f, want of them, and those
// that are in the page cache, without touching them; what lies beyond the end
// of the file does not count. known is false where no method works.
func (o *IO) ResidentPages(f File, off, n int64) (found, want int64, known bool) {
	if o == nil || f.Fd() == InvalidFd || off < 0 || n <= 0 {
		return 0, 0, false
	}
	return o.residentPages(f, off, n)
}

// readFull turns a system call that reads some bytes into an io.ReaderAt's
// whole read.
func readFull(p []byte, read func(p []byte, done int) (int, error)) (int, error) {
	done := 0
	for done < len(p) {
		n, err := read(p[done:], done)
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, io.EOF
		}
		done += n
	}
	return done, nil
}
