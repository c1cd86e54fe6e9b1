// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"container/list"
	"context"
	"strings"
	"sync"

	"firn/record"
)

// maxStreams is how many places of sequential readers are remembered.
const maxStreams = 4096

// streams knows sequential readers by where they will go on: a read that begins
// where an earlier one of the same partition ended belongs to a stream, whoever
// sent it. The window of a stream doubles with each read, from one chunk up to
// the bound. Places stay until they are among the oldest, so that a read that
// is repeated, and a second reader in the tracks of the first, find theirs.
// Safe for concurrent use; the zero value is ready.
type streams struct {
	mu     sync.Mutex
	byName map[place]*list.Element // of *stream
	recent list.List               // the one touched last in front
}

// place is an offset of a partition, named by the common beginning of its
// objects' keys.
type place struct {
	partition string
	offset    record.Offset
}

type stream struct {
	place  place
	window int64 // bytes to read ahead when a read begins here
	mark   *mark
}

// mark is how far read-ahead has asked: everything up to chunk of the object
// that begins at offset from. Without it every read would ask the cache for its
// whole window again, and each question makes a chunk look more wanted than it
// is, until replays wash the cache out. Safe for concurrent use.
type mark struct {
	mu    sync.Mutex
	from  record.Offset
	chunk int32
}

// covers says whether the chunk of the object that begins at from was asked for.
func (m *mark) covers(from record.Offset, chunk int32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return from < m.from || from == m.from && chunk <= m.chunk
}

// raise moves the mark up to the chunk.
func (m *mark) raise(from record.Offset, chunk int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from > m.from || from == m.from && chunk > m.chunk {
		m.from, m.chunk = from, chunk
	}
}

// copy is a mark of its own at the same height.
func (m *mark) copy() *mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &mark{from: m.from, chunk: m.chunk}
}

func placeOf(key string, o record.Offset) place {
	return place{key[:strings.LastIndexByte(key, '/')+1], o}
}

// at is the stream of a read that begins at offset o of the partition to which
// the object belongs, as a copy; its window is 0 when no read ended there.
func (s *streams) at(key string, o record.Offset) stream {
	p := placeOf(key, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byName[p]
	if e == nil {
		return stream{place: p, mark: &mark{from: record.NoOffset}}
	}
	s.recent.MoveToFront(e)
	known := e.Value.(*stream)
	return stream{place: p, window: known.window, mark: known.mark.copy()}
}

// advance notes that a read of the stream ended before offset o, with windows
// of least bytes at first and of most bytes in the end.
func (s *streams) advance(from stream, o record.Offset, least, most int64) {
	if most < least {
		return
	}
	next := &stream{place: place{from.place.partition, o}, window: min(most, max(least, 2*from.window)), mark: from.mark}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byName[next.place]; e != nil {
		next.window = max(next.window, e.Value.(*stream).window)
		e.Value = next
		s.recent.MoveToFront(e)
		return
	}
	if s.byName == nil {
		s.byName = make(map[place]*list.Element)
	}
	s.byName[next.place] = s.recent.PushFront(next)
	if s.recent.Len() > maxStreams {
		oldest := s.recent.Remove(s.recent.Back()).(*stream)
		delete(s.byName, oldest.place)
	}
}

// readAhead starts the GETs of the stream's window behind the chunk at position,
// as far as there is room (L4). The entries of later objects may have to be
// looked up in the bucket, so that this part runs beside the read.
func (r *Reader) readAhead(v chainView, c *cursor, position int64, s stream) {
	o := c.object
	left, ok := r.aheadIn(o, c.index, c.chunkAt(position)+1, s.window, s.mark)
	if !ok || left <= 0 {
		return
	}
	r.load.spawn(o.key, func(ctx context.Context) {
		for e := o.entry; left > 0 && ok; {
			var found bool
			var err error
			if e, _, found, err = v.entryAt(ctx, e.To); err != nil || !found || e.check() != nil {
				return
			}
			next := &objectRef{key: v.keyOf(e), entry: e}
			if !s.mark.covers(e.From, 0) && !r.load.readAhead(next, sectionsPart, nil) {
				return
			}
			left, ok = r.aheadIn(next, nil, 0, left, s.mark)
		}
	})
}

// aheadIn reads ahead in one object from chunk n on, and says how much of the
// window lies behind its end; ok is false when there was no room.
func (r *Reader) aheadIn(o *objectRef, index *part, n int32, window int64, m *mark) (left int64, ok bool) {
	chunk := r.load.o.ChunkBytes
	for ; window > 0 && int64(n)*chunk < o.entry.LogSize; n++ {
		if !m.covers(o.entry.From, n) {
			if !r.load.readAhead(o, n, index) {
				return 0, false
			}
			m.raise(o.entry.From, n)
		}
		window -= min(chunk, o.entry.LogSize-int64(n)*chunk)
	}
	return window, true
}

// spawn runs do on a goroutine of the loader, whose end ends ctx, unless one of
// the same name is running.
func (l *loader) spawn(name string, do func(ctx context.Context)) {
	l.mu.Lock()
	defer l.unlock()
	if l.closed || l.spawned[name] {
		return
	}
	l.spawned[name] = true
	l.running.Add(1)
	go func() {
		defer l.running.Done()
		do(l.ctx)
		l.mu.Lock()
		defer l.unlock()
		delete(l.spawned, name)
	}()
}
