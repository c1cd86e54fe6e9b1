// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"context"

	"firn/tier/store"
)

// begin writes the call down and plays those effects that are the same for all
// operations. It gives the effect that is left to the operation, or done.
func (s *Store) begin(ctx context.Context, c Call) (effect Effect, i *Injected, err error) {
	i = s.enter(c)
	if i == nil {
		return 0, nil, nil
	}
	if i.f.Before != nil {
		i.f.Before(ctx, c)
	}
	switch effect = i.f.Effect; effect {
	case Refuse:
		return effect, i, i.fail(c, store.Permanent, "injected: refused")
	case Unavailable:
		return effect, i, i.fail(c, store.Retriable, "injected: 503 SlowDown")
	case Hang:
		select {
		case <-ctx.Done():
			return effect, i, &store.Error{Op: c.Op, Key: c.Key, Kind: store.Retriable, Err: ctx.Err()}
		case <-i.released:
			return effect, nil, nil
		}
	case AppliedLate:
		if c.Op != store.OpPut {
			return effect, i, i.fail(c, store.Retriable, "injected: connection cut")
		}
	case AppliedButFailed:
		if c.Op != store.OpPut && c.Op != store.OpDelete {
			return effect, i, i.fail(c, store.Retriable, "injected: connection cut")
		}
	case TornShort:
		if c.Op != store.OpGet {
			return effect, i, i.fail(c, store.Retriable, "injected: connection cut")
		}
	}
	return effect, i, nil
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, body store.Source, o store.PutOptions) error {
	c := Call{Op: store.OpPut, Key: key, Bytes: body.Size(), IfNoneMatch: o.IfNoneMatch}
	effect, i, err := s.begin(ctx, c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.unconditional {
		o.IfNoneMatch = false
	}
	s.mu.Unlock()
	if i == nil {
		return s.inner.Put(ctx, key, body, o)
	}
	switch effect {
	case AppliedLate:
		if err := s.putLater(key, body, o); err != nil {
			return err
		}
		return i.fail(c, store.Retriable, "injected: connection cut")
	case AppliedButFailed:
		if err := s.inner.Put(ctx, key, body, o); err != nil {
			return err
		}
		return i.fail(c, store.Retriable, "injected: connection cut")
	case Twice:
		if err := s.inner.Put(ctx, key, body, o); err != nil {
			return err
		}
	}
	return s.inner.Put(ctx, key, body, o)
}

// putLater keeps a put for Settle. The body is copied: its owner takes it away
// when the call has failed.
func (s *Store) putLater(key string, body store.Source, o store.PutOptions) error {
	b := make([]byte, body.Size())
	if err := store.ReadSource(body, b, 0); err != nil {
		return &store.Error{Op: store.OpPut, Key: key, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, latePut{key: key, body: b, o: o})
	return nil
}

// GetRange implements store.Store.
func (s *Store) GetRange(ctx context.Context, key string, p []byte, off int64) (int, error) {
	c := Call{Op: store.OpGet, Key: key, Offset: off, Bytes: int64(len(p))}
	effect, i, err := s.begin(ctx, c)
	if err != nil {
		return 0, err
	}
	n, err := s.inner.GetRange(ctx, key, p, off)
	if i == nil || err != nil || n == 0 {
		return n, err
	}
	switch effect {
	case TornShort:
		// The rest was never received: it must not look as if it had been.
		clear(p[n/2:])
		return n / 2, i.fail(c, store.Retriable, "injected: connection cut")
	case TornFlip:
		p[n/2] ^= 1
	}
	return n, nil
}

// Head implements store.Store.
func (s *Store) Head(ctx context.Context, key string) (store.Info, error) {
	if _, _, err := s.begin(ctx, Call{Op: store.OpHead, Key: key}); err != nil {
		return store.Info{}, err
	}
	return s.inner.Head(ctx, key)
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]store.Info, bool, error) {
	if _, _, err := s.begin(ctx, Call{Op: store.OpList, Key: prefix}); err != nil {
		return nil, false, err
	}
	return s.inner.List(ctx, prefix, after, limit)
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, keys []string) error {
	c := Call{Op: store.OpDelete, Keys: keys}
	if len(keys) > 0 {
		c.Key = keys[0]
	}
	effect, i, err := s.begin(ctx, c)
	if err != nil {
		return err
	}
	if err := s.inner.Delete(ctx, keys); err != nil || i == nil {
		return err
	}
	switch effect {
	case AppliedButFailed:
		return i.fail(c, store.Retriable, "injected: connection cut")
	case Twice:
		return s.inner.Delete(ctx, keys)
	}
	return nil
}

// Capabilities implements store.Store.
func (s *Store) Capabilities() store.Capabilities {
	c := s.inner.Capabilities()
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ConditionalPut = c.ConditionalPut && !s.unconditional
	return c
}

// Close implements store.Store.
func (s *Store) Close() error { return s.inner.Close() }
