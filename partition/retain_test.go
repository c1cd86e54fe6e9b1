// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"firn/internal/vfs/faultfs"
	"firn/record"
	"firn/record/recordtest"
	"firn/tier"
	"firn/tier/store"
	"firn/tier/store/faultstore"
)

// modelSegment is a segment as a reader of Kafka's documentation sees it.
type modelSegment struct {
	from, to record.Offset
	bytes    int64
	newest   time.Time // its largest timestamp
	sealed   bool
	dropped  bool // not on local disk any more
}

// model is a partition's retention written out naively, over every segment
// that there ever was.
type model struct {
	segments []*modelSegment
	logStart record.Offset
}

func (m *model) active() *modelSegment { return m.segments[len(m.segments)-1] }

func (m *model) append(b []byte, at time.Time) {
	h := record.Batch(b).Header()
	s := m.active()
	s.bytes += int64(len(b))
	s.to += record.Offset(h.Count)
	if at.After(s.newest) {
		s.newest = at
	}
}

func (m *model) seal() {
	if s := m.active(); s.bytes > 0 {
		s.sealed = true
		m.segments = append(m.segments, &modelSegment{from: s.to, to: s.to})
	}
}

// apply is what a retention pass has to do, where the store has everything
// below tierEnd.
func (m *model) apply(r Retention, now time.Time, tierEnd record.Offset) {
	old := func(s *modelSegment, age time.Duration) bool { return age >= 0 && now.Sub(s.newest) > age }
	if s := m.active(); s.bytes > 0 && (old(s, r.Age) || s.to <= m.logStart) {
		m.seal()
	}
	for _, s := range m.segments {
		if s.to <= m.logStart && s.sealed {
			continue
		}
		if !s.sealed || !old(s, r.Age) && (r.Bytes < 0 || m.total()-s.bytes < r.Bytes) {
			break
		}
		m.logStart = s.to
	}
	for _, s := range m.segments {
		if s.dropped {
			continue
		}
		given := s.to <= m.logStart || s.to <= tierEnd && (old(s, r.LocalAge) || r.LocalBytes >= 0 && m.local()-s.bytes >= r.LocalBytes)
		if !s.sealed || !given {
			break
		}
		s.dropped = true
	}
}

// total is the size of what is kept in either tier, local that of what is
// here.
func (m *model) total() (n int64) {
	for _, s := range m.segments {
		if s.to > m.logStart {
			n += s.bytes
		}
	}
	return n
}

func (m *model) local() (n int64) {
	for _, s := range m.segments {
		if !s.dropped {
			n += s.bytes
		}
	}
	return n
}

func (m *model) localStart() record.Offset {
	for _, s := range m.segments {
		if !s.dropped {
			return s.from
		}
	}
	return record.NoOffset
}

// TestRetentionIsTheModels attacks I2 and I3 with random lives of a partition,
// its store going away and coming back, against the model.
func TestRetentionIsTheModels(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			change := func(n *node) { n.untiered = seed%4 == 0; n.copyDisabled = seed%4 == 1 && seed%8 == 1 }
			bubble(t, change, func(t *testing.T, n *node) {
				m := &model{segments: []*modelSegment{{}}}
				for range 60 {
					n.liveAWhile(rng, m)
					if a, b := n.LogStartOffset(), n.LocalStartOffset(); a != m.logStart || b != m.localStart() {
						t.Fatalf("the log starts at %d and locally at %d, the model's at %d and %d", a, b, m.logStart, m.localStart())
					}
				}
				n.faults.Clear()
				n.checkEverythingReadable(m)
			})
		})
	}
}

// liveAWhile does one thing to the partition and to the model.
func (n *node) liveAWhile(rng *rand.Rand, m *model) {
	n.t.Helper()
	switch op := rng.IntN(20); {
	case op < 8:
		age := time.Duration(rng.IntN(100)) * time.Minute
		if rng.IntN(6) == 0 {
			age = -time.Hour // from the future
		}
		b := recordtest.Batch(0, recordtest.Count(1+rng.IntN(9)), recordtest.Timestamp(time.Now().Add(-age).UnixMilli()))
		n.put(b, AcksLeader)
		m.append(b, time.UnixMilli(record.Batch(b).Header().MaxTimestamp))
	case op < 11:
		n.seal()
		m.seal()
	case op == 11:
		storeAway(n.faults)
	case op == 12:
		n.faults.Clear()
	case op == 13:
		n.settle(time.Duration(rng.IntN(60)) * time.Minute)
	default:
		n.settle(2 * time.Second)
		limit := func(of int) int64 { return int64(rng.IntN(of+1)) - 1 }
		r := Retention{
			Age: -1, Bytes: limit(8000), LocalAge: -1, LocalBytes: limit(2000),
		}
		if rng.IntN(2) == 0 {
			r.Bytes = -1
		}
		if rng.IntN(3) == 0 {
			r.Age = time.Duration(rng.IntN(200)) * time.Minute
		}
		if rng.IntN(3) == 0 {
			r.LocalAge = time.Duration(rng.IntN(100)) * time.Minute
		}
		switch cold := n.Tier(); {
		case cold == nil:
			m.apply(r, time.Now(), 0)
		case cold.State().Phase == tier.Ready:
			m.apply(r, time.Now(), cold.End())
		}
		n.retain(r)
	}
}

// checkEverythingReadable reads from the log start to the end, through both
// tiers, and wants every offset there.
func (n *node) checkEverythingReadable(m *model) {
	n.t.Helper()
	n.settle(time.Minute)
	if !n.untiered && !n.copyDisabled {
		n.uploaded()
		if s := n.Tier().State(); s.Bytes > m.total() {
			n.t.Errorf("the chain counts %d bytes, %d are kept", s.Bytes, m.total())
		}
	}
	for at := n.LogStartOffset(); at < n.HighWatermark(); {
		isCold, from, err := n.Locate(at)
		if err != nil || from != at {
			n.t.Fatalf("offset %d: %v, on at %d", at, err, from)
		}
		if isCold {
			d, err := n.ReadCold(n.t.Context(), at, n.HighWatermark(), 1<<20, true)
			if err != nil || d.Next <= at || len(d.Bytes) == 0 {
				n.t.Fatalf("cold read at %d: %d bytes, on at %d, %v", at, len(d.Bytes), d.Next, err)
			}
			d.Release()
			at = d.Next
			continue
		}
		r, err := n.ReadLocal(at, n.HighWatermark(), 1<<20, true, false)
		if err != nil || r == nil {
			n.t.Fatalf("local read at %d: %v, %v", at, r, err)
		}
		at = r.Next()
		r.Release()
	}
}

// A segment whose records have no timestamp is as old as its file, in both
// tiers, and not as old as the epoch.
func TestRetentionWithoutTimestamps(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *node) {
		bare := func() []byte { return recordtest.Batch(0, recordtest.Timestamp(record.NoTimestamp)) }
		r := forEver
		r.Age = time.Hour
		n.put(bare(), AcksLeader)
		n.retain(r)
		n.wantStarts(0, 0)
		n.seal()
		n.uploaded()
		n.dropTiered()
		n.retain(r)
		n.wantStarts(0, 1)
		n.settle(2 * time.Hour)
		n.retain(r)
		n.wantStarts(1, 1)
	})
}

// What lies below the log start and could not be removed is not counted: it
// must not cost what lies above.
func TestRetentionDoesNotCountWhatIsGivenUp(t *testing.T) {
	for _, tiered := range []bool{false, true} {
		bubble(t, func(n *node) { n.untiered = !tiered; n.copyDisabled = tiered }, func(t *testing.T, n *node) {
			n.settle(time.Second)
			var size int64
			for range 5 {
				n.segment()
				size = n.Log().Size() / int64(len(n.Log().Segments())-1)
			}
			broken := n.disk.FailFrom(1, faultfs.IOError(), faultfs.OpRemove)
			r := forEver
			r.Bytes = 3 * size
			n.SetRetention(r)
			// The first pass gives up two segments, whose files stay for now.
			_ = n.ApplyRetention(t.Context())
			n.wantLogStart(20)
			for range 3 {
				_ = n.ApplyRetention(t.Context())
				n.wantLogStart(20)
			}
			broken.Stop()
			n.retain(r)
			n.wantStarts(20, 20)
		})
	}
}

func (n *node) wantLogStart(want record.Offset) {
	n.t.Helper()
	if got := n.LogStartOffset(); got != want {
		n.t.Fatalf("the log starts at %d, want %d", got, want)
	}
}

// A store that is away does not keep local retention from making room: what
// the store has, it has.
func TestStoreAwayStillMakesRoom(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *node) {
		n.segment()
		n.segment()
		n.uploaded()
		storeAway(n.faults)
		n.segment()
		n.settle(time.Minute)
		r := forEver
		r.LocalBytes = 0
		n.retain(r)
		n.wantStarts(0, 20)
	})
}

// I4: a log start that could not be made durable removes nothing.
func TestLogStartIsDurableFirst(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *node) {
		n.segment()
		n.segment()
		n.uploaded()
		n.dropTiered()
		n.segment()
		broken := n.disk.FailFrom(1, faultfs.IOError(), faultfs.OpRename)
		defer broken.Stop()
		objects := n.faults.Count(store.OpDelete)
		n.SetRetention(Retention{Age: -1, Bytes: 0, LocalAge: -1, LocalBytes: -1})
		if err := n.ApplyRetention(t.Context()); err == nil {
			t.Error("no error")
		}
		n.settle(time.Hour)
		n.wantStarts(0, 20)
		if n.faults.Count(store.OpDelete) != objects {
			t.Error("objects were deleted")
		}
	})
}

// What expired before it was uploaded goes without an upload.
func TestExpiredBeforeItsUpload(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *node) {
		n.settle(time.Second)
		away := n.faults.Inject(faultstore.Fault{Op: store.OpPut, Effect: faultstore.Unavailable})
		n.segment()
		n.segment()
		n.settle(2 * time.Hour)
		n.segment()
		r := forEver
		r.Age = time.Hour
		n.retain(r)
		n.wantStarts(20, 20)
		away.Remove()
		n.uploaded()
		entries, err := n.Tier().Entries(t.Context(), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Kind == tier.KindSegment && e.From < 20 {
				t.Errorf("%v was uploaded", e)
			}
		}
		if end := n.Tier().End(); end != 30 {
			t.Errorf("the chain ends at %d, want 30", end)
		}
	})
}

// A partition that gets no more records is empty in the end, in both tiers.
func TestEverythingExpires(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *node) {
		n.segment()
		n.segment()
		n.uploaded()
		n.dropTiered()
		n.put(batch(5, 0), AcksLeader)
		n.settle(2 * time.Hour)
		r := forEver
		r.Age = time.Hour
		n.retain(r)
		n.wantStarts(25, 25)
		n.wantHigh(25)
		n.settle(10 * time.Minute)
		if s := n.Tier().State(); s.Segments != 0 || s.Tombstones != 0 {
			t.Errorf("the chain still has %d segments and %d tombstones", s.Segments, s.Tombstones)
		}
		objects, _, err := n.faults.List(t.Context(), "", "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if len(o.Key) > 4 && o.Key[len(o.Key)-4:] == ".seg" {
				t.Errorf("%s is left", o.Key)
			}
		}
		n.put(batch(1, 0), AcksLeader)
		n.wantHigh(26)
	})
}

// Records that no consumer may see yet are not given up.
func TestRetentionEndsAtTheHighWatermark(t *testing.T) {
	bubble(t, untiered, func(t *testing.T, n *node) {
		n.segment()
		letGo := n.holdSyncs()
		n.put(batch(3, 0), AcksAll)
		if err := n.Log().Roll(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.wantHigh(10)
		// Of a whole pass, the part that drops files would wait for the sync.
		r := Retention{Age: -1, Bytes: 0}
		if err := n.raiseLogStart(t.Context(), r, time.Now()); err != nil {
			t.Fatal(err)
		}
		n.wantLogStart(10)
		letGo()
		synctest.Wait()
		n.retain(r)
		n.wantStarts(13, 13)
	})
}
