// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"firn/internal/vfs"
	"firn/record"
	"firn/tier/store"
	"firn/tier/store/faultstore"
)

// other is another broker over the same bucket, with a directory of its own.
func (w *world) other(local *fakeLocal, fs *vfs.Mem) *world {
	return &world{t: w.t, bucket: w.bucket, faults: faultstore.New(w.bucket), fs: fs, local: local, grace: w.grace, shape: w.shape, model: slices.Clone(w.model)}
}

// A directory restored from an older snapshot, or a disk that lied: the local
// log is a part of the chain, and begins anew at its end.
func TestLocalLogBehindTheChainBeginsAnew(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		oldLocal, oldFS := w.local.clone(), w.fs.Crash()
		w.crash()
		w.open() // epoch 2
		w.produce(3)
		w.produce(2)
		w.pass(time.Second)
		w.crash()
		w.local, w.fs = oldLocal, oldFS
		w.openAt(1, nil) // the snapshot knows no higher epoch
		w.pass(time.Second)
		w.wantState(Ready, "")
		if len(w.local.resets) != 1 {
			t.Fatalf("%d resets, want 1", len(w.local.resets))
		}
		r := w.local.resets[0]
		want := record.Epochs{{Epoch: 1, StartOffset: 0}, {Epoch: 2, StartOffset: 4}}
		if r.IfEnd != 4 || r.Start != 14 || !slices.Equal(r.Epochs, want) || len(r.Snapshot) == 0 {
			t.Fatalf("reset %+v, want from 4 to 14 with the epochs %v", r, want)
		}
		if s := w.state(); s.Epoch <= 2 {
			t.Fatalf("epoch %d is not above the bucket's", s.Epoch)
		}
		w.produce(2)
		w.pass(time.Second)
		w.checkHistory()
		w.checkBucket()
	})
}

// A head may name nothing but tombstones: there is nothing to compare with then.
func TestTakeoverOfAChainWithoutSegments(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.pass(time.Second)
		key := Key{Kind: KeySegment, TopicID: testTopicID, TP: testTP, Epoch: 1, Hash: Hash{1}}.String(w.tier.root)
		if err := w.bucket.Put(t.Context(), key, store.BytesSource([]byte("left by a kill")), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		w.crash()
		w.faults.Inject(faultstore.Fault{Op: store.OpPut, Key: ofKind(KeyHead), Effect: faultstore.AppliedButFailed})
		w.open() // writes the head that buries it, and does not live to note that
		w.pass(100 * time.Millisecond)
		w.crash()
		w.faults.Clear()
		if heads := slices.DeleteFunc(w.bucket.keys(), func(k string) bool { return !strings.Contains(k, "/head/") }); len(heads) != 1 {
			t.Fatalf("heads in the bucket: %q", heads)
		}
		w.local.appendBatches(1)
		w.open()
		w.pass(time.Second)
		w.wantState(Ready, "")
		if s := w.state(); s.Tombstones != 1 {
			t.Fatalf("%d tombstones", s.Tombstones)
		}
		w.checkBucket()
	})
}

// An upload of an earlier life, or of one that was fenced, may land when the
// chain has gone on above it: the next takeover buries it.
func TestUploadThatLandsBelowTheChainsEndIsBuried(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.shape = defaultShape // what pages cover is not looked at
		w.open()
		for range 4 {
			w.produce(2)
		}
		w.pass(time.Second)
		for _, key := range w.bucket.keys() {
			k, err := ParseKey(w.tier.root, key)
			if err != nil || k.Kind != KeySegment {
				continue
			}
			k.Hash[0] ^= 1
			if err := w.bucket.Put(t.Context(), k.String(w.tier.root), store.BytesSource([]byte("late")), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w.crash()
		w.open()
		w.pass(time.Second)
		if s := w.state(); s.Tombstones == 0 {
			t.Fatal("nothing was buried")
		}
		w.checkBucket()
		w.pass(2 * testGrace)
		if s := w.state(); s.Tombstones != 0 {
			t.Fatalf("%d tombstones are left", s.Tombstones)
		}
		w.checkBucket()
		w.checkHistory()
	})
}

// A partition whose directory was lost takes no records before the bucket told
// where they go.
func TestLostLocalLogIsReadOnlyUntilTheStoreIsBack(t *testing.T) {
	lost := func(o *LogOptions) { o.Lost = true }
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		w.crash()
		w.local, w.fs = &fakeLocal{}, vfs.NewMem()
		if err := vfs.MkdirAllSync(w.fs, testDir, 0o755); err != nil {
			t.Fatal(err)
		}
		w.faults.Inject(unavailable)
		w.openAt(2, lost)
		w.wantState(ReadOnly, ReasonLogBehind)
		w.pass(time.Minute)
		w.wantState(ReadOnly, ReasonLogBehind)
		w.faults.Clear()
		w.pass(2 * time.Minute)
		w.wantState(Ready, "")
		w.local.epoch = w.state().Epoch
		w.produce(2)
		w.pass(time.Second)
		w.checkHistory()
		w.checkBucket()
	})
	bubble(t, func(t *testing.T, w *world) {
		w.openAt(1, lost) // before its first segment went up
		w.pass(time.Second)
		w.wantState(Ready, "")
	})
}

// A directory that was set back gives out an epoch a second time. What it
// appends under it before it sees the bucket is another history, though epochs
// and offsets are those of the bucket's.
func TestSetBackDirectoryThatHasGrownDiverges(t *testing.T) {
	for name, grows := range map[string]int{"below the chain's end": 1, "to the chain's end": 3} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.open()
				w.produce(2)
				w.pass(time.Second)
				oldLocal, oldFS := w.local.clone(), w.fs.Crash()
				w.crash()
				w.open() // epoch 2
				w.produce(3)
				w.pass(time.Second)
				w.crash()
				before := w.bucket.keys()
				w.local, w.fs = oldLocal, oldFS
				w.local.epoch = 2
				w.local.appendOther(grows)
				w.openAt(2, nil)
				w.pass(time.Second)
				w.wantState(ReadOnly, ReasonDiverged)
				if len(w.local.resets) != 0 {
					t.Fatal("records of the local log were dropped")
				}
				claims := func(key string) bool { return strings.Contains(key, "/claim/") }
				if after := slices.DeleteFunc(w.bucket.keys(), claims); !slices.Equal(after, slices.DeleteFunc(before, claims)) {
					t.Fatalf("the bucket was changed: %q, before %q", after, before)
				}
			})
		})
	}
}

func TestLocalLogBehindItsCopyIsReadOnlyUntilTheStoreIsBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		old := w.local.clone()
		w.produce(2)
		w.pass(time.Second)
		w.crash()
		w.local = old // the log lost its end, the copy did not
		w.faults.Inject(unavailable)
		w.open()
		w.wantState(ReadOnly, ReasonLogBehind)
		w.pass(time.Minute)
		w.wantState(ReadOnly, ReasonLogBehind)
		w.faults.Clear()
		w.pass(2 * time.Minute)
		if len(w.local.resets) != 1 {
			t.Fatalf("%d resets, want 1", len(w.local.resets))
		}
		w.checkHistory()
	})
}

// Records that were appended while the bucket was not known are not dropped.
func TestDivergedLogIsReadOnly(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		oldLocal, oldFS := w.local.clone(), w.fs.Crash()
		w.crash()
		w.open()
		w.produce(3)
		w.pass(time.Second)
		w.crash()
		w.local, w.fs = oldLocal, oldFS
		w.local.epoch = 5
		w.faults.Inject(unavailable)
		w.openAt(5, nil)
		w.produce(1) // under epoch 5, where the chain has epoch 2
		w.pass(time.Second)
		w.faults.Clear()
		w.faults.Forget()
		w.pass(2 * time.Minute)
		w.wantState(ReadOnly, ReasonDiverged)
		if len(w.local.resets) != 0 || w.local.EndOffset() != 6 {
			t.Fatalf("the local log was reset: %+v", w.local.resets)
		}
		// What is in the bucket can be read, and nothing was written to it.
		d, err := w.log.Read(t.Context(), 4, 10, 1<<20, true)
		if err != nil || d.Next != 10 {
			t.Fatalf("read from a read-only partition: next %d, %v", d.Next, err)
		}
		for _, c := range w.faults.Calls() {
			if c.Op == store.OpDelete || c.Op == store.OpPut && !ofKind(KeyClaim)(c.Key) {
				t.Fatalf("%s of %s by a partition that diverged", c.Op, c.Key)
			}
		}
	})
}

// An append that slips in between the comparison and the reset stops the reset.
func TestResetIsConditional(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		oldLocal, oldFS := w.local.clone(), w.fs.Crash()
		w.produce(3)
		w.pass(time.Second)
		w.crash()
		w.local, w.fs = oldLocal, oldFS
		w.local.epoch = 5
		// The footer is read between the comparison and the reset.
		w.faults.Inject(faultstore.Fault{Op: store.OpHead, Key: ofKind(KeySegment), Times: 1, Effect: faultstore.Twice, Before: func(context.Context, faultstore.Call) {
			w.local.appendBatches(1)
		}})
		w.openAt(5, nil)
		w.pass(5 * time.Minute)
		w.wantState(ReadOnly, ReasonDiverged)
		if len(w.local.resets) != 0 || w.local.EndOffset() != 6 {
			t.Fatalf("resets %+v, end %d: a record was dropped", w.local.resets, w.local.EndOffset())
		}
	})
}

func TestForeignWriterBelowOurRecords(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		copied, copiedFS := w.local.clone(), w.fs.Crash()
		w.crash()
		w.open()
		w.pass(time.Second)
		w.produce(2)
		w.pass(time.Second)
		w.crash()

		// The copy got the same records as the original, by the same epoch, and
		// one more; it has never seen the writer of the newest head.
		b := w.other(copied, copiedFS)
		b.local.epoch = 2
		b.produce(2)
		b.produce(2)
		b.openAt(7, nil)
		b.pass(time.Second)
		b.wantState(ReadOnly, ReasonForeignWriter)
		b.close()
	})
}

// A directory that lost its copy of the manifest has seen no writer. That
// matters only when its log has records beyond the chain.
func TestLostLocalCopy(t *testing.T) {
	for name, test := range map[string]struct {
		active int // batches beyond the chain
		phase  Phase
		reason string
	}{
		"log ends at the chain's end": {0, Ready, ""},
		"log has more records":        {1, ReadOnly, ReasonForeignWriter},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.open()
				w.produce(2)
				w.pass(time.Second)
				w.crash()
				if err := w.fs.Remove(testDir + "/" + localCopyName); err != nil {
					t.Fatal(err)
				}
				w.local.appendBatches(test.active)
				w.open()
				w.pass(time.Second)
				w.wantState(test.phase, test.reason)
			})
		})
	}
}

func TestTwoBrokersOnOneDirectorysCopies(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		b := w.other(w.local.clone(), w.fs.Crash())
		b.local.epoch = 1
		b.openAt(1, nil) // the same epoch: it must raise, and fences the first
		b.pass(time.Second)
		b.wantState(Ready, "")
		if s := b.state(); s.Epoch < 2 {
			t.Fatalf("epoch %d of the second writer, want more than the first's", s.Epoch)
		}
		w.produce(2)
		w.pass(time.Second)
		w.wantState(ReadOnly, ReasonFenced)
		if w.log.End() != 4 {
			t.Fatalf("the fenced writer's chain ends at %d, want 4: it would drop local records", w.log.End())
		}
		b.close()
	})
}

// A claim that another broker wrote first, on a store with and without
// conditional puts.
func TestForeignClaimOfTheSameEpoch(t *testing.T) {
	for name, unconditional := range map[string]bool{"conditional": false, "unconditional": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.faults.IgnoreConditions(unconditional)
				key := Key{Kind: KeyClaim, TopicID: testTopicID, TP: testTP, Epoch: 1}.String("pre/fix/cluster")
				foreign := claim{topicID: testTopicID, epoch: 1, writer: WriterID{7}}
				if unconditional {
					// Our write landed first and the other's over it.
					w.faults.Inject(faultstore.Fault{Op: store.OpGet, Key: func(k string) bool { return k == key }, Times: 1, Effect: faultstore.Twice, Before: func(context.Context, faultstore.Call) {
						w.bucket.mu.Lock()
						defer w.bucket.mu.Unlock()
						w.bucket.objects[key] = foreign.encode()
					}})
				} else {
					w.bucket.objects[key] = foreign.encode()
				}
				w.open()
				w.produce(1)
				w.pass(time.Second)
				w.checkHistory()
				if s := w.state(); s.Epoch != 2 {
					t.Fatalf("epoch %d, want 2", s.Epoch)
				}
			})
		})
	}
}

func TestTwoHeadsOfTwoWritersAreAConflict(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		m := *w.log.manifest.Load()
		w.crash()
		m.Writer = WriterID{0xff}
		w.bucket.objects[m.ref().key("pre/fix/cluster", testTopicID, testTP)] = m.encode()
		w.open()
		w.pass(time.Second)
		w.wantState(ReadOnly, ReasonForeignWriter)
	})
}

func TestHeadOfUnknownVersion(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		m := *w.log.manifest.Load()
		w.crash()
		m.Epoch, m.Seq = 1, m.Seq+1
		w.bucket.objects[m.ref().key("pre/fix/cluster", testTopicID, testTP)] = reframe(m.encode(), 2)
		w.open()
		w.pass(time.Second)
		w.wantState(ReadOnly, ReasonUnknownVersion)
	})
}

// A damaged newest head is not passed over for an older one: the older one
// lacks what was dropped locally since.
func TestDamagedHeadIsNotPassedOver(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.produce(2)
		w.pass(time.Second)
		old := w.fs.Crash()
		w.produce(2)
		w.pass(time.Second)
		m := w.log.manifest.Load()
		w.crash()
		w.fs = old // a copy older than the head
		key := m.ref().key("pre/fix/cluster", testTopicID, testTP)
		w.bucket.damage(key, 40)
		w.open()
		w.pass(5 * time.Minute)
		w.wantState(Loading, ReasonCorrupt)
		if !isErr(w.state().LastError, record.ErrCorruptBatch) {
			t.Fatalf("last error %v, want the damage", w.state().LastError)
		}
		w.bucket.damage(key, 40)
		w.pass(30 * time.Minute)
		w.checkHistory()
	})
}

func TestBucketThatWasSetBack(t *testing.T) {
	t.Run("emptied", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.open()
			w.produce(2)
			w.pass(time.Second)
			w.crash()
			for _, key := range w.bucket.keys() {
				if !ofKind(KeyStore)(key) {
					delete(w.bucket.objects, key)
				}
			}
			w.open()
			w.pass(time.Second)
			w.wantState(ReadOnly, ReasonBucketBehind)
		})
	})
	t.Run("lost its newest head", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.open()
			w.produce(2)
			w.produce(2)
			w.pass(time.Second)
			w.retain()
			m := w.log.manifest.Load()
			w.crash()
			delete(w.bucket.objects, m.ref().key("pre/fix/cluster", testTopicID, testTP))
			w.open()
			w.pass(time.Second)
			w.checkHistory()
			w.checkBucket()
			if w.log.End() != 8 {
				t.Fatalf("chain ends at %d, want the local copy's 8", w.log.End())
			}
		})
	})
}

func TestStoreOfAnotherDirectory(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.bucket.objects["pre/fix/cluster/store"] = encodeStoreID(StoreID{1}, 0)
		w.open()
		w.produce(2)
		if err := w.tier.Verify(t.Context()); !errors.Is(err, ErrStoreMismatch) {
			t.Fatalf("Verify: %v, want ErrStoreMismatch", err)
		}
		w.pass(time.Second)
		w.wantState(ReadOnly, ReasonStoreMismatch)
		if keys := w.bucket.keys(); len(keys) != 1 {
			t.Fatalf("something was written into a foreign bucket: %s", fmtKeys(keys))
		}
	})
}

func TestDamagedLocalCopyCountsAsNone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		w.crash()
		path := testDir + "/" + localCopyName
		b, err := vfs.ReadFile(w.fs, path, maxFrame)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := vfs.ReplaceFile(w.fs, path, b); err != nil {
			t.Fatal(err)
		}
		w.open()
		if w.state().Loaded {
			t.Fatal("loaded a damaged copy")
		}
		w.pass(time.Second)
		w.wantState(Ready, "") // the log ends where the chain does
		w.checkHistory()
		w.checkBucket()
	})
}

// A partition that is closed and opened in one process is another writer.
func TestReopenInOneProcess(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		w.produce(2)
		w.pass(time.Second)
		if err := w.log.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		log, err := w.tier.OpenLog(t.Context(), w.log.o)
		if err != nil {
			t.Fatal(err)
		}
		w.log = log
		w.produce(2)
		w.pass(time.Second)
		w.checkHistory()
		if s := w.state(); s.Epoch != 2 {
			t.Fatalf("epoch %d, want 2", s.Epoch)
		}
	})
}

func TestReconcile(t *testing.T) {
	chain := &Manifest{Start: 100, End: 200, LogStart: 100}
	same := comparison{made: true, chain: 3, local: 3}
	other := comparison{made: true, chain: 3, local: 4}
	forked := comparison{made: true, chain: 3, local: 3, differ: true}
	local := func(start, end record.Offset) localView { return localView{start: start, end: end, logStart: 100} }
	for name, test := range map[string]struct {
		local localView
		m     *Manifest
		seen  bool
		c     comparison
		want  string // "keep", "reset" or the reason
	}{
		"goes on":                        {local(150, 300), chain, true, same, "keep"},
		"ends there":                     {local(150, 200), chain, true, same, "keep"},
		"ends there, unseen":             {local(150, 200), chain, false, same, "keep"},
		"goes on, unseen":                {local(150, 300), chain, false, same, ReasonForeignWriter},
		"disagrees above":                {local(150, 300), chain, true, other, ReasonDiverged},
		"disagrees there":                {local(150, 200), chain, true, other, ReasonDiverged},
		"behind":                         {local(150, 180), chain, true, same, "reset"},
		"behind, unseen":                 {local(150, 180), chain, false, same, "reset"},
		"behind, disagrees":              {local(150, 180), chain, true, other, ReasonDiverged},
		"behind, other records":          {local(150, 180), chain, false, forked, ReasonDiverged},
		"ends there, other records":      {local(150, 200), chain, true, forked, ReasonDiverged},
		"behind, expired, but grown":     {localView{start: 50, end: 90, logStart: 100, grown: true}, chain, false, comparison{}, ReasonDiverged},
		"behind, empty":                  {local(0, 0), chain, false, comparison{}, "reset"},
		"behind, all expired":            {local(50, 90), chain, true, comparison{}, "reset"},
		"behind, nothing to compare":     {local(50, 120), chain, true, comparison{}, ReasonDiverged},
		"behind, older than the chain":   {localView{start: 50, end: 180, logStart: 50}, &Manifest{Start: 100, End: 200, LogStart: 50}, true, same, ReasonDiverged},
		"no chain yet":                   {local(100, 300), &Manifest{}, true, comparison{}, "keep"},
		"all of the chain expired":       {local(200, 300), &Manifest{Start: 200, End: 200, LogStart: 200}, true, comparison{}, "keep"},
		"local log starts above the end": {local(250, 300), chain, true, same, "keep"},
	} {
		t.Run(name, func(t *testing.T) {
			got := reconcile(test.local, test.m, test.seen, test.c)
			word := got.reason
			if word == "" && got.reset {
				word = "reset"
			} else if word == "" {
				word = "keep"
			}
			if word != test.want {
				t.Errorf("reconcile says %s (%s), want %s", word, got.detail, test.want)
			}
		})
	}
}

func TestLocalCopyRemembersTheNewestWriters(t *testing.T) {
	var c localCopy
	for i := range byte(50) {
		c.writers = addWriter(c.writers, WriterID{i})
		c.writers = addWriter(c.writers, WriterID{i})
	}
	if len(c.writers) != maxWriters || c.writers[maxWriters-1] != (WriterID{49}) {
		t.Fatalf("%d writers up to %v", len(c.writers), c.writers[len(c.writers)-1])
	}
	c.head = []byte{}
	got, m, err := decodeLocalCopy("copy", c.encode())
	if err != nil || m != nil || !slices.Equal(got.writers, c.writers) || !bytes.Equal(got.head, c.head) {
		t.Fatalf("decoded %v, %v, %v", got, m, err)
	}
}
