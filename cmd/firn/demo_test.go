// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"firn/bench"
)

func TestBars(t *testing.T) {
	line := bar("loading", 512<<20, 1<<30, 2*time.Second)
	for _, want := range []string{"[##############..............]", " 50%", "512.0 MiB", "256 MiB/s", "ETA 2s"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %q", want, line)
		}
	}
	if line := bar("loading", 0, 0, 0); !strings.Contains(line, "100%") {
		t.Errorf("nothing of nothing is %q", line)
	}
	var out bytes.Buffer
	b := newBars(&out)
	b.draw("a", "b")
	b.done("c", "d")
	if out.String() != "c\nd\n" {
		t.Errorf("what is no terminal gets %q", out.String())
	}
	out.Reset()
	b.live = true
	b.draw("a", "b")
	b.done("c", "d")
	if want := "\x1b[2Ka\n\x1b[2Kb\n\x1b[2A\x1b[2Kc\n\x1b[2Kd\n"; out.String() != want {
		t.Errorf("a terminal gets %q, want %q", out.String(), want)
	}
}

// The addresses are read from the banner, of which the end may be missing yet.
func TestBannerFields(t *testing.T) {
	var l lastText
	for _, text := range []string{"time=x level=INFO msg=admin\nfirn 1\n  listening on  PLAINTEXT://127.0.0.1:1234\n", "  admin    http://127.0.0.1:56"} {
		if _, err := l.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.field("listening on"); got != "PLAINTEXT://127.0.0.1:1234" {
		t.Errorf("listening on %q", got)
	}
	if got := l.field("admin"); got != "" {
		t.Errorf("half a line gives %q", got)
	}
	if _, err := l.Write([]byte("78\n")); err != nil {
		t.Fatal(err)
	}
	if got := l.field("admin"); got != "http://127.0.0.1:5678" {
		t.Errorf("admin at %q", got)
	}
	if _, err := l.Write(make([]byte, 2*maxLastText)); err != nil || len(l.String()) != maxLastText {
		t.Errorf("%d bytes are kept", len(l.String()))
	}
}

func TestDemoBounds(t *testing.T) {
	phases := func(alone, replayed, residentBefore, residentAfter float64) *demo {
		return &demo{demoFlags: demoFlags{ratio: 3}, phases: []demoPhase{
			{Tail: bench.Latency{P99: alone}, Resident: residentBefore},
			{Tail: bench.Latency{P99: replayed}, Resident: residentAfter},
		}}
	}
	for name, c := range map[string]struct {
		d    *demo
		want string
	}{
		"good":          {phases(10, 29, 1, 0.99), ""},
		"below floor":   {phases(0.1, 9, 1, 1), ""},
		"slow":          {phases(10, 31, 1, 1), "more than 3 times"},
		"evicted":       {phases(1, 1, 1, 0.5), "left 50.0% of the hot set"},
		"evicted early": {phases(1, 1, 0.5, 0.49), ""},
	} {
		if got := strings.Join(c.d.brokenBounds(), "\n"); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	noisy := phases(10, 31, 1, 1)
	noisy.phases[0].Noisy = true
	if got := noisy.brokenBounds(); len(got) != 0 {
		t.Errorf("on a busy machine: %q", got)
	}
	slow := phases(1, 1000, 1, 1)
	slow.ratio, slow.diskAt = 0, 4<<30
	if got := slow.brokenBounds(); len(got) != 1 || !strings.Contains(got[0], "on disk at once") {
		t.Errorf("without a ratio: %q", got)
	}
}

func TestBenchUsage(t *testing.T) {
	for _, args := range []string{
		"demo --bytes 1KiB", "demo --bytes 1TiB", "demo --replays 0", "demo --alone 1ms", "demo extra",
		"bench produce --size 1", "bench produce --codec lzma", "bench consume --fetch 0", "bench e2e --raw --codec lz4 --rate -1",
		"bench isolation --rounds 0", "bench replay --size x",
	} {
		if r := firn(t, strings.Fields(args)...); r.code != exitUsage || r.errOut == "" {
			t.Errorf("firn %s: exit code %d, %q", args, r.code, r.errOut)
		}
	}
}

func TestIsolationCountsQuietRounds(t *testing.T) {
	r := isolationReport{Rounds: []isolationRound{{Ratio: 1}, {Ratio: 9, Noisy: true}, {Ratio: 1.2}}}
	if r.sumUp(nil); r.P99.Median != 1.1 || !strings.Contains(r.Gate, "2 of 3") {
		t.Errorf("%v, %q", r.P99, r.Gate)
	}
	if r.sumUp(errors.New("refused")); r.P99.Median != 1.2 || !strings.Contains(r.Gate, "refused") {
		t.Errorf("%v, %q", r.P99, r.Gate)
	}
	r.Rounds = r.Rounds[1:2]
	if r.sumUp(nil); r.P99.Median != 9 || !strings.Contains(r.Gate, "no round was quiet") {
		t.Errorf("%v, %q", r.P99, r.Gate)
	}
}
