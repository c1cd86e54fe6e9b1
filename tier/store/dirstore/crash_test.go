// SPDX-License-Identifier: Apache-2.0

package dirstore_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/tier/store"
	"firn/tier/store/dirstore"
)

// contents reads the whole store.
func contents(t *testing.T, s *dirstore.Store) map[string]string {
	t.Helper()
	infos, more, err := s.List(t.Context(), "", "", 0)
	if err != nil || more {
		t.Fatalf("list: more %v, %v", more, err)
	}
	all := make(map[string]string)
	for _, info := range infos {
		p := make([]byte, info.Size)
		if _, err := s.GetRange(t.Context(), info.Key, p, 0); err != nil {
			t.Fatalf("get %s: %v", info.Key, err)
		}
		all[info.Key] = string(p)
	}
	return all
}

// TestCrash attacks I1 and I2: whatever was answered is there after a power cut
// right afterwards, whether the machine had written all the rest or none.
func TestCrash(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		mem := vfs.NewMem()
		s := open(t, dirstore.Options{Path: "/data/bucket", FS: mem})
		model := make(map[string]string)
		for step := range 60 {
			key := fmt.Sprintf("d%d/e%d/f%d", rng.IntN(2), rng.IntN(2), rng.IntN(3))
			if rng.IntN(3) == 0 {
				if err := s.Delete(t.Context(), []string{key}); err != nil {
					t.Fatalf("seed %d, step %d: delete: %v", seed, step, err)
				}
				delete(model, key)
			} else {
				body := fmt.Sprint(seed, " ", step)
				o := store.PutOptions{IfNoneMatch: rng.IntN(2) == 0}
				err := s.Put(t.Context(), key, store.BytesSource([]byte(body)), o)
				if err == nil {
					model[key] = body
				} else if _, taken := model[key]; !errors.Is(err, store.ErrExists) || !taken {
					t.Fatalf("seed %d, step %d: put: %v", seed, step, err)
				}
			}
			for name, after := range map[string]*vfs.Mem{"cut": mem.Crash(), "torn": mem.CrashKeeping(seed)} {
				if got := contents(t, open(t, dirstore.Options{Path: "/data/bucket", FS: after})); !maps.Equal(got, model) {
					t.Fatalf("seed %d, step %d, %s: got %v, want %v", seed, step, name, got, model)
				}
			}
		}
	}
}

// TestEveryFault fails each operation of the file system once, attacking I1 and
// I2: a Put that failed left nothing or the whole object, the same Put then
// succeeds, and what was answered survives a power cut.
func TestEveryFault(t *testing.T) {
	conditional := store.PutOptions{IfNoneMatch: true}
	for _, ops := range [][]faultfs.Op{faultfs.Writes(), faultfs.Reads()} {
		for n := 1; ; n++ {
			mem := vfs.NewMem()
			faults := faultfs.New(mem)
			s := open(t, dirstore.Options{Path: "/bucket", FS: faults})
			injected := faults.FailNth(n, faultfs.IOError(), ops...)
			want := make(map[string]string)
			for i, o := range []store.PutOptions{{}, conditional, conditional, {}} {
				key, body := fmt.Sprintf("a/b%d/c", i%3), fmt.Sprint("body ", i)
				err := s.Put(t.Context(), key, store.BytesSource([]byte(body)), o)
				if err != nil {
					if !store.IsRetriable(err) {
						t.Errorf("fault %d: put: %v, want a retriable error", n, err)
					}
					if got, ok := contents(t, s)[key]; ok && got != body && got != want[key] {
						t.Errorf("fault %d: a failed put left %q", n, got)
					}
					err = s.Put(t.Context(), key, store.BytesSource([]byte(body)), store.PutOptions{})
				}
				if err != nil {
					t.Fatalf("fault %d: put again: %v", n, err)
				}
				want[key] = body
			}
			if err := s.Delete(t.Context(), []string{"a/b1/c"}); err != nil {
				if err := s.Delete(t.Context(), []string{"a/b1/c"}); err != nil {
					t.Fatalf("fault %d: delete again: %v", n, err)
				}
			}
			delete(want, "a/b1/c")
			injected.Stop()
			got := contents(t, open(t, dirstore.Options{Path: "/bucket", FS: mem.Crash()}))
			if !maps.Equal(got, want) {
				t.Errorf("fault %d: got %v after a crash, want %v", n, got, want)
			}
			if injected.Fired() == 0 {
				break
			}
		}
	}
}

// watchedSource calls watch at its second read.
type watchedSource struct {
	store.Source
	reads int
	watch func()
}

func (w *watchedSource) ReadAt(p []byte, off int64) (int, error) {
	if w.reads++; w.reads == 2 {
		w.watch()
	}
	return w.Source.ReadAt(p, off)
}

// TestHalfWrittenIsInvisible looks at the store in the middle of a Put, and
// after a kill at that point.
func TestHalfWrittenIsInvisible(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, dirstore.Options{Path: "/bucket", FS: mem})
	body := &watchedSource{Source: store.BytesSource(make([]byte, 3<<20))}
	body.watch = func() {
		for name, at := range map[string]*dirstore.Store{"now": s, "killed": open(t, dirstore.Options{Path: "/bucket", FS: mem.Kill()})} {
			if got := contents(t, at); len(got) != 0 {
				t.Errorf("%s: the store shows %v", name, slices.Collect(maps.Keys(got)))
			}
			if _, err := at.Head(t.Context(), ".firn-tmp"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: head of the temporary directory: %v", name, err)
			}
		}
	}
	if err := s.Put(t.Context(), "k", body, store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if body.reads < 2 {
		t.Error("the body was read at once")
	}
}

func TestDiskFull(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, dirstore.Options{Path: "/bucket", FS: mem})
	mem.SetCapacity(1 << 20)
	err := s.Put(t.Context(), "k", store.BytesSource(make([]byte, 2<<20)), store.PutOptions{})
	if !store.IsRetriable(err) {
		t.Errorf("put on a full disk: %v, want a retriable error", err)
	}
	if usage, _ := mem.Usage("/"); usage.Free != 1<<20 {
		t.Errorf("%d bytes are free, want all: the half-written file is still there", usage.Free)
	}
	if err := s.Put(t.Context(), "k", store.BytesSource(make([]byte, 1<<10)), store.PutOptions{}); err != nil {
		t.Errorf("put of what fits: %v", err)
	}
}
