// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"firn/console"
)

// firnIn is firn with standard input.
func firnIn(t *testing.T, in string, args ...string) ran {
	t.Helper()
	var out, errOut bytes.Buffer
	a := &app{stdin: strings.NewReader(in), stdout: &out, stderr: &errOut}
	code := a.main(context.Background(), args)
	return ran{code, out.String(), errOut.String()}
}

// numbers are the lines from first up to, and without, end.
func numbers(first, end int) string {
	var b strings.Builder
	for i := first; i < end; i++ {
		fmt.Fprintf(&b, "%d\n", i)
	}
	return b.String()
}

func TestProduceAndConsume(t *testing.T) {
	n := startTestNode(t, "num.partitions=1")
	b := []string{"-b", n.kafka()}
	firnOK := func(in string, args ...string) ran {
		t.Helper()
		got := firnIn(t, in, append(args, b...)...)
		if got.code != exitOK {
			t.Fatalf("firn %v: %+v", args, got)
		}
		return got
	}
	for i, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for j, acks := range []string{"0", "1", "all"} {
			topic := fmt.Sprintf("t-%d-%d", i, j)
			if got := firnOK(numbers(0, 100), "topic", "produce", topic, "-z", codec, "--acks", acks); got.errOut != "100 records to topic "+topic+"\n" || got.out != "" {
				t.Errorf("produce: %+v", got)
			}
			waitFor(t, "acks=0 is appended some time", func() bool {
				return strings.Contains(firnOK("", "topic", "describe", topic, "-o", "json").out, `"end": 100`)
			})
			if got := firnOK("", "topic", "consume", topic, "-o", "beginning", "-e"); got.out != numbers(0, 100) {
				t.Errorf("%s: %d bytes came back", topic, len(got.out))
			}
		}
	}
	file := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(file, []byte("k1:v1\nno key\n\nk2:v:2"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := time.Now().UnixMilli()
	firnOK("", "topic", "produce", "keys", file, "-k", ":", "-H", "h=x", "-H", "g=", "-p", "0")
	want := "keys 0 0 [k1/2] [v1/2] h=x,g= %|\nkeys 0 1 [/-1] [no key/6] h=x,g= %|\nkeys 0 2 [/-1] [/0] h=x,g= %|\nkeys 0 3 [k2/2] [v:2/3] h=x,g= %|\n"
	if got := firnOK("", "topic", "consume", "keys", "-o", "beginning", "-e", "-f", `%t %p %o [%k/%K] [%s/%S] %h %%\x7C\n`); got.out != want {
		t.Errorf("%q", got.out)
	}
	got := firnOK("", "topic", "consume", "keys", "-o", "-2", "-e", "-J")
	var last recordJSON
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != 2 || last.Offset != 3 || *last.Key != "k2" || *last.Payload != "v:2" || last.TS < before || last.TSType != "create" {
		t.Errorf("%v, %s", err, got.out)
	}
	for from, want := range map[string]string{"1": "no key\n\nv:2\n", "@-1h": "v1\nno key\n\nv:2\n", "end": "", "-1": "v:2\n", fmt.Sprintf("@%d", time.Now().Add(time.Hour).UnixMilli()): ""} {
		if got := firnOK("", "topic", "consume", "keys", "-o", from, "-e"); got.out != want {
			t.Errorf("-o %s: %q", from, got.out)
		}
	}
	if got := firnOK("", "topic", "consume", "t-0-0", "-o", "beginning", "-n", "3"); got.out != numbers(0, 3) {
		t.Errorf("-n 3: %q", got.out)
	}
	for args, code := range map[string]int{
		"topic consume keys -o 99 -e": exitNotFound, "topic consume nope -e": exitNotFound, "topic consume keys -p 7 -e": exitNotFound,
		"topic consume keys -o soon": exitUsage, "topic consume keys -o @soon": exitUsage, "topic consume keys -f %q": exitUsage, "topic consume keys -n -1": exitUsage,
		`topic consume keys -f \x1`: exitUsage, "topic consume keys -f 50%": exitUsage,
		"topic produce keys -z lzma": exitUsage, "topic produce keys --acks 2": exitUsage, "topic produce keys /nope": exitUsage, "topic produce keys -H x": exitUsage,
	} {
		if got := firnIn(t, "x\n", append(strings.Fields(args), b...)...); got.code != code || strings.Count(got.errOut, "\n") != 1 {
			t.Errorf("firn %s: %+v, want code %d", args, got, code)
		}
	}
	if got := firnIn(t, "x\n", "topic", "produce", "keys", "-p", "5", "--timeout", "5s", "-b", n.kafka()); got.code == exitOK {
		t.Errorf("a partition that is not there: %+v", got)
	}
}

func TestConsumeAndProduceUnreachable(t *testing.T) {
	addr := unusedAddr(t)
	for _, args := range []string{"topic consume x -e --timeout 1s -b " + addr, "topic produce x --timeout 1s -b " + addr} {
		if got := firnIn(t, "x\n", strings.Fields(args)...); got.code != exitUnreachable || strings.Count(got.errOut, "\n") != 1 {
			t.Errorf("firn %s: %+v", args, got)
		}
	}
}

// TestTiersOfATopic follows a topic into the store and back: what ls, status,
// explain, consume --tiers, inspect and cat say of the same records.
func TestTiersOfATopic(t *testing.T) {
	n := startTestNode(t)
	admin := []string{"--admin", n.admin()}
	if got := firn(t, "topic", "create", "clicks", "-b", n.kafka(), "--config", "segment.bytes=1MiB", "--config", "local.retention.bytes=0"); got.code != exitOK {
		t.Fatal(got)
	}
	value := strings.Repeat("x", 100<<10)
	client, err := kgo.NewClient(kgo.SeedBrokers(n.kafka()), kgo.DefaultProduceTopic("clicks"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 25 { // a batch each
		if err := client.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(i, value))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	segments := func() (all []console.Segment) {
		t.Helper()
		got := firn(t, append([]string{"tier", "ls", "clicks", "-o", "json"}, admin...)...)
		if err := json.Unmarshal([]byte(got.out), &all); err != nil {
			t.Fatalf("%v: %+v", err, got)
		}
		return all
	}
	waitFor(t, "two segments are in the store alone", func() bool {
		all := segments()
		return len(all) == 3 && all[0].Tier == console.TierStore && all[1].Tier == console.TierStore
	})
	all := segments()
	if all[0].State != wordRetention || all[2].State != wordRollsIn || all[2].RollsInMs < 1 || all[2].RollsInMs > 3_600_000 {
		t.Errorf("%+v", all)
	}
	if got := firn(t, append([]string{"tier", "ls", "clicks", "--keys"}, admin...)...); !strings.Contains(got.out, all[0].Key) || !strings.Contains(got.out, "rolls-in ") {
		t.Errorf("%+v", got)
	}
	var report tierReport
	got := firn(t, append([]string{"tier", "status", "clicks", "-o", "json"}, admin...)...)
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || len(report.Topics) != 1 {
		t.Fatalf("%v, %+v", err, got)
	}
	if s := report.Topics[0]; s.State != wordActive || s.LagSegments != 0 || s.UnprotectedBytes != all[2].Bytes || s.UnprotectedMs < 0 || s.Segments != 2 {
		t.Errorf("%+v", s)
	}
	explain := func(place string) (x console.Explanation) {
		t.Helper()
		got := firn(t, append([]string{"tier", "explain", place, "-o", "json"}, admin...)...)
		if err := json.Unmarshal([]byte(got.out), &x); err != nil {
			t.Fatalf("%s: %v, %+v", place, err, got)
		}
		return x
	}
	if x := explain("clicks/0@0"); x.Tier != console.ReadCold || x.Key != all[0].Key || x.From != 0 || x.To != 1 || x.Position != 0 || x.Bytes < 100<<10 || !x.Visible {
		t.Errorf("%+v", x)
	}
	if x := explain("clicks/0@24"); x.Tier != console.ReadHot && x.Tier != console.ReadWarm || x.File == "" || x.Key != "" || x.From != 24 {
		t.Errorf("%+v", x)
	}
	if x := explain("clicks/0@-1h"); x.Offset != 0 {
		t.Errorf("%+v", x)
	}
	for place, code := range map[string]int{
		"clicks/0@25": exitNotFound, "clicks/9@0": exitNotFound, "nope/0@0": exitNotFound, "clicks/0@2100-01-01T00:00:00Z": exitNotFound,
		"clicks@0": exitUsage, "clicks/x@0": exitUsage, "clicks/0@soon": exitUsage, "clicks/0": exitUsage,
	} {
		if got := firn(t, append([]string{"tier", "explain", place}, admin...)...); got.code != code {
			t.Errorf("%s: %+v, want code %d", place, got, code)
		}
	}
	got = firn(t, "topic", "consume", "clicks", "-o", "beginning", "-e", "-b", n.kafka(), "--tiers", "-J")
	tiers := map[string]int{}
	for line := range strings.Lines(got.out) {
		var r recordJSON
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		tiers[r.Tier]++
	}
	cold := int(all[2].From)
	if tiers[console.ReadCold] != cold || tiers[console.ReadHot]+tiers[console.ReadWarm] != 25-cold || !strings.Contains(got.errOut, fmt.Sprintf("cold: %d batches", cold)) {
		t.Errorf("%v, %s", tiers, got.errOut)
	}
	inspectAndCat(t, n, all[0])
}

// inspectAndCat looks at an object by its key alone, whole and damaged.
func inspectAndCat(t *testing.T, n testNode, s console.Segment) {
	t.Helper()
	run := func(args ...string) ran { return firn(t, append(args, n.sets...)...) }
	got := run("tier", "inspect", s.Key, "--batches", "-o", "json")
	var report objectReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitOK {
		t.Fatalf("%v, %+v", err, got)
	}
	if report.From != s.From || report.To != s.To || len(report.BatchList) != int(s.To-s.From) || len(report.Faults) != 0 || report.Size != s.ObjectBytes {
		t.Errorf("%+v", report)
	}
	if got := run("tier", "inspect", s.Key); !strings.Contains(got.out, "whole: every digest and CRC is right") {
		t.Errorf("%+v", got)
	}
	got = run("tier", "cat", s.Key, "-f", `%t/%p %o\n`)
	if !strings.HasPrefix(got.out, "clicks/0 0\nclicks/0 1\n") || strings.Count(got.out, "\n") != int(s.To-s.From) {
		t.Errorf("%+v", got)
	}
	path := filepath.Join(n.cfg.Tier.DirPath, filepath.FromSlash(s.Key))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[500] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run("tier", "inspect", s.Key); got.code != exitFaulty || !strings.Contains(got.out, "damaged") || !strings.Contains(got.errOut, s.Key) {
		t.Errorf("%+v", got)
	}
	if got := run("tier", "cat", s.Key); got.code != exitFaulty || got.out != "" {
		t.Errorf("%+v", got)
	}
	b[len(b)-1] ^= 1 // the footer
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run("tier", "inspect", s.Key); got.code != exitFaulty {
		t.Errorf("%+v", got)
	}
	if got := run("tier", "cat", "nope"); got.code != exitNotFound {
		t.Errorf("%+v", got)
	}
	if got := firn(t, "tier", "cat", "nope"); got.code != exitUsage {
		t.Errorf("without a store: %+v", got)
	}
}
