// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// B1: no more than n at once, whoever asks, and everybody gets a turn.
func TestNoMoreTurnsThanThereAre(t *testing.T) {
	for _, n := range []int{1, 3} {
		turns := NewTurns(n)
		var held, most, taken atomic.Int64
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for range 200 {
					turns.Take()
					now := held.Add(1)
					for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
					}
					taken.Add(1)
					held.Add(-1)
					turns.Give()
				}
			})
		}
		workers.Wait()
		if most.Load() > int64(n) || taken.Load() != 1600 {
			t.Errorf("%d turns: %d held at once, %d taken", n, most.Load(), taken.Load())
		}
	}
}

func TestDefaultTurnsLeaveAProcessor(t *testing.T) {
	if n := cap(NewTurns(0).slots); n < 1 {
		t.Errorf("%d turns", n)
	}
}

// Each shows all bytes, in order, in pieces of a bounded size; without turns
// just as well.
func TestEachShowsAll(t *testing.T) {
	for _, turns := range []*Turns{nil, NewTurns(1)} {
		for _, size := range []int{0, 1, Size - 1, Size, Size + 1, 3*Size + 7} {
			p := make([]byte, size)
			for i := range p {
				p[i] = byte(rand.Uint32())
			}
			var seen []byte
			turns.Each(p, func(piece []byte) {
				if len(piece) == 0 || len(piece) > Size {
					t.Errorf("a piece of %d bytes", len(piece))
				}
				seen = append(seen, piece...)
			})
			if !bytes.Equal(seen, p) {
				t.Errorf("of %d bytes %d were seen, or others", size, len(seen))
			}
		}
	}
}
