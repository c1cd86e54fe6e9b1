// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"path"
	"strings"
	"testing"

	"firn/tier/store"
)

// FuzzCheckKey attacks I7: a key that is allowed stays below any directory it
// is joined to, and every beginning of it is an allowed prefix.
func FuzzCheckKey(f *testing.F) {
	for _, key := range []string{"a", "a/b.c", "../x", "a//b", "x\x00", "é/雪", "a/..", ".hidden", strings.Repeat("x", 300)} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if err := store.CheckKey(key); err != nil {
			if !errors.Is(err, store.ErrInvalidKey) {
				t.Fatalf("%q: %v does not match ErrInvalidKey", key, err)
			}
			return
		}
		if joined := path.Join("/bucket", key); joined != "/bucket/"+key {
			t.Fatalf("%q becomes %q", key, joined)
		}
		for i := range key {
			if err := store.CheckPrefix(key[:i]); err != nil {
				t.Fatalf("%q is allowed, and its beginning %q is not: %v", key, key[:i], err)
			}
		}
		if _, err := store.CheckList(key, key, 5); err != nil {
			t.Fatalf("%q is allowed as a key and not in a list: %v", key, err)
		}
	})
}

func TestCheckListLimit(t *testing.T) {
	for in, want := range map[int]int{-1: store.MaxList, 0: store.MaxList, 1: 1, store.MaxList: store.MaxList, store.MaxList + 1: store.MaxList} {
		if got, err := store.CheckList("", "", in); err != nil || got != want {
			t.Errorf("limit %d: got %d, %v, want %d", in, got, err, want)
		}
	}
}
