// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"firn/record"
	"firn/tier/store"
	"firn/tier/store/faultstore"
)

var unavailable = faultstore.Fault{Effect: faultstore.Unavailable}

func appliedButFailed(key func(string) bool) faultstore.Fault {
	return faultstore.Fault{Op: store.OpPut, Key: key, Effect: faultstore.AppliedButFailed}
}

// life is a script that meets everything the archiver does: uploads, pages,
// a log start that moves, deletion, a clean restart, more uploads.
func (w *world) life() {
	w.open()
	for range 5 {
		w.produce(1)
	}
	w.pass(time.Second)
	w.retain()
	w.setLogStart(5)
	w.pass(2 * testGrace)
	w.produce(1)
	w.pass(time.Second)
	w.retain()
	w.close()
	w.open()
	w.pass(time.Second)
	w.produce(1)
	w.produce(1)
	w.pass(2 * testGrace)
	w.setLogStart(9)
	w.pass(2 * testGrace)
	w.retain()
}

// The store dies at its n-th call, in each of the ways it can, and so does the
// process some time later. Whatever was readable stays readable, and after the
// sweeps the bucket holds exactly what the manifest names.
func TestCrashAtEveryCall(t *testing.T) {
	calls := 0
	bubble(t, func(t *testing.T, w *world) {
		w.life()
		w.checkHistory()
		w.checkBucket()
		calls = w.faults.Count("")
	})
	if calls < 60 {
		t.Fatalf("the script makes %d calls, it should make more", calls)
	}
	for _, effect := range []faultstore.Effect{faultstore.Unavailable, faultstore.AppliedButFailed, faultstore.AppliedLate} {
		for n := range calls {
			t.Run(fmt.Sprintf("%d/%d", effect, n), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					w.faults.Inject(faultstore.Fault{Skip: n, Times: 1, Effect: effect})
					w.faults.Inject(faultstore.Fault{Skip: n + 1, Effect: faultstore.Unavailable})
					w.life()
					w.crash()
					w.faults.Clear()
					if _, err := w.faults.Settle(t.Context()); err != nil {
						t.Fatal(err)
					}
					w.open()
					w.produce(1)
					w.pass(20 * testGrace)
					w.checkHistory()
					w.checkBucket()
				})
			})
		}
	}
}

// The process dies at the n-th call while the store lives on.
func TestKillAtEveryCall(t *testing.T) {
	calls := 0
	bubble(t, func(t *testing.T, w *world) {
		w.life()
		calls = w.faults.Count("")
	})
	for n := range calls {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.faults.Inject(faultstore.Fault{Skip: n, Effect: faultstore.Hang})
				w.life()
				w.crash()
				w.faults.Clear()
				w.open()
				w.produce(1)
				w.pass(20 * testGrace)
				w.checkHistory()
				w.checkBucket()
			})
		})
	}
}

// One call fails, the process lives on and repeats it.
func TestOneFailureAtEveryCall(t *testing.T) {
	calls := 0
	bubble(t, func(t *testing.T, w *world) {
		w.life()
		calls = w.faults.Count("")
	})
	for _, effect := range []faultstore.Effect{faultstore.Unavailable, faultstore.AppliedButFailed, faultstore.Twice, faultstore.TornFlip} {
		for n := range calls {
			t.Run(fmt.Sprintf("%d/%d", effect, n), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					w.faults.Inject(faultstore.Fault{Skip: n, Times: 1, Effect: effect})
					w.life()
					w.produce(1) // heads that could not be removed go with the next one
					w.pass(20 * testGrace)
					w.checkHistory()
					w.checkBucket()
				})
			})
		}
	}
}

func TestStoreDownAtStart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		w.retain()
		w.crash()
		w.faults.Inject(unavailable)
		w.open()
		w.pass(time.Minute)
		w.wantState(Loading, ReasonStoreDown)
		s := w.state()
		if !s.Loaded || s.End != 4 || s.LastError == nil {
			t.Fatalf("state %+v, want the local copy's chain and the store's error", s)
		}
		w.produce(2) // appended locally meanwhile
		w.faults.Forget()
		w.pass(time.Minute)
		for _, c := range w.faults.Calls() {
			if c.Op == store.OpDelete || c.Op == store.OpPut && !ofKind(KeyStore)(c.Key) && !ofKind(KeyClaim)(c.Key) {
				t.Fatalf("%s of %s before the bucket was read", c.Op, c.Key)
			}
		}
		w.faults.Clear()
		w.pass(2 * time.Minute)
		w.checkHistory()
		w.checkBucket()
	})
}

func TestNothingIsKnownWithoutCopyAndStore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.faults.Inject(unavailable)
		w.open()
		w.pass(time.Second)
		if w.state().Loaded {
			t.Fatal("loaded, from nowhere")
		}
		_, err := w.log.Read(t.Context(), 0, 10, 100, true)
		if !isErr(err, record.ErrStorage) || isErr(err, record.ErrOffsetOutOfRange) {
			t.Fatalf("read before anything is loaded: %v, want a storage error", err)
		}
	})
}

// Deadlines end an upload that hangs, and it is tried again.
func TestHangingUploadIsCut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.pass(time.Second)
		w.faults.Inject(faultstore.Fault{Op: store.OpPut, Key: ofKind(KeySegment), Times: 2, Effect: faultstore.Hang})
		w.produce(2)
		w.pass(5 * time.Minute)
		w.checkHistory()
		w.checkBucket()
	})
}

// A damaged object in the bucket is not verified, and not counted as uploaded.
func TestUploadIsVerified(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.pass(time.Second)
		flip := w.faults.Inject(faultstore.Fault{Op: store.OpGet, Key: ofKind(KeySegment), Effect: faultstore.TornFlip})
		w.produce(2)
		w.pass(time.Minute)
		w.wantState(Ready, ReasonCorrupt)
		if w.log.End() != 0 || flip.Hits() == 0 {
			t.Fatalf("chain ends at %d after %d damaged answers, want 0", w.log.End(), flip.Hits())
		}
		flip.Remove()
		w.pass(30 * time.Minute)
		w.checkHistory()
	})
}

func TestCloseDuringUpload(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.pass(time.Second)
		hang := w.faults.Inject(faultstore.Fault{Op: store.OpPut, Key: ofKind(KeySegment), Effect: faultstore.Hang})
		w.produce(2)
		w.pass(time.Second)
		if hang.Hits() == 0 {
			t.Fatal("no upload began")
		}
		begin := time.Now()
		w.close()
		if waited := time.Since(begin); waited != 0 {
			t.Fatalf("Close waited %v for an upload that hangs", waited)
		}
	})
}

// Lives of any shape: records, log starts, faults, crashes and clean stops in a
// random order, each seed the same every time.
func TestRandomLives(t *testing.T) {
	// Requests that arrive after the next life took over are left out: what
	// they leave behind is a scrub's to find.
	effects := []faultstore.Effect{
		faultstore.Unavailable, faultstore.Refuse, faultstore.AppliedButFailed,
		faultstore.Hang, faultstore.TornShort, faultstore.TornFlip, faultstore.Twice,
	}
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				r := rand.New(rand.NewPCG(seed, 1))
				w.open()
				for range 25 {
					switch r.IntN(8) {
					case 0, 1, 2:
						w.produce(1 + r.IntN(3))
					case 3:
						w.setLogStart(record.Offset(r.Int64N(int64(w.local.EndOffset()) + 1)))
					case 4:
						w.faults.Inject(faultstore.Fault{Skip: r.IntN(5), Times: 1 + r.IntN(4), Effect: effects[r.IntN(len(effects))]})
					case 5:
						w.crash()
						w.open()
					case 6:
						w.close()
						w.open()
					}
					w.pass(time.Duration(r.Int64N(int64(testGrace))))
					w.retain()
				}
				w.faults.Clear()
				w.crash()
				w.open()
				w.produce(1)
				w.pass(60 * testGrace)
				w.checkHistory()
				w.checkBucket()
			})
		})
	}
}

// A store that takes no segments is asked ever less often, although every
// control step between the uploads succeeds, and the state says so all along.
func TestUploadsBackOff(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(1)
		w.pass(time.Second)
		w.faults.Inject(faultstore.Fault{Op: store.OpPut, Key: ofKind(KeySegment), Effect: faultstore.Unavailable})
		w.produce(1)
		w.pass(10 * time.Minute)
		puts := w.faults.Count(store.OpPut)
		w.pass(2 * time.Hour)
		w.wantState(Ready, ReasonStoreDown)
		if n := w.faults.Count(store.OpPut) - puts; n < 60 || n > 240 {
			t.Errorf("%d uploads were tried in two hours, want about one a minute", n)
		}
		w.faults.Clear()
		w.pass(2 * time.Minute)
		w.checkHistory()
		w.produce(1)
		w.pass(time.Second) // the next one does not wait
		w.checkHistory()
	})
}
