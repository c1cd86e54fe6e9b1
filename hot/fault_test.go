// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync/atomic"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
	"firn/record/recordtest"
)

// journey is a life of a log on a disk that may fail. It notes what the log
// promised, so that check can hold it to that.
type journey struct {
	t       *testing.T
	f       *faultfs.FS
	created bool     // CreateLog succeeded
	made    []stored // every batch that Append said it took since the last reset
	durable record.Offset
	start   record.Offset // the local start is at most here, unless it failed
	reset   bool          // a reset failed on the way: what is left is open
	failed  int
	looking atomic.Bool // the test itself reads what a client would check
}

// allowed says whether an error is one that the disk's failure explains.
func (j *journey) allowed(what string, err error) bool {
	if err == nil {
		return true
	}
	j.failed++
	for _, kind := range []error{record.ErrStorage, record.ErrClosed, record.ErrCorruptBatch, record.ErrUnsupportedVersion, hot.ErrTopicID, fs.ErrNotExist, fs.ErrExist} {
		if errors.Is(err, kind) {
			return false
		}
	}
	if what == "open store" || what == "close store" {
		return false
	}
	j.t.Fatalf("%s: an error of no kind: %v", what, err)
	return false
}

func (j *journey) append(l *hot.Log, epoch record.Epoch) {
	b := recordtest.Batch(0, recordtest.Count(10), recordtest.Producer(int64(epoch), 0, int32(10*len(j.made))))
	end := l.EndOffset()
	done, err := l.Append(b, epoch)
	if !j.allowed("append", err) {
		if l.EndOffset() != end {
			j.t.Fatalf("a failed append moved the end from %d to %d", end, l.EndOffset())
		}
		return
	}
	j.made = append(j.made, stored{done.FirstOffset, done.NextOffset, string(b)})
}

func (j *journey) sync(l *hot.Log) {
	end := l.EndOffset()
	if j.allowed("sync", l.WaitDurable(j.t.Context(), end)) {
		j.durable = end
	}
}

// read reads the whole log and compares it with what was made. An error is
// allowed, a wrong answer is not.
func (j *journey) read(l *hot.Log) {
	at := l.StartOffset()
	for at < l.EndOffset() {
		r, err := l.Read(at, l.EndOffset(), 300, true)
		if !j.allowed("read", err) {
			return
		}
		if r == nil {
			j.t.Fatalf("read at %d of %d: nothing", at, l.EndOffset())
		}
		b := make([]byte, r.Len())
		j.looking.Store(true)
		n, err := r.ReadAt(b, 0)
		j.looking.Store(false)
		if n == len(b) {
			j.match(split(j.t, b))
		} else if err == nil {
			j.t.Fatalf("read %d of %d bytes without an error", n, len(b))
		}
		at = r.Next()
		r.Release()
	}
}

// match checks batches against those that were made.
func (j *journey) match(got []stored) {
	i := slices.IndexFunc(j.made, func(s stored) bool { return s.base == got[0].base })
	if i < 0 || i+len(got) > len(j.made) || !slices.Equal(got, j.made[i:i+len(got)]) {
		j.t.Fatalf("batches from %d to %d are not those that were appended", got[0].base, got[len(got)-1].next)
	}
}

// first is the first half of the journey: a new log up to a clean stop.
func (j *journey) first() {
	s, err := hot.Open(j.t.Context(), hot.Options{Dir: logDir, FS: j.f})
	if !j.allowed("open store", err) {
		return
	}
	defer func() { j.allowed("close store", s.Close(context.WithoutCancel(j.t.Context()))) }()
	l, err := s.CreateLog(j.t.Context(), tp, topicID, smallSegments())
	if !j.allowed("create", err) {
		return
	}
	j.created = true
	for i := range 12 {
		j.append(l, 1)
		if i%3 == 0 {
			j.sync(l)
		}
	}
	j.allowed("roll", l.Roll(j.t.Context()))
	j.read(l)
	j.sync(l)
}

// second goes on where the first stopped, and begins the log anew at its end.
func (j *journey) second() {
	s, err := hot.Open(j.t.Context(), hot.Options{Dir: logDir, FS: j.f})
	if !j.allowed("open store", err) {
		return
	}
	defer func() { j.allowed("close store", s.Close(context.WithoutCancel(j.t.Context()))) }()
	l, err := s.OpenLog(j.t.Context(), tp, topicID, smallSegments())
	if !j.allowed("open", err) {
		return
	}
	if l.EndOffset() < j.durable {
		j.t.Fatalf("opened to %d, durable was %d", l.EndOffset(), j.durable)
	}
	j.made = slices.DeleteFunc(j.made, func(s stored) bool { return s.base >= l.EndOffset() })
	j.read(l)
	for range 4 {
		j.append(l, 2)
	}
	_, err = l.DropBefore(j.t.Context(), 40)
	j.allowed("drop", err)
	j.start = 40
	j.allowed("set log start", l.SetLogStartOffset(j.t.Context(), min(15, l.EndOffset())))
	j.read(l)
	j.sync(l)
	const to = 1000
	if err := l.ResetTo(j.t.Context(), to, l.Epochs(), nil); !j.allowed("reset", err) {
		j.reset = l.Poisoned() != nil
		return
	}
	j.made, j.durable, j.start = nil, to, to
	j.append(l, 3)
	j.sync(l)
	j.read(l)
}

// check opens what a power cut leaves, on a disk that works again.
func (j *journey) check(mem *vfs.Mem) {
	s, err := hot.Open(j.t.Context(), hot.Options{Dir: logDir, FS: mem})
	if err != nil {
		j.t.Fatalf("open the store after the fault: %v", err)
	}
	defer closeStore(j.t, s)
	l, err := s.OpenLog(j.t.Context(), tp, topicID, smallSegments())
	if err != nil {
		if j.created {
			j.t.Fatalf("open the log after the fault: %v", err)
		}
		return
	}
	got := readAll(j.t, l, 300)
	switch {
	case j.reset: // a part of the old segments, or none
	case l.EndOffset() < j.durable:
		j.t.Fatalf("the log ends at %d, durable was %d", l.EndOffset(), j.durable)
	case l.StartOffset() > j.start:
		j.t.Fatalf("the log starts at %d, at most %d was dropped", l.StartOffset(), j.start)
	}
	if len(got) > 0 {
		j.match(got)
	}
	if _, err := l.Append(batchOf(1), 9); err != nil {
		j.t.Fatalf("append after the fault: %v", err)
	}
}
