// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"firn/record"
	"firn/tier/store"
)

// bucket is a store for tests of the reader: objects in memory, and a hook that
// sees every GET before it is answered.
type bucket struct {
	mu      sync.Mutex
	objects map[string][]byte
	gets    map[string]int // by key and offset
	under   int            // GETs under way
	most    int            // the most of them at once
	// onGet, when set, may wait, fail the GET, or change the answer by giving
	// another.
	onGet func(ctx context.Context, key string, off int64, answer []byte) ([]byte, error)
}

func newBucket() *bucket {
	return &bucket{objects: make(map[string][]byte), gets: make(map[string]int)}
}

func (b *bucket) GetRange(ctx context.Context, key string, p []byte, off int64) (int, error) {
	b.mu.Lock()
	b.gets[fmt.Sprintf("%s@%d", key, off)]++
	b.under++
	b.most = max(b.most, b.under)
	object, ok := b.objects[key]
	hook := b.onGet
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.under--
		b.mu.Unlock()
	}()
	if !ok {
		return 0, &store.Error{Op: store.OpGet, Key: key, Kind: store.NotFound, Err: store.ErrNotFound}
	}
	answer := object[min(int64(len(object)), off):min(int64(len(object)), off+int64(len(p)))]
	if hook != nil {
		var err error
		if answer, err = hook(ctx, key, off, answer); err != nil {
			return 0, &store.Error{Op: store.OpGet, Key: key, Kind: store.KindOf(err), Err: err}
		}
	}
	n := copy(p, answer)
	if n < len(p) {
		return n, &store.Error{Op: store.OpGet, Key: key, Err: io.ErrUnexpectedEOF}
	}
	return n, nil
}

func (b *bucket) Head(_ context.Context, key string) (store.Info, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	object, ok := b.objects[key]
	if !ok {
		return store.Info{}, &store.Error{Op: store.OpHead, Key: key, Kind: store.NotFound, Err: store.ErrNotFound}
	}
	return store.Info{Key: key, Size: int64(len(object))}, nil
}

func (b *bucket) Put(context.Context, string, store.Source, store.PutOptions) error {
	return errors.New("the reader writes nothing")
}

func (b *bucket) List(context.Context, string, string, int) ([]store.Info, bool, error) {
	return nil, false, errors.New("the reader lists nothing")
}

func (b *bucket) Delete(context.Context, []string) error {
	return errors.New("the reader deletes nothing")
}

func (b *bucket) Capabilities() store.Capabilities { return store.Capabilities{} }

func (b *bucket) Close() error { return nil }

// total is the number of GETs so far.
func (b *bucket) total() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, v := range b.gets {
		n += v
	}
	return n
}

// hook sets onGet.
func (b *bucket) hook(f func(ctx context.Context, key string, off int64, answer []byte) ([]byte, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onGet = f
}

// chain is a chainView over entries in memory.
type chain struct {
	mu      sync.Mutex
	entries []Entry
	onLoad  func() error // reload
	reloads int
}

func (c *chain) keyOf(e Entry) string {
	return SegmentKey("root", record.TopicID{1}, record.TopicPartition{Topic: "t"}, e)
}

func (c *chain) entryAt(_ context.Context, o record.Offset) (Entry, record.Offset, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].To > o })
	for ; i < len(c.entries); i++ {
		if e := c.entries[i]; e.Kind == KindSegment {
			return e, max(o, e.From), true, nil
		}
	}
	if n := len(c.entries); n > 0 {
		o = max(o, c.entries[n-1].To)
	}
	return Entry{}, o, false, nil
}

func (c *chain) reload(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reloads++
	if c.onLoad != nil {
		return c.onLoad()
	}
	return nil
}

// rig is a bucket with a partition's history in it, and its reader.
type rig struct {
	*bucket
	*chain
	r *Reader
	// log is the bytes of all segments, one after another.
	log []byte
}

func newRig(t testing.TB, o ReaderOptions, logs ...[]byte) *rig {
	t.Helper()
	g := &rig{bucket: newBucket(), chain: &chain{}}
	for _, log := range logs {
		g.add(t, log)
	}
	o.Store = g.bucket
	r, err := newReader(o)
	if err != nil {
		t.Fatal(err)
	}
	g.r = r
	t.Cleanup(func() {
		r.close()
		if held := r.load.used; held < 0 || r.load.flying != 0 || r.load.ahead != 0 || r.load.queue.Len() != 0 {
			t.Errorf("after close: %d bytes, %d flying, %d ahead, %d queued", held, r.load.flying, r.load.ahead, r.load.queue.Len())
		}
	})
	return g
}

// add puts a segment behind those that are there, with a gap where it does not
// follow.
func (g *rig) add(t testing.TB, log []byte) {
	t.Helper()
	o := mustBuild(t, log)
	e := o.Entry()
	if n := len(g.entries); n > 0 && g.entries[n-1].To < e.From {
		g.entries = append(g.entries, Gap(g.entries[n-1].To, e.From, GapDropOldest))
	}
	g.entries = append(g.entries, e)
	g.objects[g.keyOf(e)] = objectBytes(t, o)
	g.log = append(g.log, log...)
}

func (g *rig) read(t testing.TB, from record.Offset, maxBytes int) Data {
	t.Helper()
	d, err := g.r.read(context.Background(), g.chain, from, 1<<60, maxBytes, true)
	if err != nil {
		t.Fatalf("read from %d: %v", from, err)
	}
	d.Bytes = bytes.Clone(d.Bytes) // their memory is not ours after Release
	d.Release()
	return d
}

// replay reads everything from offset 0 on, in answers of up to maxBytes.
func (g *rig) replay(t testing.TB, maxBytes int) []byte {
	t.Helper()
	var out []byte
	for from := record.Offset(0); ; {
		d := g.read(t, from, maxBytes)
		out = append(out, d.Bytes...)
		if d.Next == from {
			return out
		}
		from = d.Next
	}
}

// batchesFrom is the log from the batch on that holds o, or is the next after
// it.
func batchesFrom(log []byte, o record.Offset) []byte {
	for len(log) > 0 {
		b, rest, err := record.SplitBatch(log)
		if err != nil {
			panic(err)
		}
		if b.Header().NextOffset() > o {
			return log
		}
		log = rest
	}
	return nil
}

// R1: every read is a run of whole batches of the plain log, whatever the
// sizes, and every replay is the log.
func TestReadsEqualThePlainLog(t *testing.T) {
	defer goleak.VerifyNone(t)
	rapid.Check(t, func(rt *rapid.T) {
		o := ReaderOptions{
			ChunkBytes:    BlockSize * rapid.Int64Range(1, 2).Draw(rt, "chunk"),
			CacheBytes:    rapid.SampledFrom([]int64{-1, 1 << 20, 64 << 20}).Draw(rt, "cache"),
			PrefetchBytes: rapid.SampledFrom([]int64{-1, 1 << 20, 4 << 20}).Draw(rt, "prefetch"),
			MaxGets:       rapid.IntRange(1, 6).Draw(rt, "gets"),
			HoldBytes:     2 * BlockSize * rapid.Int64Range(1, 3).Draw(rt, "hold"),
		}
		var logs [][]byte
		next := record.Offset(0)
		for range rapid.IntRange(1, 3).Draw(rt, "segments") {
			n := rapid.IntRange(1, 40).Draw(rt, "batches")
			size := rapid.SampledFrom([]int{100, 3000, 200 << 10}).Draw(rt, "size")
			n = min(n, 9<<18/size) // up to two blocks and a little
			next += record.Offset(rapid.IntRange(0, 1).Draw(rt, "gap") * 7)
			log := testLog(next, n, size)
			logs = append(logs, log)
			next = record.Batch(lastBatch(log)).Header().NextOffset()
		}
		g := newRig(t, o, logs...)
		defer g.r.close()
		for range rapid.IntRange(1, 12).Draw(rt, "reads") {
			from := record.Offset(rapid.Int64Range(0, int64(next)-1).Draw(rt, "from"))
			limit := record.Offset(rapid.Int64Range(0, int64(next)).Draw(rt, "limit"))
			maxBytes := rapid.IntRange(0, 2<<20).Draw(rt, "maxBytes")
			minOne := rapid.Bool().Draw(rt, "minOne")
			checkRead(rt, g, from, limit, maxBytes, minOne)
		}
		if got := g.replay(t, 700<<10); !bytes.Equal(got, g.log) {
			rt.Fatalf("replay gave %d bytes, want the log of %d", len(got), len(g.log))
		}
		if lent := g.r.Stats().Lent; lent != 0 {
			rt.Fatalf("%d bytes lent after all was released", lent)
		}
	})
}

func checkRead(rt *rapid.T, g *rig, from, limit record.Offset, maxBytes int, minOne bool) {
	d, err := g.r.read(context.Background(), g.chain, from, limit, maxBytes, minOne)
	if err != nil {
		rt.Fatalf("read: %v", err)
	}
	defer d.Release()
	want := batchesFrom(g.log, from)
	if !bytes.HasPrefix(want, d.Bytes) {
		rt.Fatalf("%d bytes that are not the log from offset %d", len(d.Bytes), from)
	}
	next := from
	for rest := d.Bytes; len(rest) > 0; {
		b, after, err := record.SplitBatch(rest)
		if err != nil {
			rt.Fatalf("answer is no whole batches: %v", err)
		}
		next, rest = b.Header().NextOffset(), after
	}
	first := record.Batch(want).Header()
	switch {
	case len(d.Bytes) > 0 && (next != d.Next || next > limit):
		rt.Fatalf("Next is %d after batches up to %d, limit %d", d.Next, next, limit)
	case len(d.Bytes) > maxBytes && (!minOne || len(d.Bytes) > first.Size()):
		rt.Fatalf("%d bytes, at most %d", len(d.Bytes), maxBytes)
	case len(d.Bytes) == 0 && first.NextOffset() <= limit && (minOne || first.Size() <= maxBytes):
		rt.Fatalf("no bytes although the batch at %d of %d bytes fits", first.BaseOffset, first.Size())
	case len(d.Bytes) == 0 && first.NextOffset() <= limit && d.Need != first.Size():
		rt.Fatalf("Need is %d, the batch at %d has %d bytes", d.Need, first.BaseOffset, first.Size())
	case (len(d.Bytes) > 0 || first.NextOffset() > limit) && d.Need != 0:
		rt.Fatalf("Need is %d although no more bytes would do", d.Need)
	}
}

// A read in a gap goes on behind it, and where nothing is behind it, says where
// the gap ends.
func TestReadInAGapGoesOn(t *testing.T) {
	g := newRig(t, ReaderOptions{}, testLog(0, 3, 500), testLog(100, 3, 500))
	g.entries = append(g.entries, Gap(106, 200, GapExpired))
	d := g.read(t, 50, 1)
	if h := record.Batch(d.Bytes).Header(); h.BaseOffset != 100 || d.Next != 102 {
		t.Errorf("read in the gap gave the batch at %d and Next %d, want 100 and 102", h.BaseOffset, d.Next)
	}
	if d := g.read(t, 150, 1); len(d.Bytes) != 0 || d.Next != 200 {
		t.Errorf("read in the last gap gave %d bytes and Next %d, want 0 and 200", len(d.Bytes), d.Next)
	}
}

func TestFirstBatchIsAnsweredEvenBeyondMaxBytes(t *testing.T) {
	log := testLog(0, 2, 5<<20) // each crosses five chunks
	g := newRig(t, ReaderOptions{MaxGets: 2, HoldBytes: 2 << 20}, log)
	if d := g.read(t, 1, 1000); !bytes.Equal(d.Bytes, log[:len(log)/2]) {
		t.Errorf("got %d bytes, want the first batch of %d", len(d.Bytes), len(log)/2)
	}
	d, err := g.r.read(context.Background(), g.chain, 1, 1<<60, 1000, false)
	if err != nil || len(d.Bytes) != 0 || d.Next != 1 {
		t.Errorf("without minOne: %d bytes, Next %d, %v; want none", len(d.Bytes), d.Next, err)
	}
	d.Release()
}

func TestReadTellsTheAbortedTransactionsOfItsOffsets(t *testing.T) {
	seg := newMemSegment(testLog(0, 4, 500))
	seg.aborted = []record.AbortedTxn{
		{ProducerID: 1, FirstOffset: 0, LastOffset: 1, LastStableOffset: 2},
		{ProducerID: 2, FirstOffset: 4, LastOffset: 50, LastStableOffset: 4},
	}
	o, err := BuildObject(context.Background(), seg, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, ReaderOptions{})
	g.entries = append(g.entries, o.Entry())
	g.objects[g.keyOf(o.Entry())] = objectBytes(t, o)
	if d := g.read(t, 2, 1); len(d.Aborted) != 0 {
		t.Errorf("offsets 2 and 3 have %v", d.Aborted)
	}
	if d := g.read(t, 3, 1<<20); len(d.Aborted) != 1 || d.Aborted[0].ProducerID != 2 {
		t.Errorf("offsets 3 to 7 have %v, want that of producer 2", d.Aborted)
	}
}

func TestOpenObjectNeedsNothingButTheKey(t *testing.T) {
	log := testLog(10, 40, 60<<10)
	g := newRig(t, ReaderOptions{}, log)
	key := g.keyOf(g.entries[0])
	o, err := OpenObject(context.Background(), g.bucket, key)
	if err != nil {
		t.Fatal(err)
	}
	if o.Entry() != g.entries[0] {
		t.Errorf("entry is %+v, want %+v", o.Entry(), g.entries[0])
	}
	var got []byte
	for i := range o.Footer.BlockCRCs {
		b, err := o.Block(context.Background(), i)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b...)
	}
	if !bytes.Equal(got, log) {
		t.Error("the blocks are not the log")
	}
	epochs, snapshot, err := o.State(context.Background())
	if err != nil || len(epochs) != 1 || epochs[0] != (record.EpochEntry{Epoch: 3, StartOffset: 10}) {
		t.Errorf("epochs are %v, %v", epochs, err)
	}
	if _, err := record.ParseProducers(snapshot); err != nil {
		t.Errorf("producer snapshot: %v", err)
	}
	if _, err := ReadFooter(context.Background(), g.bucket, key, g.entries[0]); err != nil {
		t.Errorf("ReadFooter: %v", err)
	}
	wrong := g.entries[0]
	wrong.Records++
	var bad *record.CorruptionError
	if _, err := ReadFooter(context.Background(), g.bucket, key, wrong); !errors.As(err, &bad) {
		t.Errorf("ReadFooter against another entry: %v, want a CorruptionError", err)
	}
	g.objects["root/other-"+wrong.Hash.String()[:31]+"x.seg"] = g.objects[key]
	if _, err := OpenObject(context.Background(), g.bucket, "root/other-"+wrong.Hash.String()[:31]+"x.seg"); !errors.As(err, &bad) {
		t.Errorf("OpenObject under another hash: %v, want a CorruptionError", err)
	}
	if _, err := OpenObject(context.Background(), g.bucket, "root/none.seg"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("OpenObject of nothing: %v, want ErrNotFound", err)
	}
}
