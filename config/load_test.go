// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"firn/cluster"
)

// write puts a settings file into a directory of the test's.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, o LoadOptions) *Config {
	t.Helper()
	c, _, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// faultsOf wants Load to fail and gives the lines of the error.
func faultsOf(t *testing.T, o LoadOptions) []string {
	t.Helper()
	c, _, err := Load(o)
	var faults Faults
	if c != nil || !errors.As(err, &faults) {
		t.Fatalf("I1: want faults, got %v", err)
	}
	return strings.Split(err.Error(), "\n")
}

func TestNoSettings(t *testing.T) {
	c := load(t, LoadOptions{})
	if got := c.Network.Listeners; len(got) != 1 || got[0].Name != "PLAINTEXT" || got[0].Bind.String() != "127.0.0.1:9092" || got[0].Advertised != got[0].Bind {
		t.Errorf("listeners: %+v", got)
	}
	if !slices.Equal(c.Log.Dirs, []string{"firn-data"}) || c.Node.ID != 1 || !c.Log.AcksAllFsync || c.Log.RetentionCheckInterval != 5*time.Minute || c.Log.FileDeleteDelay != time.Minute {
		t.Errorf("log: %+v", c.Log)
	}
	if got := c.Operation.AdminListeners; len(got) != 1 || got[0].String() != "127.0.0.1:9190" {
		t.Errorf("admin listeners: %v", got)
	}
	if c.Tier.Enabled() || c.Topics.Defaults.Store || len(c.Topics.Defaults.Settings) != 0 || len(c.Sources()) != 0 {
		t.Errorf("tier: %+v, set: %v", c.Tier, c.Sources())
	}
	if c.Topics.Partitions != 1 || !c.Topics.AutoCreate || c.Operation.LogLevel != slog.LevelInfo {
		t.Errorf("topics: %+v", c.Topics)
	}
}

// TestPrecedence sets one key in more and more sources; the strongest wins.
func TestPrecedence(t *testing.T) {
	file := write(t, "firn.yaml", "num.partitions: 2\n")
	o := LoadOptions{File: file}
	for _, step := range []struct {
		add    func()
		want   int32
		source string
	}{
		{func() {}, 2, file + ":1"},
		{func() { o.Env = append(o.Env, "KAFKA_NUM_PARTITIONS=3") }, 3, "KAFKA_NUM_PARTITIONS"},
		{func() { o.Env = append(o.Env, "FIRN_NUM_PARTITIONS=4") }, 4, "FIRN_NUM_PARTITIONS"},
		{func() { o.Flags = append(o.Flags, "num.partitions=5") }, 5, "--set"},
		{func() { o.Flags = append(o.Flags, "num.partitions=6") }, 6, "--set"},
	} {
		step.add()
		c := load(t, o)
		if c.Topics.Partitions != step.want || c.Sources()["num.partitions"] != step.source {
			t.Errorf("%d from %s, want %d from %s", c.Topics.Partitions, c.Sources()["num.partitions"], step.want, step.source)
		}
	}
}

func TestFileByEnvironment(t *testing.T) {
	one, two := write(t, "one.yaml", "num.partitions: 7"), write(t, "two.properties", "num.partitions=8")
	if c := load(t, LoadOptions{Env: []string{"FIRN_CONFIG=" + one}}); c.Topics.Partitions != 7 {
		t.Errorf("FIRN_CONFIG is not read: %d", c.Topics.Partitions)
	}
	if c := load(t, LoadOptions{Env: []string{"FIRN_CONFIG=" + one}, File: two}); c.Topics.Partitions != 8 {
		t.Errorf("--config does not win over FIRN_CONFIG: %d", c.Topics.Partitions)
	}
}

func TestFirnKeysLoseTheWord(t *testing.T) {
	c := load(t, LoadOptions{Env: []string{"FIRN_DISK_RESERVE_BYTES=2GiB", "FIRN_LISTENERS_ALLOW_INSECURE=TRUE", "FIRN_LISTENERS=PLAINTEXT://h:1"}})
	if c.Operation.DiskReserveBytes != 2<<30 || c.Network.Listeners[0].Bind.Host != "h" {
		t.Errorf("%+v", c.Operation)
	}
	names := map[string]string{}
	for _, n := range settings().names {
		if other, ok := names[envName(n)]; ok {
			t.Errorf("%s and %s have one name in the environment", n, other)
		}
		names[envName(n)] = n
	}
}

// TestServerProperties takes Kafka's own file as it is shipped.
func TestServerProperties(t *testing.T) {
	file := write(t, "server.properties", `
# a comment
process.roles=broker,controller
node.id=3
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://localhost:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
log.dirs=/tmp/kraft-combined-logs
log.dir.failure.timeout.ms=30000
num.partitions=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=24
#log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
listener.name.external.ssl.keystore.location=/x
`)
	c, warnings, err := Load(LoadOptions{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if c.Node.ID != 3 || !slices.Equal(c.Log.Dirs, []string{"/tmp/kraft-combined-logs"}) || len(c.Network.Listeners) != 1 || c.Network.Listeners[0].Advertised.String() != "localhost:9092" {
		t.Errorf("%+v", c)
	}
	if len(warnings) != 1 || !slices.Contains(warnings[0].Keys, "process.roles") || !slices.Contains(warnings[0].Keys, "log.dir.failure.timeout.ms") || slices.Contains(warnings[0].Keys, "log.dirs") {
		t.Errorf("want one warning about what means nothing here, got %v", warnings)
	}
	if got := c.Topics.Defaults.Settings; got["log.retention.hours"] != "24" || got["log.segment.bytes"] != "1073741824" || len(got) != 2 {
		t.Errorf("topic defaults: %v", got)
	}
	parsed, err := cluster.ParseTopicConfig("t", nil, c.Topics.Defaults)
	if err != nil || parsed.Retention != 24*time.Hour {
		t.Errorf("a topic keeps for %s, %v", parsed.Retention, err)
	}
}

func TestRetentionPrecedence(t *testing.T) {
	flags := []string{"log.retention.hours=1"}
	for _, c := range []struct {
		add  string
		want time.Duration
	}{{"log.roll.hours=1", time.Hour}, {"log.retention.minutes=30", 30 * time.Minute}, {"log.retention.ms=90s", 90 * time.Second}} {
		flags = append(flags, c.add)
		got, err := cluster.ParseTopicConfig("t", nil, load(t, LoadOptions{Flags: flags}).Topics.Defaults)
		if err != nil || got.Retention != c.want || got.SegmentAge != time.Hour {
			t.Errorf("%v: %s, %v", flags, got.Retention, err)
		}
	}
}

func TestYAML(t *testing.T) {
	c := load(t, LoadOptions{File: write(t, "f.yml", `
# dotted keys, units, lists, and scalars as they are spelled
log.segment.bytes: 512MiB
log.retention.ms: 7d
listeners: [PLAINTEXT://127.0.0.1:1, "OTHER://127.0.0.1:2"]
listener.security.protocol.map: PLAINTEXT:PLAINTEXT, OTHER:PLAINTEXT
auto.create.topics.enable: False
tier.s3.prefix: 0123
log.dir:
`)})
	if got := c.Topics.Defaults.Settings; got["log.segment.bytes"] != "536870912" || got["log.retention.ms"] != "604800000" {
		t.Errorf("units: %v", got)
	}
	if len(c.Network.Listeners) != 2 || c.Topics.AutoCreate || c.Tier.Prefix != "0123" {
		t.Errorf("%+v %+v %q", c.Network.Listeners, c.Topics, c.Tier.Prefix)
	}
}

func TestFilesAtFault(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"f.yaml", "log:\n  dirs: x\n", "f.yaml:1): want a value; write settings with dots"},
		{"f.yaml", "num.partitions: 1\nnum.partitions: 2\n", "is set twice; first at"},
		{"f.yaml", "- a\n", "want a mapping"},
		{"f.yaml", "a: [", "cannot be read"},
		{"f.yaml", "listeners: [[a]]", "want a list of plain values"},
		{"f.yaml", "? [a]\n: 1\n", "want the name of a setting"},
		{"f.toml", "", `its name ends in ".toml"`},
		{"f.yaml", strings.Repeat("#", maxFileBytes+1), "larger than"},
	} {
		if got := faultsOf(t, LoadOptions{File: write(t, c.name, c.content)}); len(got) != 1 || !strings.Contains(got[0], c.want) {
			t.Errorf("%.40q: %q, want %q", c.content, got, c.want)
		}
	}
	if got := faultsOf(t, LoadOptions{File: "/does/not/exist.yaml"}); !strings.Contains(got[0], "no such file") || !strings.Contains(got[0], "--config") {
		t.Errorf("%q", got)
	}
}

func TestUnknownKeys(t *testing.T) {
	got := faultsOf(t, LoadOptions{
		Flags: []string{"log.segmnet.bytes=1", "zzz=1", "noequals"},
		File:  write(t, "f.properties", "tier.s3.secret.acess.key=hunter2\n"),
	})
	all := strings.Join(got, "\n")
	for _, want := range []string{
		"log.segmnet.bytes=**** (from --set): unknown setting, did you mean log.segment.bytes?",
		"zzz=**** (from --set): unknown setting",
		"noequals=**** (from --set): want key=value",
		"did you mean tier.s3.secret.access.key?",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in:\n%s", want, all)
		}
	}
	if strings.Contains(all, "hunter2") || strings.Contains(all, "zzz=**** (from --set): unknown setting, did") {
		t.Errorf("I3, or a far-fetched suggestion:\n%s", all)
	}
	_, warnings, err := Load(LoadOptions{Env: []string{
		"FIRN_PORT=tcp://10.0.0.1:9092", "FIRN_SERVICE_HOST=10.0.0.1", "KAFKA_HEAP_OPTS=-Xmx1g", "KAFKA_PROCESS_ROLES=broker", "TEST_KCAT=/x", "FIRN_LOG_DIRS=",
	}})
	if err != nil || len(warnings) != 2 {
		t.Fatalf("the environment: %v, %v", warnings, err)
	}
	if got := warnings[0].String(); got != "environment variables that are no settings: FIRN_PORT, FIRN_SERVICE_HOST, KAFKA_HEAP_OPTS" {
		t.Error(got)
	}
	if got := warnings[1].String(); got != "settings of Kafka that mean nothing here: KAFKA_PROCESS_ROLES" {
		t.Error(got)
	}
}

// TestAllFaultsAtOnce wants every fault to name key, value, source and what
// is allowed.
func TestAllFaultsAtOnce(t *testing.T) {
	file := write(t, "firn.yaml", "log.segment.bytes: 12\nnum.partitions: many\n")
	got := faultsOf(t, LoadOptions{
		File:  file,
		Env:   []string{"FIRN_TIER_STORE=s4", "KAFKA_AUTHORIZER_CLASS_NAME=x.Y"},
		Flags: []string{"log.retention.ms=7 fortnights", "log.cleanup.policy=compact", "log.retention.hours=99999999999"},
	})
	want := []string{
		"log.segment.bytes=12 (from " + file + ":1): want a whole number from 1048576 to 2147483647",
		"num.partitions=many (from " + file + ":2): want a whole number from 1 to 100000",
		"tier.store=s4 (from FIRN_TIER_STORE): want none, dir, s3 or minio",
		"authorizer.class.name=x.Y (from KAFKA_AUTHORIZER_CLASS_NAME): want it empty: there is no authorizer, everybody who connects may do everything",
		"log.retention.ms=7 fortnights (from --set): want a time, such as 60000 (ms), 90s, 12h or 7d",
		"log.cleanup.policy=compact (from --set): want delete; compaction is not supported",
		"log.retention.hours=99999999999 (from --set): want a whole number",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTogether(t *testing.T) {
	s3 := []string{"tier.store=s3", "tier.s3.bucket=b"}
	for _, c := range []struct {
		flags []string
		want  string // empty: no fault
	}{
		{[]string{"log.dirs=/a,/b"}, ""},
		{[]string{"log.dir=/a, /b"}, ""},
		{[]string{"log.dirs=/a,/b,/a/../b"}, "log.dirs=/a,/b,/a/../b (from --set): want directories that lie apart, not /b and /b"},
		{[]string{"log.dir=/a,/a/b"}, "log.dir=/a,/a/b (from --set): want directories that lie apart, not /a and /a/b"},
		{[]string{"log.dirs= , "}, "want at least one directory"},
		{[]string{"tier.store=dir", "tier.dir.path=/b/cold", "log.dirs=/a,/b"}, "neither inside the data directory /b"},
		{[]string{"node.id=1", "broker.id=2"}, "broker.id=2 (from --set): contradicts node.id=1"},
		{[]string{"broker.id=-1"}, ""},
		{[]string{"default.replication.factor=3"}, "firn.replication.factor.clamp=true accepts more"},
		{[]string{"default.replication.factor=3", "firn.replication.factor.clamp=true"}, ""},
		{[]string{"queued.max.request.bytes=1MiB"}, "want at least socket.request.max.bytes, which is 104857600"},
		{[]string{"queued.max.request.bytes=-1", "socket.request.max.bytes=1GiB"}, ""},
		{[]string{"tier.exclude.topics=a,[b"}, `"[b" is none`},
		{[]string{"tier.store=dir"}, "tier.dir.path: must be set with tier.store=dir"},
		{[]string{"tier.store=dir", "tier.dir.path=/c", "log.dirs=/d"}, ""},
		{[]string{"tier.store=dir", "tier.dir.path=/d/cold", "log.dirs=/d"}, "neither inside the data directory"},
		{[]string{"tier.store=dir", "tier.dir.path=/d", "log.dirs=/d/x"}, "nor around it"},
		{[]string{"tier.store=s3"}, "tier.s3.bucket: must be set with tier.store=s3"},
		{s3, ""},
		{[]string{"tier.store=minio", "tier.s3.bucket=b"}, "tier.s3.endpoint: must be set with tier.store=minio"},
		{append(s3, "tier.s3.access.key.id=AK"), "tier.s3.secret.access.key: must be set with tier.s3.access.key.id"},
		{append(s3, "tier.s3.secret.access.key=SK"), "tier.s3.access.key.id: must be set with"},
		{append(s3, "tier.s3.endpoint=127.0.0.1:9000"), "want http://host:port"},
		{append(s3, "tier.s3.prefix=/a/"), "want path elements"},
		{append(s3, "tier.s3.prefix=a/../b"), "want path elements"},
		{[]string{"tier.chunk.bytes=1500000"}, "want a multiple of 1 MiB"},
		{[]string{"remote.log.manager.task.retry.backoff.ms=1m"}, "want at least remote.log.manager.task.retry.backoff.ms, which is 60000"},
		{[]string{"firn.io.force=mincore,odd"}, "want a list of dontcache"},
		{[]string{"firn.io.force=mincore, fadvise"}, ""},
	} {
		_, _, err := Load(LoadOptions{Flags: c.flags})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.flags, err, c.want)
		}
	}
}

func TestPathStyle(t *testing.T) {
	for _, c := range []struct {
		flags string
		want  bool
	}{
		{"", false}, {"tier.s3.endpoint=http://h:9", true}, {"tier.s3.path.style=true", true},
	} {
		flags := []string{"tier.store=s3", "tier.s3.bucket=b"}
		if c.flags != "" {
			flags = append(flags, c.flags)
		}
		if got := load(t, LoadOptions{Flags: flags}).Tier.S3.PathStyle; got != c.want {
			t.Errorf("%v: %v", flags, got)
		}
	}
	if load(t, LoadOptions{Flags: []string{"tier.store=s3", "tier.s3.bucket=b", "tier.s3.endpoint=http://h", "tier.s3.path.style=false"}}).Tier.S3.PathStyle {
		t.Error("false does not win over an endpoint")
	}
}

// TestSecretsI3 looks for the secrets wherever settings are shown.
func TestSecretsI3(t *testing.T) {
	c := load(t, LoadOptions{Flags: []string{
		"tier.store=s3", "tier.s3.bucket=b", "tier.s3.access.key.id=AKHUNTER", "tier.s3.secret.access.key=SKHUNTER",
	}})
	if c.Tier.S3.AccessKeyID != "AKHUNTER" || c.Tier.S3.SecretAccessKey != "SKHUNTER" {
		t.Fatal("the secrets are not there")
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s3", c.Tier.S3)
	shown := []string{log.String(), fmt.Sprintf("%v %+v %#v", c.Tier.S3, c.Tier.S3, c.Tier.S3), fmt.Sprint(c.Describe()), Reference()}
	_, _, err := Load(LoadOptions{Flags: []string{"tier.s3.endpoint=http://me:HUNTER@h", "tier.s3.secret.access.key=SKHUNTER"}})
	shown = append(shown, err.Error())
	for _, s := range shown {
		if strings.Contains(s, "HUNTER") {
			t.Errorf("a secret is shown in %.200s", s)
		}
	}
	for _, e := range c.Describe() {
		if strings.HasSuffix(e.Name, "key.id") || strings.HasSuffix(e.Name, "access.key") {
			if !e.Sensitive || e.Value != nil || e.Synonyms[0].Value != nil || e.Type != cluster.TypePassword {
				t.Errorf("%+v", e)
			}
		}
	}
}

func TestDescribe(t *testing.T) {
	c := load(t, LoadOptions{Flags: []string{"log.retention.hours=24", "broker.id=5", "message.max.bytes=2MiB"}})
	byName := map[string]cluster.ConfigEntry{}
	for _, e := range c.Describe() {
		byName[e.Name] = e
		if !e.ReadOnly || e.Doc == "" || len(e.Synonyms) == 0 {
			t.Errorf("%+v", e)
		}
	}
	if e := byName["message.max.bytes"]; *e.Value != "2097152" || e.Source != cluster.SourceStaticBroker || e.Type != cluster.TypeInt || *e.Synonyms[1].Value != "1048588" {
		t.Errorf("%+v", e)
	}
	if e := byName["log.retention.ms"]; e.Value != nil || e.Source != cluster.SourceDefault {
		t.Errorf("log.retention.ms: %+v", e)
	}
	if e := byName["log.retention.hours"]; *e.Value != "24" {
		t.Errorf("%+v", e)
	}
	if e := byName["node.id"]; *e.Value != "5" || e.Synonyms[0].Name != "broker.id" || c.Node.ID != 5 {
		t.Errorf("%+v", e)
	}
}

func TestReserve(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		set   int64
		total uint64
		want  uint64
	}{{-1, 100 * gib, 5 * gib}, {-1, 15 * gib, gib}, {-1, 5 * gib, gib / 2}, {0, 5 * gib, 0}, {7, 5 * gib, 7}} {
		if got := (Operation{DiskReserveBytes: c.set}).Reserve(c.total); got != c.want {
			t.Errorf("%d of %d: %d, want %d", c.set, c.total, got, c.want)
		}
	}
}
