// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
	"firn/tier"
)

var errBroken = errors.New("broken")

// countingFS counts the files that are open.
type countingFS struct {
	vfs.FS
	open atomic.Int64
}

func (c *countingFS) OpenFile(path string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := c.FS.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedFile{f, &c.open}, nil
}

type countedFile struct {
	vfs.File
	open *atomic.Int64
}

func (f *countedFile) Close() error {
	f.open.Add(-1)
	return f.File.Close()
}

// world is a Fetcher over real local logs in memory, inside a bubble.
type world struct {
	t       *testing.T
	disk    *countingFS
	store   *hot.Store
	fetcher *Fetcher
	made    []*fakePartition
}

// bubble runs a test with a world, and demands at its end that whatever was
// reserved was given back and that no file is pinned any more. The test closes
// its consumers and releases its results.
func bubble(t *testing.T, o Options, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, o)
		test(t, w)
		w.close()
	})
}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	w := &world{t: t, disk: &countingFS{FS: vfs.NewMem()}}
	var err error
	if w.store, err = hot.Open(t.Context(), hot.Options{Dir: "/firn", FS: w.disk}); err != nil {
		t.Fatal(err)
	}
	if w.fetcher, err = New(o); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) close() {
	w.t.Helper()
	w.fetcher.Close()
	w.wantFree()
	w.fetcher.mu.Lock()
	defer w.fetcher.mu.Unlock()
	if n := len(w.fetcher.consumers); n > 0 {
		w.t.Errorf("%d consumers are registered after their end", n)
	}
	if err := w.store.Close(context.Background()); err != nil {
		w.t.Errorf("close store: %v", err)
	}
	if n := w.disk.open.Load(); n != 0 {
		w.t.Errorf("%d files are still open: a region is pinned", n)
	}
}

// wantFree demands that no memory is reserved.
func (w *world) wantFree() {
	w.t.Helper()
	for i, b := range w.fetcher.memory {
		if used, queued := w.used(i); used != 0 || queued != 0 {
			w.t.Errorf("lane %d: %d bytes are reserved and %d claims wait, limit %d", i, used, queued, b.limit)
		}
	}
}

func (w *world) used(lane int) (used int64, queued int) {
	b := w.fetcher.memory[lane]
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, len(b.queue)
}

// fakePartition has a real local log, and a cold tier that a test scripts.
type fakePartition struct {
	tp  record.TopicPartition
	log *hot.Log

	mu       sync.Mutex
	history  [][]byte // the cold tier's batches, ascending
	coldEnd  record.Offset
	logStart record.Offset
	high     record.Offset // record.NoOffset: the local log's end
	paged    bool          // the local log is not in the page cache
	watching map[*chan<- struct{}]struct{}

	// Hooks, nil for none; called without the lock.
	onWatch   func()
	onLocate  func()
	onCold    func(ctx context.Context, from record.Offset) error // before a cold read
	onLocal   func(uncached bool) error                           // before a local read
	onAborted func() error                                        // before the aborted transactions are told
	// coldAborted are what the cold tier tells of its batches.
	coldAborted []record.AbortedTxn
	coldCalls   []record.Offset
}

// partition makes a partition whose local log starts at 0 and is empty.
func (w *world) partition(change ...func(*hot.LogOptions)) *fakePartition {
	w.t.Helper()
	p := &fakePartition{
		tp:   record.TopicPartition{Topic: "topic", Partition: int32(len(w.made))},
		high: record.NoOffset, watching: make(map[*chan<- struct{}]struct{}),
	}
	o := hot.LogOptions{SegmentBytes: 1 << 20, IndexInterval: 1}
	for _, c := range change {
		c(&o)
	}
	var err error
	if p.log, err = w.store.CreateLog(context.Background(), p.tp, record.TopicID{1}, o); err != nil {
		w.t.Fatal(err)
	}
	w.made = append(w.made, p)
	return p
}

// cold makes a partition with the given batches in the cold tier alone: its
// local log starts where they end.
func (w *world) cold(batches ...[]byte) *fakePartition {
	w.t.Helper()
	p := w.partition()
	p.setHistory(batches...)
	if err := p.log.ResetTo(context.Background(), p.coldEnd, nil, nil); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (p *fakePartition) setHistory(batches ...[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history = batches
	if n := len(batches); n > 0 {
		p.coldEnd = record.Batch(batches[n-1]).Header().NextOffset()
	}
}

// append adds one batch of a given size to the local log and wakes who
// watches.
func (p *fakePartition) append(t testing.TB, size int) hot.Appended {
	t.Helper()
	done, err := p.log.Append(batchOf(0, size), 0)
	if err != nil {
		t.Fatal(err)
	}
	p.notify()
	return done
}

func (p *fakePartition) notify() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for wake := range p.watching {
		select {
		case *wake <- struct{}{}:
		default:
		}
	}
}

func (p *fakePartition) setPaged(paged bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paged = paged
}

func (p *fakePartition) setHigh(o record.Offset) {
	p.mu.Lock()
	p.high = o
	p.mu.Unlock()
	p.notify()
}

// asked lists the offsets at which cold reads began.
func (p *fakePartition) asked() []record.Offset {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.coldCalls)
}

func (p *fakePartition) watchers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.watching)
}

func (p *fakePartition) TopicPartition() record.TopicPartition { return p.tp }
func (p *fakePartition) TopicID() record.TopicID               { return record.TopicID{1} }

func (p *fakePartition) LastStableOffset() record.Offset {
	high := p.HighWatermark()
	return min(high, p.log.FirstUnstable(high))
}

func (p *fakePartition) AbortedTxns(from, to record.Offset) ([]record.AbortedTxn, error) {
	if p.onAborted != nil {
		if err := p.onAborted(); err != nil {
			return nil, err
		}
	}
	return p.log.AbortedTxns(from, to)
}

func (p *fakePartition) HighWatermark() record.Offset {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.high != record.NoOffset {
		return p.high
	}
	return p.log.EndOffset()
}

func (p *fakePartition) LogStartOffset() record.Offset {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logStart
}

func (p *fakePartition) Locate(from record.Offset) (bool, record.Offset, error) {
	if p.onLocate != nil {
		p.onLocate()
	}
	start, end := p.log.StartOffset(), p.log.EndOffset()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case from < p.logStart || from > end:
		return false, from, fmt.Errorf("offset %d: %w", from, record.ErrOffsetOutOfRange)
	case from >= start:
		return false, from, nil
	case from < p.coldEnd:
		return true, from, nil
	}
	return false, start, nil
}

func (p *fakePartition) LocalResident(from record.Offset, maxBytes int) (bool, int64, error) {
	p.mu.Lock()
	paged := p.paged
	p.mu.Unlock()
	_, toEnd, err := p.log.Resident(from, maxBytes)
	return !paged, toEnd, err
}

func (p *fakePartition) ReadLocal(from, limit record.Offset, maxBytes int, minOne, uncached bool) (*hot.Region, error) {
	if p.onLocal != nil {
		if err := p.onLocal(uncached); err != nil {
			return nil, err
		}
	}
	if uncached {
		return p.log.ReadUncached(from, limit, maxBytes, minOne)
	}
	return p.log.Read(from, limit, maxBytes, minOne)
}

func (p *fakePartition) ReadCold(ctx context.Context, from, limit record.Offset, maxBytes int, minOne bool) (tier.Data, error) {
	p.mu.Lock()
	p.coldCalls = append(p.coldCalls, from)
	p.mu.Unlock()
	if p.onCold != nil {
		if err := p.onCold(ctx, from); err != nil {
			return tier.Data{}, err
		}
	}
	start := p.log.StartOffset()
	p.mu.Lock()
	defer p.mu.Unlock()
	var d tier.Data
	for _, b := range p.history {
		h := record.Batch(b).Header()
		if h.NextOffset() <= from || h.NextOffset() > limit {
			continue
		}
		if len(d.Bytes)+len(b) > maxBytes && (len(d.Bytes) > 0 || !minOne) {
			if len(d.Bytes) == 0 {
				return tier.Data{Next: from, Need: len(b)}, nil
			}
			return d, nil
		}
		d.Bytes = append(d.Bytes, b...)
		d.Next = h.NextOffset()
	}
	if len(d.Bytes) == 0 {
		d.Next = max(from, start)
	}
	d.Aborted = p.coldAborted
	return d, nil
}

func (p *fakePartition) Watch(wake chan<- struct{}) (cancel func()) {
	if p.onWatch != nil {
		p.onWatch()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching[&wake] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watching, &wake)
	}
}

// gate is an onCold hook that holds reads up until they are let go.
type gate chan error

func (g gate) wait(ctx context.Context, _ record.Offset) error {
	select {
	case err := <-g:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// batchOf is a batch of one record and a given size.
func batchOf(base record.Offset, size int) []byte {
	const empty = 61 + 10 // header, and the record's own fields at most
	b := recordtest.Batch(base, recordtest.Values(bytes.Repeat([]byte{byte(base)}, max(size-empty, 0))))
	for n := size - len(b); n > 0 && len(b) < size; n = size - len(b) {
		b = recordtest.Batch(base, recordtest.Values(bytes.Repeat([]byte{byte(base)}, size-empty+n)))
	}
	return b
}

// batchesOf are batches of one record each, of the given sizes, from base on.
func batchesOf(base record.Offset, sizes ...int) [][]byte {
	var out [][]byte
	for i, size := range sizes {
		out = append(out, batchOf(base+record.Offset(i), size))
	}
	return out
}

// ask is a request for partitions at one offset each.
func ask(wait time.Duration, minBytes int, wants ...PartitionRequest) *Request {
	for i := range wants {
		if wants[i].MaxBytes == 0 {
			wants[i].MaxBytes = 1 << 20
		}
	}
	return &Request{Partitions: wants, MinBytes: minBytes, MaxWait: wait, MaxBytes: 50 << 20}
}

func at(p Partition, o record.Offset) PartitionRequest {
	return PartitionRequest{Partition: p, Offset: o}
}

// fetch runs one fetch and tells how long it took.
func (w *world) fetch(c *Consumer, req *Request) (*Result, time.Duration) {
	w.t.Helper()
	started := time.Now()
	r, err := c.Fetch(w.t.Context(), req)
	if err != nil {
		w.t.Fatalf("fetch: %v", err)
	}
	return r, time.Since(started)
}

// data is a partition's part of an answer, read out.
func data(t testing.TB, p PartitionResult) []byte {
	t.Helper()
	if p.Region == nil {
		return p.Bytes
	}
	if p.Bytes != nil {
		t.Fatal("an answer both in a region and in memory")
	}
	b := make([]byte, p.Region.Len())
	if n, err := p.Region.ReadAt(b, 0); n < len(b) {
		t.Fatalf("read region: %v", err)
	}
	return b
}

// spanOf are the offsets that b's batches hold.
func spanOf(t testing.TB, b []byte) (first, next record.Offset) {
	t.Helper()
	first, next = record.NoOffset, record.NoOffset
	for len(b) > 0 {
		batch, rest, err := record.SplitBatch(b)
		if err == nil {
			err = batch.CheckCRC()
		}
		if err != nil {
			t.Fatal(err)
		}
		h := batch.Header()
		if first == record.NoOffset {
			first = h.BaseOffset
		} else if h.BaseOffset != next {
			t.Fatalf("batch at %d after one that ends at %d", h.BaseOffset, next)
		}
		next, b = h.NextOffset(), rest
	}
	return first, next
}

// wantData demands that a partition was answered with the offsets from first
// up to next, by a class.
func (w *world) wantData(r *Result, i int, class Class, first, next record.Offset) {
	w.t.Helper()
	got := r.Partitions[i]
	if got.Err != nil || got.Class != class {
		w.t.Fatalf("partition %d: class %v, error %v; want %v", i, got.Class, got.Err, class)
	}
	if a, b := spanOf(w.t, data(w.t, got)); a != first || b != next {
		w.t.Fatalf("partition %d: offsets [%d,%d), want [%d,%d)", i, a, b, first, next)
	}
}

// wantEmpty demands that a partition was answered without data or error.
func (w *world) wantEmpty(r *Result, i int) {
	w.t.Helper()
	if got := r.Partitions[i]; got.Err != nil || got.Region != nil || got.Bytes != nil || got.Class != ClassNone {
		w.t.Fatalf("partition %d: %+v, want it empty", i, got)
	}
}

func (w *world) wantTook(took, want time.Duration) {
	w.t.Helper()
	if took != want {
		w.t.Fatalf("the fetch took %v, want %v", took, want)
	}
}
