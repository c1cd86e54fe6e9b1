// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"firn/config"
)

// diagnose runs firn doctor and gives the findings by check.
func diagnose(t *testing.T, args ...string) (ran, map[string]finding) {
	t.Helper()
	got := firn(t, append([]string{"doctor", "-o", "json"}, args...)...)
	var all []finding
	if err := json.Unmarshal([]byte(got.out), &all); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	byCheck := map[string]finding{}
	for _, f := range all {
		if worse := byCheck[f.Check]; worse.State == "" || worse.State == checkOK {
			byCheck[f.Check] = f
		}
		if (f.State == checkOK) != (f.Cure == "") || f.Text == "" {
			t.Errorf("%+v: what is not ok has a cure", f)
		}
	}
	return got, byCheck
}

func want(t *testing.T, findings map[string]finding, check, state, text string) {
	t.Helper()
	f := findings[check]
	if f.State != state || !strings.Contains(f.Text+"; "+f.Cure, text) {
		t.Errorf("%s is %+v, want %s with %q", check, f, state, text)
	}
}

func TestDoctorBesideABroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	admin := l.Addr().String()
	kafka := unusedAddr(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	n := startTestNode(t, "listeners=PLAINTEXT://"+kafka, "admin.listeners=http://"+admin)
	got, findings := diagnose(t, n.sets...)
	if got.code != exitOK {
		t.Errorf("%+v", got)
	}
	want(t, findings, "data directory", checkOK, "is in use, and a broker answers")
	want(t, findings, "port of PLAINTEXT", checkOK, "the running broker's")
	want(t, findings, "admin port", checkOK, "the running broker's")
	want(t, findings, "advertised by PLAINTEXT", checkOK, "clients are told "+kafka+", and this cluster answers there")
	want(t, findings, "object store", checkWarn, "protects against nothing")
	if f := findings["disk space"]; f.State == "" {
		t.Error("no look at the disk")
	}
	table := firn(t, append([]string{"doctor"}, n.sets...)...)
	for line := range strings.Lines(table.out) {
		if !strings.HasPrefix(line, "ok ") && !strings.HasPrefix(line, "warn ") {
			t.Errorf("line %q", line)
		}
	}
	// A client that is told a wrong port learns nothing of the cluster.
	_, findings = diagnose(t, append(n.sets, "--set", "admin.listeners=http://"+unusedAddr(t))...)
	want(t, findings, "data directory", checkWarn, "no broker answers")
	want(t, findings, "port of PLAINTEXT", checkFail, "taken by another process")
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	admin := "admin.listeners=http://" + unusedAddr(t)
	got, findings := diagnose(t, "--set", "log.dirs="+file, "--set", admin, "--set", "listeners=PLAINTEXT://127.0.0.1:0",
		"--set", "advertised.listeners=PLAINTEXT://no.such.host.invalid:9092", "--set", "firn.disk.reserve.bytes=100000TiB",
		"--set", "tier.store=s3", "--set", "tier.s3.bucket=b", "--set", "tier.s3.endpoint=http://"+unusedAddr(t),
		"--set", "tier.s3.access.key.id=AK", "--set", "tier.s3.secret.access.key=HUNTER", "--set", "tier.s3.region=us-east-1")
	if got.code != exitFaulty || !strings.Contains(got.errOut, "checks failed") || strings.Contains(got.out, "HUNTER") {
		t.Errorf("%+v", got)
	}
	want(t, findings, "data directory", checkFail, "is no directory")
	want(t, findings, "file system", checkOK, "residency")
	want(t, findings, "disk space", checkFail, "produce is refused")
	want(t, findings, "port of PLAINTEXT", checkOK, "any free port")
	want(t, findings, "advertised by PLAINTEXT", checkFail, "no.such.host.invalid")
	want(t, findings, "object store", checkFail, "tier.s3.endpoint")

	_, findings = diagnose(t, "--set", "log.dirs="+filepath.Join(dir, "new"), "--set", admin, "--set", "listeners=PLAINTEXT://127.0.0.1:0")
	want(t, findings, "data directory", checkOK, "will be made")
	want(t, findings, "object store", checkOK, "none")
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("the doctor made the data directory")
	}
	if got := firn(t, "doctor", "--set", "num.partitions=x"); got.code != exitUsage || got.out != "" {
		t.Errorf("settings at fault: %+v", got)
	}
}

func TestDoctorSeesLoopbackAdvertised(t *testing.T) {
	c, _, err := config.Load(config.LoadOptions{Flags: []string{
		"listeners=PLAINTEXT://0.0.0.0:0", "advertised.listeners=PLAINTEXT://127.0.0.1:9092", "firn.listeners.allow.insecure=true",
	}})
	if err != nil {
		t.Fatal(err)
	}
	d := &doctor{cfg: c}
	d.checkAdvertised(context.Background())
	if len(d.findings) != 1 || d.findings[0].State != checkWarn || !strings.Contains(d.findings[0].Text, "only this machine reaches") {
		t.Errorf("%+v", d.findings)
	}
}

func TestMemoryLimit(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("v2/a/memory.max", "500\n")
	write("v2/a/b/memory.max", "max\n")
	write("v2/a/c/memory.max", "300\n")
	write("v1/memory/x/memory.limit_in_bytes", "700\n")
	write("v1/memory/memory.limit_in_bytes", "9223372036854771712\n")
	for _, c := range []struct {
		self, root string
		want       int64
		limited    bool
	}{
		{"0::/a/b\n", "v2", 500, true},
		{"0::/a/c\n", "v2", 300, true},
		{"0::/\n", "v2", 0, false},
		{"0::/../..\n", "v2", 0, false},
		{"5:cpu,memory:/x\n1:name=systemd:/y\n", "v1", 700, true},
		{"5:memory:/y\n", "v1", 0, false},
		{"nonsense\n", "v2", 0, false},
	} {
		write("self", c.self)
		got, limited := memoryLimit(filepath.Join(dir, "self"), filepath.Join(dir, c.root))
		if got != c.want || limited != c.limited {
			t.Errorf("%q: %d, %v", c.self, got, limited)
		}
	}
	if _, limited := memoryLimit(filepath.Join(dir, "none"), dir); limited {
		t.Error("a limit out of nowhere")
	}
}

func TestConfigCommands(t *testing.T) {
	sets := []string{"--set", "log.retention.hours=5", "--set", "tier.s3.access.key.id=AK", "--set", "tier.s3.secret.access.key=HUNTER", "--set", "num.partitions=3"}
	got := firn(t, append([]string{"config", "print", "-o", "json"}, sets...)...)
	var lines []settingLine
	if err := json.Unmarshal([]byte(got.out), &lines); err != nil || got.code != exitOK {
		t.Fatalf("%v, %+v", err, got)
	}
	byName := map[string]settingLine{}
	for _, l := range lines {
		byName[l.Name] = l
	}
	if l := byName["num.partitions"]; *l.Value != "3" || l.Source != "--set" {
		t.Errorf("%+v", l)
	}
	if l := byName["tier.s3.secret.access.key"]; *l.Value != secretMask || strings.Contains(got.out, "HUNTER") {
		t.Errorf("%+v", l)
	}
	if l := byName["log.segment.bytes"]; l.Source != "default" || *l.Value != "1073741824" {
		t.Errorf("%+v", l)
	}
	changed := firn(t, append([]string{"config", "print", "--changed"}, sets...)...)
	if n := strings.Count(changed.out, "\n"); n < 5 || n >= len(lines) || strings.Contains(changed.out, "default") || strings.Contains(changed.out, "HUNTER") {
		t.Errorf("%+v", changed)
	}
	if got := firn(t, append([]string{"config", "validate"}, sets...)...); got.code != exitOK || !strings.Contains(got.out, "4 settings set") {
		t.Errorf("%+v", got)
	}
	if got := firn(t, "config", "validate", "--set", "num.partitions=x", "--set", "log.dris=/"); got.code != exitUsage || strings.Count(got.errOut, "\n") != 2 || got.out != "" {
		t.Errorf("%+v", got)
	}
	if got := firn(t, "config", "reference"); got.out != config.Reference() {
		t.Errorf("%.200s", got.out)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := firn(t, "completion", shell); got.code != exitOK || !strings.Contains(got.out, "firn") || len(got.out) < 1000 {
			t.Errorf("%s: %+v", shell, got)
		}
	}
	if got := firn(t, "completion", "tcsh"); got.code != exitUsage {
		t.Errorf("%+v", got)
	}
}
