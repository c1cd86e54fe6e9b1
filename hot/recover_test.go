// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

// cuts lists the side files.
func cuts(t testing.TB, fs vfs.FS) []string {
	return slices.DeleteFunc(names(t, fs), func(n string) bool { return !strings.HasSuffix(n, ".cut") })
}

// killedWith fills a log, kills the process and changes the active segment.
func killedWith(t *testing.T, change func(b []byte) []byte) (*vfs.Mem, []stored) {
	t.Helper()
	mem := vfs.NewMem()
	l := createLog(t, openStore(t, mem), hot.LogOptions{IndexInterval: 100})
	for range 10 {
		appendBatch(t, l, 10)
	}
	want := readAll(t, l, 1<<20)
	mem = mem.Kill()
	path := inPartition(segmentName(0, ".log"))
	writeFile(t, mem, path, change(readFile(t, mem, path)))
	return mem, want
}

func TestRecoveryCutsTheTail(t *testing.T) {
	batch := len(recordtest.Batch(0, recordtest.Count(10)))
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 0x10; return b }
	}
	cases := []struct {
		name   string
		change func([]byte) []byte
		keep   int  // batches
		side   bool // a side file keeps what was cut
	}{
		{"nothing wrong", func(b []byte) []byte { return b }, 10, false},
		{"a torn batch", func(b []byte) []byte { return b[:len(b)-1] }, 9, true},
		{"a torn header", func(b []byte) []byte { return b[:9*batch+10] }, 9, true},
		{"one byte more", func(b []byte) []byte { return append(b, 1) }, 10, true},
		{"zeros behind", func(b []byte) []byte { return append(b, make([]byte, 5000)...) }, 10, false},
		{"zeros in the middle", func(b []byte) []byte { clear(b[5*batch : 6*batch]); return b }, 5, true},
		{"a flipped bit in the records", flip(7*batch + 80), 7, true},
		{"a flipped bit in the length", flip(7*batch + 8), 7, true},
		{"a flipped bit in the base offset", flip(7*batch + 7), 7, true},
		{"a flipped bit in the magic", flip(7*batch + 16), 7, true},
		{"the first batch gone bad", flip(70), 0, true},
		{"a batch twice", func(b []byte) []byte { return append(b, b[9*batch:]...) }, 10, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var damaged []byte
			mem, want := killedWith(t, func(b []byte) []byte {
				damaged = c.change(slices.Clone(b))
				return slices.Clone(damaged)
			})
			s := openStore(t, mem)
			l := openLog(t, s, hot.LogOptions{IndexInterval: 100})
			if got := readAll(t, l, 1<<20); !slices.Equal(got, want[:c.keep]) {
				t.Fatalf("%d batches, want the first %d", len(got), c.keep)
			}
			if l.DurableOffset() != l.EndOffset() {
				t.Fatalf("durable to %d of %d", l.DurableOffset(), l.EndOffset())
			}
			side := cuts(t, mem)
			if (len(side) == 1) != c.side || len(side) > 1 {
				t.Fatalf("side files: %v", side)
			}
			if c.side && !bytes.Equal(readFile(t, mem, inPartition(side[0])), damaged[c.keep*batch:]) {
				t.Fatal("the side file does not have what was cut")
			}
			// What recovery left is durable, and goes on.
			again := openLog(t, openStore(t, mem.Crash()), hot.LogOptions{})
			if got := readAll(t, again, 1<<20); !slices.Equal(got, want[:c.keep]) {
				t.Fatalf("%d batches after a power cut", len(got))
			}
			appendBatch(t, l, 10)
			if got := readAll(t, l, 250); len(got) != c.keep+1 {
				t.Fatalf("%d batches after an append", len(got))
			}
		})
	}
}

func TestRecoveryCutsAcrossSegments(t *testing.T) {
	mem := vfs.NewMem()
	f := mem
	l := createLog(t, openStore(t, f), smallSegments())
	fill(t, l, 5)
	want := readAll(t, l, 1<<20)
	list := l.Segments()
	mem = mem.Kill()
	// Nothing is known to be synced.
	writeFile(t, mem, logDir+"/recovery-point-offset-checkpoint", []byte("0\n0\n"))
	bad := list[1]
	path := inPartition(segmentName(bad.BaseOffset(), ".log"))
	b := readFile(t, mem, path)
	b[len(b)-5] ^= 1
	writeFile(t, mem, path, b)

	l = openLog(t, openStore(t, mem), smallSegments())
	got := readAll(t, l, 1<<20)
	last := bad.NextOffset() - 10
	if l.EndOffset() != last || !slices.Equal(got, want[:len(got)]) {
		t.Fatalf("the log ends at %d, want %d", l.EndOffset(), last)
	}
	if n := len(cuts(t, mem)); n != 4 { // the bad batch and three segments
		t.Fatalf("side files: %v", cuts(t, mem))
	}
	for _, seg := range list[2:] {
		for _, suffix := range []string{".log", ".index", ".timeindex", ".snapshot"} {
			if has(t, mem, segmentName(seg.BaseOffset(), suffix)) {
				t.Fatalf("%s is still there", segmentName(seg.BaseOffset(), suffix))
			}
		}
	}
	appendBatch(t, l, 10)
	readAll(t, l, 1<<20)
}

func TestRecoveryCutsWhereASegmentIsTooShort(t *testing.T) {
	mem := vfs.NewMem()
	l := createLog(t, openStore(t, mem), smallSegments())
	fill(t, l, 3)
	list := l.Segments()
	mem = mem.Kill()
	writeFile(t, mem, logDir+"/recovery-point-offset-checkpoint", []byte("0\n0\n"))
	path := inPartition(segmentName(list[0].BaseOffset(), ".log"))
	b := readFile(t, mem, path)
	batch := len(recordtest.Batch(0, recordtest.Count(10)))
	writeFile(t, mem, path, b[:len(b)-batch]) // whole batches, but not all

	l = openLog(t, openStore(t, mem), smallSegments())
	if want := list[0].NextOffset() - 10; l.EndOffset() != want || len(l.Segments()) != 1 {
		t.Fatalf("the log ends at %d with %d segments, want %d", l.EndOffset(), len(l.Segments()), want)
	}
	if n := len(cuts(t, mem)); n != 2 {
		t.Fatalf("side files: %v", cuts(t, mem))
	}
}

func TestDamageBelowTheRecoveryPointIsNotCut(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	l := createLog(t, s, hot.LogOptions{})
	for range 10 {
		appendBatch(t, l, 10)
	}
	closeStore(t, s) // the recovery point is at the end
	path := inPartition(segmentName(0, ".log"))
	b := readFile(t, mem, path)
	b[len(b)/2] ^= 1
	writeFile(t, mem, path, b)
	if err := mem.Remove(logDir + "/.kafka_cleanshutdown"); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, mem)
	var damage *record.CorruptionError
	if _, err := s.OpenLog(t.Context(), tp, topicID, hot.LogOptions{}); !errors.As(err, &damage) || damage.Path != path {
		t.Fatalf("open a log with damage in what was synced: %v", err)
	}
	if !bytes.Equal(readFile(t, mem, path), b) || len(cuts(t, mem)) != 0 {
		t.Fatal("something was changed")
	}
}

func TestRecoveryRebuildsIndexesSnapshotsAndEpochs(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	l := createLog(t, s, smallSegments())
	for i := range int32(40) {
		b := recordtest.Batch(0, recordtest.Count(10), recordtest.Producer(5, 0, i*10), recordtest.Timestamp(int64(i)))
		if _, err := l.Append(b, record.Epoch(i/8)); err != nil {
			t.Fatal(err)
		}
	}
	epochs, end := l.Epochs(), l.EndOffset()
	killed := mem.Kill()
	closeStore(t, s)

	// All that can be rebuilt is gone; a snapshot from beyond the end is there.
	writeFile(t, killed, logDir+"/recovery-point-offset-checkpoint", nil)
	for _, n := range names(t, killed) {
		if !strings.HasSuffix(n, ".log") && n != "partition.metadata" {
			if err := killed.Remove(inPartition(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := record.NewProducers()
	p.Apply(record.Header{ProducerID: 99, Count: 1, BaseOffset: 5000})
	writeFile(t, killed, inPartition(segmentName(5001, ".snapshot")), p.Marshal(5001))

	s = openStore(t, killed)
	l = openLog(t, s, smallSegments())
	if !slices.Equal(l.Epochs(), epochs) || l.EndOffset() != end {
		t.Fatalf("epochs %v, want %v; end %d", l.Epochs(), epochs, l.EndOffset())
	}
	if has(t, killed, segmentName(5001, ".snapshot")) || l.MaxProducerID() != 5 {
		t.Fatal("a snapshot from beyond the end was believed")
	}
	closeStore(t, s)

	// The files are now those of the log that was closed clean.
	want, got := names(t, mem), names(t, killed)
	if !slices.Equal(want, got) {
		t.Fatalf("files %v, want %v", got, want)
	}
	for _, n := range want {
		if !bytes.Equal(readFile(t, mem, inPartition(n)), readFile(t, killed, inPartition(n))) {
			t.Fatalf("%s differs", n)
		}
	}
}

// A log recovers on a disk that has no room for what recovery writes, again
// and again, and catches up when there is some.
func TestRecoveryOnAFullDisk(t *testing.T) {
	for _, room := range []int64{0, 30, 200, 500, 1000, 3000} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			mem := vfs.NewMem()
			s := openStore(t, mem)
			l := createLog(t, s, smallSegments())
			for i := range int32(40) {
				b := recordtest.Batch(0, recordtest.Count(10), recordtest.Producer(5, 0, i*10), recordtest.Timestamp(int64(i)))
				if _, err := l.Append(b, record.Epoch(i/8)); err != nil {
					t.Fatal(err)
				}
			}
			want, epochs := readAll(t, l, 500), l.Epochs()
			full := mem.Kill()
			closeStore(t, s)
			writeFile(t, full, logDir+"/recovery-point-offset-checkpoint", nil)
			for _, n := range names(t, full) {
				if !strings.HasSuffix(n, ".log") && n != "partition.metadata" {
					if err := full.Remove(inPartition(n)); err != nil {
						t.Fatal(err)
					}
				}
			}
			usage, err := full.Usage(logDir)
			if err != nil {
				t.Fatal(err)
			}
			capacity := int64(usage.Total)
			for range 3 {
				full.SetCapacity(capacity - int64(usage.Free) + room)
				s = openStore(t, full)
				l = openLog(t, s, smallSegments())
				if got := readAll(t, l, 500); !slices.Equal(got, want) || !slices.Equal(l.Epochs(), epochs) {
					t.Fatalf("%d batches, want %d; epochs %v, want %v", len(got), len(want), l.Epochs(), epochs)
				}
				killed := full.Kill()
				_ = s.Close(t.Context()) // it may lack the room for a clean stop
				full = killed
			}
			full.SetCapacity(capacity)
			s = openStore(t, full)
			l = openLog(t, s, smallSegments())
			if _, err := l.Append(recordtest.Batch(0, recordtest.Count(10)), epochs[len(epochs)-1].Epoch); err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
			s = openStore(t, full.Crash())
			if l = openLog(t, s, smallSegments()); len(readAll(t, l, 500)) != len(want)+1 || !slices.Equal(l.Epochs(), epochs) {
				t.Fatalf("%d batches, epochs %v", len(readAll(t, l, 500)), l.Epochs())
			}
		})
	}
}

func TestOpenRemovesLeftovers(t *testing.T) {
	mem := vfs.NewMem()
	l := createLog(t, openStore(t, mem), hot.LogOptions{})
	appendBatch(t, l, 1)
	mem = mem.Kill()
	left := []string{"leader-epoch-checkpoint.tmp", segmentName(7, ".index"), segmentName(7, ".timeindex"),
		segmentName(3, ".log.deleted"), segmentName(3, ".log.cleaned")}
	for _, n := range left {
		writeFile(t, mem, inPartition(n), []byte("left"))
	}
	writeFile(t, mem, inPartition("firn-manifest"), []byte("not ours"))
	openLog(t, openStore(t, mem), hot.LogOptions{})
	for _, n := range left {
		if has(t, mem, n) {
			t.Fatalf("%s is still there", n)
		}
	}
	if !has(t, mem, "firn-manifest") {
		t.Fatal("a file that is not ours was removed")
	}

	writeFile(t, mem, inPartition(segmentName(3, ".log.swap")), nil)
	s := openStore(t, mem.Kill())
	if _, err := s.OpenLog(t.Context(), tp, topicID, hot.LogOptions{}); err == nil {
		t.Fatal("a compaction that Kafka did not finish was passed over")
	}
}

// FuzzRecovery: whatever lies behind the batches of a killed log, recovery
// opens it (I5), keeps at least the batches that were whole, answers only
// whole batches with consecutive offsets, loses no byte of what it cut, and
// finds nothing to do the second time.
func FuzzRecovery(f *testing.F) {
	whole := recordtest.Log(30, 2, recordtest.Count(10))
	f.Add([]byte{})
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(bytes.Repeat([]byte{0}, 200))
	f.Add(append(slices.Clone(whole), 0xff, 0xff))
	f.Add(recordtest.Batch(31, recordtest.Count(10)))
	huge := recordtest.Batch(30)
	huge[8] = 0x7f
	f.Add(huge)
	f.Fuzz(func(t *testing.T, tail []byte) {
		mem := vfs.NewMem()
		s := openStore(t, mem)
		l := createLog(t, s, hot.LogOptions{IndexInterval: 50})
		for range 3 {
			appendBatch(t, l, 10)
		}
		before := readAll(t, l, 1<<20)
		mem = mem.Kill()
		closeStore(t, s)
		path := inPartition(segmentName(0, ".log"))
		good := readFile(t, mem, path)
		writeFile(t, mem, path, append(slices.Clone(good), tail...))

		s = openStore(t, mem)
		l = openLog(t, s, hot.LogOptions{IndexInterval: 50})
		after := readAll(t, l, 100)
		if len(after) < len(before) || !slices.Equal(after[:len(before)], before) {
			t.Fatalf("%d batches, there were %d", len(after), len(before))
		}
		kept := readFile(t, mem, path)
		if side := cuts(t, mem); len(side) > 0 {
			kept = append(kept, readFile(t, mem, inPartition(side[0]))...)
		} else if rest := tail[len(kept)-len(good):]; len(bytes.Trim(rest, "\x00")) == 0 {
			kept = append(kept, rest...)
		}
		if !bytes.Equal(kept, append(good, tail...)) {
			t.Fatal("bytes were lost")
		}
		end := l.EndOffset()
		mem = mem.Crash()
		closeStore(t, s)
		s = openStore(t, mem)
		if l = openLog(t, s, hot.LogOptions{}); l.EndOffset() != end || len(cuts(t, mem)) > 1 {
			t.Fatalf("the second recovery ends at %d, the first at %d", l.EndOffset(), end)
		}
		closeStore(t, s)
	})
}
