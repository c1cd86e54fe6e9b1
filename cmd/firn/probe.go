// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	"firn/tier/store"
)

// probeInterval is how often a store that was away at the start is asked what
// it can do. Until it answers, nothing that it may lack is relied on.
const probeInterval = 10 * time.Second

// storeProbe is what the store last said of itself.
type storeProbe struct {
	mu           sync.Mutex
	capabilities store.Capabilities
	err          error
}

func (p *storeProbe) set(capabilities store.Capabilities, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.capabilities, p.err = capabilities, err
}

func (p *storeProbe) get() (store.Capabilities, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.capabilities, p.err
}

// probeStore asks the store what it can do.
func (n *node) probeStore(ctx context.Context) error {
	capabilities, err := store.ProbeUnder(ctx, n.store, probePrefix(n.cfg.Tier))
	n.probe.set(capabilities, err)
	return err
}

// probeLater asks again until the store has answered once, or the node closes.
func (n *node) probeLater() {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(probeInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			bounded, end := context.WithTimeout(ctx, storeWait)
			err := n.probeStore(bounded)
			end()
			if err == nil {
				n.logger.Info("the object store answers", "event", "store_up")
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
