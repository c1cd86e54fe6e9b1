// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"firn/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each bucket ends where the next one begins, and no value is told more than a
// thirty-second too high.
func TestBuckets(t *testing.T) {
	for b := range buckets - 1 {
		if got := bucketOf(upperOf(b)); got != b {
			t.Fatalf("the upper end of bucket %d lies in %d", b, got)
		}
		if got := bucketOf(upperOf(b) + 1); got != b+1 {
			t.Fatalf("what follows bucket %d lies in %d", b, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64Range(0, 1<<62).Draw(t, "v")
		if upper := upperOf(bucketOf(v)); upper < v || upper-v > v/subBuckets {
			t.Fatalf("%d is told as %d", v, upper)
		}
	})
}

func TestHistogram(t *testing.T) {
	var h, other Histogram
	if h.Quantile(0.99) != 0 || h.Summary() != (Latency{}) {
		t.Error("an empty histogram has figures")
	}
	for i := range 1000 {
		if i%2 == 0 {
			h.Record(time.Duration(i+1) * time.Millisecond)
		} else {
			other.Record(time.Duration(i+1) * time.Millisecond)
		}
	}
	h.Record(-time.Second)
	h.Merge(&other)
	if h.Count() != 1001 || h.Max() != time.Second {
		t.Errorf("count %d, max %v", h.Count(), h.Max())
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 0: 0, 1: time.Second} {
		if got := h.Quantile(q); got < want || got > want+want/16 {
			t.Errorf("quantile %v is %v, want about %v", q, got, want)
		}
	}
}

func TestSeriesWindow(t *testing.T) {
	start := time.Unix(1000, 0)
	s := NewSeries(start)
	for i := range 10 {
		s.Record(start.Add(time.Duration(i)*time.Second+time.Millisecond), time.Duration(i+1))
	}
	if n := s.Window(start.Add(1500*time.Millisecond), start.Add(5500*time.Millisecond)).Count(); n != 3 {
		t.Errorf("%d whole seconds, want 3", n)
	}
	if n := s.Window(start.Add(1500*time.Millisecond), start.Add(1600*time.Millisecond)).Count(); n != 1 {
		t.Errorf("%d seconds that overlap, want 1", n)
	}
	if n := len(s.Seconds()); n != 10 || s.Total().Count() != 10 {
		t.Errorf("%d seconds, %d in all", n, s.Total().Count())
	}
}

// Every batch that is built is one that the broker accepts, and the verifier
// finds every record in it.
func TestBatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values, err := NewValues(rapid.IntRange(MinValueBytes, 3000).Draw(t, "size"))
		if err != nil {
			t.Fatal(err)
		}
		builder, err := newBatchBuilder("none")
		if err != nil {
			t.Fatal(err)
		}
		check := NewVerifier(values, 0)
		var number int64
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			builder.begin()
			first := number
			for range rapid.IntRange(1, 200).Draw(t, "records") {
				builder.add(values.Size(), func(dst []byte) []byte { return values.Append(dst, number) })
				number++
			}
			batch, rest, err := record.SplitBatch(builder.finish(time.UnixMilli(1)))
			if err != nil || len(rest) != 0 {
				t.Fatalf("%d bytes are left, %v", len(rest), err)
			}
			batch.SetBaseOffset(record.Offset(first))
			if err := check.Batch(batch); err != nil {
				t.Fatal(err)
			}
			if batch.Header().NextOffset() != record.Offset(number) {
				t.Fatalf("the batch ends at %d, want %d", batch.Header().NextOffset(), number)
			}
		}
		if check.Count() != number || check.Next() != record.Offset(number) {
			t.Fatalf("%d records checked, want %d", check.Count(), number)
		}
	})
}

// I2: nothing that is wrong with a record gets past the verifier.
func TestVerifierRefuses(t *testing.T) {
	values, err := NewValues(100)
	if err != nil {
		t.Fatal(err)
	}
	good := values.Append(nil, 1)
	changed := append([]byte{}, good...)
	changed[50]++
	for _, c := range []struct {
		name   string
		offset record.Offset
		value  []byte
	}{
		{"missing", 2, values.Append(nil, 2)},
		{"doubled", 0, values.Append(nil, 0)},
		{"another value", 1, values.Append(nil, 2)},
		{"changed", 1, changed},
		{"cut", 1, good[:99]},
		{"empty", 1, nil},
	} {
		v := NewVerifier(values, 0)
		if err := v.Record(0, values.Append(nil, 0)); err != nil {
			t.Fatal(err)
		}
		if err := v.Record(c.offset, c.value); !errors.Is(err, ErrRecords) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestCodecsBuildBatches(t *testing.T) {
	for i, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		builder, err := newBatchBuilder(codec)
		if err != nil {
			t.Fatal(err)
		}
		builder.begin()
		for range 10 {
			builder.add(1000, func(dst []byte) []byte { return append(dst, make([]byte, 1000)...) })
		}
		batch, _, err := record.SplitBatch(builder.finish(time.Now()))
		if err != nil {
			t.Fatal(err)
		}
		h := batch.Header()
		if err := batch.CheckCRC(); err != nil || h.Codec() != record.Codec(i) || h.Count != 10 {
			t.Errorf("%s: codec %d, %d records, %v", codec, h.Codec(), h.Count, err)
		}
	}
	if _, err := newBatchBuilder("lzma"); err == nil {
		t.Error("an unknown codec is accepted")
	}
}

func TestOptions(t *testing.T) {
	good := Options{Broker: "b:1", Topic: "t"}
	if err := good.prepare(); err != nil {
		t.Fatal(err)
	}
	bad := Options{Partitions: -1, Clients: -1, Duration: -1, Rate: -1, RecordBytes: 1, BatchBytes: -1, InFlight: -1, Acks: 2, Codec: "x", FetchBytes: -1}
	err := bad.prepare()
	if n := len(strings.Split(err.Error(), "\n")); n != 12 {
		t.Errorf("%d faults are told, want 12:\n%v", n, err)
	}
	o := Options{Partitions: 5, Clients: 2}
	if got := o.partitionsOf(1); len(got) != 2 || got[0] != 1 || got[1] != 3 {
		t.Errorf("client 1 of 2 has %v", got)
	}
	o.Clients = 7
	if got := o.partitionsOf(6); len(got) != 1 || got[0] != 1 {
		t.Errorf("client 6 of 7 has %v", got)
	}
}

// A control gives back the whole log, over several files, from any offset.
func TestControl(t *testing.T) {
	values, err := NewValues(1000)
	if err != nil {
		t.Fatal(err)
	}
	builder, err := newBatchBuilder("none")
	if err != nil {
		t.Fatal(err)
	}
	dir, number := t.TempDir(), int64(0)
	var segments []Segment
	for i := range 3 {
		var log []byte
		s := Segment{From: record.Offset(number), Path: filepath.Join(dir, string(rune('a'+i)))}
		for range 20 {
			first := number
			builder.begin()
			for range 10 {
				builder.add(values.Size(), func(dst []byte) []byte { return values.Append(dst, number) })
				number++
			}
			batch := record.Batch(builder.finish(time.Now()))
			batch.SetBaseOffset(record.Offset(first))
			log = append(log, batch...)
		}
		s.To, s.Size = record.Offset(number), int64(len(log))
		// What follows a log in its object is not part of it.
		if err := os.WriteFile(s.Path, append(log, "indexes"...), 0o600); err != nil {
			t.Fatal(err)
		}
		segments = append(segments, s)
	}
	control, err := NewControl("t", segments)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := control.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, fetchBytes := range []int{1, 25_000, 1 << 20} {
		result, err := Replay(t.Context(), ReplayOptions{
			Broker: control.Address(), Topic: "t", Raw: true, FetchBytes: fetchBytes, To: record.Offset(number), Values: values,
		})
		if err != nil || result.Records != number || result.Bytes != segments[0].Size*3 {
			t.Errorf("by %d bytes: %+v, %v", fetchBytes, result, err)
		}
	}
	w, err := NewWindowReads(WindowReads{Broker: control.Address(), Topic: "t", From: 150, To: 600, Rate: 10_000, FetchBytes: 30_000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewControl("t", []Segment{segments[0], segments[2]}); err == nil {
		t.Error("a control with a gap is made")
	}
	if w.Latencies().Total().Count() != 0 {
		t.Error("a window that has not run has latencies")
	}
}

func TestParseUsage(t *testing.T) {
	stat := "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 9 0 100 1 1"
	status := "Name:\tfirn\nVmRSS:\t   2048 kB\nRssAnon:\t   1024 kB\nRssFile:\t   900 kB\nRssShmem:\t     4 kB\nThreads:\t9\n"
	u, err := parseUsage([]byte(stat), []byte(status))
	want := Usage{CPUSeconds: 2, RSS: 2 << 20, Anonymous: 1028 << 10, Threads: 9}
	if err != nil || u != want {
		t.Errorf("%+v, %v, want %+v", u, err, want)
	}
	if _, err := parseUsage([]byte("42 (x) S 1"), nil); err == nil {
		t.Error("half a line is accepted")
	}
	if s := (Usage{CPUSeconds: 3}).Since(Usage{CPUSeconds: 1}, 4<<30); s.CPUPerGiB != 0.5 {
		t.Errorf("%v CPU seconds for each GiB, want 0.5", s.CPUPerGiB)
	}
}

func TestGroupParent(t *testing.T) {
	root := t.TempDir()
	for path, below := range map[string]string{".": "cpu memory", "system": "memory pids", "system/leaf": ""} {
		dir := filepath.Join(root, path)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(below+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for own, want := range map[string]string{
		"5:memory:/a/b\n0::/\n": filepath.Join(root, "memory/a/b"),
		"0::/system/leaf\n":     filepath.Join(root, "system"),
		"0::/\n":                root,
	} {
		if got, _, err := groupParent(root, own); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", own, got, err, want)
		}
	}
	if _, _, err := groupParent(t.TempDir(), "0::/x\n"); err == nil {
		t.Error("a group is made where none may be")
	}
}

func TestRatio(t *testing.T) {
	r := NewRatio([]float64{1, 1.1, 1.2, 1.1, 9})
	if r.Median != 1.1 || r.Low > r.Median || r.High < r.Median || r.High > 9 {
		t.Errorf("%+v", r)
	}
	if Median([]float64{4, 1, 3, 2}) != 2.5 || Median(nil) != 0 || NewRatio(nil).Median != 0 {
		t.Error("wrong medians")
	}
}

func TestPicture(t *testing.T) {
	for name, p := range map[string]Picture{
		"empty": {},
		"whole": {
			Title: "a < b & c",
			Bands: []Band{{"alone", 0, 5}, {"replay", 5, 15}, {"control", 15, 20}},
			Lines: []Line{{"tail", []Point{{0, 0.2}, {7, 0.3}, {17, 2500}}}, {"window", []Point{{1, 1}}}},
			Strip: []Level{{0, 1}, {10, 0.995}, {16, 0}, {99, 7}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for d := xml.NewDecoder(strings.NewReader(string(p.SVG()))); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
			chart := p.Chart(80)
			for line := range strings.Lines(chart) {
				if len(line) > 81 {
					t.Errorf("a line of %d characters: %q", len(line), line)
				}
			}
			for _, want := range []string{"alone", "replay", "control", "10 s", "#"} {
				if name == "whole" && !strings.Contains(chart, want) {
					t.Errorf("no %q in\n%s", want, chart)
				}
			}
		})
	}
}

func TestGate(t *testing.T) {
	g, err := NewGate()
	if err != nil {
		t.Logf("no real-time priority here: %v", err)
		return
	}
	g.Close()
	if g.Worst() < 0 {
		t.Error("the sleeper was early")
	}
}
