// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"sync"
	"sync/atomic"

	"firn/tier/store"
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func ifNoneMatch(e *env) {
	key := e.key("claim/0000000001")
	e.put(key, []byte("mine"), store.PutOptions{IfNoneMatch: true})
	err := e.s.Put(e.Context(), key, store.BytesSource([]byte("theirs")), store.PutOptions{IfNoneMatch: true})
	e.wantKind("put of a taken key", err, store.Exists)
	e.want(key, []byte("mine"))
	if err := e.s.Delete(e.Context(), []string{key}); err != nil {
		e.Fatalf("delete: %v", err)
	}
	e.put(key, []byte("anew"), store.PutOptions{IfNoneMatch: true})
	e.want(key, []byte("anew"))
}

func ifNoneMatchLarge(e *env) {
	key, body := e.key("large"), pattern(LargeBytes)
	e.put(key, body, store.PutOptions{IfNoneMatch: true})
	err := e.s.Put(e.Context(), key, store.BytesSource(body[1:]), store.PutOptions{IfNoneMatch: true})
	e.wantKind("put of a taken key", err, store.Exists)
	e.want(key, body)
}

// oneWinner attacks I3.
func oneWinner(e *env) {
	const writers, rounds = 16, 4
	for round := range rounds {
		key := e.key("claim/" + string(rune('a'+round)))
		var winner atomic.Int32
		var wins atomic.Int32
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range writers {
			wg.Go(func() {
				<-start
				err := e.s.Put(e.Context(), key, store.BytesSource([]byte{byte(i)}), store.PutOptions{IfNoneMatch: true})
				switch {
				case err == nil:
					wins.Add(1)
					winner.Store(int32(i))
				// Stores may answer "a conflicting request is under way" as well.
				case !errors.Is(err, store.ErrExists) && !store.IsRetriable(err):
					e.Errorf("put: %v", err)
				}
			})
		}
		close(start)
		wg.Wait()
		if wins.Load() != 1 {
			e.Fatalf("%d of %d conditional puts won, want 1", wins.Load(), writers)
		}
		e.want(key, []byte{byte(winner.Load())})
	}
}

// wholeOrNothing attacks I1: while an object is written over, a reader sees one
// content or the other and never a mixture.
func wholeOrNothing(e *env) {
	key := e.key("whole")
	bodies := [][]byte{bytes.Repeat([]byte{1}, 3<<20), bytes.Repeat([]byte{2}, 3<<20)}
	e.put(key, bodies[0], store.PutOptions{})
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for i := range 10 {
			if err := e.s.Put(e.Context(), key, store.BytesSource(bodies[(i+1)%2]), store.PutOptions{}); err != nil {
				e.Errorf("put: %v", err)
				return
			}
		}
	})
	p := make([]byte, 3<<20)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		_, err := e.s.GetRange(e.Context(), key, p, 0)
		if store.IsRetriable(err) {
			continue
		}
		if err != nil {
			e.Errorf("get: %v", err)
			break
		}
		if !bytes.Equal(p, bodies[0]) && !bytes.Equal(p, bodies[1]) {
			e.Error("get: a mixture of two contents")
			break
		}
	}
	wg.Wait()
}

func wrongChecksum(e *env) {
	for name, size := range map[string]int{"small": 100, "large": LargeBytes} {
		key, body := e.key(name), pattern(size)
		wrong := checksum(body) + 1
		err := e.s.Put(e.Context(), key, store.BytesSource(body), store.PutOptions{CRC32C: &wrong})
		e.wantKind("put with a wrong checksum", err, store.Permanent)
		if !errors.Is(err, store.ErrBodyChanged) {
			e.Errorf("put with a wrong checksum: got %v, want ErrBodyChanged", err)
		}
		e.wantAbsent(key)
	}
}

func failingBody(e *env) {
	for _, good := range []int64{0, 40} {
		e.failingPut(brokenSource{size: 100, good: good, err: errors.New("the disk caught fire")})
	}
}

// failingLargeBody fails in the middle of a multipart upload.
func failingLargeBody(e *env) {
	e.failingPut(brokenSource{size: LargeBytes, good: 17 << 20, err: errors.New("the disk caught fire")})
}

func (e *env) failingPut(body brokenSource) {
	e.Helper()
	key := e.key("failing")
	err := e.s.Put(e.Context(), key, body, store.PutOptions{})
	e.wantKind("put of a failing body", err, store.Permanent)
	if !errors.Is(err, body.err) {
		e.Errorf("put of a failing body: %v does not wrap the body's error", err)
	}
	e.wantAbsent(key)
}

// cancelledContext attacks I6: nothing is asked of the store any more.
func cancelledContext(e *env) {
	key := e.key("cancelled")
	e.put(e.key("there"), []byte("x"), store.PutOptions{})
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	check := func(what string, err error) {
		e.Helper()
		var se *store.Error
		if !errors.Is(err, context.Canceled) || !errors.As(err, &se) {
			e.Errorf("%s: got %v, want a *store.Error with context.Canceled", what, err)
		}
	}
	check("put", e.s.Put(ctx, key, store.BytesSource([]byte("x")), store.PutOptions{}))
	_, err := e.s.GetRange(ctx, e.key("there"), make([]byte, 1), 0)
	check("get", err)
	_, err = e.s.Head(ctx, e.key("there"))
	check("head", err)
	_, _, err = e.s.List(ctx, e.root, "", 0)
	check("list", err)
	check("delete", e.s.Delete(ctx, []string{e.key("there")}))
	e.wantAbsent(key)
	e.want(e.key("there"), []byte("x"))
}

// cancelledDuringPut ends the context while the body is being read; no part of
// the object may be seen afterwards.
func cancelledDuringPut(e *env) {
	ctx, cancel := context.WithCancel(e.Context())
	defer cancel()
	reads := 0
	body := hookedSource{store.BytesSource(pattern(LargeBytes)), func() {
		if reads++; reads == 2 {
			cancel()
		}
	}}
	err := e.s.Put(ctx, e.key("cut"), body, store.PutOptions{})
	if !errors.Is(err, context.Canceled) {
		e.Errorf("put: got %v, want context.Canceled", err)
	}
	e.wantAbsent(e.key("cut"))
}

func probe(e *env) {
	caps, err := store.Probe(e.Context(), e.s)
	if err != nil {
		e.Fatalf("probe: %v", err)
	}
	if caps.Name == "" || !caps.ConditionalPut {
		e.Errorf("probe: got %+v, want a name and conditional puts", caps)
	}
	if keys := e.keys(store.ProbeName, "", 0); len(keys) != 0 {
		e.Errorf("the probe left %v", keys)
	}
}

func probeUnderPrefix(e *env) {
	prefix := e.root + "/firn/"
	if _, err := store.ProbeUnder(e.Context(), e.s, prefix); err != nil {
		e.Fatalf("probe: %v", err)
	}
	if keys := e.keys(prefix, "", 0); len(keys) != 0 {
		e.Errorf("the probe left %v", keys)
	}
	// What the probe found out must not have broken anything.
	key, body := e.key("after/the-probe"), pattern(LargeBytes)
	crc := checksum(body)
	e.put(key, body, store.PutOptions{CRC32C: &crc, IfNoneMatch: true})
	e.want(key, body)
	if _, err := store.ProbeUnder(e.Context(), e.s, "../"); !errors.Is(err, store.ErrInvalidKey) {
		e.Errorf("probe under an impossible prefix: %v", err)
	}
}
