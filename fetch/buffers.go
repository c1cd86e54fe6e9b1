// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"math/bits"
	"sync"
)

// Buffers are pooled by size, in powers of two between these. What is smaller
// or larger is rare or cheap, and left to the collector.
const (
	minBufferBits = 16 // 64 KiB
	maxBufferBits = 22 // 4 MiB
)

// buffers are pools of the buffers that warm reads fill. Its zero value is
// ready; all methods may be called concurrently.
type buffers struct {
	pools [maxBufferBits - minBufferBits + 1]sync.Pool
}

// get returns n bytes in a buffer whose capacity is at most the larger of n and
// most, so that nobody holds more than he has reserved.
func (b *buffers) get(n, most int) []byte {
	class := max(bits.Len(uint(max(n, 1)-1)), minBufferBits)
	if class > maxBufferBits || 1<<class > most {
		return make([]byte, n)
	}
	if p, ok := b.pools[class-minBufferBits].Get().(*[]byte); ok {
		return (*p)[:n]
	}
	return make([]byte, n, 1<<class)
}

// put takes a buffer of get back.
func (b *buffers) put(p []byte) {
	class := bits.Len(uint(max(cap(p), 1) - 1))
	if class < minBufferBits || class > maxBufferBits || cap(p) != 1<<class {
		return
	}
	p = p[:cap(p)]
	b.pools[class-minBufferBits].Put(&p)
}
