// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"testing"

	"firn/internal/testutil"
)

// benchOf runs a bench against the broker and decodes its report. No test
// looks at a time: the machine may be busy.
func benchOf[T any](t *testing.T, b *testutil.Broker, args ...string) T {
	t.Helper()
	r := b.Firn(append([]string{"bench"}, append(args, "-o", "json", "--pid", strconv.Itoa(b.Pid()))...)...)
	if r.Code != 0 {
		t.Fatalf("firn bench %v: exit code %d\n%s", args, r.Code, r.Stderr)
	}
	var report T
	if err := json.Unmarshal(r.Stdout, &report); err != nil {
		t.Fatalf("firn bench %v: %v\n%s", args, err, r.Stdout)
	}
	return report
}

// moved is what the reports of bench have in common.
type moved struct {
	Records int64
	Bytes   int64
	Latency struct{ Count uint64 }
	Broker  *struct {
		RSS     int64 `json:"rss_bytes"`
		Threads int
	}
}

func (m moved) want(t *testing.T, what string) {
	t.Helper()
	if m.Records == 0 || m.Latency.Count == 0 {
		t.Errorf("%s moved %d records with %d latencies", what, m.Records, m.Latency.Count)
	}
	if m.Broker == nil || m.Broker.RSS == 0 || m.Broker.Threads == 0 {
		t.Errorf("%s says of the broker: %+v", what, m.Broker)
	}
}

// Each bench in its smallest form, by both clients.
func TestBench(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	for name, mode := range map[string][]string{"client": nil, "raw": {"--raw"}} {
		t.Run(name, func(t *testing.T) {
			topic := "bench-" + name
			run := func(args ...string) moved { return benchOf[moved](t, b, append(args, mode...)...) }
			produced := run("produce", "--topic", topic, "--partitions", "2", "--clients", "2", "--duration", "300ms", "--acks", "1", "--codec", "lz4")
			produced.want(t, "produce")
			paced := run("produce", "--topic", topic, "--duration", "300ms", "--rate", "1000", "--acks", "all")
			paced.want(t, "produce at a rate")
			if paced.Records > 400 {
				t.Errorf("%d records in 300 ms at 1,000 a second", paced.Records)
			}
			run("consume", "--topic", topic, "--partitions", "2", "--clients", "2", "--duration", "300ms").want(t, "consume")
			run("e2e", "--topic", "tail-"+name, "--rate", "500", "--duration", "500ms").want(t, "e2e")

			replayed := benchOf[struct {
				Replays []struct{ Records int64 }
			}](t, b, append([]string{"replay", "--topic", topic, "--partition", "1", "--clients", "2"}, mode...)...)
			if n := len(replayed.Replays); n != 2 || replayed.Replays[0].Records == 0 || replayed.Replays[0] != replayed.Replays[1] {
				t.Errorf("two replays read %+v", replayed.Replays)
			}
		})
	}
	isolated := benchOf[struct {
		Rounds []struct{ Alone, Replayed struct{ Count uint64 } }
		MiB    float64 `json:"replay_mib_per_second"`
	}](t, b, "isolation", "--raw", "--topic", "tail-isolation", "--history", "bench-raw", "--rounds", "2", "--replays", "2", "--phase", "1s", "--rate", "500")
	if len(isolated.Rounds) != 2 || isolated.Rounds[1].Replayed.Count == 0 || isolated.Rounds[1].Alone.Count == 0 || isolated.MiB == 0 {
		t.Errorf("isolation says %+v", isolated)
	}
}

// What goes wrong has its exit code.
func TestBenchFailures(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	b.Firn("bench", "produce", "--topic", "other", "--duration", "100ms", "--raw")
	for _, args := range [][]string{{"--acks", "2"}, {"--duration", "0s"}, {"--clients", "0"}, {"--partitions", "-1"}} {
		if r := testutil.RunFirn(t, append([]string{"bench", "produce"}, args...)...); r.Code != 2 {
			t.Errorf("firn bench produce %v: exit code %d\n%s", args, r.Code, r.Stderr)
		}
	}
	for want, args := range map[int][]string{
		2: {"bench", "replay", "--clients", "0", "-b", b.Addr},
		3: {"bench", "produce", "--raw", "-b", "127.0.0.1:1"},
		4: {"bench", "replay", "--raw", "--topic", "no-such-topic", "-b", b.Addr},
		6: {"bench", "replay", "--raw", "--verify", "--size", "100", "--topic", "other", "-b", b.Addr},
	} {
		if r := testutil.RunFirn(t, args...); r.Code != want {
			t.Errorf("firn %v: exit code %d, want %d\n%s", args, r.Code, want, r.Stderr)
		}
	}
}

// The demo in small: every record of every replay is verified, the report is
// there, and nothing else is left.
func TestDemo(t *testing.T) {
	temporary, report := t.TempDir(), filepath.Join(t.TempDir(), "report")
	t.Setenv("TMPDIR", temporary)
	r := testutil.RunFirn(t, "demo", "--bytes", "64MiB", "--replays", "2", "--alone", "1s", "--rate", "500", "--max-ratio", "0", "--report", report)
	if r.Code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", r.Code, r.Stdout, r.Stderr)
	}
	if !bytes.Contains(r.Stdout, []byte("262144 records in 4 replays: none missing, doubled, out of order or changed")) || bytes.Contains(r.Stdout, []byte("\x1b")) {
		t.Errorf("the demo says:\n%s", r.Stdout)
	}
	text, err := os.ReadFile(filepath.Join(report, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Phases []struct {
			Name    string
			Tail    struct{ Count uint64 }
			Replays []struct{ Records int64 }
			Fetched struct{ Hot, Cold int64 } `json:"fetched_bytes"`
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Phases) != 3 || got.Phases[1].Name != "replay" || len(got.Phases[1].Replays) != 2 || got.Phases[1].Replays[1].Records != 65536 {
		t.Errorf("report.json has the phases %+v", got.Phases)
	}
	if f := got.Phases[1].Fetched; f.Cold < 64<<20 || f.Hot == 0 {
		t.Errorf("the replays read %d bytes from the store and %d from the page cache", f.Cold, f.Hot)
	}
	if f := got.Phases[2].Fetched; f.Cold != 0 {
		t.Errorf("the control had %d bytes from the store of the broker", f.Cold)
	}
	picture, err := os.Open(filepath.Join(report, "report.svg"))
	if err != nil {
		t.Fatal(err)
	}
	defer picture.Close()
	for d := xml.NewDecoder(picture); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("report.svg: %v", err)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
		t.Errorf("the demo leaves %v, %v", left, err)
	}
}
