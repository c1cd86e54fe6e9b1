// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"firn/tier/store"
)

// Effect is what a fault does to a call.
type Effect int

const (
	// Refuse fails the call with a Permanent error; nothing happens.
	Refuse Effect = iota
	// Unavailable fails the call with a Retriable error, as a 500 or a
	// SlowDown; nothing happens.
	Unavailable
	// Hang holds the call until its context ends, the fault is removed, or
	// Clear; in the two latter cases the call goes on to the store.
	Hang
	// TornShort makes a GetRange give half of the bytes and a Retriable error,
	// as a connection that was cut. Other operations: as Unavailable.
	TornShort
	// TornFlip makes a GetRange give the right number of bytes with one bit
	// wrong, and no error. Other operations are let through.
	TornFlip
	// AppliedButFailed applies a Put or Delete and then fails with a Retriable
	// error, as a connection that was cut before the answer. Others: as
	// Unavailable.
	AppliedButFailed
	// AppliedLate fails a Put with a Retriable error and applies it only at
	// Settle, as a request that the network held up. Others: as Unavailable.
	AppliedLate
	// Twice applies a Put or Delete two times and answers as the second.
	// Others are let through.
	Twice
)

// Fault is one line of the script.
type Fault struct {
	// Op is the operation hit; empty: every one.
	Op store.Op
	// Key says whether a key is hit. For List it gets the prefix; Delete is hit
	// as a whole when any of its keys is. Nil: every key.
	Key func(key string) bool
	// Skip is how many matching calls are let through first.
	Skip int
	// Times is how many calls are hit after those. 0: all.
	Times int
	// Effect is what happens.
	Effect Effect
	// Err, when set, is wrapped by the error that the call gets.
	Err error
	// Before, when set, is called on the caller's goroutine for each call hit,
	// before the effect; it may block, and thereby hold the call at this point.
	Before func(ctx context.Context, c Call)
}

// Call is one call that was made.
type Call struct {
	Op store.Op
	// Key is the key, the prefix of a List, or the first key of a Delete.
	Key string
	// Keys are all keys of a Delete.
	Keys []string
	// Offset and Bytes are the range of a GetRange; Bytes is the size of the
	// body of a Put.
	Offset, Bytes int64
	// IfNoneMatch is the condition of a Put.
	IfNoneMatch bool
	// Hit says that a fault of the script hit the call.
	Hit bool
}

// Injected is a fault in force.
type Injected struct {
	s        *Store
	f        Fault
	seen     int
	hits     int
	released chan struct{} // closed when the fault is removed
}

// Hits is how many calls the fault has hit.
func (i *Injected) Hits() int {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	return i.hits
}

// Remove takes the fault out of the script and lets go what hangs in it.
func (i *Injected) Remove() {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	i.s.faults = slices.DeleteFunc(i.s.faults, func(f *Injected) bool { return f == i })
	i.releaseLocked()
}

func (i *Injected) releaseLocked() {
	select {
	case <-i.released:
	default:
		close(i.released)
	}
}

// latePut is a Put that was answered with a failure and waits to be applied.
type latePut struct {
	key  string
	body []byte
	o    store.PutOptions
}

// Store is a store.Store with faults. All methods may be called concurrently.
type Store struct {
	inner store.Store

	mu            sync.Mutex
	faults        []*Injected
	calls         []Call
	late          []latePut
	unconditional bool
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Wrapper = (*Store)(nil)
)

// New wraps inner, without any fault. Closing the result closes inner.
func New(inner store.Store) *Store { return &Store{inner: inner} }

// Unwrap implements store.Wrapper.
func (s *Store) Unwrap() store.Store { return s.inner }

// Inject adds a fault to the script. When several match a call the oldest that
// is due hits it; each counts every call that it matches.
func (s *Store) Inject(f Fault) *Injected {
	i := &Injected{s: s, f: f, released: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, i)
	return i
}

// Clear ends every fault and lets go what hangs in them. Late puts stay late.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		f.releaseLocked()
	}
	s.faults = nil
}

// Settle applies the puts that are late, in their order, and returns how many
// there were. A key that is taken by now is left as it is, if the put was
// conditional.
func (s *Store) Settle(ctx context.Context) (int, error) {
	s.mu.Lock()
	late := s.late
	s.late = nil
	s.mu.Unlock()
	for i, p := range late {
		err := s.inner.Put(ctx, p.key, store.BytesSource(p.body), p.o)
		if err != nil && !errors.Is(err, store.ErrExists) {
			return i, err
		}
	}
	return len(late), nil
}

// IgnoreConditions makes the store one that does not know conditional puts: it
// writes over what is there, and its Capabilities say so.
func (s *Store) IgnoreConditions(ignore bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unconditional = ignore
}

// Calls gives the calls made since the start or the last Forget, in order.
func (s *Store) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Count is how many calls of an operation, or of all when op is empty, were
// made since the start or the last Forget.
func (s *Store) Count(op store.Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if op == "" || c.Op == op {
			n++
		}
	}
	return n
}

// Forget empties the list of calls.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}

// enter writes a call down and gives the fault that hits it, if any.
func (s *Store) enter(c Call) *Injected {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hit *Injected
	for _, i := range s.faults {
		if !i.f.matches(c) {
			continue
		}
		i.seen++
		due := i.seen > i.f.Skip && (i.f.Times == 0 || i.seen <= i.f.Skip+i.f.Times)
		if due && hit == nil {
			hit = i
			i.hits++
		}
	}
	c.Hit = hit != nil
	s.calls = append(s.calls, c)
	return hit
}

func (f *Fault) matches(c Call) bool {
	if f.Op != "" && f.Op != c.Op {
		return false
	}
	if f.Key == nil {
		return true
	}
	if c.Op == store.OpDelete {
		return slices.ContainsFunc(c.Keys, f.Key)
	}
	return f.Key(c.Key)
}

// fail is the error of a fault.
func (i *Injected) fail(c Call, kind store.Kind, what string) error {
	err := errors.New(what)
	if i.f.Err != nil {
		err = fmt.Errorf("%s: %w", what, i.f.Err)
	}
	return &store.Error{Op: c.Op, Key: c.Key, Kind: kind, Err: err}
}
