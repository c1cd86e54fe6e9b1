// SPDX-License-Identifier: Apache-2.0

package faultstore_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"firn/internal/vfs"
	"firn/tier/store"
	"firn/tier/store/dirstore"
	"firn/tier/store/faultstore"
	"firn/tier/store/storetest"
)

func open(t *testing.T) *faultstore.Store {
	t.Helper()
	inner, err := dirstore.New(dirstore.Options{Path: "/bucket", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	return faultstore.New(inner)
}

func put(t *testing.T, s store.Store, key, body string) error {
	t.Helper()
	return s.Put(t.Context(), key, store.BytesSource([]byte(body)), store.PutOptions{})
}

func get(t *testing.T, s store.Store, key string) (string, error) {
	t.Helper()
	p := make([]byte, 10)
	n, err := s.GetRange(t.Context(), key, p, 0)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return string(p[:n]), err
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t) })
}

func TestSkipTimesAndKey(t *testing.T) {
	s := open(t)
	fault := s.Inject(faultstore.Fault{
		Op: store.OpPut, Key: func(key string) bool { return strings.HasPrefix(key, "a") },
		Skip: 2, Times: 3, Effect: faultstore.Unavailable,
	})
	for i, key := range []string{"a1", "b1", "a2", "a3", "b2", "a4", "a5", "a6"} {
		fails := i == 3 || i == 5 || i == 6
		if err := put(t, s, key, "x"); (err != nil) != fails || fails && !store.IsRetriable(err) {
			t.Errorf("put %s: %v, want failure %v", key, err, fails)
		}
	}
	if fault.Hits() != 3 || s.Count(store.OpPut) != 8 || s.Count("") != 8 {
		t.Errorf("%d hits of %d puts, want 3 of 8", fault.Hits(), s.Count(store.OpPut))
	}
	if calls := s.Calls(); !calls[3].Hit || calls[4].Hit || calls[3].Key != "a3" || calls[3].Bytes != 1 {
		t.Errorf("calls: %+v", calls)
	}
	s.Forget()
	if s.Count("") != 0 {
		t.Error("calls were not forgotten")
	}
}

func TestEffects(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		name    string
		fault   faultstore.Fault
		kind    store.Kind
		fails   bool
		there   bool // the put object afterwards
		settled bool // and after Settle
	}{
		{"refuse", faultstore.Fault{Effect: faultstore.Refuse}, store.Permanent, true, false, false},
		{"unavailable", faultstore.Fault{Effect: faultstore.Unavailable}, store.Retriable, true, false, false},
		{"applied but failed", faultstore.Fault{Effect: faultstore.AppliedButFailed}, store.Retriable, true, true, true},
		{"applied late", faultstore.Fault{Effect: faultstore.AppliedLate}, store.Retriable, true, false, true},
		{"twice", faultstore.Fault{Effect: faultstore.Twice}, 0, false, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			c.fault.Op, c.fault.Err = store.OpPut, cause
			s.Inject(c.fault)
			err := put(t, s, "k", "body")
			if (err != nil) != c.fails || c.fails && (store.KindOf(err) != c.kind || !errors.Is(err, cause)) {
				t.Errorf("put: %v", err)
			}
			_, err = s.Head(t.Context(), "k")
			if (err == nil) != c.there {
				t.Errorf("head: %v, want there %v", err, c.there)
			}
			if n, err := s.Settle(t.Context()); err != nil || (n == 1) != (c.there != c.settled) {
				t.Errorf("settle: %d, %v", n, err)
			}
			if _, err = s.Head(t.Context(), "k"); (err == nil) != c.settled {
				t.Errorf("head after settling: %v, want there %v", err, c.settled)
			}
		})
	}
}

func TestTornRanges(t *testing.T) {
	s := open(t)
	if err := put(t, s, "k", "0123456789"); err != nil {
		t.Fatal(err)
	}
	s.Inject(faultstore.Fault{Op: store.OpGet, Effect: faultstore.TornShort, Times: 1})
	s.Inject(faultstore.Fault{Op: store.OpGet, Effect: faultstore.TornFlip, Skip: 1, Times: 1})
	if got, err := get(t, s, "k"); got != "01234" || !store.IsRetriable(err) {
		t.Errorf("torn short: %q, %v", got, err)
	}
	if got, err := get(t, s, "k"); got != "0123446789" || err != nil {
		t.Errorf("torn flip: %q, %v", got, err)
	}
	if got, err := get(t, s, "k"); got != "0123456789" || err != nil {
		t.Errorf("after the faults: %q, %v", got, err)
	}
}

func TestHangEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		fault := s.Inject(faultstore.Fault{Effect: faultstore.Hang})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := s.Head(ctx, "k")
			done <- err
		}()
		synctest.Wait()
		if fault.Hits() != 1 {
			t.Fatal("nothing hangs")
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the context ended: %v", err)
		}
		s.Clear()
		for name, end := range map[string]func(*faultstore.Injected){
			"removed": func(i *faultstore.Injected) { i.Remove() },
			"cleared": func(*faultstore.Injected) { s.Clear() },
		} {
			fault := s.Inject(faultstore.Fault{Effect: faultstore.Hang})
			go func() { done <- put(t, s, "k", "x") }()
			synctest.Wait()
			end(fault)
			if err := <-done; err != nil {
				t.Errorf("the fault was %s: %v", name, err)
			}
		}
	})
}

// TestLatePutLosesToTheOther is the case that conditional puts exist for.
func TestLatePutLosesToTheOther(t *testing.T) {
	s := open(t)
	s.Inject(faultstore.Fault{Op: store.OpPut, Effect: faultstore.AppliedLate, Times: 1})
	conditional := store.PutOptions{IfNoneMatch: true}
	if err := s.Put(t.Context(), "k", store.BytesSource([]byte("late")), conditional); !store.IsRetriable(err) {
		t.Fatalf("first: %v", err)
	}
	if err := s.Put(t.Context(), "k", store.BytesSource([]byte("second")), conditional); err != nil {
		t.Fatalf("second: %v", err)
	}
	if n, err := s.Settle(t.Context()); n != 1 || err != nil {
		t.Errorf("settle: %d, %v", n, err)
	}
	if got, err := get(t, s, "k"); got != "second" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestIgnoreConditions(t *testing.T) {
	s := open(t)
	s.IgnoreConditions(true)
	for _, body := range []string{"one", "two"} {
		if err := s.Put(t.Context(), "k", store.BytesSource([]byte(body)), store.PutOptions{IfNoneMatch: true}); err != nil {
			t.Errorf("put %s: %v", body, err)
		}
	}
	if got, _ := get(t, s, "k"); got != "two" || s.Capabilities().ConditionalPut {
		t.Errorf("got %q, %+v", got, s.Capabilities())
	}
}

// TestScriptChangesUnderUse changes the script from one goroutine while others
// use the store; the race detector judges.
func TestScriptChangesUnderUse(t *testing.T) {
	s := open(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				_ = put(t, s, "k", "x")
				_, _ = get(t, s, "k")
				_ = s.Delete(t.Context(), []string{"k", "l"})
			}
		})
	}
	for effect := faultstore.Refuse; effect <= faultstore.Twice; effect++ {
		fault := s.Inject(faultstore.Fault{Effect: effect, Skip: 3})
		_ = s.Calls()
		_, _ = s.Settle(t.Context())
		fault.Remove()
	}
	s.Clear()
	wg.Wait()
}
