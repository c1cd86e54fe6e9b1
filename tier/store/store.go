// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// MaxList is the most keys that one List answers, and what a limit of 0 asks
// for. It is the page size of S3.
const MaxList = 1000

// Store is an object store. All methods may be called concurrently, except for
// Close, which ends the use of the store. Keys are whole keys, as CheckKey
// allows them. Every error is an *Error.
type Store interface {
	// Put writes the object whole or not at all, over an older one of the same
	// key unless o.IfNoneMatch. The store reads body during the call only, some
	// parts of it perhaps twice. An error of body aborts the Put, leaves
	// nothing, is Permanent and can be found by errors.Is and errors.As.
	//
	// An error that IsRetriable is ambiguous: the object may be there, or may
	// appear a moment later.
	Put(ctx context.Context, key string, body Source, o PutOptions) error

	// GetRange fills p with the object's bytes from off on and returns len(p),
	// or an error. Where the object ends inside the range it returns how much
	// of p it filled and an error that wraps io.ErrUnexpectedEOF; that error
	// is Permanent, since trying again would give the same. An answer that was
	// cut or does not match the request is a Retriable error that does not wrap
	// it. An empty p returns 0, nil without asking. The content of p after an
	// error is undefined beyond the n bytes told.
	GetRange(ctx context.Context, key string, p []byte, off int64) (n int, err error)

	// Head describes an object.
	Head(ctx context.Context, key string) (Info, error)

	// List answers keys that begin with prefix and are greater than after, in
	// the order of their bytes: at most limit of them (0 or more than MaxList
	// stand for MaxList), perhaps fewer, but at least one when more is true.
	// more says that there are others; the next call passes the last key.
	List(ctx context.Context, prefix, after string, limit int) (infos []Info, more bool, err error)

	// Delete removes objects, any number of them. Keys that are not there are
	// no error. After an error some may be gone.
	Delete(ctx context.Context, keys []string) error

	// Capabilities tells what the store is known to be able to do. What only a
	// trial can tell counts as no until Probe, and the store then does without
	// or does not rely on it.
	Capabilities() Capabilities

	// Close gives back connections and descriptors. Calls under way must have
	// ended.
	Close() error
}

// Source is the body of a Put: bytes of a known number that can be read again,
// which is what makes a Put safe to retry. ReadAt follows io.ReaderAt and is
// not called concurrently by one Put.
type Source interface {
	io.ReaderAt
	// Size is the number of bytes. It does not change.
	Size() int64
}

// BytesSource is a Source over b, which the caller must leave alone until the
// Put has returned.
func BytesSource(b []byte) Source { return bytesSource(b) }

// ReadSource fills p from body at off, or fails: the one place that settles how
// io.ReaderAt may end. The error carries that of body.
func ReadSource(body Source, p []byte, off int64) error {
	n, err := body.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read the body at byte %d: %w", off+int64(max(n, 0)), err)
}

type bytesSource []byte

func (s bytesSource) Size() int64 { return int64(len(s)) }

func (s bytesSource) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errNegativeOffset
	}
	if off >= int64(len(s)) {
		return 0, io.EOF
	}
	n := copy(p, s[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// PutOptions changes a Put. The zero value writes over what is there.
type PutOptions struct {
	// IfNoneMatch makes the Put fail with ErrExists when the key is there. It
	// is atomic where Capabilities.ConditionalPut; elsewhere the store looks
	// first, and two writers may both succeed.
	IfNoneMatch bool
	// CRC32C, when set, is the CRC-32C of the whole body. A body that does not
	// match it is refused with a Permanent error that wraps ErrBodyChanged, and
	// leaves nothing.
	CRC32C *uint32
}

// Info describes an object.
type Info struct {
	Key  string
	Size int64
	// Modified is when the store says that the object was written; its clock
	// and its resolution.
	Modified time.Time
}

// BucketCreator is a store whose container can be made through it. Find it
// with As, behind decorators.
type BucketCreator interface {
	// CreateBucket makes the bucket. One that is there and is ours is no error.
	CreateBucket(ctx context.Context) error
}

// Wrapper is a decorator, which shows the store that it wraps.
type Wrapper interface{ Unwrap() Store }

// As finds the first store, from s inwards through decorators, that is a T.
func As[T any](s Store) (T, bool) {
	for {
		if t, ok := s.(T); ok {
			return t, true
		}
		w, ok := s.(Wrapper)
		if !ok {
			var zero T
			return zero, false
		}
		s = w.Unwrap()
	}
}
