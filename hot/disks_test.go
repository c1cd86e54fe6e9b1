// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"firn/hot"
	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
)

// watched opens log directories that are looked at each second.
func watched(t *testing.T, fsys vfs.FS, paths []string, change ...func(*hot.Options)) *hot.Disks {
	t.Helper()
	o := hot.Options{FS: fsys, WatchInterval: time.Second}
	for _, c := range change {
		c(&o)
	}
	d, err := hot.OpenDisks(t.Context(), paths, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDisks(t, d) })
	return d
}

func closeDisks(t *testing.T, d *hot.Disks) {
	t.Helper()
	if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("close: %v", err)
	}
}

// below matches what is done in a directory.
func below(dir string) func(faultfs.Call) bool {
	return func(c faultfs.Call) bool { return c.Path == dir || strings.HasPrefix(c.Path, dir+"/") }
}

func createIn(t *testing.T, s *hot.Store, partition int32) *hot.Log {
	t.Helper()
	l, err := s.CreateLog(t.Context(), record.TopicPartition{Topic: "orders", Partition: partition}, topicID, hot.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func wantLost(t *testing.T, s *hot.Store, logs ...*hot.Log) {
	t.Helper()
	if err := s.Failed(); !errors.Is(err, hot.ErrDirFailed) || !errors.Is(err, record.ErrStorage) {
		t.Fatalf("%s has not failed: %v", s.Dir(), err)
	}
	for _, l := range logs {
		if _, err := l.Append(batchOf(1), 0); !errors.Is(err, record.ErrStorage) || l.Offline() == nil {
			t.Errorf("append to a log of a failed directory: %v", err)
		}
	}
	if _, err := s.CreateLog(t.Context(), record.TopicPartition{Topic: "new"}, record.TopicID{9}, hot.LogOptions{}); !errors.Is(err, hot.ErrDirFailed) {
		t.Errorf("create in a failed directory: %v", err)
	}
}

// A disk that fails takes its logs offline and no others, whatever the
// operation that meets the failure first; nothing is touched there after it,
// and the stop is clean for the others (I8).
func TestAFailedDiskTakesItsLogsOnly(t *testing.T) {
	ctx := t.Context()
	for what, meet := range map[string]func(t *testing.T, l *hot.Log){
		"an append": func(_ *testing.T, l *hot.Log) { _, _ = l.Append(batchOf(1), 0) },
		"a sync": func(t *testing.T, l *hot.Log) {
			if err := l.WaitDurable(t.Context(), 2); !errors.Is(err, record.ErrStorage) {
				t.Errorf("wait for a sync: %v", err)
			}
		},
		"a roll":      func(_ *testing.T, l *hot.Log) { _ = l.Roll(ctx) },
		"nothing yet": func(*testing.T, *hot.Log) {},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewMem()
				f := faultfs.New(mem)
				d := watched(t, f, []string{"/a", "/b"})
				a, b := d.Dirs()[0].Store(), d.Dirs()[1].Store()
				bad, idle, good := createIn(t, a, 0), createIn(t, a, 1), createIn(t, b, 2)
				appendBatch(t, bad, 2)
				f.Inject(faultfs.Rule{Match: below("/a"), Times: -1, Fault: faultfs.IOError()})
				meet(t, bad)
				<-time.After(1500 * time.Millisecond)
				wantLost(t, a, bad, idle)
				select {
				case <-a.Lost():
				default:
					t.Error("nobody is told")
				}
				calls := 0
				f.Hook(func(c faultfs.Call) *faultfs.Fault {
					if below("/a")(c) && c.Op != faultfs.OpClose {
						calls++
					}
					return nil
				})
				<-time.After(5 * time.Minute) // the janitor's turns
				appendBatch(t, good, 3)
				if err := good.WaitDurable(t.Context(), 3); err != nil {
					t.Errorf("the other disk: %v", err)
				}
				if got := d.Online(); len(got) != 1 || got[0] != b || d.Dirs()[0].Offline() == nil || d.Dirs()[1].Offline() != nil || d.Offline() == nil {
					t.Errorf("online: %v, offline: %v", got, d.Offline())
				}
				select {
				case <-d.NoneLeft():
					t.Error("one directory is left")
				default:
				}
				closeDisks(t, d)
				f.Hook(nil)
				if calls > 0 {
					t.Errorf("%d operations in a failed directory", calls)
				}
				if !exists(t, mem.Crash(), "/b/.kafka_cleanshutdown") || exists(t, mem, "/a/.kafka_cleanshutdown") {
					t.Error("the clean-shutdown marks are wrong")
				}
			})
		})
	}
}

// One bad sector poisons one log: the disk is tried, and is well. So is one
// that is full.
func TestOneErrorIsNotTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New(vfs.NewMem())
		s := openStore(t, f, func(o *hot.Options) { o.Dir, o.WatchInterval = "/a", time.Second })
		bad, good := createIn(t, s, 0), createIn(t, s, 1)
		appendBatch(t, bad, 1)
		f.Inject(faultfs.Rule{Ops: []faultfs.Op{faultfs.OpSync}, Match: below("/a/orders-0"), Times: -1, Fault: faultfs.IOError()})
		if err := bad.WaitDurable(t.Context(), 1); !errors.Is(err, record.ErrStorage) {
			t.Fatalf("sync: %v", err)
		}
		full := f.FailFrom(1, faultfs.NoSpace(0), faultfs.OpWrite, faultfs.OpCreate)
		if _, err := good.Append(batchOf(1), 0); !errors.Is(err, record.ErrStorage) {
			t.Fatalf("append to a full disk: %v", err)
		}
		<-time.After(3 * time.Second)
		full.Stop()
		if s.Failed() != nil || bad.Poisoned() == nil || bad.Offline() != nil || good.Poisoned() != nil {
			t.Fatalf("directory: %v, the bad log: %v, the good one: %v", s.Failed(), bad.Poisoned(), good.Poisoned())
		}
		appendBatch(t, good, 1)
		if exists(t, f, "/a/firn.probe") {
			t.Error("the trial left its file")
		}
		if err := s.Close(t.Context()); !errors.Is(err, record.ErrStorage) {
			t.Errorf("close with a poisoned log: %v", err)
		}
	})
}

// A directory that is removed, or that another is mounted over, is noticed
// without an error of any log, and nothing is written to what took its place.
func TestADirectoryThatIsGone(t *testing.T) {
	for what, take := range map[string]func(dir string) error{
		"removed": func(dir string) error { return vfs.Disk().RemoveAll(dir) },
		"covered": func(dir string) error {
			if err := vfs.Disk().Rename(dir, dir+".old"); err != nil {
				return err
			}
			return vfs.Disk().MkdirAll(dir, 0o755)
		},
		"covered by another log directory": func(dir string) error {
			if err := vfs.Disk().Rename(dir, dir+".old"); err != nil {
				return err
			}
			s, err := hot.Open(context.Background(), hot.Options{Dir: dir})
			if err != nil {
				return err
			}
			return s.Close(context.Background())
		},
	} {
		t.Run(what, func(t *testing.T) {
			paths := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
			d := watched(t, vfs.Disk(), paths, func(o *hot.Options) { o.WatchInterval = time.Millisecond })
			a := d.Dirs()[0].Store()
			l := createIn(t, a, 0)
			if err := take(paths[0]); err != nil {
				t.Fatal(err)
			}
			<-a.Lost()
			wantLost(t, a, l)
			closeDisks(t, d)
			if exists(t, vfs.Disk(), filepath.Join(paths[0], "recovery-point-offset-checkpoint")) {
				t.Error("the stop wrote to what is there now")
			}
		})
	}
}

func TestAllDisksFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New(vfs.NewMem())
		d := watched(t, f, []string{"/a", "/b", "/c"})
		for _, dir := range []string{"/c", "/a", "/b"} {
			select {
			case <-d.NoneLeft():
				t.Fatal("some are left")
			default:
			}
			f.Inject(faultfs.Rule{Match: below(dir), Times: -1, Fault: faultfs.IOError()})
			<-time.After(2 * time.Second)
		}
		<-d.NoneLeft()
		if len(d.Online()) != 0 {
			t.Errorf("online: %v", d.Online())
		}
	})
}

func TestOpenDisks(t *testing.T) {
	f := faultfs.New(vfs.NewMem())
	reg := prometheus.NewRegistry()
	dead := f.Inject(faultfs.Rule{Match: below("/a"), Times: -1, Fault: faultfs.IOError()})
	d := watched(t, f, []string{"/a", "/b"}, func(o *hot.Options) { o.Registerer = reg })
	if off := d.Dirs()[0].Offline(); !errors.Is(off, record.ErrStorage) || d.Dirs()[0].Store() != nil || d.Dirs()[0].Path() != "/a" {
		t.Errorf("a dead disk: %v", off)
	}
	if got := d.Online(); len(got) != 1 || got[0].Dir() != "/b" {
		t.Errorf("online: %v", got)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() == "firn_log_dir_offline" {
			for _, m := range family.Metric {
				got[m.Label[0].GetName()+m.Label[0].GetValue()] = m.Gauge.GetValue()
			}
		}
	}
	if len(got) != 2 || got["dir/a"] != 1 || got["dir/b"] != 0 {
		t.Errorf("the metric says %v", got)
	}

	if _, err := hot.OpenDisks(t.Context(), []string{"/a"}, hot.Options{FS: f}); err == nil {
		t.Error("the only directory is dead, and that is no error")
	}
	dead.Stop()
	if _, err := hot.OpenDisks(t.Context(), []string{"/a", "/b"}, hot.Options{FS: f}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("one is in use: %v", err)
	}
	again, err := hot.Open(t.Context(), hot.Options{FS: f, Dir: "/a"})
	if err != nil {
		t.Fatalf("the lock of the other was kept: %v", err)
	}
	closeStore(t, again)
	if _, err := hot.OpenDisks(t.Context(), nil, hot.Options{FS: f}); err == nil {
		t.Error("no directory at all")
	}
}

func TestRefuse(t *testing.T) {
	mem := vfs.NewMem()
	d := watched(t, mem, []string{"/a", "/b"})
	a := d.Dirs()[0]
	if err := a.Refuse(t.Context(), errors.New("not ours")); err != nil {
		t.Fatal(err)
	}
	if off := a.Offline(); off == nil || !strings.Contains(off.Error(), "not ours") || len(d.Online()) != 1 {
		t.Errorf("refused: %v", off)
	}
	wantLost(t, a.Store())
	lock, err := mem.Lock("/a/.lock")
	if err != nil {
		t.Fatalf("the lock: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestDirectoryMetadata(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	if m := s.Metadata(); m != (record.DirectoryMetadata{NodeID: -1}) {
		t.Errorf("a new directory: %+v", m)
	}
	want := record.DirectoryMetadata{ClusterID: "c", NodeID: 4, DirectoryID: record.TopicID{5}, Firn: true}
	if err := s.SetMetadata(want); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = openStore(t, mem.Crash())
	if m := s.Metadata(); m != want {
		t.Errorf("after a power cut: %+v", m)
	}
}

// The ballast goes when the disk is full, so that there is room for what makes
// room, and comes back when there is some. Until then no client's records are
// taken.
func TestBallast(t *testing.T) {
	const size = 100 << 10
	fill := func(t *testing.T, mem *vfs.Mem) {
		t.Helper()
		u, err := mem.Usage("/")
		if err != nil {
			t.Fatal(err)
		}
		f, err := mem.OpenFile("/filler", vfs.Create, 0o644)
		if err == nil {
			err = errors.Join(f.Truncate(int64(u.Free)), f.Sync(), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []int64{0, 100} {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewMem()
				mem.SetCapacity(100 * size)
				with := func(o *hot.Options) {
					o.WatchInterval, o.Ballast, o.BallastPart = time.Second, size*(1+part), part
				}
				s := openStore(t, mem, with)
				if s.Exhausted() {
					t.Fatal("a disk with room is exhausted")
				}
				<-time.After(1500 * time.Millisecond)
				info, err := mem.Stat(logDir + "/firn.ballast")
				if err != nil || info.Size() != size {
					t.Fatalf("the ballast: %v, %v", info, err)
				}
				l := createLog(t, s, hot.LogOptions{})
				fill(t, mem)
				if _, err := l.Append(batchOf(1), 0); !errors.Is(err, record.ErrStorage) || !vfs.IsFull(err) {
					t.Fatalf("append to a full disk: %v", err)
				}
				killed := mem.Kill()
				<-time.After(time.Second)
				if _, err := mem.Stat(logDir + "/firn.ballast"); !errors.Is(err, fs.ErrNotExist) || !s.Exhausted() {
					t.Fatalf("the ballast of a full disk: %v, exhausted: %v", err, s.Exhausted())
				}
				appendBatch(t, l, 1) // the log itself has room: internal topics go on
				if err := mem.Remove("/filler"); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Second)
				if s.Exhausted() || !exists(t, mem, logDir+"/firn.ballast") {
					t.Fatal("the ballast does not come back")
				}
				closeStore(t, s)

				// A start with the disk full has the room at once.
				s = openStore(t, killed, with)
				if u, err := s.Usage(); err != nil || u.Free < size || !s.Exhausted() {
					t.Fatalf("free: %+v, %v, exhausted: %v", u, err, s.Exhausted())
				}
				closeStore(t, s)
				s = openStore(t, killed, with)
				if !s.Exhausted() {
					t.Fatal("without a ballast and without room records are taken")
				}
				closeStore(t, s)
			})
		})
	}
}

// A ballast that was half made is made anew.
func TestBallastHalfMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultfs.New(vfs.NewMem())
		with := func(o *hot.Options) { o.WatchInterval, o.Ballast = time.Second, 300<<10 }
		fault := f.Inject(faultfs.Rule{Ops: []faultfs.Op{faultfs.OpWrite, faultfs.OpRemove}, Match: below(logDir + "/firn.ballast"), Skip: 1, Times: -1, Fault: faultfs.NoSpace(9)})
		s := openStore(t, f, with)
		<-time.After(1500 * time.Millisecond)
		if fault.Fired() == 0 || s.Failed() != nil || s.Exhausted() {
			t.Fatalf("fired %d, failed %v", fault.Fired(), s.Failed())
		}
		closeStore(t, s)
		fault.Stop()
		s = openStore(t, f, with)
		<-time.After(1500 * time.Millisecond)
		if info, err := f.Stat(logDir + "/firn.ballast"); err != nil || info.Size() != 300<<10 {
			t.Errorf("the ballast: %v, %v", info, err)
		}
		closeStore(t, s)
	})
}
