// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/record"
	"firn/record/recordtest"
)

// faultKind is a way in which operations fail.
type faultKind struct {
	name  string
	ops   []faultfs.Op
	from  bool // the disk stays broken
	fault func(n int) faultfs.Fault
}

func always(f faultfs.Fault) func(int) faultfs.Fault { return func(int) faultfs.Fault { return f } }

// faultKinds are all of them. Where bytes get through before a write fails, or
// a bit flips, the place differs from operation to operation.
func faultKinds() []faultKind {
	short := func(n int) faultfs.Fault { return faultfs.ShortWrite(n * 37 % 150) }
	full := func(n int) faultfs.Fault { return faultfs.NoSpace(n * 41 % 150) }
	room := []faultfs.Op{faultfs.OpWrite, faultfs.OpCreate, faultfs.OpMkdir}
	syncs := []faultfs.Op{faultfs.OpSync, faultfs.OpSyncDir}
	kinds := []faultKind{
		{"an operation fails", nil, false, always(faultfs.IOError())}, // be it a write, a sync, a read or a close
		{"writes fail from here on", faultfs.Writes(), true, always(faultfs.IOError())},
		{"a write is short", []faultfs.Op{faultfs.OpWrite}, false, short},
		{"writes are short from here on", []faultfs.Op{faultfs.OpWrite}, true, short},
		{"the disk is full once", room, false, full},
		{"the disk is full", room, true, full},
		{"syncs fail from here on", syncs, true, always(faultfs.IOError())},
		{"reads fail from here on", faultfs.Reads(), true, always(faultfs.IOError())},
		{"everything fails from here on", nil, true, always(faultfs.IOError())},
	}
	for bit := range 4 {
		kinds = append(kinds, faultKind{fmt.Sprintf("a bit flips, %d", bit), []faultfs.Op{faultfs.OpRead}, false,
			func(n int) faultfs.Fault { return faultfs.FlipBit(bit*8*61 + n*13 + bit) }})
	}
	return kinds
}

// voyage is a stretch of a log's life in which operations fail.
type voyage struct {
	name string
	// ready makes the disk on which it begins, and tells the journey what
	// that holds.
	ready func(*journey) *vfs.Mem
	run   func(*journey)
}

func voyages() []voyage {
	empty := func(*journey) *vfs.Mem { return vfs.NewMem() }
	return []voyage{
		{"life", empty, func(j *journey) { j.first(); j.second() }},
		{"recovery", crashed, (*journey).third},
		{"clean start", stopped, (*journey).third},
	}
}

// lived is a log of several segments, epochs and a producer, all of it safe.
func lived(j *journey) (*vfs.Mem, *hot.Store) {
	mem := vfs.NewMem()
	s, err := hot.Open(j.t.Context(), hot.Options{Dir: logDir, FS: mem})
	if err != nil {
		j.t.Fatal(err)
	}
	l := createLog(j.t, s, smallSegments())
	j.created = true
	for i := range 30 {
		j.append(l, record.Epoch(1+i/12))
	}
	j.sync(l)
	return mem, s
}

// crashed is what a power cut left of it: recovery has to look at everything,
// rebuild an index and a snapshot, sweep, and cut off what was being written.
func crashed(j *journey) *vfs.Mem {
	running, s := lived(j)
	mem := running.Crash()
	closeStore(j.t, s)
	writeFile(j.t, mem, logDir+"/recovery-point-offset-checkpoint", nil)
	files := names(j.t, mem)
	active := slices.MaxFunc(slices.DeleteFunc(slices.Clone(files), func(n string) bool { return !strings.HasSuffix(n, ".log") }), strings.Compare)
	for i, name := range files {
		if strings.HasSuffix(name, ".snapshot") && i%2 == 0 {
			writeFile(j.t, mem, inPartition(name), []byte("no snapshot"))
		}
	}
	writeFile(j.t, mem, inPartition(segmentName(7, ".index")), []byte("of no segment"))
	writeFile(j.t, mem, inPartition(active), append(readFile(j.t, mem, inPartition(active)), "a batch that was being written"...))
	return mem
}

// stopped is what a clean stop left of it.
func stopped(j *journey) *vfs.Mem {
	mem, s := lived(j)
	closeStore(j.t, s)
	return mem
}

// third opens a log with a history and goes on with it. An opening that fails
// is tried again, as a broker that is started again does.
func (j *journey) third() {
	for range 2 {
		s, err := hot.Open(j.t.Context(), hot.Options{Dir: logDir, FS: j.f})
		if !j.allowed("open store", err) {
			continue
		}
		l, err := s.OpenLog(j.t.Context(), tp, topicID, smallSegments())
		if j.allowed("open", err) {
			j.goOn(l)
		}
		closed := j.allowed("close store", s.Close(context.WithoutCancel(j.t.Context())))
		if err == nil && closed {
			return
		}
	}
}

func (j *journey) goOn(l *hot.Log) {
	if l.EndOffset() < j.durable {
		j.t.Fatalf("opened to %d, durable was %d", l.EndOffset(), j.durable)
	}
	j.made = slices.DeleteFunc(j.made, func(s stored) bool { return s.base >= l.EndOffset() })
	j.read(l)
	j.retry(l)
	for range 4 {
		j.append(l, 4)
	}
	_, _, err := l.OffsetForTimestamp(recordtest.DefaultTimestamp, l.EndOffset(), nil)
	j.allowed("look up a time", err)
	j.sync(l)
	j.read(l)
}

// retry sends the last batch that a producer had acknowledged again: it is
// there already, at the same offsets.
func (j *journey) retry(l *hot.Log) {
	if len(j.made) == 0 {
		return
	}
	last := j.made[len(j.made)-1]
	done, err := l.Append([]byte(last.bytes), record.Batch(last.bytes).Header().LeaderEpoch)
	if !j.allowed("send again", err) {
		return
	}
	if !done.Duplicate || done.FirstOffset != last.base || done.NextOffset != last.next {
		j.t.Fatalf("the batch from %d to %d, sent again: %+v", last.base, last.next, done)
	}
}

// TestEveryFailure has the n-th operation fail in each of the ways there are,
// for every n, and then the power: an error or the right state, never a wrong
// answer, and nothing that was durable is lost (I2, I5).
func TestEveryFailure(t *testing.T) {
	for _, v := range voyages() {
		from := &journey{t: t}
		mem := v.ready(from)
		for _, kind := range faultKinds() {
			t.Run(v.name+"/"+kind.name, func(t *testing.T) {
				n := 1
				for {
					j := &journey{t: t, created: from.created, made: slices.Clone(from.made), durable: from.durable}
					if !j.embark(mem.Kill(), v, kind, n) {
						break
					}
					n++
				}
				if n < 4 {
					t.Fatalf("only %d operations", n)
				}
			})
		}
	}
}

// embark has the n-th operation of a voyage fail, and says whether there was
// one.
func (j *journey) embark(mem *vfs.Mem, v voyage, kind faultKind, n int) bool {
	t := j.t
	j.f = faultfs.New(mem)
	rule := faultfs.Rule{Ops: kind.ops, Skip: n - 1, Fault: kind.fault(n)}
	if kind.from {
		rule.Times = -1
	}
	if rule.Fault.Flip {
		// Who reads records checks their CRC. Kafka's checkpoints have none.
		rule.Match = func(c faultfs.Call) bool { return !j.looking.Load() && !strings.HasSuffix(c.Path, "-checkpoint") }
	}
	fault := j.f.Inject(rule)
	t.Run(fmt.Sprint(n), func(t *testing.T) {
		j.t = t
		v.run(j)
		if fault.Fired() == 0 && j.failed > 0 {
			t.Fatal("errors without a fault")
		}
		for name, after := range map[string]*vfs.Mem{
			"power cut": mem.Crash(), "torn power cut": mem.CrashKeeping(uint64(n)), "kill": mem.Kill(),
		} {
			t.Run(name, func(t *testing.T) {
				j.t = t
				j.check(after)
			})
		}
	})
	return fault.Fired() > 0
}
