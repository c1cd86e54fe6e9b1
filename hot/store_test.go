// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"errors"
	"io/fs"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"firn/hot"
	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
)

func exists(t testing.TB, fsys vfs.FS, path string) bool {
	t.Helper()
	_, err := fsys.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestASecondUserIsRefused(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.Disk()} {
		t.Run(name, func(t *testing.T) {
			o := hot.Options{Dir: t.TempDir(), FS: fs}
			s, err := hot.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := hot.Open(t.Context(), o); !errors.Is(err, vfs.ErrLocked) {
				t.Fatalf("a second user: %v", err)
			}
			closeStore(t, s)
			s, err = hot.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
		})
	}
}

func TestCleanMarkGoesBeforeTheFirstWrite(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	if s.Clean() {
		t.Fatal("a new directory is clean")
	}
	l := createLog(t, s, hot.LogOptions{})
	appendBatch(t, l, 10)
	closeStore(t, s)
	mark := logDir + "/.kafka_cleanshutdown"

	s = openStore(t, mem)
	l = openLog(t, s, hot.LogOptions{})
	readAll(t, l, 100)
	if !exists(t, mem.Crash(), mark) {
		t.Fatal("reading took the clean mark away")
	}
	appendBatch(t, l, 1)
	if exists(t, mem.Crash(), mark) {
		t.Fatal("the clean mark outlived a write")
	}
	closeStore(t, s)
	if !exists(t, mem.Crash(), mark) {
		t.Fatal("no clean mark after a clean stop")
	}
}

func TestAppendIsRefusedWhileTheCleanMarkStays(t *testing.T) {
	f := faultfs.New(vfs.NewMem())
	s := openStore(t, f)
	createLog(t, s, hot.LogOptions{})
	closeStore(t, s)
	s = openStore(t, f)
	l := openLog(t, s, hot.LogOptions{})
	fault := f.FailFrom(1, faultfs.IOError(), faultfs.OpSyncDir)
	if _, err := l.Append(batchOf(1), 0); !errors.Is(err, record.ErrStorage) {
		t.Fatalf("append: %v", err)
	}
	fault.Stop()
	appendBatch(t, l, 1)
}

func TestFoundCreateOpenDelete(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	l := createLog(t, s, smallSegments())
	if _, err := s.CreateLog(t.Context(), tp, topicID, hot.LogOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("create what is open: %v", err)
	}
	if l.ID() != topicID || l.TopicPartition() != tp || l.Dir() != logDir+"/orders-3" {
		t.Fatalf("log of %v %v in %s", l.TopicPartition(), l.ID(), l.Dir())
	}
	fill(t, l, 2)
	if err := l.SetLogStartOffset(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if err := mem.MkdirAll(logDir+"/not a partition", 0o755); err != nil {
		t.Fatal(err)
	}

	s = openStore(t, mem)
	want := hot.FoundLog{TopicPartition: tp, TopicID: topicID, Dir: logDir + "/orders-3"}
	if got := s.Found(); len(got) != 1 || got[0] != want {
		t.Fatalf("found %+v", got)
	}
	if _, err := s.CreateLog(t.Context(), tp, topicID, hot.LogOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("create what is there: %v", err)
	}
	if _, err := s.OpenLog(t.Context(), tp, record.TopicID{9}, hot.LogOptions{}); !errors.Is(err, hot.ErrTopicID) {
		t.Fatalf("open as another topic: %v", err)
	}
	absent := record.TopicPartition{Topic: "absent"}
	if _, err := s.OpenLog(t.Context(), absent, topicID, hot.LogOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("open what is not there: %v", err)
	}
	l = openLog(t, s, smallSegments())
	if len(s.Found()) != 0 {
		t.Fatal("an open log is found")
	}
	if err := s.DeleteLog(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(batchOf(1), 0); !errors.Is(err, record.ErrClosed) {
		t.Fatalf("append to a deleted log: %v", err)
	}
	if _, err := l.Read(20, 30, 100, true); !errors.Is(err, record.ErrClosed) {
		t.Fatalf("read from a deleted log: %v", err)
	}
	if err := s.DeleteLog(t.Context(), l); !errors.Is(err, record.ErrClosed) {
		t.Fatalf("delete twice: %v", err)
	}

	// The name is free, durably, and nothing of the old log shows.
	again := openStore(t, mem.Crash())
	if found := again.Found(); len(found) != 0 {
		t.Fatalf("found %+v after the deletion", found)
	}
	l = createLog(t, s, hot.LogOptions{})
	if l.EndOffset() != 0 || l.LogStartOffset() != 0 {
		t.Fatalf("a new log from %d to %d", l.LogStartOffset(), l.EndOffset())
	}
}

func TestAnUnfinishedCreateIsTakenOver(t *testing.T) {
	f := faultfs.New(vfs.NewMem())
	s := openStore(t, f)
	for n := 1; ; n++ {
		fault := f.FailNth(n, faultfs.IOError(), faultfs.Writes()...)
		_, err := s.CreateLog(t.Context(), tp, topicID, hot.LogOptions{})
		fault.Stop()
		if err == nil {
			if n < 5 {
				t.Fatalf("only %d operations could fail", n)
			}
			return
		}
		if !errors.Is(err, record.ErrStorage) {
			t.Fatalf("failing operation %d: %v", n, err)
		}
	}
}

// trashDirs lists the directories that were moved aside.
func trashDirs(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	entries, err := fsys.ReadDir(logDir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "-delete") {
			out = append(out, e.Name())
		}
	}
	return out
}

func TestDeletedLogsGoLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		s := openStore(t, mem, func(o *hot.Options) { o.FileDeleteDelay = time.Hour })
		l := createLog(t, s, hot.LogOptions{})
		appendBatch(t, l, 10)
		if err := s.DeleteLog(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		trash := trashDirs(t, mem)
		if len(trash) != 1 || !strings.HasPrefix(trash[0], "orders-3.") || len(trash[0]) != len("orders-3.")+32+len("-delete") {
			t.Fatalf("moved aside: %v", trash)
		}
		killed := mem.Kill()
		<-time.After(59 * time.Minute)
		if len(trashDirs(t, mem)) != 1 {
			t.Fatal("the files went early")
		}
		<-time.After(2 * time.Minute)
		if len(trashDirs(t, mem)) != 0 {
			t.Fatal("the files stayed")
		}
		closeStore(t, s)

		s = openStore(t, killed)
		<-time.After(time.Second)
		if len(trashDirs(t, killed)) != 0 || len(s.Found()) != 0 {
			t.Fatal("the next start did not finish the deletion")
		}
		closeStore(t, s)
	})
}

func TestDeleteOfALongName(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.Disk()} {
		t.Run(name, func(t *testing.T) {
			s, err := hot.Open(t.Context(), hot.Options{Dir: t.TempDir(), FS: fsys})
			if err != nil {
				t.Fatal(err)
			}
			long := record.TopicPartition{Topic: strings.Repeat("x", record.MaxTopicName), Partition: 99999}
			l, err := s.CreateLog(t.Context(), long, topicID, hot.LogOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.DeleteLog(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
		})
	}
}

func TestRecoveryPointIsCheckpointed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		s := openStore(t, mem)
		l := createLog(t, s, smallSegments())
		fill(t, l, 3)
		active := l.Segments()[2].BaseOffset()
		<-time.After(2 * time.Minute)
		points, err := record.ParseOffsetCheckpoint(readFile(t, mem.Crash(), logDir+"/recovery-point-offset-checkpoint"))
		if err != nil || points[tp] != active {
			t.Fatalf("recovery points %v, %v, want %d", points, err, active)
		}
		closeStore(t, s)
		points, err = record.ParseOffsetCheckpoint(readFile(t, mem.Crash(), logDir+"/recovery-point-offset-checkpoint"))
		if err != nil || points[tp] != l.EndOffset() {
			t.Fatalf("recovery points %v, %v, want %d", points, err, l.EndOffset())
		}
	})
}

func TestLostRecoveryPointsMeanAScan(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	l := createLog(t, s, smallSegments())
	fill(t, l, 3)
	want := readAll(t, l, 1<<20)
	closeStore(t, s)
	writeFile(t, mem, logDir+"/recovery-point-offset-checkpoint", []byte("0\n7\nnonsense"))
	l = openLog(t, openStore(t, mem), smallSegments())
	if got := readAll(t, l, 1<<20); len(got) != len(want) {
		t.Fatalf("%d batches, want %d", len(got), len(want))
	}
}

func TestManyOpensAndClosesLeaveOneSnapshot(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	createLog(t, s, hot.LogOptions{})
	for range 5 {
		closeStore(t, s)
		s = openStore(t, mem)
		appendBatch(t, openLog(t, s, hot.LogOptions{}), 10)
	}
	closeStore(t, s)
	n := 0
	for _, name := range names(t, mem) {
		if strings.HasSuffix(name, ".snapshot") {
			n++
		}
	}
	if n > 2 { // at the segment's base and at the end
		t.Fatalf("%d snapshots: %v", n, names(t, mem))
	}
}

func TestOptionsReportEveryFault(t *testing.T) {
	o := hot.Options{MaxOpenFiles: -1, RecoveryThreads: -1}
	o.EnsureDefaults()
	if err := o.Validate(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Fatalf("faults: %v", err)
	}
	lo := hot.LogOptions{SegmentBytes: math.MaxInt64, IndexBytes: 1, RollAfter: -1}
	lo.EnsureDefaults()
	if err := lo.Validate(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Fatalf("faults: %v", err)
	}
	var zero hot.LogOptions
	zero.EnsureDefaults()
	if err := zero.Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestUsage(t *testing.T) {
	u, err := openStore(t, vfs.NewMem()).Usage()
	if err != nil || u.Free == 0 || u.Free > u.Total {
		t.Fatalf("%+v, %v", u, err)
	}
}

// A start that fails before it opens a log, after a crash, leaves the directory
// to be recovered (I4).
func TestNoCleanMarkForWhatWasNotOpened(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	l := createLog(t, s, hot.LogOptions{})
	appendBatch(t, l, 10)
	killed := mem.Kill()
	for range 2 {
		again := openStore(t, killed)
		if again.Clean() {
			t.Fatal("a start that opened nothing made the directory clean")
		}
		closeStore(t, again)
	}
	again := openStore(t, killed)
	openLog(t, again, hot.LogOptions{})
	closeStore(t, again)
	if !openStore(t, killed).Clean() {
		t.Error("a clean stop leaves no mark")
	}
}
