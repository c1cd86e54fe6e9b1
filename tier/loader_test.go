// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firn/record"
)

// gate is a hook that holds GETs back until they are let through.
type gate struct {
	arrived chan string // one key@offset for each GET that has arrived
	pass    chan struct{}
}

func newGate() *gate { return &gate{arrived: make(chan string, 1000), pass: make(chan struct{})} }

func (g *gate) hook(ctx context.Context, key string, off int64, answer []byte) ([]byte, error) {
	g.arrived <- key
	select {
	case <-g.pass:
		return answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// L1: many readers of one chunk cost one GET of it and one of its index.
func TestOneGetHoweverManyWantIt(t *testing.T) {
	log := testLog(0, 10, 5000)
	g := newRig(t, ReaderOptions{CacheBytes: -1, IndexCacheBytes: -1}, log)
	hold := newGate()
	g.hook(hold.hook)
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() {
			if d := g.read(t, 4, 1<<20); !bytes.Equal(d.Bytes, batchesFrom(log, 4)) {
				t.Error("other bytes")
			}
		})
	}
	key := g.keyOf(g.entries[0])
	g.waitFor(t, func(l *loader) bool {
		p := l.parts[partID{key, 0}]
		return p != nil && p.waiters == 20
	})
	close(hold.pass)
	readers.Wait()
	if n := g.total(); n != 2 {
		t.Errorf("%d GETs, want one of the sections and one of the chunk", n)
	}
}

// A chunk that is read in pieces is fetched once although no cache admits it:
// it is held until a reader has passed its end.
func TestAChunkIsHeldUntilItIsUsedUp(t *testing.T) {
	log := testLog(0, 100, 5000)
	g := newRig(t, ReaderOptions{CacheBytes: -1, IndexCacheBytes: -1, PrefetchBytes: -1}, log)
	if got := g.replay(t, 10_000); !bytes.Equal(got, log) {
		t.Fatal("other bytes")
	}
	if n := g.total(); n != 2 {
		t.Errorf("%d GETs, want 2", n)
	}
	sections := int64(len(g.objects[g.keyOf(g.entries[0])]) - len(log))
	if held := g.r.Stats().Held; held != sections {
		t.Errorf("%d bytes held after the end of the chunk, want the sections' %d", held, sections)
	}
}

// L2, R3: a request whose time is up gets ErrNotReady; its GET goes on and the
// next request finds what it brought.
func TestADeadlineCostsTheAnswerAndNotTheGet(t *testing.T) {
	log := testLog(0, 10, 5000)
	g := newRig(t, ReaderOptions{}, log)
	hold := newGate()
	g.hook(hold.hook)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-hold.arrived
		<-hold.arrived
		cancel()
	}()
	_, err := g.r.read(ctx, g.chain, 0, 1<<60, 1<<20, true)
	if !errors.Is(err, record.ErrNotReady) || errors.Is(err, record.ErrStorage) {
		t.Fatalf("error is %v, want ErrNotReady alone", err)
	}
	close(hold.pass)
	if d := g.read(t, 0, 1<<20); !bytes.Equal(d.Bytes, log) {
		t.Error("other bytes")
	}
	if n := g.total(); n != 2 {
		t.Errorf("%d GETs, want the first two", n)
	}
}

// L2: what waits for a slot is not asked for when everybody has left.
func TestNothingStartsWhenTheLastWaiterHasLeft(t *testing.T) {
	g := newRig(t, ReaderOptions{MaxGets: 1}, testLog(0, 10, 5000), testLog(20, 10, 5000))
	hold := newGate()
	g.hook(hold.hook)
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for _, from := range []record.Offset{0, 20} {
		readers.Go(func() {
			if _, err := g.r.read(ctx, g.chain, from, 1<<60, 1<<20, true); !errors.Is(err, record.ErrNotReady) {
				t.Errorf("error is %v, want ErrNotReady", err)
			}
		})
	}
	<-hold.arrived // the one slot is taken; the others queue
	g.waitQueued(t, 3)
	cancel()
	readers.Wait()
	close(hold.pass)
	g.waitIdle(t)
	if n := g.total(); n != 1 {
		t.Errorf("%d GETs, want the one that was under way", n)
	}
	if s := g.r.Stats(); s.Abandoned != 3 {
		t.Errorf("%d abandoned, want 3", s.Abandoned)
	}
}

// waitQueued waits until n parts wait for a slot. The readers are on their way
// to the queue and need nobody else, so that the wait ends.
func (g *rig) waitQueued(t testing.TB, n int) {
	t.Helper()
	g.waitFor(t, func(l *loader) bool { return l.queue.Len() == n })
}

// waitIdle waits until no GET is under way.
func (g *rig) waitIdle(t testing.TB) {
	t.Helper()
	g.waitFor(t, func(l *loader) bool { return l.flying == 0 && l.queue.Len() == 0 && len(l.spawned) == 0 })
}

func (g *rig) waitFor(t testing.TB, ok func(l *loader) bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		g.r.load.mu.Lock()
		done := ok(g.r.load)
		g.r.load.mu.Unlock()
		if done {
			return
		}
		<-tick.C
	}
}

// L3: neither the GETs under way nor the bytes in flight and held pass their
// bounds, with many readers and read-ahead, and every reader gets its bytes.
func TestBoundsHoldUnderManyReaders(t *testing.T) {
	var logs [][]byte
	for i := range 3 {
		logs = append(logs, testLog(record.Offset(i*60), 30, 100<<10))
	}
	o := ReaderOptions{MaxGets: 3, HoldBytes: 5 << 20, CacheBytes: 2 << 20, PrefetchBytes: 8 << 20}
	g := newRig(t, o, logs...)
	var mu sync.Mutex
	most := int64(0)
	g.hook(func(_ context.Context, _ string, _ int64, answer []byte) ([]byte, error) {
		held := g.r.Stats().Held
		mu.Lock()
		defer mu.Unlock()
		most = max(most, held)
		return answer, nil
	})
	var readers sync.WaitGroup
	for i := range 5 {
		readers.Go(func() {
			if got := g.replay(t, 300<<10+i); !bytes.Equal(got, g.log) {
				t.Error("other bytes")
			}
		})
	}
	readers.Wait()
	if g.most > o.MaxGets {
		t.Errorf("%d GETs at once, at most %d", g.most, o.MaxGets)
	}
	if most > o.HoldBytes {
		t.Errorf("%d bytes in flight and held, at most %d", most, o.HoldBytes)
	}
}

// A read at the start of an object takes one round trip: the sections and the
// chunk are asked for at once.
func TestAColdStartAsksForIndexAndChunkAtOnce(t *testing.T) {
	g := newRig(t, ReaderOptions{}, testLog(0, 100, 60<<10))
	hold := newGate()
	g.hook(hold.hook)
	var reader sync.WaitGroup
	reader.Go(func() { g.read(t, 0, 1<<20) })
	<-hold.arrived
	<-hold.arrived // both before either is answered
	close(hold.pass)
	reader.Wait()
}

// A sequential reader finds its chunks loaded, in the next objects as well.
func TestReadAheadGoesOnInTheNextObjects(t *testing.T) {
	logs := [][]byte{testLog(0, 40, 100<<10), testLog(80, 5, 100<<10), testLog(90, 40, 100<<10)}
	g := newRig(t, ReaderOptions{PrefetchBytes: 6 << 20}, logs...)
	from := record.Offset(0)
	for range 4 { // the window grows: 1, 2, 4, 6 MiB
		from = g.read(t, from, 1<<20).Next
		g.waitIdle(t)
	}
	before := g.total()
	var got []byte
	for from < 120 {
		d := g.read(t, from, 1<<20)
		got = append(got, d.Bytes...)
		from = d.Next
	}
	if !bytes.HasPrefix(g.log[len(g.log)-len(batchesFrom(g.log, from))-len(got):], got) {
		t.Error("other bytes")
	}
	g.waitIdle(t)
	s := g.r.Stats()
	if s.Misses > 4 {
		t.Errorf("%d misses, want the first chunks only", s.Misses)
	}
	if s.ReadAhead == 0 || g.total() < before {
		t.Errorf("%d parts read ahead", s.ReadAhead)
	}
	if want := g.total(); want != int(s.Gets) || s.Gets > 2*3+5+1+5 {
		t.Errorf("%d GETs, counted %d; want each part once", want, s.Gets)
	}
}

// A reader that jumps about reads nothing ahead.
func TestRandomReadsDoNotReadAhead(t *testing.T) {
	g := newRig(t, ReaderOptions{}, testLog(0, 100, 60<<10))
	for _, from := range []record.Offset{150, 3, 77, 120, 9} {
		g.read(t, from, 1000)
	}
	g.waitIdle(t)
	if s := g.r.Stats(); s.ReadAhead != 0 {
		t.Errorf("%d parts read ahead", s.ReadAhead)
	}
}

// What is held too long goes to the caches, where it is found without a GET.
func TestWhatIsHeldTooLongGoesToTheCaches(t *testing.T) {
	log := testLog(0, 10, 5000)
	segment := mustBuild(t, log)
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, ReaderOptions{HoldFor: 4 * time.Second})
		defer g.r.close()
		g.entries = append(g.entries, segment.Entry())
		g.objects[g.keyOf(segment.Entry())] = objectBytes(t, segment)
		g.read(t, 0, 6000)
		if held := g.r.Stats().Held; held == 0 {
			t.Fatal("nothing is held after a read of a part of a chunk")
		}
		<-time.After(7 * time.Second) // of the bubble's clock
		synctest.Wait()
		if held := g.r.Stats().Held; held != 0 {
			t.Fatalf("%d bytes held after the time", held)
		}
		g.r.load.chunks.inner.Wait()
		g.r.load.indexes.inner.Wait()
		if d := g.read(t, 4, 1<<20); !bytes.Equal(d.Bytes, batchesFrom(log, 4)) {
			t.Error("other bytes")
		}
		if n := g.total(); n != 2 {
			t.Errorf("%d GETs, want the first two", n)
		}
	})
}

// A store that hangs costs the request its deadline and the GET its own; when
// the store answers again, so does the reader.
func TestAHangingStoreIsLetGo(t *testing.T) {
	log := testLog(0, 10, 5000)
	segment := mustBuild(t, log)
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, ReaderOptions{GetTimeout: 20 * time.Second})
		defer g.r.close()
		g.entries = append(g.entries, segment.Entry())
		g.objects[g.keyOf(segment.Entry())] = objectBytes(t, segment)
		g.hook(newGate().hook)
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		if _, err := g.r.read(ctx, g.chain, 0, 1<<60, 1<<20, true); !errors.Is(err, record.ErrNotReady) {
			t.Fatalf("error is %v, want ErrNotReady", err)
		}
		_, err := g.r.read(context.Background(), g.chain, 0, 1<<60, 1<<20, true)
		if !errors.Is(err, record.ErrStorage) || errors.Is(err, record.ErrNotReady) || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error is %v, want ErrStorage that does not look like the end of a request", err)
		}
		g.hook(nil)
		synctest.Wait() // the chunk's own GET has ended, too
		if d := g.read(t, 0, 1<<20); !bytes.Equal(d.Bytes, log) {
			t.Error("other bytes")
		}
	})
}

// Close ends GETs under way and the reads that wait for them.
func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	g := newRig(t, ReaderOptions{MaxGets: 1}, testLog(0, 10, 5000), testLog(20, 10, 5000))
	hold := newGate()
	g.hook(hold.hook)
	var readers sync.WaitGroup
	for _, from := range []record.Offset{0, 20} {
		readers.Go(func() {
			if _, err := g.r.read(context.Background(), g.chain, from, 1<<60, 1<<20, true); !errors.Is(err, record.ErrClosed) {
				t.Errorf("error is %v, want ErrClosed", err)
			}
		})
	}
	<-hold.arrived
	g.waitQueued(t, 3)
	g.r.close()
	readers.Wait()
	if _, err := g.r.read(context.Background(), g.chain, 0, 1<<60, 1<<20, true); !errors.Is(err, record.ErrClosed) {
		t.Errorf("after close: %v, want ErrClosed", err)
	}
}

func TestReaderOptionsReportEveryFault(t *testing.T) {
	o := ReaderOptions{ChunkBytes: 1000, MaxGets: -1, HoldBytes: 1, HoldFor: -1, GetTimeout: -1}
	o.EnsureDefaults()
	err := o.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, word := range []string{"store", "chunk", "GETs under way", "in flight", "held", "timeout"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("no word of %q in:\n%v", word, err)
		}
	}
}
