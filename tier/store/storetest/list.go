// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"slices"
	"strings"
	"sync"

	"firn/tier/store"
)

// putAll writes one byte to each key, several at a time.
func (e *env) putAll(keys []string) {
	e.Helper()
	const writers = 16
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for j := i; j < len(keys); j += writers {
				if err := e.s.Put(e.Context(), keys[j], store.BytesSource([]byte("x")), store.PutOptions{}); err != nil {
					e.Errorf("put %s: %v", keys[j], err)
					return
				}
			}
		})
	}
	wg.Wait()
	if e.Failed() {
		e.FailNow()
	}
}

// listPages attacks I5 with more keys than one page has.
func listPages(e *env) {
	keys := e.segmentKeys(store.MaxList + 50)
	e.putAll(keys)
	for _, limit := range []int{0, 1 << 20, store.MaxList, 999, 350} {
		if got := e.keys(e.root+"/", "", limit); !slices.Equal(got, keys) {
			e.Errorf("limit %d: got %d keys, want %d in order", limit, len(got), len(keys))
		}
	}
	infos, more, err := e.s.List(e.Context(), e.root+"/", "", len(keys)-50)
	if err != nil || !more {
		e.Errorf("first page: %d keys, more %v, %v", len(infos), more, err)
	}
	if got := e.keys(e.root+"/", keys[len(keys)-3], 0); !slices.Equal(got, keys[len(keys)-2:]) {
		e.Errorf("after the last but two: %v", got)
	}
	if got := e.keys(e.root+"/", keys[len(keys)-1], 0); got != nil {
		e.Errorf("after the last: %v", got)
	}
	// Exactly what is left: the limit is reached and there is no more.
	if infos, more, err := e.s.List(e.Context(), e.root+"/", keys[len(keys)-6], 5); err != nil || more || len(infos) != 5 {
		e.Errorf("the last five: %d keys, more %v, %v", len(infos), more, err)
	}
	// A page that ends where another key follows.
	if infos, more, err := e.s.List(e.Context(), e.root+"/", keys[len(keys)-6], 4); err != nil || !more || len(infos) != 4 {
		e.Errorf("four of the last five: %d keys, more %v, %v", len(infos), more, err)
	}
}

// listOrder attacks I5 where a tree of directories would sort otherwise than
// its keys: a slash sorts after '-' and '.'.
func listOrder(e *env) {
	var keys []string
	for _, name := range []string{
		"a-b", "a.b", "a/b", "a/b-c", "a/bb", "a/b.c/d", "a0", "aa", "b/c/d", "b/c-d", "b/c.d", "b/c0", "B", "z/1", "z/10", "z/2", "z~", "é",
	} {
		keys = append(keys, e.key(name))
	}
	e.putAll(keys)
	slices.Sort(keys)
	for _, limit := range []int{0, 1, 2, 5} {
		if got := e.keys(e.root+"/", "", limit); !slices.Equal(got, keys) {
			e.Errorf("limit %d: got %q, want %q", limit, got, keys)
		}
	}
	// From every key on, and from places between the keys.
	for _, key := range keys {
		for _, after := range []string{key, key + "!"} {
			want := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k <= after })
			if got := e.keys(e.root+"/", after, 0); !slices.Equal(got, want) {
				e.Errorf("after %q: got %q, want %q", after, got, want)
			}
		}
	}
}

func listPrefixes(e *env) {
	keys := []string{e.key("claim/1"), e.key("head/1"), e.key("head/2"), e.key("head/21"), e.key("heads/1"), e.key("seg/1")}
	e.putAll(keys)
	for _, prefix := range []string{"", "c", "head", "head/", "head/2", "head/21", "head/3", "heads", "seg/1", "seg/1/", "t", "zzz"} {
		var want []string
		for _, key := range keys {
			if strings.HasPrefix(key, e.key(prefix)) {
				want = append(want, key)
			}
		}
		if got := e.keys(e.key(prefix), "", 0); !slices.Equal(got, want) {
			e.Errorf("prefix %q: got %q, want %q", prefix, got, want)
		}
	}
	// after may lie before, inside and behind the prefix.
	for after, want := range map[string][]string{e.root: keys[1:4], keys[1]: keys[2:4], e.key("zzz"): nil} {
		if got := e.keys(e.key("head/"), after, 0); !slices.Equal(got, want) {
			e.Errorf("head/ after %q: got %q, want %q", after, got, want)
		}
	}
}
