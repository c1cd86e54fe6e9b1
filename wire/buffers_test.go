// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func TestBufferPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p bufferPool
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			n := rapid.OneOf(rapid.IntRange(0, 5000), rapid.IntRange(1<<20-2, 1<<20+2)).Draw(t, "n")
			b := p.get(n)
			if len(b.b) != n || cap(b.b) >= 2*classSize(n) {
				t.Fatalf("get(%d): length %d, capacity %d", n, len(b.b), cap(b.b))
			}
			if grow := rapid.IntRange(0, 4000).Draw(t, "grow"); grow > 0 {
				b.b = append(b.b, make([]byte, grow)...)
			}
			p.put(b)
		}
	})
}

// TestFrameMemory attacks I4: no more than the budget is out, a large frame is
// not starved, and a reader that gives up leaves the budget whole.
func TestFrameMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFrameMemory(4096, 4096)
		ctx := context.Background()
		small, err := m.take(ctx, 100)
		if err != nil {
			t.Fatal(err)
		}
		large := make(chan *frame)
		go func() {
			f, err := m.take(ctx, 4096)
			if err != nil {
				t.Error(err)
			}
			large <- f
		}()
		synctest.Wait()
		late := make(chan *frame)
		go func() {
			f, err := m.take(ctx, 100)
			if err != nil {
				t.Error(err)
			}
			late <- f
		}()
		cancelled, cancel := context.WithCancel(ctx)
		gone := make(chan error)
		go func() {
			_, err := m.take(cancelled, 4096)
			gone <- err
		}()
		synctest.Wait()
		select {
		case <-large:
			t.Fatal("the large frame was given more than the budget")
		case <-late:
			t.Fatal("a small frame overtook the large one")
		default:
		}
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled: %v", err)
		}
		small.release()
		(<-large).release()
		(<-late).release()
		if !m.small.TryAcquire(4096) {
			t.Fatal("budget is not whole")
		}
	})
}

// TestSmallFramesHaveAShare: large frames that take all they can get, and more
// of them that wait, leave small ones alone.
func TestSmallFramesHaveAShare(t *testing.T) {
	const largest = 1 << 20
	m := newFrameMemory(largest, largest)
	ctx := context.Background()
	large, err := m.take(ctx, largest)
	if err != nil {
		t.Fatal(err)
	}
	waiting, cancel := context.WithCancel(ctx)
	gone := make(chan error)
	go func() {
		_, err := m.take(waiting, largest)
		gone <- err
	}()
	for range 2 {
		small, err := m.take(ctx, smallFrame)
		if err != nil {
			t.Fatal(err)
		}
		defer small.release()
	}
	cancel()
	if err := <-gone; err == nil {
		t.Error("two of the largest frames were out at once")
	}
	large.release()
}

// TestFrameMemoryAdmitsTheLargest: rounding up must not make the largest frame
// impossible.
func TestFrameMemoryAdmitsTheLargest(t *testing.T) {
	for _, n := range []int{minFrame, 513, 5000, smallFrame, smallFrame + 1, 1<<20 - 1, 1<<20 + 1} {
		f, err := newFrameMemory(int64(n), n).take(context.Background(), n)
		if err != nil || len(f.b) != n || int64(cap(f.b)) > f.charge {
			t.Fatalf("%d: %v", n, err)
		}
		f.release()
	}
}
