// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io"
)

var (
	// ErrNotFound is matched by an error about a key that is not there.
	ErrNotFound = errors.New("no such object")
	// ErrExists is matched when a conditional Put found the key taken.
	ErrExists = errors.New("object exists already")
	// ErrAmbiguous is matched by an error of WithRetry when a conditional Put
	// may have happened although it failed; see WithRetry.
	ErrAmbiguous = errors.New("an earlier attempt may have written the object")
	// ErrBodyChanged is matched when the bytes that a Source gave are not those
	// that PutOptions.CRC32C promised.
	ErrBodyChanged = errors.New("the body does not match its checksum")
	// ErrNoBucket is matched when what should hold the objects is not there.
	ErrNoBucket = errors.New("no such bucket")
	// ErrDenied is matched when the credentials are not taken, or do not allow
	// the call.
	ErrDenied = errors.New("access denied")
	// ErrInvalidKey is matched when CheckKey refused a key.
	ErrInvalidKey = errors.New("invalid object key")

	errNegativeOffset = errors.New("negative offset")
)

// Kind is what a caller can do about an error.
type Kind int8

const (
	// Permanent: trying again will not help until somebody changes something
	// (permissions, the bucket's name, a request that the store cannot do).
	Permanent Kind = iota
	// Retriable: the store, the network or the disk may do better next time.
	Retriable
	// NotFound: the object is not there. The error matches ErrNotFound.
	NotFound
	// Exists: the object is there already. The error matches ErrExists.
	Exists
)

// String is the kind as a word.
func (k Kind) String() string {
	switch k {
	case Retriable:
		return "retriable"
	case NotFound:
		return "not found"
	case Exists:
		return "exists"
	default:
		return "permanent"
	}
}

// Op names an operation of a Store, in errors, counters and fault scripts.
type Op string

// The operations.
const (
	OpPut          Op = "put"
	OpGet          Op = "get"
	OpHead         Op = "head"
	OpList         Op = "list"
	OpDelete       Op = "delete"
	OpProbe        Op = "probe"
	OpCreateBucket Op = "create bucket"
)

// Error is what every method of a Store fails with.
type Error struct {
	Op Op
	// Key is the object's key, the prefix of a List, or empty.
	Key  string
	Kind Kind
	// Reason is ErrNoBucket, ErrDenied or nil; the error matches it.
	Reason error
	// Err says what happened, in a sentence that an operator can act on.
	Err error
}

func (e *Error) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("%s %q: %v", e.Op, e.Key, e.Err)
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches ErrNotFound and ErrExists by kind, and the reason.
func (e *Error) Is(target error) bool {
	return e.Reason != nil && target == e.Reason || target == ErrNotFound && e.Kind == NotFound || target == ErrExists && e.Kind == Exists
}

// KindOf is the kind of an error of a Store. An error that no store made counts
// as Permanent.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Permanent
}

// reasonOf is the Reason of an error of a Store, nil for any other.
func reasonOf(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return nil
}

// IsRetriable says whether the same call may succeed later.
func IsRetriable(err error) bool { return err != nil && KindOf(err) == Retriable }

// PastEnd is the error of a GetRange of n bytes at off that reaches beyond an
// object of the given size (-1: not known): Permanent once it is inside an
// *Error, and matching io.ErrUnexpectedEOF.
func PastEnd(off int64, n int, size int64) error {
	if size < 0 {
		return fmt.Errorf("the object ends before byte %d, wanted %d bytes there: %w", off, n, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("the object has %d bytes, wanted %d at %d: %w", size, n, off, io.ErrUnexpectedEOF)
}
