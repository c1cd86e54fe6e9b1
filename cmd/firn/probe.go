// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"firn/tier"
	"firn/tier/store"
)

// probeInterval is how often a store that was away at the start is asked what
// it can do. Until it answers, nothing that it may lack is relied on.
const probeInterval = 10 * time.Second

// errNotAsked is what is known of a store before its first answer.
var errNotAsked = errors.New("it is being asked")

// storeProbe is what the store last said of itself.
type storeProbe struct {
	mu           sync.Mutex
	capabilities *store.Capabilities
	err          error
}

func (p *storeProbe) set(capabilities store.Capabilities, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.capabilities, p.err = &capabilities, err
}

// get answers errNotAsked before the store said anything.
func (p *storeProbe) get() (store.Capabilities, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.capabilities == nil {
		return store.Capabilities{}, errNotAsked
	}
	return *p.capabilities, p.err
}

// probeStore asks the store what it can do.
func (n *node) probeStore(ctx context.Context) error {
	capabilities, err := store.ProbeUnder(ctx, n.store, probePrefix(n.cfg.Tier))
	n.probe.set(capabilities, err)
	return err
}

// askStore asks the store beside the start, which does not wait for it, and
// again until it has answered once or the node closes. Nothing is written to a
// store before it was found to be the right one; with a wrong one the node
// stops.
func (n *node) askStore() {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(probeInterval)
		defer ticker.Stop()
		for away := false; !n.askOnce(ctx, &away); {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
	n.onClose("the probe of the object store", func(context.Context) error {
		cancel()
		done.Wait()
		return nil
	})
}

// askOnce says whether the store need not be asked again. away is whether it
// was reported to be away.
func (n *node) askOnce(ctx context.Context, away *bool) (done bool) {
	bounded, end := context.WithTimeout(ctx, storeWait)
	defer end()
	// Which bucket it is comes first: a probe writes to it.
	err := n.verifyStore(bounded)
	if errors.Is(err, tier.ErrStoreMismatch) {
		n.failed <- err
		return true
	}
	if err == nil {
		err = n.probeStore(bounded)
	}
	switch {
	case ctx.Err() != nil:
	case err == nil && *away:
		n.logger.Info("the object store answers", "event", "store_up")
	case err != nil && !*away:
		n.logger.Warn("the object store does not answer: serving what is local", "event", "store_down", "error", err)
		*away = true
	}
	if err != nil && ctx.Err() == nil {
		n.probe.set(store.Capabilities{}, err)
	}
	return err == nil
}
