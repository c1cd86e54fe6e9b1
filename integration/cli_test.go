// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"firn/console"
	"firn/internal/testutil"
)

// decode reads what a command printed with -o json or -o yaml.
func decode(t testing.TB, format string, r testutil.Result, into any) {
	t.Helper()
	if r.Code != 0 {
		t.Fatalf("exit code %d: %s", r.Code, r.Stderr)
	}
	var err error
	if format == "json" {
		err = json.Unmarshal(r.Stdout, into)
	} else {
		err = yaml.Unmarshal(r.Stdout, into)
	}
	if err != nil {
		t.Fatalf("decode the output: %v\n%s", err, r.Stdout)
	}
}

// runs are command lines with what they should come to.
type runs []struct {
	args string
	code int
	says string // in either output
}

func (rs runs) check(t *testing.T, run func(args ...string) testutil.Result) {
	t.Helper()
	for _, one := range rs {
		r := run(strings.Fields(one.args)...)
		if said := string(r.Stdout) + string(r.Stderr); r.Code != one.code || !strings.Contains(said, one.says) {
			t.Errorf("firn %s: code %d, want %d and %q:\n%s", one.args, r.Code, one.code, one.says, said)
		}
		if one.code != 0 && len(r.Stderr) == 0 {
			t.Errorf("firn %s: failed without a word", one.args)
		}
	}
}

func TestTopicLife(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	runs{
		{"topic create clicks --partitions 3 --config retention.ms=30d --config segment.bytes=16MiB", 0, "topic clicks created with 3 partitions"},
		{"topic create views", 0, "topic views created with 1 partition"},
		{"topic create clicks", exitFailed, "already exists"},
		{"topic create bad/name", exitUsage, "bad/name"},
		{"topic create none --partitions 0", exitUsage, "--partitions"},
		{"topic create three --replication-factor 3", exitUsage, "firn.replication.factor.clamp"},
		{"topic create kept --config cleanup.policy=compact", exitUsage, "cleanup.policy"},
		{"topic create typo --config retension.ms=7d", exitUsage, "retension.ms"},
		{"topic create cold --config remote.storage.enable=true", exitUsage, "tier.store"},
		{"topic describe clicks", 0, "2592000000"},
		{"topic describe clicks --all", 0, "compression.type"},
		{"topic describe clicks nowhere", exitNotFound, "nowhere"},
		{"topic delete clicks", exitUsage, "--yes"},
		{"topic delete nowhere --yes", exitNotFound, "nowhere"},
		{"topic melt clicks", exitUsage, "unknown"},
		{"topic list extra", exitUsage, ""},
	}.check(t, b.Firn)

	produceAll(t, b, "clicks", 1, numbered(0, 50))
	for _, format := range []string{"json", "yaml"} {
		var list []map[string]any
		decode(t, format, b.Firn("topic", "list", "-o", format), &list)
		if len(list) != 2 || list[0]["name"] != "clicks" || fmt.Sprint(list[0]["partitions"]) != "3" || list[1]["name"] != "views" {
			t.Errorf("%s: %v", format, list)
		}
		var details []struct {
			Name       string `yaml:"name"`
			Partitions []struct{ Partition, Leader, Epoch, Start, End int64 }
			Configs    []struct{ Name, Value, Source string }
		}
		decode(t, format, b.Firn("topic", "describe", "clicks", "-o", format), &details)
		if len(details) != 1 || details[0].Name != "clicks" || len(details[0].Partitions) != 3 {
			t.Fatalf("%s: %+v", format, details)
		}
		if p := details[0].Partitions[1]; p.Partition != 1 || p.Leader != 1 || p.Start != 0 || p.End != 50 {
			t.Errorf("%s: partition 1 is %+v", format, p)
		}
		configs := make(map[string]string)
		for _, c := range details[0].Configs {
			configs[c.Name] = c.Value
		}
		if len(configs) != 2 || configs["retention.ms"] != "2592000000" || configs["segment.bytes"] != "16777216" {
			t.Errorf("%s: configs %v, want what was set", format, configs)
		}
	}
	runs{
		{"topic delete clicks views --yes", 0, "topic views deleted"},
		{"topic delete clicks --yes", exitNotFound, "clicks"},
		{"topic list -o json", 0, "[]"},
	}.check(t, b.Firn)
	b.Stop()
	runs{
		{"topic list", exitUnreachable, b.Addr},
		{"topic create later --timeout 5s", exitUnreachable, b.Addr},
	}.check(t, b.Firn)
}

func TestStatusAndTierList(t *testing.T) {
	g := testutil.StartGateway(t)
	b := testutil.StartBroker(t, tiered(g, "s3", nil))
	admin := strings.TrimPrefix(b.AdminURL, "http://")
	firn := func(args ...string) testutil.Result { return testutil.RunFirn(t, append(args, "--admin", admin)...) }
	createTopic(t, b, "cold", 2, "local.retention.ms=1")
	createTopic(t, b, "hot", 1, "remote.storage.enable=false")
	produceAll(t, b, "cold", 0, numbered(0, 10))
	produceAll(t, b, "cold", 1, numbered(0, 10))
	produceAll(t, b, "hot", 0, numbered(0, 10))
	waitOffLocal(t, b, "cold", 0, 10)
	waitOffLocal(t, b, "cold", 1, 10)
	runs{
		{"status", 0, "nothing: all records of tiered topics are in the store"},
		{"status", 0, "fdatasync"},
		{"tier ls cold", 0, "LAST-RECORD"},
		{"tier ls hot", 0, "local"},
		{"tier ls nowhere", exitNotFound, "nowhere"},
		{"tier ls cold -p 7", exitNotFound, "7"},
		{"status -o xml", exitUsage, "want table, json or yaml"},
	}.check(t, firn)
	for _, format := range []string{"json", "yaml"} {
		var status map[string]any
		decode(t, format, firn("status", "-o", format), &status)
		if status["ready"] != true || fmt.Sprint(status["topics"]) != "2" || fmt.Sprint(status["partitions"]) != "3" {
			t.Errorf("%s: %v", format, status)
		}
		var segments []map[string]any
		decode(t, format, firn("tier", "ls", "cold", "-p", "0", "-o", format), &segments)
		if len(segments) == 0 || segments[0]["tier"] != console.TierStore || fmt.Sprint(segments[0]["to"]) != "10" || !strings.HasSuffix(fmt.Sprint(segments[0]["key"]), ".seg") {
			t.Errorf("%s: %v", format, segments)
		}
	}
	var all []console.Segment
	decode(t, "json", firn("tier", "ls", "cold", "-o", "json"), &all)
	partitions := make(map[int32]bool)
	for _, s := range all {
		partitions[s.Partition] = true
	}
	if !partitions[0] || !partitions[1] {
		t.Errorf("partitions %v are listed, want both", partitions)
	}
	b.Stop()
	runs{{"status", exitUnreachable, admin}, {"tier ls cold", exitUnreachable, admin}}.check(t, firn)
}

// tier init says what the store can do, and leaves nothing in it.
func TestTierInit(t *testing.T) {
	g := testutil.StartGateway(t)
	for _, driver := range []string{"s3", "minio"} {
		settings := tiered(g, driver, nil)
		run := func(more map[string]string, args ...string) testutil.Result {
			all := tiered(g, driver, more)
			return testutil.RunFirn(t, append(append([]string{"tier", "init"}, args...), setFlags(all)...)...)
		}
		var report map[string]any
		decode(t, "json", run(nil, "-o", "json"), &report)
		for _, can := range []string{"conditional_put", "bulk_delete", "multipart", "checksums", "path_style"} {
			if report[can] != true {
				t.Errorf("%s: %s is %v", driver, can, report[can])
			}
		}
		if report["kind"] != driver || report["bucket_created"] != false {
			t.Errorf("%s: %v", driver, report)
		}
		if r := run(nil); r.Code != 0 || !strings.Contains(string(r.Stdout), "conditional put") {
			t.Errorf("%s: %d, %s%s", driver, r.Code, r.Stdout, r.Stderr)
		}
		if keys := g.Keys(""); len(keys) != 0 {
			t.Errorf("%s: left %v behind", driver, keys)
		}

		bucket := map[string]string{"tier.s3.bucket": "made-by-" + driver}
		if r := run(bucket); r.Code != exitNotFound || !strings.Contains(string(r.Stderr), bucket["tier.s3.bucket"]) {
			t.Errorf("%s, no bucket: code %d, %s", driver, r.Code, r.Stderr)
		}
		for range 2 {
			if r := run(bucket, "--create-bucket"); r.Code != 0 {
				t.Errorf("%s, --create-bucket: code %d, %s", driver, r.Code, r.Stderr)
			}
		}
		settings["tier.s3.bucket"] = bucket["tier.s3.bucket"]
		testutil.StartBroker(t, settings)

		wrong := run(map[string]string{"tier.s3.secret.access.key": "HUNTER2"})
		if wrong.Code != exitDenied || strings.Contains(string(wrong.Stderr), "HUNTER2") {
			t.Errorf("%s, a wrong secret: code %d, %s", driver, wrong.Code, wrong.Stderr)
		}
	}
	if r := testutil.RunFirn(t, "tier", "init"); r.Code != exitUsage || !strings.Contains(string(r.Stderr), "tier.store") {
		t.Errorf("without a store: code %d, %s", r.Code, r.Stderr)
	}
	// The credentials may come as the AWS tools take them.
	flags := setFlags(g.Settings("s3"))
	r := testutil.Command{Path: testutil.FirnPath(t), Args: append([]string{"tier", "init"}, flags...), Env: g.Env()}.Run(t)
	if r.Code != 0 {
		t.Errorf("credentials of the environment: code %d, %s", r.Code, r.Stderr)
	}
	g.Stop()
	r = testutil.RunFirn(t, append([]string{"tier", "init", "--timeout", "10s"}, setFlags(tiered(g, "s3", nil))...)...)
	if r.Code != exitUnreachable {
		t.Errorf("without the server: code %d, want %d; %s", r.Code, exitUnreachable, r.Stderr)
	}
}

func TestVersionAndUsage(t *testing.T) {
	run := func(args ...string) testutil.Result { return testutil.RunFirn(t, args...) }
	for _, format := range []string{"json", "yaml"} {
		var version map[string]any
		decode(t, format, run("version", "-o", format), &version)
		if version["version"] == "" || !strings.HasPrefix(fmt.Sprint(version["go"]), "go1.") {
			t.Errorf("%s: %v", format, version)
		}
	}
	runs{
		{"version", 0, "firn"},
		{"", 0, "Usage:"},
		{"--help", 0, "serve"},
		{"melt", exitUsage, "unknown command"},
		{"serve --melt", exitUsage, "unknown flag"},
		{"serve --set melt=1", exitUsage, "melt"},
		{"serve --set", exitUsage, "--set"},
		{"serve --config /no/such/file", exitUsage, "/no/such/file"},
		{"demo --bytes some", exitUsage, "--bytes"},
		{"serve --set log.dirs=/proc/none --set listeners=PLAINTEXT://127.0.0.1:0 --set admin.listeners=none", exitFailed, "/proc/none"},
	}.check(t, run)
}
