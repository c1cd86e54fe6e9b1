// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

// model is a log beside what it should be.
type model struct {
	mem   *vfs.Mem
	store *hot.Store
	log   *hot.Log
	ctx   context.Context

	made     []stored // what the log holds, and what was dropped from its front
	start    record.Offset
	end      record.Offset
	durable  record.Offset
	logStart record.Offset
	epoch    record.Epoch
	sequence int32
}

func (m *model) open(t *rapid.T) {
	var err error
	if m.store, err = hot.Open(m.ctx, hot.Options{Dir: logDir, FS: m.mem, MaxOpenFiles: 2}); err != nil {
		t.Fatalf("open store: %v", err)
	}
	open := m.store.OpenLog
	if len(m.store.Found()) == 0 {
		open = m.store.CreateLog
	}
	if m.log, err = open(m.ctx, tp, topicID, smallSegments()); err != nil {
		t.Fatalf("open log: %v", err)
	}
	m.epoch++
}

// survive takes over what the log says after a restart, within what it may
// say.
func (m *model) survive(t *rapid.T, mem *vfs.Mem, atLeast record.Offset) {
	_ = m.store.Close(m.ctx)
	m.mem = mem
	m.open(t)
	end := m.log.EndOffset()
	if end == m.logStart && m.log.StartOffset() == end && atLeast < end {
		// Deleted records may be lost: the log begins anew at its start.
		m.made, m.start, m.end, m.durable = nil, end, end, end
		return
	}
	if end < max(atLeast, m.logStart) || end > m.end || m.log.DurableOffset() != end {
		t.Fatalf("the log ends at %d, want %d to %d; durable to %d", end, atLeast, m.end, m.log.DurableOffset())
	}
	m.end, m.durable = end, end
	m.made = slices.DeleteFunc(m.made, func(s stored) bool { return s.base >= end })
}

func (m *model) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"append": func(t *rapid.T) {
			n := rapid.IntRange(1, 20).Draw(t, "records")
			b := recordtest.Batch(0, recordtest.Count(n))
			done, err := m.log.Append(b, m.epoch)
			m.appended(t, done, err, b, n)
		},
		"append of a producer": func(t *rapid.T) {
			n := rapid.IntRange(1, 20).Draw(t, "records")
			b := recordtest.Batch(0, recordtest.Count(n), recordtest.Producer(1, int16(m.epoch), m.sequence))
			done, err := m.log.Append(b, m.epoch)
			m.appended(t, done, err, b, n)
			dup, err := m.log.Append(slices.Clone(b), m.epoch)
			if err != nil || !dup.Duplicate || dup.FirstOffset != done.FirstOffset || dup.NextOffset != done.NextOffset {
				t.Fatalf("sent again: %+v, %v, want %+v", dup, err, done)
			}
			m.sequence += int32(n)
		},
		"sync": func(t *rapid.T) {
			if err := m.log.WaitDurable(m.ctx, m.end); err != nil {
				t.Fatal(err)
			}
			m.durable = m.end
		},
		"roll": func(t *rapid.T) {
			if err := m.log.Roll(m.ctx); err != nil {
				t.Fatal(err)
			}
		},
		"drop": func(t *rapid.T) {
			o := m.offset(t)
			before := len(m.log.Segments())
			n, err := m.log.DropBefore(m.ctx, o)
			if err != nil || len(m.log.Segments()) != before-n {
				t.Fatalf("%d of %d dropped: %v", n, before, err)
			}
			if n > 0 && m.log.StartOffset() > o || m.log.StartOffset() < m.start {
				t.Fatalf("dropped before %d, the log starts at %d", o, m.log.StartOffset())
			}
			m.start = m.log.StartOffset()
		},
		"raise the log start": func(t *rapid.T) {
			o := m.offset(t)
			if err := m.log.SetLogStartOffset(m.ctx, o); err != nil {
				t.Fatal(err)
			}
			m.logStart = max(m.logStart, o)
		},
		"reset": func(t *rapid.T) {
			o := record.Offset(rapid.Int64Range(int64(m.logStart), int64(m.end)+50).Draw(t, "offset"))
			if err := m.log.ResetTo(m.ctx, o, m.log.Epochs().TruncateFrom(o), nil); err != nil {
				t.Fatal(err)
			}
			m.made, m.start, m.end, m.durable = nil, o, o, o
			m.epoch++
			m.sequence = 0
		},
		"read": func(t *rapid.T) { m.read(t) },
		"":     m.check,
	}
}

// restarts are the ways in which a process ends.
func (m *model) restarts() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"power cut": func(t *rapid.T) {
			m.survive(t, m.mem.Crash(), m.durable)
			m.sequence = 0
		},
		"torn power cut": func(t *rapid.T) {
			m.survive(t, m.mem.CrashKeeping(rapid.Uint64().Draw(t, "seed")), m.durable)
			m.sequence = 0
		},
		"kill": func(t *rapid.T) {
			m.survive(t, m.mem.Kill(), m.end)
			m.sequence = 0
		},
		"clean restart": func(t *rapid.T) {
			if err := m.store.Close(m.ctx); err != nil {
				t.Fatal(err)
			}
			m.survive(t, m.mem.Crash(), m.end)
			if !m.store.Clean() {
				t.Fatal("not clean")
			}
			m.sequence = 0
		},
	}
}

func (m *model) appended(t *rapid.T, done hot.Appended, err error, b []byte, n int) {
	if err != nil || done.FirstOffset != m.end || done.NextOffset != m.end+record.Offset(n) || done.Duplicate {
		t.Fatalf("append at %d: %+v, %v", m.end, done, err)
	}
	m.end = done.NextOffset
	m.made = append(m.made, stored{done.FirstOffset, done.NextOffset, string(b)})
}

// offset draws an offset of the log.
func (m *model) offset(t *rapid.T) record.Offset {
	return record.Offset(rapid.Int64Range(int64(m.start), int64(m.end)).Draw(t, "offset"))
}

// read compares one answer with the model.
func (m *model) read(t *rapid.T) {
	from, limit := m.offset(t), m.offset(t)
	maxBytes := rapid.IntRange(0, 1500).Draw(t, "max bytes")
	minOne := rapid.Bool().Draw(t, "min one")
	r, err := m.log.Read(from, limit, maxBytes, minOne)
	if err != nil {
		t.Fatalf("read at %d: %v", from, err)
	}
	want := m.wanted(from, limit, maxBytes, minOne)
	if r == nil {
		if len(want) > 0 {
			t.Fatalf("read %d to %d, %d bytes: nothing, want %d to %d", from, limit, maxBytes, want[0].base, want[len(want)-1].next)
		}
		return
	}
	defer r.Release()
	b := make([]byte, r.Len())
	if n, _ := r.ReadAt(b, 0); n < len(b) {
		t.Fatalf("%d of %d bytes", n, len(b))
	}
	var bytes string
	for _, s := range want {
		bytes += s.bytes
	}
	if string(b) != bytes || r.First() != want[0].base || r.Next() != want[len(want)-1].next {
		t.Fatalf("read %d to %d, %d bytes: got %d to %d, want %d batches", from, limit, maxBytes, r.First(), r.Next(), len(want))
	}
}

// wanted are the batches that a read should answer.
func (m *model) wanted(from, limit record.Offset, maxBytes int, minOne bool) []stored {
	if from >= limit {
		return nil
	}
	segments := m.log.Segments()
	i := len(segments) - 1
	for segments[i].BaseOffset() > from {
		i--
	}
	var want []stored
	for _, s := range m.made {
		if s.next <= from || s.base < segments[i].BaseOffset() {
			continue
		}
		maxBytes -= len(s.bytes)
		if s.next > min(limit, segments[i].NextOffset()) || maxBytes < 0 && (len(want) > 0 || !minOne) {
			break
		}
		want = append(want, s)
	}
	return want
}

// check holds after every action.
func (m *model) check(t *rapid.T) {
	l := m.log
	if l.StartOffset() != m.start || l.EndOffset() != m.end || l.LogStartOffset() != m.logStart {
		t.Fatalf("log %d to %d from %d, want %d to %d from %d", l.StartOffset(), l.EndOffset(), l.LogStartOffset(), m.start, m.end, m.logStart)
	}
	if d := l.DurableOffset(); d < m.durable || d > m.end {
		t.Fatalf("durable to %d, want %d to %d", d, m.durable, m.end)
	}
	epochs := l.Epochs()
	for _, s := range m.made {
		if h := record.Batch(s.bytes).Header(); s.base >= m.logStart && epochs.For(s.base) != h.LeaderEpoch {
			t.Fatalf("the batch at %d has epoch %d, the history %v says %d", s.base, h.LeaderEpoch, epochs, epochs.For(s.base))
		}
	}
	next := m.start
	for _, seg := range l.Segments() {
		if seg.BaseOffset() != next {
			t.Fatalf("a segment at %d follows one that ends at %d", seg.BaseOffset(), next)
		}
		next = seg.NextOffset()
	}
	if next != m.end {
		t.Fatalf("the last segment ends at %d, the log at %d", next, m.end)
	}
}

// TestModel drives a log and its disk through any order of events (I1–I6, L1–L5).
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{mem: vfs.NewMem(), ctx: context.WithoutCancel(t.Context())}
		m.open(rt)
		defer func() { _ = m.store.Close(m.ctx) }()
		actions := m.actions()
		maps.Copy(actions, m.restarts())
		rt.Repeat(actions)
	})
}
