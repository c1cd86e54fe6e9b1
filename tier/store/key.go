// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// MaxKey is the longest key in bytes, S3's limit.
	MaxKey = 1024
	// maxElement is the longest part between two slashes: a file name's limit,
	// since the embedded store keeps keys as paths.
	maxElement = 255
)

// CheckKey says whether every store can hold key: 1 to 1,024 bytes of UTF-8
// without control characters or backslash, in elements of 1 to 255 bytes
// separated by single slashes, none of them "." or "..". The stores differ in what
// they would take beyond that, so that the narrowest rule holds for all.
// The error matches ErrInvalidKey.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: empty", ErrInvalidKey)
	case len(key) > MaxKey:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrInvalidKey, len(key), MaxKey)
	}
	if err := checkText(key); err != nil {
		return err
	}
	for element := range strings.SplitSeq(key, "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Errorf("%w: %q has the element %q", ErrInvalidKey, key, element)
		}
		if len(element) > maxElement {
			return fmt.Errorf("%w: %q has an element of %d bytes, at most %d", ErrInvalidKey, key, len(element), maxElement)
		}
	}
	return nil
}

// CheckPrefix is CheckKey for the prefix of a List: the beginning of a key,
// which may be empty or end anywhere.
func CheckPrefix(prefix string) error {
	if len(prefix) > MaxKey {
		return fmt.Errorf("%w: a prefix of %d bytes, at most %d", ErrInvalidKey, len(prefix), MaxKey)
	}
	if err := checkText(prefix); err != nil {
		return err
	}
	elements := strings.Split(prefix, "/")
	// The last element may be the start of any other, so that only those
	// before it are held to the rule.
	for _, element := range elements[:len(elements)-1] {
		if element == "" || element == "." || element == ".." {
			return fmt.Errorf("%w: the prefix %q has the element %q", ErrInvalidKey, prefix, element)
		}
	}
	return nil
}

func checkText(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: %q is not UTF-8", ErrInvalidKey, s)
	}
	for _, r := range s {
		// XML 1.0, in which S3 lists keys, cannot carry control characters.
		if r < 0x20 || r == 0x7f || r == '\\' || r == 0xfffe || r == 0xffff {
			return fmt.Errorf("%w: %q holds the character %q", ErrInvalidKey, s, r)
		}
	}
	return nil
}

// CheckPut checks what every Put checks before it does anything.
func CheckPut(key string, body Source) error {
	if err := CheckKey(key); err != nil {
		return &Error{Op: OpPut, Key: key, Err: err}
	}
	if size := body.Size(); size < 0 {
		return &Error{Op: OpPut, Key: key, Err: fmt.Errorf("a body of %d bytes", size)}
	}
	return nil
}

// CheckGet checks what every GetRange checks before it does anything.
func CheckGet(key string, p []byte, off int64) error {
	if err := CheckKey(key); err != nil {
		return &Error{Op: OpGet, Key: key, Err: err}
	}
	// The sum must not overflow: it becomes the end of a range.
	if off < 0 || off+int64(len(p)) < off {
		return &Error{Op: OpGet, Key: key, Err: fmt.Errorf("a range of %d bytes at offset %d", len(p), off)}
	}
	return nil
}

// CheckList checks the arguments of a List and gives the limit that they mean.
func CheckList(prefix, after string, limit int) (int, error) {
	if err := CheckPrefix(prefix); err != nil {
		return 0, &Error{Op: OpList, Key: prefix, Err: err}
	}
	if len(after) > MaxKey {
		return 0, &Error{Op: OpList, Key: prefix, Err: fmt.Errorf("%w: after is %d bytes long", ErrInvalidKey, len(after))}
	}
	if err := checkText(after); err != nil {
		return 0, &Error{Op: OpList, Key: prefix, Err: err}
	}
	if limit <= 0 || limit > MaxList {
		limit = MaxList
	}
	return limit, nil
}

// CheckKeys checks the keys of a Delete.
func CheckKeys(keys []string) error {
	for _, key := range keys {
		if err := CheckKey(key); err != nil {
			return &Error{Op: OpDelete, Key: key, Err: err}
		}
	}
	return nil
}
