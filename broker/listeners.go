// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"sync"

	"firn/wire"
)

// Listener is an address that clients connect to.
type Listener struct {
	// Name is the listener's name, as wire.Server.Listen was told.
	Name string
	// Host and Port are what Metadata tells the clients of this listener.
	Host string
	Port int32
}

// listeners are the advertised addresses.
type listeners struct {
	mu  sync.RWMutex
	all []Listener
}

// Advertise tells the clients of a listener how to reach it. It comes before
// the first client of that listener; where the port is chosen at the bind,
// right after it.
func (b *Broker) Advertise(l Listener) {
	b.listeners.mu.Lock()
	defer b.listeners.mu.Unlock()
	b.listeners.all = append(b.listeners.all, l)
}

// listener is the one that the request came in by.
func (b *Broker) listener(r *wire.Request) Listener {
	b.listeners.mu.RLock()
	defer b.listeners.mu.RUnlock()
	for _, l := range b.listeners.all {
		if l.Name == r.Conn.Listener {
			return l
		}
	}
	return Listener{Name: r.Conn.Listener}
}
