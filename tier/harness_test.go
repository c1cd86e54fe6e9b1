// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
	"firn/record/recordtest"
	"firn/tier/store"
	"firn/tier/store/faultstore"
)

// memStore is a store in memory that knows conditional puts.
type memStore struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func newMemStore() *memStore { return &memStore{objects: make(map[string][]byte)} }

func (s *memStore) Put(ctx context.Context, key string, body store.Source, o store.PutOptions) error {
	b, err := io.ReadAll(io.NewSectionReader(body, 0, body.Size()))
	if err != nil {
		return &store.Error{Op: store.OpPut, Key: key, Kind: store.Permanent, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, taken := s.objects[key]
	switch {
	case ctx.Err() != nil:
		return &store.Error{Op: store.OpPut, Key: key, Kind: store.Retriable, Err: ctx.Err()}
	case o.CRC32C != nil && *o.CRC32C != record.CRC32C(b):
		return &store.Error{Op: store.OpPut, Key: key, Kind: store.Permanent, Err: store.ErrBodyChanged}
	case taken && o.IfNoneMatch:
		return &store.Error{Op: store.OpPut, Key: key, Kind: store.Exists, Err: store.ErrExists}
	case taken && !bytes.Equal(old, b):
		panic("key written with two contents: " + key)
	}
	s.objects[key] = b
	return nil
}

func (s *memStore) GetRange(_ context.Context, key string, p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.objects[key]
	if !ok {
		return 0, &store.Error{Op: store.OpGet, Key: key, Kind: store.NotFound, Err: store.ErrNotFound}
	}
	n := copy(p, b[min(off, int64(len(b))):])
	if n < len(p) {
		return n, &store.Error{Op: store.OpGet, Key: key, Kind: store.Permanent, Err: io.ErrUnexpectedEOF}
	}
	return n, nil
}

func (s *memStore) Head(_ context.Context, key string) (store.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.objects[key]
	if !ok {
		return store.Info{}, &store.Error{Op: store.OpHead, Key: key, Kind: store.NotFound, Err: store.ErrNotFound}
	}
	return store.Info{Key: key, Size: int64(len(b))}, nil
}

func (s *memStore) List(_ context.Context, prefix, after string, limit int) ([]store.Info, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit <= 0 || limit > store.MaxList {
		limit = store.MaxList
	}
	var infos []store.Info
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		if len(infos) == limit {
			return infos, true, nil
		}
		infos = append(infos, store.Info{Key: key, Size: int64(len(s.objects[key]))})
	}
	return infos, false, nil
}

func (s *memStore) Delete(_ context.Context, keys []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		delete(s.objects, key)
	}
	return nil
}

func (s *memStore) Capabilities() store.Capabilities {
	return store.Capabilities{Name: "mem", ConditionalPut: true}
}

func (s *memStore) Close() error { return nil }

func (s *memStore) keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// damage changes one byte of an object.
func (s *memStore) damage(key string, at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := slices.Clone(s.objects[key])
	b[at] ^= 1
	s.objects[key] = b
}

var errMoved = errors.New("the local log has grown")

// fakeLocal is a local log of segments in memory. It survives a crash of the
// tier: everything in it counts as synced.
type fakeLocal struct {
	mu       sync.Mutex
	segments []*memSegment // closed ones
	active   []byte        // batches of the active segment
	start    record.Offset
	end      record.Offset
	logStart record.Offset
	stable   record.Offset // 0: all
	epochs   record.Epochs
	epoch    record.Epoch
	resets   []Reset
}

func (f *fakeLocal) Sealed(from record.Offset) []Sealed {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Sealed
	for _, s := range f.segments {
		if s.base >= from {
			out = append(out, s)
		}
	}
	return out
}

func (f *fakeLocal) locked(get func() record.Offset) record.Offset {
	f.mu.Lock()
	defer f.mu.Unlock()
	return get()
}

func (f *fakeLocal) StartOffset() record.Offset {
	return f.locked(func() record.Offset { return f.start })
}
func (f *fakeLocal) EndOffset() record.Offset {
	return f.locked(func() record.Offset { return f.end })
}
func (f *fakeLocal) LogStartOffset() record.Offset {
	return f.locked(func() record.Offset { return f.logStart })
}
func (f *fakeLocal) StableOffset() record.Offset {
	return f.locked(func() record.Offset {
		if f.stable > 0 {
			return f.stable
		}
		return f.end
	})
}

func (f *fakeLocal) Epochs() record.Epochs {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.epochs)
}

func (f *fakeLocal) Header(o record.Offset) (record.Header, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	logs := [][]byte{f.active}
	for _, s := range f.segments {
		logs = append(logs, s.log)
	}
	for _, log := range logs {
		for len(log) > 0 {
			b, rest, err := record.SplitBatch(log)
			if err != nil {
				return record.Header{}, false, err
			}
			if h := b.Header(); h.BaseOffset <= o && o < h.NextOffset() {
				return h, true, nil
			}
			log = rest
		}
	}
	return record.Header{}, false, nil
}

func (f *fakeLocal) ResetTo(_ context.Context, r Reset) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end != r.IfEnd {
		return errMoved
	}
	f.segments, f.active, f.start, f.end, f.epochs = nil, nil, r.Start, r.Start, r.Epochs
	f.resets = append(f.resets, r)
	return nil
}

func (f *fakeLocal) RaiseEpoch(_ context.Context, above record.Epoch) (record.Epoch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch = max(f.epoch, above) + 1
	return f.epoch, nil
}

// appendBatches adds n batches to the active segment and returns them.
func (f *fakeLocal) appendBatches(n int) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, ok := f.epochs.Last(); !ok || last.Epoch < f.epoch {
		f.epochs = f.epochs.Append(record.EpochEntry{Epoch: f.epoch, StartOffset: f.end})
	}
	log := recordtest.Log(f.end, n, recordtest.Count(2), recordtest.LeaderEpoch(f.epoch),
		recordtest.Timestamp(recordtest.DefaultTimestamp+int64(f.end)), recordtest.TimestampStep(1))
	f.active = append(f.active, log...)
	f.end += record.Offset(2 * n)
	return log
}

// appendOther is appendBatches with records that nobody else has.
func (f *fakeLocal) appendOther(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epochs = f.epochs.Append(record.EpochEntry{Epoch: f.epoch, StartOffset: f.end})
	f.active = append(f.active, recordtest.Log(f.end, n, recordtest.Strings("not", "ours"), recordtest.LeaderEpoch(f.epoch))...)
	f.end += record.Offset(2 * n)
}

// seal closes the active segment.
func (f *fakeLocal) seal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.active) == 0 {
		return
	}
	s := newMemSegment(f.active)
	s.epochs = f.epochs.TruncateFrom(s.next)
	f.segments = append(f.segments, s)
	f.active = nil
}

// dropBefore drops closed segments that end at or below an offset.
func (f *fakeLocal) dropBefore(o record.Offset) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.segments) > 0 && f.segments[0].next <= o {
		f.start = f.segments[0].next
		f.segments = f.segments[1:]
	}
}

func (f *fakeLocal) setLogStart(o record.Offset) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logStart = max(f.logStart, o)
}

// clone is a copy of the log, as a snapshot of its directory.
func (f *fakeLocal) clone() *fakeLocal {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &fakeLocal{
		segments: slices.Clone(f.segments), active: slices.Clone(f.active), start: f.start, end: f.end,
		logStart: f.logStart, epochs: slices.Clone(f.epochs), epoch: f.epoch,
	}
}

const (
	testGrace = time.Minute
	testDir   = "/data/topic-0"
)

var (
	testTP      = record.TopicPartition{Topic: "topic", Partition: 0}
	testTopicID = record.TopicID{1, 2, 3}
	testStoreID = StoreID{9, 9}
	// testShape makes pages and full tombstone lists with a handful of segments.
	testShape = shape{page: 3, keep: 1, tombstones: 3}
)

// world is one partition over a bucket, through any number of lives. It is
// used inside a synctest bubble, so that its time is free.
type world struct {
	t      *testing.T
	bucket *memStore
	faults *faultstore.Store
	fs     *vfs.Mem
	local  *fakeLocal
	model  []byte // every batch ever appended, from offset 0 on
	grace  time.Duration
	shape  shape
	// diskFaults, when set, stands between the tier and fs.
	diskFaults *faultfs.FS

	tier *Tier
	log  *Log
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, bucket: newMemStore(), fs: vfs.NewMem(), local: &fakeLocal{}, grace: testGrace, shape: testShape}
	w.faults = faultstore.New(w.bucket)
	if err := vfs.MkdirAllSync(w.fs, testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) options() Options {
	var fs vfs.FS = w.fs
	if w.diskFaults != nil {
		fs = w.diskFaults
	}
	return Options{
		Store: w.faults, ClusterID: "cluster", Prefix: "pre/fix", StoreID: testStoreID, FS: fs, DeleteGrace: w.grace,
		CacheBytes: -1, IndexCacheBytes: -1, PrefetchBytes: -1,
		Retry: store.RetryOptions{Attempts: 1, AttemptTimeout: 5 * time.Second},
	}
}

// open starts a new life under the next epoch.
func (w *world) open() {
	w.t.Helper()
	w.local.mu.Lock()
	w.local.epoch++
	w.local.mu.Unlock()
	w.openAt(w.local.epoch, nil)
}

func (w *world) openAt(epoch record.Epoch, change func(*LogOptions)) {
	w.t.Helper()
	var err error
	if w.tier, err = Open(w.t.Context(), w.options()); err != nil {
		w.t.Fatal(err)
	}
	w.tier.shape = w.shape
	o := LogOptions{TopicPartition: testTP, TopicID: testTopicID, Epoch: epoch, Dir: testDir, Local: w.local}
	if change != nil {
		change(&o)
	}
	w.log, err = w.tier.OpenLog(w.t.Context(), o)
	if err != nil && w.diskFaults != nil {
		w.log, err = w.tier.OpenLog(w.t.Context(), o) // as a broker that is started again
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// close ends the life in order.
func (w *world) close() {
	w.t.Helper()
	if err := w.tier.Close(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// crash ends the life as kill -9 and a power cut would.
func (w *world) crash() {
	w.t.Helper()
	w.close()
	w.fs = w.fs.Crash()
}

// pass lets time go by, until nothing moves any more.
func (w *world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// produce appends a closed segment of n batches.
func (w *world) produce(n int) {
	w.model = append(w.model, w.local.appendBatches(n)...)
	w.local.seal()
	if w.log != nil {
		w.log.Wake()
	}
}

// retain does what a partition's local retention does: it drops what is tiered.
func (w *world) retain() {
	if w.log.State().Phase == Ready {
		w.local.dropBefore(w.log.End())
	}
}

// setLogStart does what DeleteRecords and retention do.
func (w *world) setLogStart(o record.Offset) {
	w.local.setLogStart(o)
	w.log.SetLogStart(o)
}

// history reads the chain from the log start to its end, gaps passed over.
func (w *world) history() []byte {
	w.t.Helper()
	var got []byte
	s := w.log.State()
	for at := s.LogStart; at < s.End; {
		d, err := w.log.Read(w.t.Context(), at, s.End, 1<<20, true)
		if err != nil {
			w.t.Fatalf("read at %d: %v (state %+v)", at, err, s)
		}
		if d.Next <= at {
			w.t.Fatalf("read at %d goes on at %d", at, d.Next)
		}
		got = append(got, d.Bytes...)
		d.Release()
		at = d.Next
	}
	return got
}

// modelBetween is the batches that hold offsets of [from, to).
func (w *world) modelBetween(from, to record.Offset) []byte {
	var want []byte
	for rest := w.model; len(rest) > 0; {
		b, after, err := record.SplitBatch(rest)
		if err != nil {
			w.t.Fatal(err)
		}
		if h := b.Header(); h.NextOffset() > from && h.BaseOffset < to {
			want = append(want, b...)
		}
		rest = after
	}
	return want
}

// checkHistory compares what is readable with the model: everything from the
// log start to the end of the last closed segment.
func (w *world) checkHistory() {
	w.t.Helper()
	s := w.log.State()
	if s.Phase != Ready || s.LastError != nil {
		w.t.Fatalf("state %+v, want ready", s)
	}
	if s.LagSegments != 0 {
		w.t.Fatalf("%d segments are not uploaded: %+v", s.LagSegments, s)
	}
	if got, want := w.history(), w.modelBetween(s.LogStart, s.End); !bytes.Equal(got, want) {
		w.t.Fatalf("history from %d to %d has %d bytes, want %d", s.LogStart, s.End, len(got), len(want))
	}
	if start := w.local.StartOffset(); start > max(s.End, s.LogStart) {
		w.t.Fatalf("local log starts at %d, the chain ends at %d", start, s.End)
	}
}

// checkBucket tests that the bucket holds exactly what the manifest names.
func (w *world) checkBucket() {
	w.t.Helper()
	m := w.log.manifest.Load()
	if err := m.check(); err != nil {
		w.t.Fatalf("manifest: %v", err)
	}
	want := map[string]bool{storeKey(w.tier.root): true}
	name := func(o objectID) { want[o.key(w.tier.root, testTopicID, testTP)] = true }
	for o := range m.named() {
		name(o)
	}
	for _, t := range m.Tombstones {
		name(t.object())
	}
	entries, err := w.log.Entries(w.t.Context(), 0, 1<<20)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Kind == KindSegment {
			name(e.object())
		}
	}
	heads, claims := 0, 0
	for _, key := range w.bucket.keys() {
		k, err := ParseKey(w.tier.root, key)
		if err != nil {
			w.t.Fatal(err)
		}
		switch {
		case k.Kind == KeyHead:
			heads++
		case k.Kind == KeyClaim:
			claims++
		case !want[key]:
			w.t.Errorf("%s is in the bucket, and nothing names it", key)
		}
		delete(want, key)
	}
	for key := range want {
		w.t.Errorf("%s is named and not in the bucket", key)
	}
	if heads > keptHeads || claims > keptHeads {
		w.t.Errorf("%d heads and %d claims, at most %d are kept", heads, claims, keptHeads)
	}
}

func (w *world) state() State { return w.log.State() }

func (w *world) wantState(phase Phase, reason string) {
	w.t.Helper()
	if s := w.state(); s.Phase != phase || s.Reason != reason {
		w.t.Fatalf("state is %v %q (%v), want %v %q", s.Phase, s.Reason, s.LastError, phase, reason)
	}
}

// bubble runs a test in a bubble with a world whose lives are ended.
func bubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() {
			if w.tier != nil {
				w.close()
			}
		}()
		test(t, w)
	})
}

func ofKind(kind KeyKind) func(key string) bool {
	return func(key string) bool {
		k, err := ParseKey("pre/fix/cluster", key)
		return err == nil && k.Kind == kind
	}
}

func fmtKeys(keys []string) string {
	return fmt.Sprintf("%d keys:\n%s", len(keys), strings.Join(keys, "\n"))
}

func isErr(err, target error) bool { return errors.Is(err, target) }

// reframe gives a frame another version, with a CRC that fits.
func reframe(b []byte, version uint16) []byte {
	b = slices.Clone(b)
	binary.BigEndian.PutUint16(b[8:], version)
	binary.BigEndian.PutUint32(b[len(b)-4:], record.CRC32C(b[:len(b)-4]))
	return b
}
