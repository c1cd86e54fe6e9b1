// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"firn/record"
)

// Memory goes back to the pool with the last reference, once, and is not given
// out before.
func TestAChunkLivesAsLongAsItIsHeld(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pool := &chunkPool{bytes: 8, most: 3}
		type held struct {
			*chunk
			refs int
			mark byte
		}
		var chunks []*held
		pick := func() *held {
			if len(chunks) == 0 {
				return nil
			}
			return chunks[rapid.IntRange(0, len(chunks)-1).Draw(rt, "chunk")]
		}
		rt.Repeat(map[string]func(*rapid.T){
			"get": func(rt *rapid.T) {
				c := pool.get(rapid.SampledFrom([]int64{8, 8, 8, 5}).Draw(rt, "size"))
				mark := byte(len(chunks) + 1)
				for i := range c.b {
					c.b[i] = mark
				}
				chunks = append(chunks, &held{c, 1, mark})
			},
			"retain": func(rt *rapid.T) {
				h := pick()
				if h == nil {
					return
				}
				if ok := h.retain(); ok != (h.refs > 0) {
					rt.Fatalf("retain says %v with %d references", ok, h.refs)
				} else if ok {
					h.refs++
				}
			},
			"release": func(*rapid.T) {
				if h := pick(); h != nil && h.refs > 0 {
					h.refs--
					h.release()
				}
			},
			"trim": func(*rapid.T) { pool.trim() },
			"": func(rt *rapid.T) {
				if len(pool.free) > pool.most {
					rt.Fatalf("%d spares, at most %d", len(pool.free), pool.most)
				}
				for _, h := range chunks {
					if h.refs > 0 && !bytes.Equal(h.b, bytes.Repeat([]byte{h.mark}, len(h.b))) {
						rt.Fatalf("chunk %d holds %v", h.mark, h.b)
					}
				}
			},
		})
	})
}

// One release too many would hand out memory that is in use: it must not go by
// in silence.
func TestAChunkReleasedTwicePanics(t *testing.T) {
	c := (&chunkPool{bytes: 8, most: 1}).get(8)
	c.release()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	c.release()
}

// L6: with caches and bounds so small that memory is used again all the time,
// what a reader holds stays what it was until it releases it.
func TestAnswersKeepTheirBytesUntilReleased(t *testing.T) {
	var logs [][]byte
	for i := range 4 {
		logs = append(logs, testLog(record.Offset(i*40), 40, 150<<10))
	}
	g := newRig(t, ReaderOptions{MaxGets: 3, HoldBytes: 4 << 20, CacheBytes: 3 << 20, PrefetchBytes: 2 << 20}, logs...)
	wants := map[record.Offset][]byte{}
	for o := range record.Offset(160) {
		wants[o] = batchesFrom(g.log, o)
	}
	var readers sync.WaitGroup
	for seed := range uint64(6) {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			var held []Data
			var from []record.Offset
			for range 150 {
				o := record.Offset(random.IntN(160))
				d, err := g.r.read(context.Background(), g.chain, o, 1<<60, random.IntN(900<<10), true)
				if err != nil {
					t.Errorf("read from %d: %v", o, err)
					return
				}
				held, from = append(held, d), append(from, o)
				for len(held) > random.IntN(6) {
					if !bytes.HasPrefix(wants[from[0]], held[0].Bytes) || len(held[0].Bytes) == 0 {
						t.Errorf("what was read from %d has become something else", from[0])
						return
					}
					held[0].Release()
					held[0].Release() // does nothing
					held, from = held[1:], from[1:]
				}
			}
			for _, d := range held {
				d.Release()
			}
		})
	}
	readers.Wait()
	if lent := g.r.Stats().Lent; lent != 0 {
		t.Errorf("%d bytes are lent after all was released", lent)
	}
}
