// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"firn/tier/store"
	"firn/tier/store/faultstore"
)

// lying is a store that does not do what it says.
type lying struct {
	store.Store
	list  func([]store.Info) []store.Info
	bytes func([]byte)
	size  int64
	keep  bool
}

func (l lying) List(ctx context.Context, prefix, after string, limit int) ([]store.Info, bool, error) {
	infos, more, err := l.Store.List(ctx, prefix, after, limit)
	if l.list != nil {
		infos = l.list(infos)
	}
	return infos, more, err
}

func (l lying) GetRange(ctx context.Context, key string, p []byte, off int64) (int, error) {
	n, err := l.Store.GetRange(ctx, key, p, off)
	if l.bytes != nil {
		l.bytes(p)
	}
	return n, err
}

func (l lying) Head(ctx context.Context, key string) (store.Info, error) {
	info, err := l.Store.Head(ctx, key)
	info.Size += l.size
	return info, err
}

func (l lying) Delete(ctx context.Context, keys []string) error {
	if l.keep {
		return nil
	}
	return l.Store.Delete(ctx, keys)
}

func TestProbeFindsLies(t *testing.T) {
	for name, c := range map[string]struct {
		lie  lying
		want string
	}{
		"eventual lists": {lying{list: func([]store.Info) []store.Info { return nil }}, "find the object in a list"},
		"other bytes":    {lying{bytes: func(p []byte) { p[0]++ }}, "read an object: the store gave back other bytes"},
		"other size":     {lying{size: 1}, "describe an object"},
		"no deletes":     {lying{keep: true}, "see that the object is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			c.lie.Store = faulty(t)
			_, err := store.Probe(t.Context(), c.lie)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want something about %q", err, c.want)
			}
		})
	}
}

// TestProbeSaysWhichStep fails each operation for good, and for a while.
func TestProbeSaysWhichStep(t *testing.T) {
	for op, step := range map[store.Op]string{
		store.OpList: "list objects", store.OpPut: "write an object", store.OpGet: "read an object",
		store.OpHead: "describe an object", store.OpDelete: "delete an object",
	} {
		for _, effect := range []faultstore.Effect{faultstore.Refuse, faultstore.Unavailable} {
			f := faulty(t)
			cause := errors.New("the reason")
			f.Inject(faultstore.Fault{Op: op, Effect: effect, Err: cause})
			_, err := store.Probe(t.Context(), f)
			if err == nil || !strings.Contains(err.Error(), step) || !errors.Is(err, cause) {
				t.Errorf("%s fails: got %v, want %q and the reason", op, err, step)
			}
			if store.IsRetriable(err) != (effect == faultstore.Unavailable) {
				t.Errorf("%s fails: %v is of kind %v", op, err, store.KindOf(err))
			}
		}
	}
}

func TestProbeWithoutConditions(t *testing.T) {
	f := faulty(t)
	f.IgnoreConditions(true)
	caps, err := store.Probe(t.Context(), f)
	if err != nil || caps.ConditionalPut {
		t.Errorf("got %+v, %v, want no conditional puts", caps, err)
	}
}

// TestProbeLeavesNothing cuts the probe at each of its calls: what it wrote is
// gone all the same.
func TestProbeLeavesNothing(t *testing.T) {
	synctest.Test(t, probeCutEverywhere)
}

func probeCutEverywhere(t *testing.T) {
	f := faulty(t)
	if _, err := store.Probe(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	calls := f.Count("")
	for n := range calls {
		f.Clear()
		ctx, cancel := context.WithCancel(t.Context())
		f.Inject(faultstore.Fault{Skip: n, Times: 1, Effect: faultstore.Hang, Before: func(context.Context, faultstore.Call) { cancel() }})
		_, err := store.Probe(ctx, f)
		cancel()
		if err == nil && n < calls-1 {
			t.Errorf("cut at call %d: no error", n)
		}
		f.Clear()
		infos, _, err := f.List(t.Context(), "", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			t.Errorf("cut at call %d of %d: the probe left %s", n, calls, info.Key)
		}
	}
}

func TestAsFindsThroughDecorators(t *testing.T) {
	f := faulty(t)
	s := store.WithRetry(f, store.RetryOptions{})
	if got, ok := store.As[*faultstore.Store](s); !ok || got != f {
		t.Errorf("got %v, %v", got, ok)
	}
	if _, ok := store.As[store.BucketCreator](s); ok {
		t.Error("a directory has no buckets to make")
	}
}
