// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"firn/tier/store"
)

// shortSource has fewer bytes than it says.
type shortSource struct{ n int }

func (s shortSource) Size() int64 { return 100 }

func (s shortSource) ReadAt(p []byte, off int64) (int, error) {
	return strings.NewReader(strings.Repeat("x", s.n)).ReadAt(p, off)
}

func TestReadSource(t *testing.T) {
	body := store.BytesSource([]byte("0123456789"))
	for _, c := range []struct {
		off  int64
		n    int
		want string // empty: an error
	}{{0, 10, "0123456789"}, {3, 4, "3456"}, {9, 1, "9"}, {9, 2, ""}, {10, 1, ""}, {-1, 1, ""}} {
		p := make([]byte, c.n)
		err := store.ReadSource(body, p, c.off)
		if (err == nil) != (c.want != "") || err == nil && string(p) != c.want {
			t.Errorf("%d bytes at %d: got %q, %v, want %q", c.n, c.off, p, err, c.want)
		}
	}
	if err := store.ReadSource(shortSource{40}, make([]byte, 100), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a body that ends early: %v", err)
	}
	if err := store.ReadSource(body, nil, 10); err != nil {
		t.Errorf("nothing at the end: %v", err)
	}
}

func TestErrorKinds(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		err                         error
		kind                        store.Kind
		retriable, notFound, exists bool
	}{
		{&store.Error{Op: store.OpGet, Key: "k", Kind: store.Retriable, Err: cause}, store.Retriable, true, false, false},
		{&store.Error{Op: store.OpGet, Key: "k", Kind: store.NotFound, Err: cause}, store.NotFound, false, true, false},
		{fmt.Errorf("outer: %w", &store.Error{Op: store.OpPut, Kind: store.Exists, Err: cause}), store.Exists, false, false, true},
		{&store.Error{Op: store.OpPut, Err: cause}, store.Permanent, false, false, false},
		{cause, store.Permanent, false, false, false},
	} {
		if got := store.KindOf(c.err); got != c.kind {
			t.Errorf("%v: kind %v, want %v", c.err, got, c.kind)
		}
		if store.IsRetriable(c.err) != c.retriable || errors.Is(c.err, store.ErrNotFound) != c.notFound || errors.Is(c.err, store.ErrExists) != c.exists {
			t.Errorf("%v matches the wrong sentinels", c.err)
		}
		if !errors.Is(c.err, cause) {
			t.Errorf("%v hides its cause", c.err)
		}
	}
	if store.IsRetriable(nil) {
		t.Error("nil is retriable")
	}
}

func TestCapabilitiesInWords(t *testing.T) {
	if got := (store.Capabilities{}).String(); got != "none" {
		t.Errorf("got %q", got)
	}
	all := store.Capabilities{ConditionalPut: true, BulkDelete: true, Multipart: true, Checksums: true, Versioned: true, PathStyle: true}
	if got, want := all.String(), "conditional-put checksums multipart bulk-delete versioned path-style"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
