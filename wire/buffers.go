// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"math/bits"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Buffers are pooled in classes of powers of two. Larger ones are left to the
// garbage collector: a pool of them would hold what one rare request needed.
const (
	minClassBits = 9  // 512 bytes
	maxClassBits = 20 // 1 MiB
)

// buffer is a byte slice that came from a pool. Its owner may grow and replace
// b, and gives it back once.
type buffer struct{ b []byte }

// bufferPool hands out buffers by size class. Safe for concurrent use.
type bufferPool struct {
	classes [maxClassBits - minClassBits + 1]sync.Pool
}

// classSize is the capacity of a buffer that get(n) returns.
func classSize(n int) int {
	if n > 1<<maxClassBits {
		return n
	}
	return 1 << max(minClassBits, bits.Len(uint(max(n, 1)-1)))
}

// get returns a buffer of length n with arbitrary content.
func (p *bufferPool) get(n int) *buffer {
	size := classSize(n)
	if size > 1<<maxClassBits {
		return &buffer{b: make([]byte, n)}
	}
	class := bits.Len(uint(size)) - 1 - minClassBits
	if b, ok := p.classes[class].Get().(*buffer); ok {
		b.b = b.b[:n]
		return b
	}
	return &buffer{b: make([]byte, n, size)}
}

// put takes a buffer back. One that was grown goes to the class that it can
// fill, and may be up to twice as large.
func (p *bufferPool) put(b *buffer) {
	size := cap(b.b)
	if size < 1<<minClassBits || size > 1<<maxClassBits {
		return
	}
	p.classes[bits.Len(uint(size))-1-minClassBits].Put(b)
}

// smallFrame is the largest frame that draws on the share of small ones.
const smallFrame = 64 << 10

// frameMemory hands out the buffers of request frames under one budget for the
// whole server. Waiting readers are served in the order in which they came, so
// that a large frame is not starved by small ones. Small frames have a share
// of their own: fetches and heartbeats must not wait behind a large produce
// request whose client is slow to send it.
type frameMemory struct {
	small, large *semaphore.Weighted
	// pool is of frames alone: none of its buffers was grown beyond what is
	// charged for it.
	pool bufferPool
}

// newFrameMemory splits budget into an eighth for small frames and the rest
// for others; when no frame can be large, all of it is for small ones. Each
// share admits its largest frame, whatever the budget: what is charged is what
// is allocated, which may be a frame's size rounded up.
func newFrameMemory(budget int64, maxFrame int) *frameMemory {
	small := budget
	if maxFrame > smallFrame {
		small = max(budget/8, smallFrame)
	}
	return &frameMemory{
		small: semaphore.NewWeighted(max(small, int64(classSize(min(maxFrame, smallFrame))))),
		large: semaphore.NewWeighted(max(budget-small, int64(classSize(maxFrame)))),
	}
}

// frame is the buffer of one request.
type frame struct {
	*buffer
	charge int64
	share  *semaphore.Weighted
	pool   *bufferPool
}

// take waits for its share of the budget, then allocates. n is at most the
// largest frame that the memory was made for.
func (m *frameMemory) take(ctx context.Context, n int) (*frame, error) {
	f := &frame{charge: int64(classSize(n)), share: m.small, pool: &m.pool}
	if n > smallFrame {
		f.share = m.large
	}
	if err := f.share.Acquire(ctx, f.charge); err != nil {
		return nil, fmt.Errorf("wait for request memory: %w", err)
	}
	f.buffer = m.pool.get(n)
	return f, nil
}

// release gives buffer and budget back. The bytes must not be used after it.
func (f *frame) release() {
	f.pool.put(f.buffer)
	f.buffer = nil
	f.share.Release(f.charge)
}
