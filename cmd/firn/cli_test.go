// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"firn/config"
	"firn/console"
)

// ran is the outcome of one command line.
type ran struct {
	code   int
	out    string
	errOut string
}

// firn runs a command line in an empty environment.
func firn(t *testing.T, args ...string) ran {
	t.Helper()
	var out, errOut bytes.Buffer
	a := &app{stdout: &out, stderr: &errOut}
	code := a.main(context.Background(), args)
	return ran{code, out.String(), errOut.String()}
}

// unusedAddr is an address that nobody listens on.
func unusedAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"bogus", `unknown command "bogus" for "firn"`},
		{"topic bogus", `unknown command "bogus" for "firn topic"`},
		{"--bogus", "unknown flag: --bogus"},
		{"topic create", "accepts 1 arg(s), received 0"},
		{"topic create a b", "accepts 1 arg(s), received 2"},
		{"topic create a --partitions x", "--partitions"},
		{"topic create a --partitions 0", "--partitions 0: want 1 or more"},
		{"topic create a --config retention.ms", "--config retention.ms: want key=value"},
		{"topic create a --config retention.ms=soon", "--config retention.ms=soon: want a time"},
		{"topic alter a", "nothing to change: add --config or --delete-config"},
		{"topic alter a --config retention.ms=soon", "--config retention.ms=soon: want a time"},
		{"topic alter a --config x=1 --delete-config x", "--delete-config x: want the key of a config that is not set as well"},
		{"topic add-partitions a", "--total 0: want the number"},
		{"topic trim-prefix a --before-offset 5 --yes", "--partition: want the number"},
		{"topic trim-prefix a -p 0 --before-offset x --yes", "--before-offset x: want a number from 0 up, or end"},
		{"topic trim-prefix a -p 3 --before-offset 5", "deleting records of a-3 cannot be undone: add --yes"},
		{"topic delete a", "deleting a cannot be undone: add --yes"},
		{"topic list -o xml", "want table, json or yaml"},
		{"tier init", "tier.store is none"},
		{"tier init --set tier.stor=s3", "did you mean tier.store?"},
		{"tier ls", "accepts 1 arg(s)"},
		{"status --admin http://%zz", "admin address http://%zz"},
	} {
		got := firn(t, strings.Fields(c.args)...)
		if got.code != exitUsage || !strings.Contains(got.errOut, c.want) || got.out != "" || strings.Count(got.errOut, "\n") != 1 || !strings.HasPrefix(got.errOut, "firn: ") {
			t.Errorf("firn %s: %+v, want code 2 and one line with %q", c.args, got, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"topic"}, {"tier"}, {"topic", "create", "--help"}} {
		if got := firn(t, args...); got.code != exitOK || !strings.Contains(got.out, "Usage:") || got.errOut != "" {
			t.Errorf("firn %v: %+v", args, got)
		}
	}
}

func TestUnreachable(t *testing.T) {
	addr := unusedAddr(t)
	for _, args := range []string{"topic list -b " + addr, "status --admin " + addr, "tier ls x --admin http://" + addr + "/"} {
		got := firn(t, strings.Fields(args)...)
		if got.code != exitUnreachable || !strings.Contains(got.errOut, addr) || strings.Count(got.errOut, "\n") != 1 {
			t.Errorf("firn %s: %+v", args, got)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, format := range []string{"table", "json", "yaml"} {
		got := firn(t, "version", "-o", format)
		if got.code != exitOK || !strings.Contains(got.out, "go1.") {
			t.Errorf("%s: %+v", format, got)
		}
	}
}

func TestTopics(t *testing.T) {
	f := startFake(t)
	b := []string{"-b", f.addr()}
	do := func(args string) ran { return firn(t, append(strings.Fields(args), b...)...) }

	if got := do("topic list -o json"); got.code != exitOK || got.out != "[]\n" {
		t.Errorf("an empty list: %+v", got)
	}
	if got := do("topic create clicks --partitions 3 --config retention.ms=7d --config local.retention.bytes=1MiB --config x=7d"); got.code != exitOK {
		t.Fatalf("create: %+v", got)
	}
	if c := f.topics["clicks"].configs; c["retention.ms"] != "604800000" || c["local.retention.bytes"] != "1048576" || c["x"] != "7d" {
		t.Errorf("the broker was told %v", c)
	}
	if got := do("topic create clicks"); got.code != exitFailed || got.errOut != "firn: topic clicks: topic already exists\n" {
		t.Errorf("create twice: %+v", got)
	}
	if got := do("topic create c --config cleanup.policy=compact"); got.code != exitUsage || got.errOut != "firn: topic c: cleanup.policy=compact: want delete\n" {
		t.Errorf("a refused config: %+v", got)
	}
	var lines []topicLine
	if got := do("topic list -o json"); json.Unmarshal([]byte(got.out), &lines) != nil || len(lines) != 1 || lines[0].Name != "clicks" || lines[0].Partitions != 3 {
		t.Errorf("list: %+v", got)
	}
	if got := do("topic list"); !strings.HasPrefix(got.out, "NAME") || !strings.Contains(got.out, "clicks") {
		t.Errorf("list: %+v", got)
	}
	var details []topicDetail
	got := do("topic describe clicks -o json")
	if err := json.Unmarshal([]byte(got.out), &details); err != nil || len(details) != 1 || len(details[0].Partitions) != 3 || len(details[0].Configs) != 3 {
		t.Fatalf("describe: %v, %+v", err, got)
	}
	if p := details[0].Partitions[2]; p != (partitionDetail{Partition: 2, Leader: 1, Epoch: 4, Start: 10, LocalStart: 60, End: 100}) {
		t.Errorf("partition: %+v", p)
	}
	if got := do("topic describe clicks --all"); !strings.Contains(got.out, "LOCAL-START") || !strings.Contains(got.out, "cleanup.policy") {
		t.Errorf("describe --all: %+v", got)
	}
	if got := do("topic describe nope"); got.code != exitNotFound || !strings.HasPrefix(got.errOut, "firn: topic nope: ") {
		t.Errorf("describe an unknown topic: %+v", got)
	}
	if got := do("topic delete clicks nope --yes"); got.code != exitNotFound || got.out != "topic clicks deleted\n" || !strings.Contains(got.errOut, "topic nope") {
		t.Errorf("delete: %+v", got)
	}
	f.mu.Lock()
	f.deny = true
	f.mu.Unlock()
	if got := do("topic delete clicks --yes"); got.code != exitDenied {
		t.Errorf("denied: %+v", got)
	}
}

func TestTopicChanges(t *testing.T) {
	f := startFake(t)
	do := func(args string) ran { return firn(t, append(strings.Fields(args), "-b", f.addr())...) }
	f.topics["clicks"] = &fakeTopic{3, map[string]string{"segment.ms": "5", "retention.bytes": "7"}}
	for _, c := range []struct {
		args string
		code int
		says string // on stdout when it went well, else on stderr
	}{
		{"topic alter clicks --config retention.ms=7d --config x=1 --delete-config segment.ms", exitOK, "topic clicks: 3 configs changed\n"},
		{"topic alter clicks --config remote.storage.enable=false", exitUsage, "firn: topic clicks: remote.storage.enable cannot be turned off\n"},
		{"topic alter nope --delete-config x", exitNotFound, "firn: topic nope: "},
		{"topic add-partitions clicks --total 5", exitOK, "topic clicks has 5 partitions\n"},
		{"topic add-partitions clicks --total 4", exitUsage, "firn: topic clicks: would be fewer\n"},
		{"topic add-partitions nope --total 4", exitNotFound, "firn: topic nope: "},
		{"topic trim-prefix clicks -p 2 --before-offset 50 --yes", exitOK, "partition 2 of topic clicks begins at offset 50\n"},
		{"topic trim-prefix clicks -p 2 --before-offset end --yes -o json", exitOK, "\"start\": 100"},
		{"topic trim-prefix clicks -p 2 --before-offset 101 --yes", exitUsage, "firn: topic clicks, partition 2: "},
	} {
		got := do(c.args)
		said := got.out
		if c.code != exitOK {
			said = got.errOut
		}
		if got.code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("firn %s: %+v, want code %d and %q", c.args, got, c.code, c.says)
		}
	}
	want := map[string]string{"retention.bytes": "7", "retention.ms": "604800000", "x": "1"}
	if got := f.topics["clicks"].configs; !maps.Equal(got, want) {
		t.Errorf("the configs are %v, want %v", got, want)
	}
}

// fakeSource is what the admin port of a test shows.
type fakeSource struct{ status console.Status }

func (f fakeSource) Ready() error                                   { return nil }
func (f fakeSource) Status(context.Context) (console.Status, error) { return f.status, nil }
func (f fakeSource) Segments(_ context.Context, topic string, p int32) ([]console.Segment, error) {
	if topic != "clicks" {
		return nil, fmt.Errorf("topic %s: %w", topic, console.ErrNotFound)
	}
	return []console.Segment{
		{Topic: topic, Partition: max(p, 0), Tier: console.TierStore, From: 0, To: 500, Bytes: 3 << 20, MaxTimestampMs: 1764547200000, UploadedMs: 1764547200000, Key: "k"},
		{Topic: topic, Partition: max(p, 0), Tier: console.TierLocal, From: 500, To: 510, Bytes: 12, MaxTimestampMs: -1, State: "active"},
	}, nil
}

func (f fakeSource) Explain(_ context.Context, q console.Question) (console.Explanation, error) {
	if q.Topic != "clicks" {
		return console.Explanation{}, fmt.Errorf("topic %s: %w", q.Topic, console.ErrNotFound)
	}
	return console.Explanation{
		Topic: q.Topic, Partition: q.Partition, Asked: q.Offset, Offset: q.Offset, Tier: console.ReadCold, Why: "below the local log",
		Key: "firn/x/seg/1.seg", Position: 4096, Bytes: 2048, From: 5, To: 9, Epoch: 3, Visible: true,
	}, nil
}

func admin(t *testing.T, s console.Status) string {
	t.Helper()
	srv, err := console.Listen(context.Background(), console.Options{Addresses: []string{"127.0.0.1:0"}, Source: fakeSource{s}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The client keeps connections open; they are cut off.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = srv.Close(ctx)
	})
	return srv.Addrs()[0].String()
}

func TestStatus(t *testing.T) {
	s := console.Status{
		Version: "1", ClusterID: "abc", NodeID: 1, Ready: true, StartedMs: 1764547200000, Listeners: []string{"PLAINTEXT://127.0.0.1:9092"},
		Disk:    console.DiskStatus{Total: 10 << 30, Free: 5 << 30},
		LogDirs: []console.LogDirStatus{{Dir: "/a", Partitions: 3, DiskStatus: console.DiskStatus{Total: 10 << 30, Free: 5 << 30}}},
		Store:   console.StoreStatus{Kind: "s3", Where: "http://x b", State: "copy-lag", OldestLocalOnlyMs: 90 * 60_000, LocalOnlyBytes: 1536},
	}
	addr := admin(t, s)
	got := firn(t, "status", "--admin", addr)
	for _, want := range []string{"5.0 GiB free of 10.0 GiB", "1.5 KiB not in the store yet, the oldest 1h30m old", "copy-lag", "2025-12-01 00:00:00 UTC"} {
		if got.code != exitOK || !strings.Contains(got.out, want) {
			t.Errorf("%q is not in %+v", want, got)
		}
	}
	var back console.Status
	if got := firn(t, "status", "--admin", addr, "-o", "json"); json.Unmarshal([]byte(got.out), &back) != nil || back.Disk.Free != 5<<30 {
		t.Errorf("json: %+v", got)
	}
	var generic map[string]any
	if got := firn(t, "status", "--admin", addr, "-o", "yaml"); yaml.Unmarshal([]byte(got.out), &generic) != nil || generic["version"] != "1" || generic["ready"] != true || generic["node_id"] != 1 {
		t.Errorf("yaml keeps types: %v in %+v", generic, got)
	}
	s.Attention = []console.PartitionStatus{{Topic: "clicks", Partition: 2, State: "poisoned"}}
	s.Store = console.StoreStatus{Kind: "none"}
	if got := firn(t, "status", "--admin", admin(t, s)); got.code != exitFaulty || !strings.Contains(got.out, "poisoned") || !strings.Contains(got.errOut, "1 partition needs attention") {
		t.Errorf("attention: %+v", got)
	}
}

func TestTierLs(t *testing.T) {
	addr := admin(t, console.Status{})
	if got := firn(t, "tier", "ls", "clicks", "--admin", addr); got.code != exitOK || !strings.Contains(got.out, "3.0 MiB") || !strings.Contains(got.out, "active") || strings.Count(got.out, "\n") != 3 {
		t.Errorf("table: %+v", got)
	}
	var back []console.Segment
	if got := firn(t, "tier", "ls", "clicks", "-p", "4", "--admin", addr, "-o", "json"); json.Unmarshal([]byte(got.out), &back) != nil || len(back) != 2 || back[0].Partition != 4 || back[0].Bytes != 3<<20 {
		t.Errorf("json: %+v", got)
	}
	if got := firn(t, "tier", "ls", "nope", "--admin", addr); got.code != exitNotFound || got.errOut != "firn: topic nope: not found\n" {
		t.Errorf("unknown: %+v", got)
	}
}

func TestTierInitLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cold")
	got := firn(t, "tier", "init", "--create-bucket", "-o", "json", "--set", "tier.store=dir", "--set", "tier.dir.path="+dir)
	var report storeReport
	if got.code != exitOK || json.Unmarshal([]byte(got.out), &report) != nil || report.Kind != "dir" || report.Prefix != "firn" || !report.ConditionalPut || report.BucketCreated {
		t.Fatalf("%+v", got)
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTierInitUnreachable(t *testing.T) {
	addr := unusedAddr(t)
	for _, kind := range []string{"s3", "minio"} {
		got := firn(t, "tier", "init", "--set", "tier.store="+kind, "--set", "tier.s3.bucket=b", "--set", "tier.s3.endpoint=http://"+addr,
			"--set", "tier.s3.access.key.id=AK", "--set", "tier.s3.secret.access.key=HUNTER", "--set", "tier.s3.region=us-east-1")
		if got.code != exitUnreachable || !strings.Contains(got.errOut, "object store "+kind+" b") || strings.Contains(got.errOut, "HUNTER") {
			t.Errorf("%s: %+v", kind, got)
		}
	}
}

// TestServe gives the settings of all sources to the function that serves.
func TestServe(t *testing.T) {
	var got *config.Config
	var fresh bool
	failure := errors.New("cannot serve")
	serve := func(a *app, err error) *cobra.Command {
		return newServeCommand(a, func(_ context.Context, c *config.Config, newCluster bool, out io.Writer) error {
			got, fresh = c, newCluster
			fmt.Fprintln(out, "banner")
			return err
		})
	}
	run := func(err error, args ...string) ran {
		var out, errOut bytes.Buffer
		a := &app{stdout: &out, stderr: &errOut, env: []string{"FIRN_NUM_PARTITIONS=4", "KAFKA_PROCESS_ROLES=broker", "FIRN_PORT=x"}}
		root := group("firn", "", serve(a, err))
		root.SetArgs(append([]string{"serve"}, args...))
		root.SilenceErrors, root.SilenceUsage = true, true
		return ran{a.exit(root.ExecuteContext(context.Background())), out.String(), errOut.String()}
	}
	r := run(nil, "--set", "log.dirs=/d", "--set", "listeners=A://127.0.0.1:1,B://127.0.0.1:2", "--set", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT", "--new-cluster")
	if r.code != exitOK || got.Topics.Partitions != 4 || !slices.Equal(got.Log.Dirs, []string{"/d"}) || len(got.Network.Listeners) != 2 || !fresh {
		t.Errorf("%+v, %+v", r, got)
	}
	if strings.Count(r.errOut, "firn: warning: ") != 2 || !strings.Contains(r.errOut, "banner") {
		t.Errorf("warnings: %s", r.errOut)
	}
	if r := run(failure); r.code != exitFailed || !strings.HasSuffix(r.errOut, "firn: cannot serve\n") {
		t.Errorf("failure: %+v", r)
	}
	got = nil
	r = run(nil, "--set", "num.partitions=x", "--set", "log.dris=y")
	if r.code != exitUsage || got != nil || strings.Count(r.errOut, "(from --set)") != 2 {
		t.Errorf("faults: %+v", r)
	}
	if r := run(nil, "argument"); r.code != exitUsage {
		t.Errorf("argument: %+v", r)
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 40: "5.0 TiB", 1 << 62: "4096.0 PiB"} {
		if got := humanBytes(n); got != want {
			t.Errorf("humanBytes(%d) = %s, want %s", n, got, want)
		}
	}
	for ms, want := range map[int64]string{5: "5ms", 61_500: "1m1s", 3_600_000: "1h0m", 90_000_000: "1d1h"} {
		if got := humanAge(ms); got != want {
			t.Errorf("humanAge(%d) = %s, want %s", ms, got, want)
		}
	}
	if humanTime(-1) != "-" || humanTime(0) != "-" {
		t.Error("no time is a dash")
	}
}

func TestYAMLQuotesWhatItMust(t *testing.T) {
	var b bytes.Buffer
	in := map[string]any{"a": "true", "b": "12", "c": "", "d": []int{}, "e": "plain", "f": "x: y", "g": nil, "h": 1764547200000}
	if err := printYAML(&b, in); err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := yaml.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back["a"] != "true" || back["b"] != "12" || back["c"] != "" || back["e"] != "plain" || back["f"] != "x: y" || back["g"] != nil || back["h"] != 1764547200000 {
		t.Errorf("%v from\n%s", back, b.String())
	}
}
