// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"firn/hot"
	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
)

// A disk that has no room for one kind of file loses nothing that was promised,
// poisons nothing, and when there is room everything is made up for without a
// restart: segments are complete, the recovery point passes them, and a power
// cut finds it all.
func TestNoRoomForOneKindOfFile(t *testing.T) {
	for _, suffix := range []string{
		".log", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint.tmp", "recovery-point-offset-checkpoint.tmp",
		"log-start-offset-checkpoint.tmp", "",
	} {
		t.Run(suffix, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewMem()
				f := faultfs.New(mem)
				s := openStore(t, f, func(o *hot.Options) { o.CheckpointInterval, o.WatchInterval = time.Second, time.Second })
				l := createLog(t, s, smallSegments())
				fill(t, l, 3)
				full := f.Inject(faultfs.Rule{
					Ops:   []faultfs.Op{faultfs.OpCreate, faultfs.OpWrite},
					Match: func(c faultfs.Call) bool { return strings.HasSuffix(c.Path, suffix) },
					Times: -1, Fault: faultfs.NoSpace(3),
				})
				refused := 0
				for epoch := range record.Epoch(40) {
					// A new epoch each time makes the epochs' file due.
					if _, err := l.Append(batchOf(10), epoch/4); errors.Is(err, record.ErrStorage) {
						refused++
					} else if err != nil {
						t.Fatalf("append: %v", err)
					}
					l.RequestSync()
					<-time.After(100 * time.Millisecond)
				}
				at := l.LogStartOffset()
				if err := l.SetLogStartOffset(t.Context(), 20); err != nil {
					if !errors.Is(err, record.ErrStorage) || l.LogStartOffset() != at {
						t.Fatalf("log start: %v, it is at %d", err, l.LogStartOffset())
					}
					refused++
				}
				if full.Fired() == 0 || l.Poisoned() != nil || s.Failed() != nil {
					t.Fatalf("%d faults, poisoned: %v, directory: %v", full.Fired(), l.Poisoned(), s.Failed())
				}
				durable := l.DurableOffset()
				if crashed := openStore(t, mem.Crash()); openLog(t, crashed, smallSegments()).EndOffset() < durable {
					t.Fatalf("a power cut goes below %d", durable)
				}

				full.Stop()
				if err := l.SetLogStartOffset(t.Context(), 20); err != nil {
					t.Fatalf("log start when there is room: %v", err)
				}
				done, err := l.Append(batchOf(10), 10)
				if err != nil {
					t.Fatalf("append when there is room: %v", err)
				}
				if err := l.WaitDurable(t.Context(), done.NextOffset); err != nil {
					t.Fatal(err)
				}
				<-time.After(5 * time.Second)
				segments := l.Segments()
				active := segments[len(segments)-1]
				if sealed := l.Sealed(0); len(sealed) != len(segments)-1 {
					t.Errorf("%d of %d sealed segments are complete", len(sealed), len(segments)-1)
				}
				crashed := openStore(t, mem.Crash())
				b, err := vfs.ReadFile(mem.Crash(), logDir+"/recovery-point-offset-checkpoint", 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				points, err := record.ParseOffsetCheckpoint(b)
				if err != nil || points[tp] != active.BaseOffset() {
					t.Errorf("the recovery point is %d, %v, the active segment begins at %d", points[tp], err, active.BaseOffset())
				}
				again := openLog(t, crashed, smallSegments())
				if again.EndOffset() != done.NextOffset || again.LogStartOffset() != 20 {
					t.Errorf("after a power cut it ends at %d and starts at %d, want %d and 20", again.EndOffset(), again.LogStartOffset(), done.NextOffset)
				}
				if got, want := len(again.Epochs()), len(l.Epochs()); got != want {
					t.Errorf("%d epochs, want %d", got, want)
				}
				readAll(t, again, 300)
				if kind := suffix == ".log" || suffix == "log-start-offset-checkpoint.tmp"; kind && refused == 0 {
					t.Error("nothing was refused")
				}
				closeStore(t, s)
				closeStore(t, crashed)
			})
		})
	}
}

// The log start that was answered outlives a power cut at any moment after it,
// while others append and move theirs; one that was refused did not move.
func TestLogStartIsDurableBeforeItIsAnswered(t *testing.T) {
	mem := vfs.NewMem()
	f := faultfs.New(mem)
	s := openStore(t, f)
	var logs []*hot.Log
	for n := range int32(4) {
		l := createIn(t, s, n)
		for range 50 {
			appendBatch(t, l, 1)
		}
		if err := l.WaitDurable(t.Context(), 50); err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	answered := make([]record.Offset, len(logs))
	for n := 1; n <= 120; n++ {
		fault := f.FailNth(n%6+1, faultfs.NoSpace(5), faultfs.OpCreate, faultfs.OpWrite, faultfs.OpSync, faultfs.OpRename, faultfs.OpSyncDir)
		results := make(chan error, len(logs))
		for _, l := range logs {
			go func() { results <- l.SetLogStartOffset(t.Context(), record.Offset(n/3)) }()
		}
		for range logs {
			if err := <-results; err != nil && !errors.Is(err, record.ErrStorage) {
				t.Fatal(err)
			}
		}
		for i, l := range logs {
			answered[i] = l.LogStartOffset()
		}
		after := mem.Crash()
		if n%2 == 0 {
			after = mem.CrashKeeping(uint64(n))
		}
		fault.Stop()
		crashed := openStore(t, after)
		for i, l := range logs {
			got, err := crashed.OpenLog(t.Context(), l.TopicPartition(), topicID, hot.LogOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got.LogStartOffset() < answered[i] {
				t.Fatalf("round %d: log %d starts at %d after a power cut, %d was answered", n, i, got.LogStartOffset(), answered[i])
			}
		}
		closeStore(t, crashed)
	}
	// The last round may have met its own fault; without one the start moves.
	if answered[0] < 39 {
		t.Errorf("the log start went to %d", answered[0])
	}
	if err := logs[0].SetLogStartOffset(t.Context(), 40); err != nil || logs[0].LogStartOffset() != 40 {
		t.Errorf("with room again the log start is %d, %v", logs[0].LogStartOffset(), err)
	}
}
