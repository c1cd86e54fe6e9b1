// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"testing"

	"firn/tier/store"
)

// LargeBytes is the size of the largest object of the suite. A store with
// multipart uploads should be opened with a threshold below it.
const LargeBytes = 20<<20 + 12345

// Run runs the suite. open gives a store that is ready; the suite closes it.
// Stores of one bucket may be shared: all keys begin with something random, and
// the suite removes what it wrote.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, c := range []struct {
		name string
		run  func(*env)
	}{
		{"PutGetHeadDelete", putGetHeadDelete},
		{"Overwrite", overwrite},
		{"EmptyObject", emptyObject},
		{"LargeObject", largeObject},
		{"RangeEdges", rangeEdges},
		{"Absent", absent},
		{"ListPages", listPages},
		{"ListOrder", listOrder},
		{"ListPrefixes", listPrefixes},
		{"UnusualKeys", unusualKeys},
		{"InvalidKeys", invalidKeys},
		{"IfNoneMatch", ifNoneMatch},
		{"IfNoneMatchLarge", ifNoneMatchLarge},
		{"IfNoneMatchOneWinner", oneWinner},
		{"WholeOrNothing", wholeOrNothing},
		{"WrongChecksum", wrongChecksum},
		{"FailingBody", failingBody},
		{"FailingLargeBody", failingLargeBody},
		{"CancelledContext", cancelledContext},
		{"CancelledDuringPut", cancelledDuringPut},
		{"DeleteMany", deleteMany},
		{"Probe", probe},
		{"ProbeUnderPrefix", probeUnderPrefix},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			e := &env{T: t, s: s, root: "t-" + random()}
			defer e.finish()
			c.run(e)
		})
	}
}

// env is one test: a store and a prefix of its own.
type env struct {
	*testing.T
	s    store.Store
	root string
}

// key is a key of this test.
func (e *env) key(name string) string { return e.root + "/" + name }

// finish removes the test's objects, sees that they are gone, and closes.
func (e *env) finish() {
	e.Helper()
	ctx := context.Background()
	for more := true; more; {
		infos, m, err := e.s.List(ctx, e.root+"/", "", 0)
		if err != nil {
			e.Fatalf("list to clean up: %v", err)
		}
		keys := make([]string, len(infos))
		for i, info := range infos {
			keys[i] = info.Key
		}
		if err := e.s.Delete(ctx, keys); err != nil {
			e.Fatalf("delete to clean up: %v", err)
		}
		more = m
	}
	if infos, _, err := e.s.List(ctx, e.root, "", 0); err != nil || len(infos) != 0 {
		e.Errorf("left behind: %v, %v", infos, err)
	}
	if err := e.s.Close(); err != nil {
		e.Errorf("close: %v", err)
	}
}

func (e *env) put(key string, body []byte, o store.PutOptions) {
	e.Helper()
	if err := e.s.Put(e.Context(), key, store.BytesSource(body), o); err != nil {
		e.Fatalf("put %s: %v", key, err)
	}
}

// want sees that the object is there with this content, by Head and GetRange.
func (e *env) want(key string, body []byte) {
	e.Helper()
	info, err := e.s.Head(e.Context(), key)
	if err != nil {
		e.Fatalf("head %s: %v", key, err)
	}
	if info.Key != key || info.Size != int64(len(body)) {
		e.Fatalf("head %s: got %+v, want size %d", key, info, len(body))
	}
	if info.Modified.IsZero() {
		e.Errorf("head %s: no time of modification", key)
	}
	got := make([]byte, len(body))
	n, err := e.s.GetRange(e.Context(), key, got, 0)
	if err != nil || n != len(body) {
		e.Fatalf("get %s: %d, %v", key, n, err)
	}
	if string(got) != string(body) {
		e.Fatalf("get %s: other bytes than were put", key)
	}
}

// wantAbsent sees that there is no such object for any operation.
func (e *env) wantAbsent(key string) {
	e.Helper()
	_, err := e.s.Head(e.Context(), key)
	e.wantKind("head", err, store.NotFound)
	_, err = e.s.GetRange(e.Context(), key, make([]byte, 1), 0)
	e.wantKind("get", err, store.NotFound)
	infos, _, err := e.s.List(e.Context(), key, "", 0)
	if err != nil {
		e.Fatalf("list %s: %v", key, err)
	}
	for _, info := range infos {
		if info.Key == key {
			e.Errorf("list shows %s, which should not be there", key)
		}
	}
}

// wantKind sees that err is an *Error of this kind, and matches what it must.
func (e *env) wantKind(what string, err error, kind store.Kind) {
	e.Helper()
	var se *store.Error
	if !errors.As(err, &se) {
		e.Fatalf("%s: got %v (%T), want a *store.Error", what, err, err)
	}
	if se.Kind != kind {
		e.Errorf("%s: got %v, which is %v, want %v", what, err, se.Kind, kind)
	}
	if errors.Is(err, store.ErrNotFound) != (kind == store.NotFound) {
		e.Errorf("%s: %v: ErrNotFound should be matched by that kind alone", what, err)
	}
	if errors.Is(err, store.ErrExists) != (kind == store.Exists) {
		e.Errorf("%s: %v: ErrExists should be matched by that kind alone", what, err)
	}
}

// keys lists all keys below the test's root, page by page.
func (e *env) keys(prefix, after string, limit int) []string {
	e.Helper()
	var keys []string
	for {
		infos, more, err := e.s.List(e.Context(), prefix, after, limit)
		if err != nil {
			e.Fatalf("list %q after %q: %v", prefix, after, err)
		}
		if limit > 0 && len(infos) > limit {
			e.Fatalf("list: %d keys, limit %d", len(infos), limit)
		}
		for _, info := range infos {
			keys = append(keys, info.Key)
		}
		if !more {
			return keys
		}
		if len(infos) == 0 {
			e.Fatalf("list %q after %q: says that there is more and gives nothing", prefix, after)
		}
		after = infos[len(infos)-1].Key
	}
}

// pattern is n bytes that differ from place to place, the same each time.
func pattern(n int) []byte {
	b := make([]byte, n)
	// Filling never fails.
	_, _ = mathrand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func random() string {
	var b [6]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// brokenSource is a body that fails from byte good on.
type brokenSource struct {
	size, good int64
	err        error
}

func (b brokenSource) Size() int64 { return b.size }

func (b brokenSource) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > b.good {
		return 0, b.err
	}
	clear(p)
	return len(p), nil
}

// hookedSource calls hook before each read.
type hookedSource struct {
	store.Source
	hook func()
}

func (h hookedSource) ReadAt(p []byte, off int64) (int, error) {
	h.hook()
	return h.Source.ReadAt(p, off)
}

// segmentKeys is n keys as the cold tier names its segments.
func (e *env) segmentKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = e.key(fmt.Sprintf("seg/%020d-%010d-%032x.seg", i*1000, 7, i))
	}
	return keys
}
