// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// RetryOptions is how WithRetry retries.
type RetryOptions struct {
	// Attempts is the most times that a call is made. 0: until it succeeds,
	// fails for good or the caller's context ends.
	Attempts int
	// MinBackoff is the mean wait after the first failure; it doubles with each
	// further one up to MaxBackoff, and each wait is spread over half to one and
	// a half times that. 0: 100 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// AttemptTimeout is the longest that one attempt may take, apart from the
	// time for its bytes. 0: 30 s. A hanging store is cut after that.
	AttemptTimeout time.Duration
	// MinBytesPerSecond is the slowest transfer that is not taken for a hang;
	// an attempt gets the time that its bytes need at this rate, on top of
	// AttemptTimeout. 0: 256 KiB/s.
	MinBytesPerSecond int64
	// OnRetry, when set, is told of each failure that will be retried, before
	// the wait. It may be called concurrently.
	OnRetry func(err error, attempt int, wait time.Duration)
}

// EnsureDefaults fills in what is zero.
func (o *RetryOptions) EnsureDefaults() {
	if o.MinBackoff == 0 {
		o.MinBackoff = 100 * time.Millisecond
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = max(30*time.Second, o.MinBackoff)
	}
	if o.AttemptTimeout == 0 {
		o.AttemptTimeout = 30 * time.Second
	}
	if o.MinBytesPerSecond == 0 {
		o.MinBytesPerSecond = 256 << 10
	}
}

// Validate reports every fault. It expects EnsureDefaults to have run.
func (o *RetryOptions) Validate() error {
	var errs []error
	if o.Attempts < 0 {
		errs = append(errs, fmt.Errorf("attempts is %d, want 0 or more", o.Attempts))
	}
	if o.MinBackoff <= 0 {
		errs = append(errs, fmt.Errorf("the shortest backoff is %v, want more than 0", o.MinBackoff))
	}
	if o.MaxBackoff < o.MinBackoff {
		errs = append(errs, fmt.Errorf("the longest backoff is %v, want at least the shortest, %v", o.MaxBackoff, o.MinBackoff))
	}
	if o.AttemptTimeout <= 0 {
		errs = append(errs, fmt.Errorf("the attempt timeout is %v, want more than 0", o.AttemptTimeout))
	}
	if o.MinBytesPerSecond <= 0 {
		errs = append(errs, fmt.Errorf("the slowest rate is %d bytes/s, want more than 0", o.MinBytesPerSecond))
	}
	return errors.Join(errs...)
}

// WithRetry makes a store that repeats calls of s which failed with a Retriable
// error. It is the only place where Firn retries a request to a store. Options
// that Validate refuses are a fault of the program, and are replaced by the
// defaults.
//
// A conditional Put needs care. When an attempt fails ambiguously (a cut
// connection, a 500) the object may be there all the same, written by that very
// attempt, and the next attempt then finds the key taken. So after such a
// failure an error of a conditional Put matches ErrAmbiguous, and:
//
//   - errors.Is(err, ErrExists): the key is taken, by us or by somebody else.
//     The caller reads the object back and compares: the same bytes mean that
//     the Put succeeded, others that it lost.
//   - otherwise the last attempt failed too (attempts or context ran out). The
//     object may be there now or appear later; the caller reads back before it
//     decides, and treats the key as used up: it never writes other content to it.
//
// An unconditional Put is simply repeated: its content is the same every time.
func WithRetry(s Store, o RetryOptions) Store {
	o.EnsureDefaults()
	if o.Validate() != nil {
		o = RetryOptions{OnRetry: o.OnRetry}
		o.EnsureDefaults()
	}
	return &retrier{Store: s, o: o}
}

// retrier is what WithRetry makes. Its options never change.
type retrier struct {
	Store
	o RetryOptions
}

func (r *retrier) Unwrap() Store { return r.Store }

func (r *retrier) Put(ctx context.Context, key string, body Source, o PutOptions) error {
	ambiguous := false
	err := r.do(ctx, OpPut, key, body.Size(), func(ctx context.Context) error {
		err := r.Store.Put(ctx, key, body, o)
		if IsRetriable(err) {
			ambiguous = true
		}
		return err
	})
	if err != nil && ambiguous && o.IfNoneMatch {
		return &Error{Op: OpPut, Key: key, Kind: KindOf(err), Reason: reasonOf(err), Err: fmt.Errorf("%w: %w", ErrAmbiguous, cause(err))}
	}
	return err
}

func (r *retrier) GetRange(ctx context.Context, key string, p []byte, off int64) (n int, err error) {
	err = r.do(ctx, OpGet, key, int64(len(p)), func(ctx context.Context) error {
		n, err = r.Store.GetRange(ctx, key, p, off)
		return err
	})
	return n, err
}

func (r *retrier) Head(ctx context.Context, key string) (info Info, err error) {
	err = r.do(ctx, OpHead, key, 0, func(ctx context.Context) error {
		info, err = r.Store.Head(ctx, key)
		return err
	})
	return info, err
}

func (r *retrier) List(ctx context.Context, prefix, after string, limit int) (infos []Info, more bool, err error) {
	err = r.do(ctx, OpList, prefix, 0, func(ctx context.Context) error {
		infos, more, err = r.Store.List(ctx, prefix, after, limit)
		return err
	})
	return infos, more, err
}

func (r *retrier) Delete(ctx context.Context, keys []string) error {
	return r.do(ctx, OpDelete, "", 0, func(ctx context.Context) error {
		return r.Store.Delete(ctx, keys)
	})
}

// do runs call until it succeeds, fails for good, or attempts or ctx run out.
// size is the number of bytes that one attempt moves.
func (r *retrier) do(ctx context.Context, op Op, key string, size int64, call func(context.Context) error) error {
	timeout := r.o.AttemptTimeout + time.Duration(float64(size)/float64(r.o.MinBytesPerSecond)*float64(time.Second))
	for attempt := 1; ; attempt++ {
		if ctx.Err() != nil {
			return &Error{Op: op, Key: key, Kind: Retriable, Err: ctx.Err()}
		}
		attemptCtx, cancel := context.WithTimeout(ctx, timeout)
		err := call(attemptCtx)
		cancel()
		if err == nil || !IsRetriable(err) {
			return err
		}
		if ctx.Err() != nil || attempt == r.o.Attempts {
			return err
		}
		wait := r.backoff(attempt)
		if r.o.OnRetry != nil {
			r.o.OnRetry(err, attempt, wait)
		}
		if !sleep(ctx, wait) {
			return &Error{Op: op, Key: key, Kind: Retriable, Reason: reasonOf(err), Err: fmt.Errorf("%w, after %d attempts: %w", ctx.Err(), attempt, cause(err))}
		}
	}
}

// backoff is the wait after the given attempt, counted from 1.
func (r *retrier) backoff(attempt int) time.Duration {
	mean := r.o.MaxBackoff
	// Beyond 30 doublings the shift could overflow, and the cap holds anyway.
	if shift := attempt - 1; shift < 30 && r.o.MinBackoff < r.o.MaxBackoff>>shift {
		mean = r.o.MinBackoff << shift
	}
	return mean/2 + rand.N(mean)
}

// sleep waits d, or less when ctx ends, which it tells by false.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// cause takes the outer *Error off, so that a sentence does not name its
// operation and key twice.
func cause(err error) error {
	if e, ok := err.(*Error); ok {
		return e.Err
	}
	return err
}
