// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"encoding/binary"
	"fmt"
	"math"

	"firn/record"
)

// The frame of every small object (heads, pages, claims, the store id, topics)
// and of the local copy of a manifest, big-endian:
//
//	 0  [8]byte magic        says what it is
//	 8  uint16  version      of the body; an unknown one is refused
//	10  uint16  0            reserved
//	12  uint32  body length
//	16          body
//	    uint32  CRC-32C      of everything before it
const (
	frameHeadSize = 16
	frameOverhead = frameHeadSize + 4
	// maxFrame bounds what is read of one object into memory. A head with
	// 1,064 entries, 1,000 tombstones and 100,000 pages has 7.4 MiB.
	maxFrame = 64 << 20
)

// magic names a kind of framed object.
type magic [8]byte

var (
	magicHead  = magic{'F', 'I', 'R', 'N', 'H', 'E', 'A', 'D'}
	magicPage  = magic{'F', 'I', 'R', 'N', 'P', 'A', 'G', 'E'}
	magicClaim = magic{'F', 'I', 'R', 'N', 'C', 'L', 'A', 'M'}
	magicStore = magic{'F', 'I', 'R', 'N', 'S', 'T', 'O', 'R'}
	magicTopic = magic{'F', 'I', 'R', 'N', 'T', 'O', 'P', 'C'}
	magicLocal = magic{'F', 'I', 'R', 'N', 'L', 'O', 'C', 'L'}
)

// formatVersion is the version of every body that this code writes, and the
// only one that it reads.
const formatVersion = 1

// appendFrame puts body into a frame.
func appendFrame(dst []byte, m magic, body []byte) []byte {
	start := len(dst)
	dst = append(dst, m[:]...)
	dst = binary.BigEndian.AppendUint16(dst, formatVersion)
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	dst = append(dst, body...)
	return binary.BigEndian.AppendUint32(dst, record.CRC32C(dst[start:]))
}

// openFrame checks a frame that fills b and returns its body, which aliases b.
// The error is a *record.CorruptionError or, for a whole frame of a version
// that this code does not know, wraps record.ErrUnsupportedVersion. path names
// the object in errors.
func openFrame(path string, m magic, b []byte) ([]byte, error) {
	if len(b) < frameOverhead {
		return nil, corrupt(path, 0, "%d bytes, a frame has at least %d", len(b), frameOverhead)
	}
	if magic(b[:8]) != m {
		return nil, corrupt(path, 0, "magic is %q, want %q", b[:8], m[:])
	}
	end := len(b) - 4
	want := binary.BigEndian.Uint32(b[end:])
	if got := record.CRC32C(b[:end]); got != want {
		return nil, corrupt(path, int64(end), "CRC-32C is %08x, the frame says %08x", got, want)
	}
	if version := binary.BigEndian.Uint16(b[8:]); version != formatVersion {
		return nil, fmt.Errorf("read %s: %w: version %d, only %d is known", path, record.ErrUnsupportedVersion, version, formatVersion)
	}
	if reserved := binary.BigEndian.Uint16(b[10:]); reserved != 0 {
		return nil, corrupt(path, 10, "reserved field is %d, want 0", reserved)
	}
	if n := binary.BigEndian.Uint32(b[12:]); uint64(n) != uint64(len(b)-frameOverhead) {
		return nil, corrupt(path, 12, "body length says %d bytes, %d are there", n, len(b)-frameOverhead)
	}
	return b[frameHeadSize:end:end], nil
}

func corrupt(path string, at int64, format string, args ...any) error {
	return &record.CorruptionError{Path: path, Position: at, Reason: fmt.Sprintf(format, args...)}
}

// bodyReader takes fields off a body, front to back. The first fault is kept
// in err and every later read gives zero, so that a decoder checks once.
type bodyReader struct {
	path string
	b    []byte
	at   int
	err  error
}

func newBodyReader(path string, body []byte) *bodyReader { return &bodyReader{path: path, b: body} }

func (r *bodyReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = corrupt(r.path, int64(frameHeadSize+r.at), format, args...)
	}
}

// take is the next n bytes, or nil after a fault.
func (r *bodyReader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.b)-r.at {
		r.fail("%d bytes wanted, %d are left", n, len(r.b)-r.at)
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at : r.at]
}

func (r *bodyReader) u8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *bodyReader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *bodyReader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *bodyReader) i64() int64            { return int64(r.u64()) }
func (r *bodyReader) offset() record.Offset { return record.Offset(r.i64()) }
func (r *bodyReader) epoch() record.Epoch   { return record.Epoch(r.u32()) }

// id reads 16 bytes: a topic id, a writer or a hash.
func (r *bodyReader) id() (id [16]byte) {
	copy(id[:], r.take(len(id)))
	return id
}

// count reads the number of items that follow, each of which takes size bytes,
// and refuses one for which there is no room. The caller may allocate by it.
func (r *bodyReader) count(size int) int {
	n := r.u32()
	if r.err == nil && uint64(n)*uint64(size) > uint64(len(r.b)-r.at) {
		r.fail("%d items of %d bytes announced, %d bytes are left", n, size, len(r.b)-r.at)
		return 0
	}
	return int(n)
}

// text reads a string with its length in 4 bytes.
func (r *bodyReader) text() string { return string(r.take(r.count(1))) }

// zero skips n bytes that must be zero.
func (r *bodyReader) zero(n int) {
	for _, c := range r.take(n) {
		if c != 0 {
			r.fail("a reserved byte is %d, want 0", c)
		}
	}
}

// end checks that nothing is left and returns the first fault.
func (r *bodyReader) end() error {
	if r.err == nil && r.at != len(r.b) {
		r.fail("%d bytes are left over", len(r.b)-r.at)
	}
	return r.err
}

func appendU32(b []byte, v uint32) []byte           { return binary.BigEndian.AppendUint32(b, v) }
func appendU64(b []byte, v uint64) []byte           { return binary.BigEndian.AppendUint64(b, v) }
func appendI64(b []byte, v int64) []byte            { return appendU64(b, uint64(v)) }
func appendOffset(b []byte, v record.Offset) []byte { return appendU64(b, uint64(v)) }
func appendEpoch(b []byte, v record.Epoch) []byte   { return appendU32(b, uint32(v)) }

// appendCount writes the number of items that follow.
func appendCount(b []byte, n int) []byte { return appendU32(b, uint32(min(n, math.MaxInt32))) }

func appendText(b []byte, s string) []byte { return append(appendCount(b, len(s)), s...) }

// entrySize is the size of an entry in a head and in a page.
const entrySize = 120

const flagHasAborted = 1

// appendEntry writes an entry as docs/format/manifest.md draws it.
func appendEntry(b []byte, e Entry) []byte {
	var flags uint8
	if e.HasAborted {
		flags |= flagHasAborted
	}
	b = append(b, uint8(e.Kind), uint8(e.Reason), flags, 0)
	b = appendEpoch(b, e.Epoch)
	b = appendOffset(b, e.From)
	b = appendOffset(b, e.To)
	b = appendEpoch(b, e.FirstEpoch)
	b = appendEpoch(b, e.LastEpoch)
	b = append(b, e.Hash[:]...)
	b = appendI64(b, e.ObjectSize)
	b = appendI64(b, e.LogSize)
	b = appendU32(b, uint32(e.FooterSize))
	b = appendU32(b, 0)
	b = appendI64(b, e.FirstTimestamp)
	b = appendI64(b, e.MaxTimestamp)
	b = appendOffset(b, e.MaxTimestampOffset)
	b = appendI64(b, e.Records)
	b = appendI64(b, e.SealedMs)
	return appendI64(b, e.UploadedMs)
}

// entry reads one entry and checks it by itself.
func (r *bodyReader) entry() Entry {
	var e Entry
	e.Kind, e.Reason = EntryKind(r.u8()), GapReason(r.u8())
	flags := r.u8()
	r.zero(1)
	e.HasAborted = flags&flagHasAborted != 0
	e.Epoch = r.epoch()
	e.From, e.To = r.offset(), r.offset()
	e.FirstEpoch, e.LastEpoch = r.epoch(), r.epoch()
	e.Hash = r.id()
	e.ObjectSize, e.LogSize = r.i64(), r.i64()
	e.FooterSize = int32(r.u32())
	r.zero(4)
	e.FirstTimestamp, e.MaxTimestamp = r.i64(), r.i64()
	e.MaxTimestampOffset = r.offset()
	e.Records = r.i64()
	e.SealedMs, e.UploadedMs = r.i64(), r.i64()
	if flags&^flagHasAborted != 0 {
		r.fail("entry flags are %#x, only %#x is known", flags, flagHasAborted)
	}
	if r.err == nil {
		if err := e.check(); err != nil {
			r.fail("entry: %v", err)
		}
	}
	return e
}
