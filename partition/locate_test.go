// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"firn/record"
	"firn/tier"
	"firn/tier/store"
	"firn/tier/store/faultstore"
)

func storeAway(f *faultstore.Store) { f.Inject(faultstore.Fault{Effect: faultstore.Unavailable}) }

func storeHangs(f *faultstore.Store) { f.Inject(faultstore.Fault{Effect: faultstore.Hang}) }

// place is what Locate says of an offset.
type place int

const (
	belowAll place = iota // out of range
	inStore               // in the store, at the offset itself
	inGap                 // nowhere: on at the local start
	inLog                 // here, at the offset itself
	aboveAll              // out of range
	untold                // a storage error: it cannot be told yet
)

// wantPlaces asks for every offset up to two beyond the end.
func (n *node) wantPlaces(of func(o record.Offset) place) {
	n.t.Helper()
	for o := record.Offset(-2); o <= n.EndOffset()+2; o++ {
		isCold, at, err := n.Locate(o)
		want := of(o)
		var ok bool
		switch want {
		case belowAll, aboveAll:
			ok = errors.Is(err, record.ErrOffsetOutOfRange) && !errors.Is(err, record.ErrStorage)
		case untold:
			ok = errors.Is(err, record.ErrStorage) && !errors.Is(err, record.ErrOffsetOutOfRange)
		case inStore:
			ok = err == nil && isCold && at == o
		case inGap:
			ok = err == nil && !isCold && at == n.LocalStartOffset()
		case inLog:
			ok = err == nil && !isCold && at == o
		}
		if !ok {
			n.t.Errorf("offset %d: cold %v, at %d, %v; want place %d", o, isCold, at, err, want)
		}
	}
}

// layers makes a partition of ten offsets each below the log start, in the
// store, lost before they got there, and here: 0, 10, 20 and 30 to 42.
func (n *node) layers() {
	n.t.Helper()
	n.segment()
	n.segment()
	n.uploaded()
	storeAway(n.faults)
	n.segment()
	n.put(batch(12, 0), AcksLeader)
	if err := n.Log().SetLogStartOffset(n.t.Context(), 10); err != nil {
		n.t.Fatal(err)
	}
	// As the outage policy drop-oldest does.
	if _, err := n.Log().DropBefore(n.t.Context(), 30); err != nil {
		n.t.Fatal(err)
	}
	n.wantStarts(10, 30)
}

func TestLocate(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *node) {
		n.layers()
		n.wantPlaces(func(o record.Offset) place {
			switch {
			case o < 10:
				return belowAll
			case o < 20:
				return inStore
			case o < 30:
				return inGap
			case o <= 42:
				return inLog
			}
			return aboveAll
		})
		if at, err := n.Earliest(); err != nil || at.Offset != 10 {
			t.Errorf("earliest %+v, %v", at, err)
		}
		if at := n.LatestTiered(); at.Offset != 19 || at.Epoch != 1 {
			t.Errorf("latest tiered %+v", at)
		}
		if at := n.EarliestPendingUpload(); at.Offset != 30 {
			t.Errorf("earliest pending upload %+v, want the first that is still here", at)
		}
		// With the store back, the chain has an entry for the gap: a read
		// there goes on behind it.
		n.faults.Clear()
		n.seal()
		n.uploaded()
		n.dropTiered()
		n.wantStarts(10, 42)
		for from, want := range map[record.Offset]record.Offset{10: 10, 19: 10, 20: 30, 29: 30, 30: 30, 41: 30} {
			isCold, at, err := n.Locate(from)
			if err != nil || !isCold || at != from {
				t.Fatalf("offset %d: cold %v, at %d, %v", from, isCold, at, err)
			}
			d, err := n.ReadCold(t.Context(), from, 42, 1<<20, true)
			if err != nil {
				t.Fatal(err)
			}
			if got := record.Batch(d.Bytes).Header().BaseOffset; got > from && got != want || got < want {
				t.Errorf("read at %d begins at %d, want %d", from, got, want)
			}
			d.Release()
		}
		if at := n.LatestTiered(); at.Offset != 41 {
			t.Errorf("latest tiered %+v", at)
		}
		if at := n.EarliestPendingUpload(); at.Offset != 42 {
			t.Errorf("earliest pending upload %+v", at)
		}
	})
}

// Out of range makes clients skip what they have not read. Nothing is called
// so for want of a manifest.
func TestLocateWithoutAManifest(t *testing.T) {
	for name, one := range map[string]struct {
		store   func(*faultstore.Store)
		change  func(n *node)
		copied  bool // the local copy of the manifest is there
		settled bool // the end is known: the bucket is not ours, or was compared
	}{
		"the store is away":                       {store: storeAway},
		"the store hangs":                         {store: storeHangs},
		"the store is away, with a local copy":    {store: storeAway, copied: true},
		"the bucket belongs to somebody else":     {change: func(n *node) { n.storeID = tier.StoreID{8} }},
		"the manifest is read, from the bucket":   {settled: true},
		"the manifest is read, with a local copy": {copied: true, settled: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, n *node) {
				n.segment()
				n.segment()
				n.uploaded()
				n.dropTiered()
				n.put(batch(5, 0), AcksLeader)
				if err := n.Log().SetLogStartOffset(t.Context(), 5); err != nil {
					t.Fatal(err)
				}
				dir := n.Log().Dir()
				n.stop()
				if !one.copied {
					if err := n.mem.Remove(filepath.Join(dir, "firn-manifest")); err != nil {
						t.Fatal(err)
					}
				}
				if one.change != nil {
					one.change(n)
				}
				prepare := one.store
				if prepare == nil {
					prepare = func(*faultstore.Store) {}
				}
				n.openWith(prepare)
				check := func() {
					n.wantPlaces(func(o record.Offset) place {
						switch {
						case o < 5:
							return belowAll // it is durable here
						case o < 20 && (one.copied || one.settled):
							return inStore
						case o < 20:
							return untold
						case o <= 25:
							return inLog
						case one.settled:
							return aboveAll
						}
						return untold
					})
					at, err := n.Earliest()
					_, err2 := n.OffsetForTimestamp(t.Context(), 1e15, ReadUncommitted, nil)
					_, err3 := n.MaxTimestamp(t.Context(), ReadUncommitted, nil)
					if one.copied || one.settled {
						if err != nil || at.Offset != 5 {
							t.Errorf("earliest %+v, %v", at, err)
						}
						return
					}
					for _, err := range []error{err, err2, err3} {
						if !errors.Is(err, record.ErrStorage) || errors.Is(err, record.ErrOffsetOutOfRange) {
							t.Errorf("earliest, by time, or largest time: %v", err)
						}
					}
				}
				if one.settled {
					n.settle(time.Minute)
				}
				check()
				n.settle(time.Minute)
				check()
				// Nor is anything deleted.
				r := Retention{Age: 0, Bytes: 0, LocalAge: 0, LocalBytes: 0}
				if !one.settled {
					n.retain(r)
					n.wantStarts(5, 20)
					check()
				}
			})
		})
	}
}

func TestUntieredPlaces(t *testing.T) {
	bubble(t, untiered, func(t *testing.T, n *node) {
		n.segment()
		n.segment()
		r := forEver
		r.Bytes = 1
		n.put(batch(3, 0), AcksLeader)
		n.wantPlaces(func(o record.Offset) place {
			switch {
			case o < 0:
				return belowAll
			case o <= 23:
				return inLog
			}
			return aboveAll
		})
		n.retain(r)
		n.wantStarts(20, 20)
		n.wantPlaces(func(o record.Offset) place {
			switch {
			case o < 20:
				return belowAll
			case o <= 23:
				return inLog
			}
			return aboveAll
		})
		if at := n.LatestTiered(); at != notFound {
			t.Errorf("latest tiered %+v", at)
		}
		if at := n.EarliestPendingUpload(); at != notFound {
			t.Errorf("earliest pending upload %+v", at)
		}
		if _, err := n.ReadCold(t.Context(), 0, 10, 100, true); !errors.Is(err, record.ErrOffsetOutOfRange) {
			t.Errorf("cold read: %v", err)
		}
	})
}

// A partition whose bucket cannot be reached at the start takes appends, and
// goes on as if nothing had been when it can.
func TestStoreComesBack(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *node) {
		n.segment()
		n.uploaded()
		n.dropTiered()
		n.stop()
		n.openWith(storeAway)
		n.segment()
		n.settle(time.Minute)
		n.wantStarts(0, 10)
		n.faults.Clear()
		n.uploaded()
		n.dropTiered()
		n.wantStarts(0, 20)
		if n.faults.Count(store.OpPut) == 0 {
			t.Error("nothing was put")
		}
	})
}

func TestEpochEnd(t *testing.T) {
	bubble(t, untiered, func(t *testing.T, n *node) {
		check := func(want map[record.Epoch][2]int64) {
			t.Helper()
			for epoch, w := range want {
				e, end := n.EpochEnd(epoch)
				if int64(e) != w[0] || int64(end) != w[1] {
					t.Errorf("epoch %d: %d ends at %d, want %d at %d", epoch, e, end, w[0], w[1])
				}
			}
		}
		check(map[record.Epoch][2]int64{-1: {-1, -1}, 0: {0, 0}, 1: {1, 0}, 2: {-1, -1}})
		n.put(batch(5, 0), AcksLeader)
		check(map[record.Epoch][2]int64{0: {0, 0}, 1: {1, 5}, 2: {-1, -1}})
		n.stop()
		n.epoch = 4 // the lives between wrote nothing that is left
		n.open()
		check(map[record.Epoch][2]int64{0: {0, 0}, 1: {1, 5}, 3: {1, 5}, 5: {5, 5}, 6: {-1, -1}})
		n.put(batch(2, 0), AcksLeader)
		check(map[record.Epoch][2]int64{1: {1, 5}, 3: {1, 5}, 5: {5, 7}, 6: {-1, -1}})
	})
}
