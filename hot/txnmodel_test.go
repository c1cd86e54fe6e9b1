// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

const txnProducers = 4

// txnBatch is a batch that the log took.
type txnBatch struct {
	h      record.Header
	marker record.Marker // of a control batch
	bytes  []byte
}

// txnModel is a log of transactions beside the list of what it took. What it
// should say is worked out from that list alone.
type txnModel struct {
	mem   *vfs.Mem
	store *hot.Store
	log   *hot.Log
	ctx   context.Context
	lives int

	made []txnBatch // what was dropped from the front stays in it
	end  record.Offset
	high record.Offset // as a partition has it: it never falls
	next [txnProducers]int32
}

func (m *txnModel) open(t *rapid.T) {
	var err error
	if m.store, err = hot.Open(m.ctx, hot.Options{Dir: logDir, FS: m.mem, MaxOpenFiles: 2, IndexCacheBytes: 200}); err != nil {
		t.Fatalf("open store: %v", err)
	}
	open := m.store.OpenLog
	if m.lives == 0 {
		open = m.store.CreateLog
	}
	m.lives++
	if m.log, err = open(m.ctx, tp, topicID, smallSegments()); err != nil {
		t.Fatalf("open log: %v", err)
	}
	m.end = m.log.EndOffset()
	m.high = m.end
	m.made = slices.DeleteFunc(m.made, func(b txnBatch) bool { return b.h.BaseOffset >= m.end })
	m.next = [txnProducers]int32{}
	for _, b := range m.made {
		if !b.h.IsControl() {
			m.next[b.h.ProducerID] = b.h.BaseSequence + b.h.Count
		}
	}
}

// state works the producers and all aborted transactions out, up to an offset.
func (m *txnModel) state(upTo record.Offset) (*record.Producers, map[int64]record.Offset, []record.AbortedTxn) {
	p, open := record.NewProducers(), map[int64]record.Offset{}
	var aborted []record.AbortedTxn
	for _, b := range m.made {
		id := b.h.ProducerID
		first, isOpen := open[id]
		switch {
		case b.h.BaseOffset >= upTo:
			return p, open, aborted
		case b.h.IsControl():
			p.ApplyMarker(b.h, b.marker)
			delete(open, id)
			if !isOpen || !b.marker.Abort {
				continue
			}
			stable := b.h.NextOffset()
			for _, o := range open {
				stable = min(stable, o)
			}
			aborted = append(aborted, record.AbortedTxn{ProducerID: id, FirstOffset: first, LastOffset: b.h.BaseOffset, LastStableOffset: stable})
		default:
			p.Apply(b.h)
			if b.h.IsTransactional() && !isOpen {
				open[id] = b.h.BaseOffset
			}
		}
	}
	return p, open, aborted
}

// unstable is what FirstUnstable should say, and the last stable offset.
func (m *txnModel) unstable() (first, stable record.Offset) {
	first = record.Offset(1<<63 - 1)
	_, open, _ := m.state(m.end)
	for _, o := range open {
		first = min(first, o)
	}
	for _, b := range m.made {
		if b.h.IsControl() && b.h.BaseOffset >= m.high { // what it ends is open for who does not see it
			_, before, _ := m.state(b.h.BaseOffset)
			if o, ok := before[b.h.ProducerID]; ok {
				first = min(first, o)
			}
		}
	}
	return first, min(first, m.high)
}

func (m *txnModel) take(t *rapid.T, origin hot.Origin, b []byte, marker record.Marker) {
	done, err := m.log.AppendFrom(origin, b, record.Epoch(m.lives))
	if err != nil || done.FirstOffset != m.end || done.Duplicate {
		t.Fatalf("append at %d: %+v, %v", m.end, done, err)
	}
	m.end = done.NextOffset
	m.made = append(m.made, txnBatch{record.Batch(b).Header(), marker, b})
}

func (m *txnModel) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"data": func(t *rapid.T) {
			id, n := rapid.IntRange(0, txnProducers-1).Draw(t, "id"), rapid.IntRange(1, 9).Draw(t, "records")
			_, open, _ := m.state(m.end)
			_, inTxn := open[int64(id)]
			opts := []recordtest.Option{recordtest.Count(n), recordtest.Producer(int64(id), 0, m.next[id])}
			if inTxn || rapid.Bool().Draw(t, "transactional") {
				opts = append(opts, recordtest.Transactional())
			}
			b := recordtest.Batch(0, opts...)
			_, err := m.log.Append(bytes.Clone(b), record.Epoch(m.lives))
			switch inData := len(opts) == 2; {
			case inTxn || inData: // a client may do that without anybody's word
				if err != nil {
					t.Fatal(err)
				}
				m.taken(b)
			case !errors.Is(err, record.ErrInvalidTxnState):
				t.Fatalf("a client begins a transaction of its own accord: %v", err)
			default:
				m.take(t, hot.VerifiedClient, b, record.Marker{})
			}
			m.next[id] += int32(n)
		},
		"marker": func(t *rapid.T) {
			id, marker := rapid.Int64Range(0, txnProducers-1).Draw(t, "id"), record.Marker{Abort: rapid.Bool().Draw(t, "abort"), CoordinatorEpoch: 3}
			m.take(t, hot.Coordinator, recordtest.Marker(0, id, 0, marker), marker)
		},
		"sent again": func(t *rapid.T) { m.again(t) },
		"visible":    func(t *rapid.T) { m.high = m.offset(t, m.high, "high") },
		"roll": func(t *rapid.T) {
			if err := m.log.Roll(m.ctx); err != nil {
				t.Fatal(err)
			}
		},
		"drop": func(t *rapid.T) {
			if _, err := m.log.DropBefore(m.ctx, m.offset(t, 0, "offset")); err != nil {
				t.Fatal(err)
			}
		},
		"sync": func(t *rapid.T) {
			if err := m.log.WaitDurable(m.ctx, m.end); err != nil {
				t.Fatal(err)
			}
		},
		"power cut": func(t *rapid.T) { m.restart(t, m.mem.Crash) },
		"torn power cut": func(t *rapid.T) {
			m.restart(t, func() *vfs.Mem { return m.mem.CrashKeeping(rapid.Uint64().Draw(t, "seed")) })
		},
		"kill": func(t *rapid.T) { m.restart(t, m.mem.Kill) },
		"clean restart": func(t *rapid.T) {
			if err := m.store.Close(m.ctx); err != nil {
				t.Fatal(err)
			}
			m.restart(t, m.mem.Crash)
		},
		"a damaged index": func(t *rapid.T) { m.damage(t) },
		"":                m.check,
	}
}

// taken notes a batch that the log has just given the next offsets.
func (m *txnModel) taken(b []byte) {
	record.Batch(b).SetBaseOffset(m.end)
	h := record.Batch(b).Header()
	m.end = h.NextOffset()
	m.made = append(m.made, txnBatch{h, record.Marker{}, b})
}

// restart ends a life and looks at what the next one has made of the disk.
func (m *txnModel) restart(t *rapid.T, left func() *vfs.Mem) {
	mem := left()
	_ = m.store.Close(m.ctx)
	m.mem = mem
	m.open(t)
	m.wantState(t)
}

// again sends one of the last five batches of a producer once more, whatever
// came to pass since.
func (m *txnModel) again(t *rapid.T) {
	id, skip := rapid.Int64Range(0, txnProducers-1).Draw(t, "id"), rapid.IntRange(0, 4).Draw(t, "back")
	for _, b := range slices.Backward(m.made) {
		if b.h.ProducerID != id || b.h.IsControl() {
			continue
		}
		if b.h.BaseOffset < m.log.StartOffset() {
			return // known only to whoever was there
		}
		if skip--; skip >= 0 {
			continue
		}
		done, err := m.log.Append(bytes.Clone(b.bytes), record.Epoch(m.lives))
		if err != nil || !done.Duplicate || done.FirstOffset != b.h.BaseOffset || done.NextOffset != b.h.NextOffset() {
			t.Fatalf("the batch at %d again: %+v, %v", b.h.BaseOffset, done, err)
		}
		return
	}
}

// damage spoils the transaction index of a segment that is on disk.
func (m *txnModel) damage(t *rapid.T) {
	var on []string
	for _, s := range m.log.Sealed(0) {
		path := inPartition(segmentName(s.BaseOffset(), ".txnindex"))
		if _, err := m.mem.Stat(path); err == nil {
			on = append(on, path)
		}
	}
	if len(on) == 0 {
		return
	}
	if err := m.store.Close(m.ctx); err != nil {
		t.Fatal(err)
	}
	path := rapid.SampledFrom(on).Draw(t, "index")
	b, err := vfs.ReadFile(m.mem, path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s vanished with the close", path)
	}
	b[rapid.SampledFrom([]int{2, 18}).Draw(t, "byte")] |= 0x80 // a negative id or marker
	if rapid.Bool().Draw(t, "cut") {
		b = b[:len(b)-1]
	}
	if err := vfs.ReplaceFile(m.mem, path, b); err != nil {
		t.Fatal(err)
	}
	m.restart(t, m.mem.Kill)
}

func (m *txnModel) offset(t *rapid.T, from record.Offset, label string) record.Offset {
	return record.Offset(rapid.Int64Range(int64(min(from, m.end)), int64(m.end)).Draw(t, label))
}

// check holds after every action (I8, T1).
func (m *txnModel) check(t *rapid.T) {
	first, stable := m.unstable()
	if got := m.log.FirstUnstable(m.high); got != first {
		t.Fatalf("with %d visible the first unstable offset is %d, want %d", m.high, got, first)
	}
	_, _, aborted := m.state(m.end)
	start := m.log.StartOffset()
	if stable < start {
		return
	}
	from := record.Offset(rapid.Int64Range(int64(start), int64(stable)).Draw(t, "from"))
	to := record.Offset(rapid.Int64Range(int64(from), int64(stable)).Draw(t, "to"))
	got, err := m.log.AbortedTxns(from, to)
	if want := overlapping(aborted, from, to); err != nil || !slices.Equal(got, want) {
		t.Fatalf("aborted from %d to %d: %+v, %v, want %+v", from, to, got, err, want)
	}
	for _, s := range m.log.Segments() {
		if s.NextOffset() > stable {
			break
		}
		got, err := s.AbortedTxns()
		if want := overlapping(aborted, s.BaseOffset(), s.NextOffset()); err != nil || !slices.Equal(got, want) {
			t.Fatalf("aborted of the segment at %d: %+v, %v, want %+v", s.BaseOffset(), got, err, want)
		}
	}
}

// wantState holds the producers' state and the transaction indexes against the
// model: what a recovery makes is what there was.
func (m *txnModel) wantState(t *rapid.T) {
	if err := m.log.Roll(m.ctx); err != nil {
		t.Fatal(err)
	}
	if err := m.log.WaitDurable(m.ctx, m.end); err != nil {
		t.Fatal(err)
	}
	_, _, aborted := m.state(m.end)
	for _, s := range m.log.Segments() {
		if !s.Sealed() {
			continue
		}
		p, _, _ := m.state(s.NextOffset())
		got, err := s.ProducerSnapshot()
		if want := p.Marshal(s.NextOffset()); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("state at %d is\n%x, %v, want\n%x", s.NextOffset(), got, err, want)
		}
	}
	if err := m.store.Close(m.ctx); err != nil {
		t.Fatal(err)
	}
	for _, s := range m.log.Segments() {
		var want []byte
		for _, a := range aborted {
			if a.LastOffset >= s.BaseOffset() && a.LastOffset < s.NextOffset() {
				want = record.AppendAbortedTxn(want, a)
			}
		}
		got, err := vfs.ReadFile(m.mem, inPartition(segmentName(s.BaseOffset(), ".txnindex")), 1<<20)
		if want == nil && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || len(want) == 0 {
			t.Fatalf("index of %d: %v, want %d bytes", s.BaseOffset(), err, len(want))
		}
		if _, err := record.ParseTxnIndex(got, s.BaseOffset()); err == nil && !bytes.Equal(got, want) {
			t.Fatalf("index of %d is\n%x, want\n%x", s.BaseOffset(), got, want)
		}
	}
	m.open(t)
}

func overlapping(all []record.AbortedTxn, from, to record.Offset) (out []record.AbortedTxn) {
	for _, a := range all {
		if a.FirstOffset < to && a.LastOffset >= from {
			out = append(out, a)
		}
	}
	return out
}

// TestTransactionsModel drives a log of transactions and its disk through any
// order of events.
func TestTransactionsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &txnModel{mem: vfs.NewMem(), ctx: context.WithoutCancel(t.Context())}
		m.open(rt)
		defer func() { _ = m.store.Close(m.ctx) }()
		rt.Repeat(m.actions())
	})
}
