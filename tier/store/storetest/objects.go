// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"firn/tier/store"
)

func putGetHeadDelete(e *env) {
	key := e.key("data/orders/abc/0/seg/1.seg")
	e.wantAbsent(key)
	e.put(key, []byte("first light"), store.PutOptions{})
	e.want(key, []byte("first light"))
	infos, more, err := e.s.List(e.Context(), e.root+"/", "", 0)
	if err != nil || more || len(infos) != 1 || infos[0].Key != key || infos[0].Size != 11 || infos[0].Modified.IsZero() {
		e.Errorf("list: got %+v, %v, %v, want the one object", infos, more, err)
	}
	if err := e.s.Delete(e.Context(), []string{key}); err != nil {
		e.Fatalf("delete: %v", err)
	}
	e.wantAbsent(key)
	if err := e.s.Delete(e.Context(), []string{key}); err != nil {
		e.Errorf("delete again: %v, want nil", err)
	}
}

func overwrite(e *env) {
	key := e.key("head/1")
	for _, body := range []string{"a long first content", "short", ""} {
		e.put(key, []byte(body), store.PutOptions{})
		e.want(key, []byte(body))
	}
}

func emptyObject(e *env) {
	key := e.key("empty")
	crc := uint32(0)
	e.put(key, nil, store.PutOptions{CRC32C: &crc})
	e.want(key, nil)
	n, err := e.s.GetRange(e.Context(), key, make([]byte, 4), 0)
	e.wantPastEnd("get of an empty object", n, err, 0)
}

// largeObject goes over the stores' multipart threshold, and its size is no
// multiple of anything.
func largeObject(e *env) {
	key, body := e.key("large.seg"), pattern(LargeBytes)
	crc := checksum(body)
	e.put(key, body, store.PutOptions{CRC32C: &crc})
	e.want(key, body)
	for _, off := range []int64{5<<20 - 3, 8<<20 - 3, 10<<20 - 3, 16<<20 - 3, LargeBytes - 7} {
		p := make([]byte, 7)
		n, err := e.s.GetRange(e.Context(), key, p, off)
		if err != nil || n != len(p) || !bytes.Equal(p, body[off:off+7]) {
			e.Errorf("get 7 bytes at %d: %d, %v", off, n, err)
		}
	}
	if keys := e.keys(e.root, "", 0); len(keys) != 1 {
		e.Errorf("the bucket shows %v, want the object alone", keys)
	}
}

// rangeEdges attacks I4.
func rangeEdges(e *env) {
	const size = 5000
	key, body := e.key("ranges"), pattern(size)
	e.put(key, body, store.PutOptions{})
	for _, c := range []struct {
		off  int64
		n    int
		have int // how much of n the object has
	}{
		{0, 1, 1}, {0, size, size}, {0, size + 1, size}, {1, size - 1, size - 1}, {1, size, size - 1},
		{4095, 2, 2}, {4096, 1, 1}, {size - 1, 1, 1}, {size - 1, 2, 1}, {size, 1, 0}, {size + 1, 1, 0},
		{1 << 40, 100, 0}, {0, 0, 0}, {size, 0, 0}, {17, 333, 333},
	} {
		p := make([]byte, c.n)
		n, err := e.s.GetRange(e.Context(), key, p, c.off)
		if c.have < c.n {
			e.wantPastEnd("get", n, err, c.have)
		} else if err != nil || n != c.n {
			e.Errorf("get %d bytes at %d: got %d, %v", c.n, c.off, n, err)
		}
		if c.have > 0 && !bytes.Equal(p[:c.have], body[c.off:c.off+int64(c.have)]) {
			e.Errorf("get %d bytes at %d: wrong bytes", c.n, c.off)
		}
	}
	for _, off := range []int64{-1, 1<<63 - 1} {
		_, err := e.s.GetRange(e.Context(), key, make([]byte, 2), off)
		e.wantKind("get at an impossible offset", err, store.Permanent)
	}
}

func (e *env) wantPastEnd(what string, n int, err error, want int) {
	e.Helper()
	e.wantKind(what, err, store.Permanent)
	if !errors.Is(err, io.ErrUnexpectedEOF) || n != want {
		e.Errorf("%s: got %d, %v, want %d and io.ErrUnexpectedEOF", what, n, err, want)
	}
}

func absent(e *env) {
	e.wantAbsent(e.key("nothing"))
	e.wantAbsent(e.key("no/such/directory"))
	e.put(e.key("file"), []byte("x"), store.PutOptions{})
	e.wantAbsent(e.key("fil"))
	e.wantAbsent(e.key("file/below"))
	e.wantAbsent(e.key("files"))
	e.wantAbsent(e.root)
}

// unusualKeys are the characters that Firn's own keys and a user's prefix have.
func unusualKeys(e *env) {
	var keys []string
	for _, name := range []string{
		"a.topic_with-all.chars/AbC-_0", "env=prod/team a+b", "percent%41", "question?x=1&y=2", "hash#tag", "plus+ and  two spaces",
		"quote'\"", "brackets[](){}", "tilde~at@colon:semi;comma,", "star*bang!dollar$", "umlaut-äöü-雪", ".hidden/.also", "-dash", "_underscore",
		"less<more>", "pipe|caret^back`tick", strings.Repeat("long", 60), "..three...dots..",
	} {
		keys = append(keys, e.key(name))
	}
	for _, key := range keys {
		e.put(key, []byte(key), store.PutOptions{})
	}
	for _, key := range keys {
		e.want(key, []byte(key))
		if infos, _, err := e.s.List(e.Context(), key, "", 0); err != nil || len(infos) != 1 || infos[0].Key != key {
			e.Errorf("list %q: got %v, %v", key, infos, err)
		}
	}
	if got := e.keys(e.root+"/", "", 0); len(got) != len(keys) {
		e.Errorf("list shows %d keys, want %d: %q", len(got), len(keys), got)
	}
	if err := e.s.Delete(e.Context(), keys); err != nil {
		e.Fatalf("delete: %v", err)
	}
	for _, key := range keys {
		e.wantAbsent(key)
	}
}

// invalidKeys attacks I7.
func invalidKeys(e *env) {
	for _, key := range []string{
		"", "/", "/abs", "a//b", "a/", "../x", "a/../b", "a/..", "./a", "a/./b", "nul\x00", "line\n", "back\\slash", "\xff\xfe",
		strings.Repeat("x", 256), strings.Repeat("long/", 300) + "x",
	} {
		check := func(what string, err error) {
			e.Helper()
			e.wantKind(what, err, store.Permanent)
			if !errors.Is(err, store.ErrInvalidKey) {
				e.Errorf("%s %q: got %v, want ErrInvalidKey", what, key, err)
			}
		}
		check("put", e.s.Put(e.Context(), key, store.BytesSource(nil), store.PutOptions{}))
		_, err := e.s.GetRange(e.Context(), key, make([]byte, 1), 0)
		check("get", err)
		_, err = e.s.Head(e.Context(), key)
		check("head", err)
		check("delete", e.s.Delete(e.Context(), []string{key}))
	}
	for _, prefix := range []string{"../", "/", "a//", "a/../", "x\x00", strings.Repeat("x", 2000)} {
		_, _, err := e.s.List(e.Context(), prefix, "", 0)
		e.wantKind("list", err, store.Permanent)
	}
}

func deleteMany(e *env) {
	if err := e.s.Delete(e.Context(), nil); err != nil {
		e.Errorf("delete of nothing: %v", err)
	}
	keys := e.segmentKeys(20)
	for _, key := range keys[:10] {
		e.put(key, []byte("x"), store.PutOptions{})
	}
	keep := e.key("seg/keep")
	e.put(keep, []byte("kept"), store.PutOptions{})
	if err := e.s.Delete(e.Context(), keys); err != nil {
		e.Fatalf("delete, half of them absent: %v", err)
	}
	if got := e.keys(e.root+"/", "", 0); len(got) != 1 || got[0] != keep {
		e.Errorf("left: %v, want %s alone", got, keep)
	}
}
