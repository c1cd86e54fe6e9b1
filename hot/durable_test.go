// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
	"firn/record/recordtest"
)

func TestWhatIsDurableSurvivesAPowerCut(t *testing.T) {
	mem := vfs.NewMem()
	l := createLog(t, openStore(t, mem), smallSegments())
	for range 25 { // over several rolls
		done := appendBatch(t, l, 10)
		if err := l.WaitDurable(t.Context(), done.NextOffset); err != nil {
			t.Fatal(err)
		}
		if l.DurableOffset() != done.NextOffset {
			t.Fatalf("durable to %d, want %d", l.DurableOffset(), done.NextOffset)
		}
		again := openLog(t, openStore(t, mem.Crash()), smallSegments())
		if again.EndOffset() != done.NextOffset || again.DurableOffset() != done.NextOffset {
			t.Fatalf("after a power cut the log ends at %d, want %d", again.EndOffset(), done.NextOffset)
		}
		readAll(t, again, 1<<20)
	}
}

func TestOnDurableTellsRequestedSyncs(t *testing.T) {
	durable := make(chan record.Offset, 10)
	l := createLog(t, openStore(t, vfs.NewMem()), hot.LogOptions{Hooks: hot.Hooks{OnDurable: func(o record.Offset) { durable <- o }}})
	appendBatch(t, l, 5)
	l.RequestSync()
	if o := <-durable; o != 5 {
		t.Fatalf("durable to %d, want 5", o)
	}
}

// blockSyncs makes syncs of .log files wait until release is closed; entered
// hears of each.
func blockSyncs(f *faultfs.FS) (entered chan string, release chan struct{}) {
	entered, release = make(chan string, 100), make(chan struct{})
	f.Hook(func(c faultfs.Call) *faultfs.Fault {
		if c.Op == faultfs.OpSync && strings.HasSuffix(c.Path, ".log") {
			entered <- c.Path
			<-release
		}
		return nil
	})
	return entered, release
}

func TestASyncHoldsUpNeitherAppendsNorReads(t *testing.T) {
	f := faultfs.New(vfs.NewMem())
	l := createLog(t, openStore(t, f), smallSegments())
	appendBatch(t, l, 10)
	entered, release := blockSyncs(f)
	l.RequestSync()
	<-entered
	fill(t, l, 3)
	if l.DurableOffset() != 0 {
		t.Fatal("durable without a sync")
	}
	readAll(t, l, 300)
	close(release)
	if err := l.WaitDurable(t.Context(), l.EndOffset()); err != nil {
		t.Fatal(err)
	}
}

func TestGroupCommit(t *testing.T) {
	f := faultfs.New(vfs.NewMem())
	l := createLog(t, openStore(t, f), hot.LogOptions{})
	appendBatch(t, l, 1)
	if err := l.WaitDurable(t.Context(), 1); err != nil { // epochs and directory are written
		t.Fatal(err)
	}
	entered, release := blockSyncs(f)
	before := f.Count(faultfs.OpSync)
	appendBatch(t, l, 1)
	l.RequestSync()
	<-entered
	const waiters = 50
	var wg sync.WaitGroup
	for range waiters {
		done := appendBatch(t, l, 1)
		wg.Go(func() {
			if err := l.WaitDurable(context.WithoutCancel(t.Context()), done.NextOffset); err != nil {
				t.Error(err)
			}
		})
	}
	close(release)
	wg.Wait()
	// One was under way; what waited shares the next. Another one may follow
	// for requests that came between.
	if n := f.Count(faultfs.OpSync) - before; n > 4 {
		t.Fatalf("%d syncs for %d waiting appends", n, waiters)
	}
}

func TestNoFsync(t *testing.T) {
	f := faultfs.New(vfs.NewMem())
	l := createLog(t, openStore(t, f, func(o *hot.Options) { o.NoFsync = true }), hot.LogOptions{})
	before := f.Count(faultfs.OpSync, faultfs.OpSyncDir)
	appendBatch(t, l, 5)
	if err := l.WaitDurable(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	if n := f.Count(faultfs.OpSync, faultfs.OpSyncDir) - before; n != 0 {
		t.Fatalf("%d syncs", n)
	}
}

func TestAFailedSyncPoisons(t *testing.T) {
	f := faultfs.New(vfs.NewMem())
	s := openStore(t, f)
	poisoned := make(chan error, 10)
	l := createLog(t, s, hot.LogOptions{Hooks: hot.Hooks{OnPoison: func(err error) { poisoned <- err }}})
	appendBatch(t, l, 5)
	if err := l.WaitDurable(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	appendBatch(t, l, 5)
	f.FailNth(1, faultfs.IOError(), faultfs.OpSync)
	if err := l.WaitDurable(t.Context(), 10); !errors.Is(err, record.ErrStorage) {
		t.Fatalf("wait for a sync that failed: %v", err)
	}
	if err := <-poisoned; err == nil || l.Poisoned() == nil {
		t.Fatal("not poisoned")
	}
	if _, err := l.Append(recordtest.Batch(0), 0); !errors.Is(err, record.ErrStorage) {
		t.Fatalf("append to a poisoned log: %v", err)
	}
	if err := l.Roll(t.Context()); !errors.Is(err, record.ErrStorage) {
		t.Fatalf("roll a poisoned log: %v", err)
	}
	if err := l.WaitDurable(t.Context(), 10); !errors.Is(err, record.ErrStorage) {
		t.Fatalf("wait again: %v", err)
	}
	if l.DurableOffset() != 5 || len(poisoned) != 0 {
		t.Fatalf("durable to %d, told %d times more", l.DurableOffset(), len(poisoned))
	}
	if got := readAll(t, l, 1<<20); len(got) != 2 {
		t.Fatalf("%d batches can be read", len(got))
	}
	if err := s.Close(t.Context()); !errors.Is(err, record.ErrStorage) {
		t.Fatalf("close: %v", err)
	}
	if _, err := f.Stat(filepath.Join(logDir, ".kafka_cleanshutdown")); err == nil {
		t.Fatal("a poisoned log was closed as clean")
	}
}

func TestAFailedCutPoisons(t *testing.T) {
	f := faultfs.New(vfs.NewMem())
	l := createLog(t, openStore(t, f), hot.LogOptions{})
	appendBatch(t, l, 5)
	f.FailNth(1, faultfs.NoSpace(30), faultfs.OpWrite)
	f.FailNth(1, faultfs.IOError(), faultfs.OpTruncate)
	for range 2 {
		if _, err := l.Append(recordtest.Batch(0), 0); !errors.Is(err, record.ErrStorage) {
			t.Fatalf("append: %v", err)
		}
	}
	if l.Poisoned() == nil || l.EndOffset() != 5 {
		t.Fatalf("poisoned: %v, end %d", l.Poisoned(), l.EndOffset())
	}
	readAll(t, l, 1<<20)
}

func TestSyncOfManyLogs(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	var logs []*hot.Log
	for p := range int32(100) {
		l, err := s.CreateLog(t.Context(), record.TopicPartition{Topic: "many", Partition: p}, topicID, smallSegments())
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	var wg sync.WaitGroup
	for _, l := range logs {
		wg.Go(func() {
			for range 10 {
				done, err := l.Append(recordtest.Batch(0, recordtest.Count(10)), 0)
				if err == nil {
					err = l.WaitDurable(context.WithoutCancel(t.Context()), done.NextOffset)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	again := openStore(t, mem.Crash())
	for _, f := range again.Found() {
		l, err := again.OpenLog(t.Context(), f.TopicPartition, f.TopicID, smallSegments())
		if err != nil {
			t.Fatal(err)
		}
		if l.EndOffset() != 100 {
			t.Fatalf("%s ends at %d", f.TopicPartition, l.EndOffset())
		}
	}
}
