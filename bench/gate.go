// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"runtime"
	"sync/atomic"
	"time"
)

const (
	gateSleep = 5 * time.Millisecond
	// GateLimit is how late the sleeper of a Gate may be in a round that
	// counts.
	GateLimit = 2500 * time.Microsecond
)

// Gate tells whether the machine was quiet: a thread at real-time priority
// that sleeps for 5 ms again and again, and is late when the machine, or the
// one beneath it, had no time for it. It may be used by one goroutine.
type Gate struct {
	worst atomic.Int64 // ns
	stop  chan struct{}
	done  chan struct{}
}

// NewGate starts the sleeper. The error says why it may not have its priority,
// without which it would be late because of the load that is measured.
func NewGate() (*Gate, error) {
	g := &Gate{stop: make(chan struct{}), done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(g.done)
		// The thread must outlive the goroutine, and so be unlocked: to a
		// child that is tied to its parent, the end of the thread that started
		// it is the parent's.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := setRealTime(true)
		started <- err
		if err == nil {
			g.sleep()
			// Who may raise the priority may lower it.
			_ = setRealTime(false)
		}
	}()
	if err := <-started; err != nil {
		<-g.done
		return nil, err
	}
	return g, nil
}

func (g *Gate) sleep() {
	for {
		select {
		case <-g.stop:
			return
		default:
		}
		due := time.Now().Add(gateSleep)
		sleep(gateSleep)
		if late := int64(time.Since(due)); late > g.worst.Load() {
			g.worst.Store(late)
		}
	}
}

// Worst is how late the sleeper was at most since the last call.
func (g *Gate) Worst() time.Duration { return time.Duration(g.worst.Swap(0)) }

// Close ends the sleeper.
func (g *Gate) Close() {
	close(g.stop)
	<-g.done
}
