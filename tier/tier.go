// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"firn/tier/store"
)

// Tier is the cold tier of one broker: the store, the workers that archive,
// and the reader that all partitions share. All methods may be called
// concurrently.
type Tier struct {
	o      Options
	root   string
	shape  shape
	store  store.Store // with retries
	reader *Reader
	pages  *pageCache
	sched  *scheduler
	ctx    context.Context
	cancel context.CancelFunc
	// topicTurn holds one token while a topic's description is written,
	// verifyTurn while the store's id is compared.
	topicTurn, verifyTurn chan struct{}
	closeOnce             sync.Once

	mu       sync.Mutex
	logs     map[*Log]bool
	verified bool // the store's id is ours
	closed   bool
}

// Open starts the cold tier. It does not wait for the store: Verify does, and
// every partition repeats it before it writes.
func Open(ctx context.Context, o Options) (*Tier, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("open tier: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open tier: %w", err)
	}
	root, err := Root(o.Prefix, o.ClusterID)
	if err != nil {
		return nil, fmt.Errorf("open tier: %w", err)
	}
	s := store.WithRetry(o.Store, o.Retry)
	reader, err := newReader(o.readerOptions(s))
	if err != nil {
		return nil, fmt.Errorf("open tier: %w", err)
	}
	t := &Tier{
		o: o, root: root, shape: defaultShape, store: s, reader: reader, pages: newPageCache(s),
		topicTurn: make(chan struct{}, 1), verifyTurn: make(chan struct{}, 1),
		logs: make(map[*Log]bool),
	}
	t.register(o.Registerer)
	// The work outlives the call that opened the tier; Close ends it.
	t.ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	t.sched = newScheduler(o.Logger, [lanes]int{laneControl: o.ControlWorkers, laneUpload: o.Uploaders})
	if o.Held {
		t.sched.hold()
	}
	return t, nil
}

// Begin lets the work on the partitions begin that Options.Held keeps back.
func (t *Tier) Begin() { t.sched.release() }

// Hold keeps the next steps of that work from beginning: a stop, which closes
// one partition after another, would else wait for one step of each.
func (t *Tier) Hold() { t.sched.hold() }

// Verify compares the store's id with Options.StoreID, and writes it into a
// store that has none, unless Options.StoreSeen says that it had. The error wraps ErrStoreMismatch, which must end the
// start of a broker, or is the store's, which need not: partitions go on
// trying. Once it succeeded it does not ask again.
func (t *Tier) Verify(ctx context.Context) error {
	select {
	case t.verifyTurn <- struct{}{}:
		defer func() { <-t.verifyTurn }()
	case <-ctx.Done():
		return fmt.Errorf("verify store: %w", ctx.Err())
	}
	t.mu.Lock()
	done := t.verified
	t.mu.Unlock()
	if done {
		return nil
	}
	if err := ensureStoreID(ctx, t.store, t.root, t.o, t.nowMs()); err != nil {
		return fmt.Errorf("verify store: %w", err)
	}
	t.mu.Lock()
	t.verified = true
	t.mu.Unlock()
	return nil
}

// Close closes every log that is open, ends the workers and the reader. It
// waits for steps under way, which it cancels, as long as ctx allows; after an
// error it may be called again.
func (t *Tier) Close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	logs := make([]*Log, 0, len(t.logs))
	for l := range t.logs {
		logs = append(logs, l)
	}
	t.mu.Unlock()
	t.cancel()
	var errs []error
	for _, l := range logs {
		errs = append(errs, l.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close tier: %w", err)
	}
	t.closeOnce.Do(func() {
		t.sched.stop()
		t.reader.close()
		t.pages.close()
	})
	return nil
}

// ReaderStats tells what reads of all partitions have done.
func (t *Tier) ReaderStats() ReaderStats { return t.reader.Stats() }

func (t *Tier) nowMs() int64 { return t.o.Now().UnixMilli() }
