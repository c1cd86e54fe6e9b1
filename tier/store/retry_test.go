// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"firn/internal/vfs"
	"firn/tier/store"
	"firn/tier/store/dirstore"
	"firn/tier/store/faultstore"
	"firn/tier/store/storetest"
)

func faulty(t *testing.T) *faultstore.Store {
	t.Helper()
	inner, err := dirstore.New(dirstore.Options{Path: "/bucket", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	return faultstore.New(inner)
}

func TestRetryConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return store.WithRetry(faulty(t), store.RetryOptions{})
	})
}

// TestRetryUntilItWorks fails every operation several times; each is retried,
// with growing waits, until it succeeds.
func TestRetryUntilItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t)
		var waits []time.Duration
		s := store.WithRetry(f, store.RetryOptions{
			MinBackoff: time.Second, MaxBackoff: 4 * time.Second,
			OnRetry: func(_ error, _ int, wait time.Duration) { waits = append(waits, wait) },
		})
		body := []byte("body")
		p := make([]byte, len(body))
		for _, c := range []struct {
			op  store.Op
			run func() error
		}{
			{store.OpPut, func() error { return s.Put(t.Context(), "k", store.BytesSource(body), store.PutOptions{}) }},
			{store.OpGet, func() error { _, err := s.GetRange(t.Context(), "k", p, 0); return err }},
			{store.OpHead, func() error { _, err := s.Head(t.Context(), "k"); return err }},
			{store.OpList, func() error { _, _, err := s.List(t.Context(), "", "", 0); return err }},
			{store.OpDelete, func() error { return s.Delete(t.Context(), []string{"k"}) }},
		} {
			waits = nil
			f.Forget()
			fault := f.Inject(faultstore.Fault{Op: c.op, Effect: faultstore.Unavailable, Times: 5})
			if err := c.run(); err != nil {
				t.Errorf("%s: %v", c.op, err)
			}
			if fault.Hits() != 5 || f.Count(c.op) != 6 {
				t.Errorf("%s: %d calls, %d failed, want 6 and 5", c.op, f.Count(c.op), fault.Hits())
			}
			for i, mean := range []time.Duration{1, 2, 4, 4, 4} {
				mean *= time.Second
				if i >= len(waits) || waits[i] < mean/2 || waits[i] >= mean*3/2 {
					t.Errorf("%s: waits %v, want the one at %d to be around %v", c.op, waits, i, mean)
				}
			}
			fault.Remove()
		}
		if string(p) != "body" {
			t.Errorf("read %q", p)
		}
	})
}

func TestRetryGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t)
		f.Inject(faultstore.Fault{Op: store.OpHead, Effect: faultstore.Unavailable})
		s := store.WithRetry(f, store.RetryOptions{Attempts: 3})
		if _, err := s.Head(t.Context(), "k"); !store.IsRetriable(err) || f.Count(store.OpHead) != 3 {
			t.Errorf("got %v after %d attempts, want a retriable error after 3", err, f.Count(store.OpHead))
		}

		f.Clear()
		f.Forget()
		f.Inject(faultstore.Fault{Op: store.OpHead, Effect: faultstore.Refuse})
		if _, err := s.Head(t.Context(), "k"); err == nil || store.IsRetriable(err) || f.Count(store.OpHead) != 1 {
			t.Errorf("got %v after %d attempts, want a permanent error after 1", err, f.Count(store.OpHead))
		}
		f.Clear()
		f.Forget()
		if _, err := s.Head(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) || f.Count(store.OpHead) != 1 {
			t.Errorf("got %v after %d attempts, want ErrNotFound after 1", err, f.Count(store.OpHead))
		}
	})
}

// TestRetryEndsWithContext has no limit of attempts: the context alone ends it,
// in the middle of a wait and in the middle of a hang.
func TestRetryEndsWithContext(t *testing.T) {
	for name, effect := range map[string]faultstore.Effect{"wait": faultstore.Unavailable, "hang": faultstore.Hang} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := faulty(t)
				f.Inject(faultstore.Fault{Effect: effect})
				s := store.WithRetry(f, store.RetryOptions{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				_, err := s.Head(ctx, "k")
				var se *store.Error
				if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &se) {
					t.Errorf("got %v, want a *store.Error with the context's", err)
				}
				if took := time.Since(began); took != time.Hour {
					t.Errorf("took %v, want the hour", took)
				}
				if f.Count("") < 50 {
					t.Errorf("%d attempts in an hour, want more", f.Count(""))
				}
			})
		})
	}
}

// TestRetryCutsHangs gives an attempt its time and the time of its bytes.
func TestRetryCutsHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t)
		f.Inject(faultstore.Fault{Op: store.OpPut, Effect: faultstore.Hang, Times: 1})
		s := store.WithRetry(f, store.RetryOptions{AttemptTimeout: 10 * time.Second, MinBytesPerSecond: 1 << 10, MinBackoff: 1, MaxBackoff: 1})
		began := time.Now()
		if err := s.Put(t.Context(), "k", store.BytesSource(make([]byte, 20<<10)), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("took %v, want the 30 s of the first attempt", took)
		}
	})
}

// TestRetryAmbiguity plays every way in which a conditional Put can go wrong
// after an attempt whose outcome nobody knows.
func TestRetryAmbiguity(t *testing.T) {
	conditional := store.PutOptions{IfNoneMatch: true}
	for _, c := range []struct {
		name      string
		fault     faultstore.Fault
		before    string // what somebody else wrote first
		o         store.PutOptions
		ok        bool
		exists    bool
		ambiguous bool
	}{
		{name: "no fault", o: conditional, ok: true},
		{name: "taken", o: conditional, before: "theirs", exists: true},
		{name: "nothing happened", o: conditional, fault: faultstore.Fault{Effect: faultstore.Unavailable, Times: 1}, ok: true},
		{name: "it happened", o: conditional, fault: faultstore.Fault{Effect: faultstore.AppliedButFailed, Times: 1}, exists: true, ambiguous: true},
		{name: "taken, and the answer lost", o: conditional, before: "theirs", fault: faultstore.Fault{Effect: faultstore.Unavailable, Times: 1}, exists: true, ambiguous: true},
		{name: "it never gets through", o: conditional, fault: faultstore.Fault{Effect: faultstore.Unavailable}, ambiguous: true},
		{name: "refused", o: conditional, fault: faultstore.Fault{Effect: faultstore.Refuse}},
		{name: "unconditional", fault: faultstore.Fault{Effect: faultstore.AppliedButFailed, Times: 1}, ok: true},
		{name: "unconditional and never through", fault: faultstore.Fault{Effect: faultstore.Unavailable}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := faulty(t)
				if c.before != "" {
					if err := f.Put(t.Context(), "k", store.BytesSource([]byte(c.before)), store.PutOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if c.fault.Effect != 0 || c.name == "refused" {
					c.fault.Op = store.OpPut
					f.Inject(c.fault)
				}
				s := store.WithRetry(f, store.RetryOptions{Attempts: 4})
				err := s.Put(t.Context(), "k", store.BytesSource([]byte("ours")), c.o)
				if (err == nil) != c.ok || errors.Is(err, store.ErrExists) != c.exists || errors.Is(err, store.ErrAmbiguous) != c.ambiguous {
					t.Errorf("got %v, want success %v, exists %v, ambiguous %v", err, c.ok, c.exists, c.ambiguous)
				}
			})
		})
	}
}

func TestRetryOptionsFaults(t *testing.T) {
	o := store.RetryOptions{Attempts: -1, MinBackoff: -1, MaxBackoff: -2, AttemptTimeout: -1, MinBytesPerSecond: -1}
	o.EnsureDefaults()
	err := o.Validate()
	if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 5 {
		t.Errorf("got %v, want five faults", err)
	}
	var zero store.RetryOptions
	zero.EnsureDefaults()
	if err := zero.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}
