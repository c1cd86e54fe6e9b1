// SPDX-License-Identifier: Apache-2.0

package bulk

import "runtime"

// Size is the most bytes that one turn should work on. Measured: turns of
// 256 KiB cost half the CPU and let the tail wait up to 1.5 times as long.
const Size = 64 << 10

// Turns is the semaphore. Who waits is served in order. Safe for concurrent
// use; a nil *Turns has room for everybody and yields nothing.
type Turns struct{ slots chan struct{} }

// NewTurns makes a semaphore of n turns; 0 stands for one less than the
// processors that Go may use now, and at least 1.
func NewTurns(n int) *Turns {
	if n <= 0 {
		n = max(1, runtime.GOMAXPROCS(0)-1)
	}
	return &Turns{slots: make(chan struct{}, n)}
}

// Take waits for a turn. Between it and Give the caller must not park.
func (t *Turns) Take() {
	if t != nil {
		t.slots <- struct{}{}
	}
}

// Give yields the thread and gives the turn back.
func (t *Turns) Give() {
	if t != nil {
		Yield()
		<-t.slots
	}
}

// Yield lets other threads of the machine run first, between two pieces of bulk
// work that may block, such as reads of a disk, and so take no turns.
func Yield() { yield() }

// Each calls work for p in pieces of at most Size bytes, in order, each in a
// turn of its own.
func (t *Turns) Each(p []byte, work func(piece []byte)) {
	for len(p) > 0 {
		n := min(len(p), Size)
		t.Take()
		work(p[:n])
		t.Give()
		p = p[n:]
	}
}
