// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
	"firn/record/recordtest"
)

func TestReadBounds(t *testing.T) {
	l := createLog(t, openStore(t, vfs.NewMem()), hot.LogOptions{IndexInterval: 100})
	batch := len(recordtest.Batch(0, recordtest.Count(10)))
	for range 10 {
		appendBatch(t, l, 10)
	}
	cases := []struct {
		name        string
		from, limit record.Offset
		maxBytes    int
		minOne      bool
		want        [2]record.Offset // first, next; zero for none
		err         error
	}{
		{name: "all", from: 0, limit: 100, maxBytes: 1 << 20, want: [2]record.Offset{0, 100}},
		{name: "from inside a batch", from: 37, limit: 100, maxBytes: 1 << 20, want: [2]record.Offset{30, 100}},
		{name: "limit at a batch's end", from: 0, limit: 40, maxBytes: 1 << 20, want: [2]record.Offset{0, 40}},
		{name: "limit inside a batch", from: 0, limit: 45, maxBytes: 1 << 20, want: [2]record.Offset{0, 40}},
		{name: "limit inside the first batch", from: 41, limit: 45, maxBytes: 1 << 20, minOne: true},
		{name: "limit above the end", from: 90, limit: 1000, maxBytes: 1 << 20, want: [2]record.Offset{90, 100}},
		{name: "two batches fit", from: 20, limit: 100, maxBytes: 3*batch - 1, want: [2]record.Offset{20, 40}},
		{name: "exactly two fit", from: 20, limit: 100, maxBytes: 2 * batch, want: [2]record.Offset{20, 40}},
		{name: "none fits", from: 20, limit: 100, maxBytes: batch - 1},
		{name: "none fits, one wanted", from: 20, limit: 100, maxBytes: batch - 1, minOne: true, want: [2]record.Offset{20, 30}},
		{name: "no bytes, one wanted", from: 20, limit: 100, maxBytes: 0, minOne: true, want: [2]record.Offset{20, 30}},
		{name: "at the end", from: 100, limit: 100, maxBytes: 1 << 20, minOne: true},
		{name: "at the limit", from: 50, limit: 50, maxBytes: 1 << 20, minOne: true},
		{name: "above the limit", from: 60, limit: 50, maxBytes: 1 << 20, minOne: true},
		{name: "above the end", from: 101, limit: 200, maxBytes: 1 << 20, err: record.ErrOffsetOutOfRange},
		{name: "below the start", from: -1, limit: 100, maxBytes: 1 << 20, err: record.ErrOffsetOutOfRange},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, err := l.Read(c.from, c.limit, c.maxBytes, c.minOne)
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if r == nil {
				if c.want != ([2]record.Offset{}) {
					t.Fatal("nothing")
				}
				return
			}
			defer r.Release()
			got := regionBatches(t, r)
			if r.First() != c.want[0] || r.Next() != c.want[1] || got[0].base != c.want[0] || got[len(got)-1].next != c.want[1] {
				t.Fatalf("%d to %d, want %v", r.First(), r.Next(), c.want)
			}
			if !r.Resident(0, r.Len()) || r.Sealed() {
				t.Fatal("a region in memory is not resident, or the active segment is sealed")
			}
		})
	}
}

func TestRegionReadsStayInside(t *testing.T) {
	l := createLog(t, openStore(t, vfs.NewMem()), hot.LogOptions{})
	for range 3 {
		appendBatch(t, l, 10)
	}
	r, err := l.Read(10, 20, 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	for name, read := range map[string]func([]byte, int64) (int, error){"buffered": r.ReadAt, "uncached": r.ReadUncachedAt} {
		b := make([]byte, r.Len()+100)
		if n, err := read(b, 0); int64(n) != r.Len() || !errors.Is(err, io.EOF) {
			t.Fatalf("%s: %d bytes, %v", name, n, err)
		}
		if n, err := read(b, r.Len()); n != 0 || !errors.Is(err, io.EOF) {
			t.Fatalf("%s at the end: %d bytes, %v", name, n, err)
		}
		if n, err := read(b, -1); n != 0 || err == nil {
			t.Fatalf("%s below the start: %d bytes, %v", name, n, err)
		}
	}
	if l.BytesFrom(r) != 2*r.Len() {
		t.Fatalf("%d bytes to the end, want %d", l.BytesFrom(r), 2*r.Len())
	}
}

func TestRegionsOutliveTheirSegment(t *testing.T) {
	ends := map[string]func(*testing.T, *hot.Store, *hot.Log){
		"dropped": func(t *testing.T, _ *hot.Store, l *hot.Log) {
			if n, err := l.DropBefore(t.Context(), l.EndOffset()); err != nil || n != 3 {
				t.Fatal(n, err)
			}
		},
		"reset": func(t *testing.T, _ *hot.Store, l *hot.Log) {
			if err := l.ResetTo(t.Context(), 0, nil, nil); err != nil {
				t.Fatal(err)
			}
			fill(t, l, 2) // other bytes under the same names
		},
		"deleted": func(t *testing.T, s *hot.Store, l *hot.Log) {
			if err := s.DeleteLog(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		},
		"closed": func(t *testing.T, s *hot.Store, _ *hot.Log) { closeStore(t, s) },
	}
	for name, end := range ends {
		for where, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.Disk()} {
			t.Run(name+" in "+where, func(t *testing.T) {
				dir := logDir
				if where == "disk" {
					dir = t.TempDir()
				}
				s := openStore(t, fs, func(o *hot.Options) { o.Dir = dir })
				l := createLog(t, s, smallSegments())
				fill(t, l, 4)
				first := l.Segments()[0]
				r, err := l.Read(10, l.EndOffset(), 500, true)
				if err != nil {
					t.Fatal(err)
				}
				if err := first.Pin(); err != nil {
					t.Fatal(err)
				}
				want, wantAll := drain(t, r.Len(), r.ReadAt), drain(t, first.Size(), first.ReadUncachedAt)
				end(t, s, l)
				if string(drain(t, r.Len(), r.ReadAt)) != string(want) {
					t.Fatal("the region changed")
				}
				if string(drain(t, first.Size(), first.ReadUncachedAt)) != string(wantAll) {
					t.Fatal("the pinned segment changed")
				}
				r.Release()
				first.Unpin()
				if name == "dropped" || name == "reset" {
					if err := first.Pin(); !errors.Is(err, record.ErrClosed) {
						t.Fatalf("pin a dropped segment: %v", err)
					}
				}
			})
		}
	}
}

func TestDescriptorsAreBounded(t *testing.T) {
	f := faultfs.New(vfs.NewMem())
	s := openStore(t, f, func(o *hot.Options) { o.MaxOpenFiles = 3 })
	l := createLog(t, s, smallSegments())
	open := func() int64 {
		return f.Count(faultfs.OpOpen, faultfs.OpCreate) - f.Count(faultfs.OpClose)
	}
	before := open() - 1 // failed ones; the active segment is open
	fill(t, l, 20)
	if err := l.WaitDurable(t.Context(), l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		readAll(t, l, 300)
	}
	// The sealer may still hold what it has not completed.
	for len(l.Sealed(0)) < len(l.Segments())-1 {
		if err := l.Roll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	readAll(t, l, 300)
	if n := open() - before; n > 3+2 { // the idle ones, the active segment, one that the sealer lets go just now
		t.Fatalf("%d files are open", n)
	}
	var regions []*hot.Region
	for _, seg := range l.Sealed(0) {
		r, err := l.Read(seg.BaseOffset(), l.EndOffset(), 1, true)
		if err != nil {
			t.Fatal(err)
		}
		regions = append(regions, r)
	}
	for _, r := range regions {
		r.Release()
	}
	closeStore(t, s)
	if n := open() - before; n != 0 {
		t.Fatalf("%d files are open after the close", n)
	}
}

func TestASlowOpenHoldsUpNoOtherSegment(t *testing.T) {
	f := faultfs.New(vfs.NewMem())
	s := openStore(t, f)
	l := createLog(t, s, smallSegments())
	fill(t, l, 3)
	closeStore(t, s)
	s = openStore(t, f)
	l = openLog(t, s, smallSegments())
	first, second := l.Segments()[0], l.Segments()[1]

	entered, release := make(chan struct{}), make(chan struct{})
	slow := filepath.Base(inPartition(segmentName(first.BaseOffset(), ".log")))
	f.Hook(func(c faultfs.Call) *faultfs.Fault {
		if c.Op == faultfs.OpOpen && strings.HasSuffix(c.Path, slow) {
			close(entered)
			<-release
		}
		return nil
	})
	done := make(chan error)
	read := func(at record.Offset) {
		r, err := l.Read(at, l.EndOffset(), 1, true)
		if r != nil {
			r.Release()
		}
		done <- err
	}
	go read(first.BaseOffset())
	<-entered
	go read(second.BaseOffset())
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	appendBatch(t, l, 10)
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
