// SPDX-License-Identifier: Apache-2.0

package partition

import "sync"

// watchers are the fetches parked on a partition.
type watchers struct {
	mu      sync.Mutex
	waiting map[*watcher]struct{}
}

type watcher struct{ wake chan<- struct{} }

// add registers wake, which should have room for one value: a full channel
// means that its owner is being woken already. The returned function takes it
// away again and may be called more than once.
func (w *watchers) add(wake chan<- struct{}) (cancel func()) {
	one := &watcher{wake: wake}
	w.mu.Lock()
	if w.waiting == nil {
		w.waiting = make(map[*watcher]struct{})
	}
	w.waiting[one] = struct{}{}
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		delete(w.waiting, one)
		w.mu.Unlock()
	}
}

// notify wakes everybody without waiting for anybody.
func (w *watchers) notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.waiting {
		select {
		case one.wake <- struct{}{}:
		default:
		}
	}
}
