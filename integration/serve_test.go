// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"firn/internal/testutil"
)

const (
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitNotFound    = 4
	exitDenied      = 5
)

// setFlags are settings as flags.
func setFlags(settings map[string]string) []string {
	var flags []string
	for key, value := range settings {
		flags = append(flags, "--set", key+"="+value)
	}
	return flags
}

// wantLines fails the test for each text that output lacks.
func wantLines(t testing.TB, what, output string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(output, text) {
			t.Errorf("%s does not say %q:\n%s", what, text, output)
		}
	}
}

// output collects what a program prints while it runs.
type output struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.String()
}

// Without a word the broker serves from ./firn-data on Kafka's port, and tells
// a person all that matters.
func TestServeWithoutArguments(t *testing.T) {
	for _, port := range []string{"9092", "9190"} {
		waitFor(t, "port "+port+" to be free", func() (bool, any) {
			l, err := net.Listen("tcp", "127.0.0.1:"+port)
			if err != nil {
				return false, err
			}
			return l.Close() == nil, nil
		})
	}
	dir := t.TempDir()
	var out output
	cmd := exec.Command(testutil.FirnPath(t), "serve")
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, &out, &out, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	waitFor(t, "the broker to serve", func() (bool, any) {
		return strings.Contains(out.String(), "event=serving"), out.String()
	})
	wantLines(t, "the banner", out.String(), "listening on", "PLAINTEXT://127.0.0.1:9092", "firn-data", "i/o", "uncached read", "residency", "send",
		"store", "none", "durability", "fdatasync", "a dead disk", "loses everything", "http://127.0.0.1:9190")
	k := testutil.NewKcat(t, "127.0.0.1:9092")
	k.Produce(t, "hello", strings.NewReader("world\n"))
	var got bytes.Buffer
	k.Consume(t, "hello", &got)
	if got.String() != "world\n" {
		t.Errorf("kcat reads %q", got.String())
	}
	if r := testutil.RunFirn(t, "status"); r.Code != 0 {
		t.Errorf("firn status without arguments: %d, %s", r.Code, r.Stderr)
	}
	if r := testutil.RunFirn(t, "topic", "list"); r.Code != 0 || !strings.Contains(string(r.Stdout), "hello") {
		t.Errorf("firn topic list without arguments: %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("after SIGTERM: %v\n%s", err, out.String())
		}
	case <-time.After(patience):
		t.Fatalf("the broker does not stop:\n%s", out.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "firn-data", "hello-0")); err != nil {
		t.Error(err)
	}
}

// All faults of all sources are told at once, each with key, value, source and
// what is allowed, before anything is touched.
func TestServeRefusesFaultySettings(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	yaml := write("firn.yaml", "log.retention.bytes: lots\nlog.retension.ms: 7d\nnum.network.threads: 8\n")
	properties := write("server.properties", "# a Kafka file\nprocess.roles=broker,controller\nlog.segment.bytes=-7\nauthorizer.class.name=x.Y\nmin.insync.replica=2\n")
	data := filepath.Join(dir, "data")
	for _, file := range []struct {
		path string
		want []string
	}{
		{yaml, []string{"log.retention.bytes=lots", "firn.yaml", "log.retension.ms", "did you mean log.retention.ms?"}},
		{properties, []string{"log.segment.bytes=-7", "server.properties", "authorizer.class.name", "min.insync.replica", "did you mean min.insync.replicas?"}},
	} {
		r := testutil.Command{
			Path: testutil.FirnPath(t),
			Args: []string{"serve", "--config", file.path, "--set", "num.partitions=none", "--set", "log.dirs=" + data, "--set", "tier.store=floppy",
				"--set", "listeners=PLAINTEXT://0.0.0.0:9092"},
			Env: []string{"FIRN_FETCH_MAX_BYTES=everything", "KAFKA_LOG_ROLL_MS=never", "KAFKA_NO_SUCH_KEY=1"},
		}.Run(t)
		errs := string(r.Stderr)
		if r.Code != exitUsage {
			t.Errorf("%s: code %d, want %d", file.path, r.Code, exitUsage)
		}
		wantLines(t, file.path, errs, append(file.want,
			"num.partitions=none (from --set)", "tier.store=floppy (from --set)", "fetch.max.bytes=everything", "FIRN_FETCH_MAX_BYTES",
			"log.roll.ms=never", "KAFKA_LOG_ROLL_MS", "firn.listeners.allow.insecure", "warning")...)
		if _, err := os.Stat(data); !os.IsNotExist(err) {
			t.Errorf("%s: the data directory was touched: %v", file.path, err)
		}
	}
}

// A Kafka file is taken as it is, and what is stronger wins over it.
func TestServeTakesAKafkaFile(t *testing.T) {
	b := testutil.NewBroker(t, nil)
	path := filepath.Join(t.TempDir(), "server.properties")
	content := "process.roles=broker,controller\nnode.id=7\nnum.network.threads=3\nnum.partitions=4\nlog.retention.hours=3\noffsets.topic.replication.factor=1\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	b.SetEnv("FIRN_CONFIG="+path, "KAFKA_NUM_PARTITIONS=5", "FIRN_NUM_PARTITIONS=6", "KAFKA_LOG_RETENTION_HOURS=2")
	b.Start()
	if r := b.Firn("topic", "create", "t", "-o", "json"); r.Code != 0 || !strings.Contains(string(r.Stdout), `"partitions": 6`) {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
	c := dialRaw(t, b.Addr)
	if got := metadata(c, 12, false).Brokers[0].NodeID; got != 7 {
		t.Errorf("node %d, want 7", got)
	}
	configs, _ := describe(c, 4, 2, "t", "retention.ms")
	if got := *configs["retention.ms"].Value; got != "7200000" {
		t.Errorf("retention.ms is %s, want two hours", got)
	}
	wantLines(t, "the log", b.Logs(), "num.network.threads")

	// A data directory remembers whose it is.
	b.Stop()
	r := testutil.RunFirn(t, append([]string{"serve", "--set", "node.id=8"}, b.SetFlags()...)...)
	if r.Code == 0 || !strings.Contains(string(r.Stderr), "7") {
		t.Errorf("another node on the same data: code %d, %s", r.Code, r.Stderr)
	}
}

// A clean stop answers what is under way, and the next start scans nothing.
func TestServeStopsClean(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "t", 3)
	for p := range int32(3) {
		produceAll(t, b, "t", p, numbered(0, 1000))
	}
	parked := dialRaw(t, b.Addr)
	req := fetchRequest(newestFetch, fetchPartition{topic: fetchTopicOf(parked, "t"), offset: 1000})
	req.MaxWaitMillis = int32(forever.Milliseconds())
	parked.send(req)
	for range 3 {
		if e := b.Stop(); e.Code != 0 {
			t.Fatalf("exit code %d after SIGTERM: %s", e.Code, e.Stderr)
		}
		b.Start()
	}
	if strings.Contains(b.Logs(), "log_recovered") || strings.Contains(b.Logs(), "log_not_trusted") {
		t.Error("a start after a clean stop scanned a log")
	}
	// The mark of the clean stop goes with the first write after it.
	produceAll(t, b, "t", 0, numbered(1000, 1))
	b.Kill()
	b.Start()
	b.WaitLog("log_recovered", patience)
	for p, want := range []int64{1001, 1000, 1000} {
		if end := endOffset(t, b, "t", int32(p)); end != want {
			t.Errorf("partition %d ends at %d, want %d", p, end, want)
		}
	}
}

func TestServeRefusesASecondUser(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "known", 1)
	second := []string{"serve", "--set", "log.dirs=" + b.DataDir, "--set", "admin.listeners=none",
		"--set", fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d", testutil.FreePort(t))}
	r := testutil.RunFirn(t, second...)
	if r.Code != exitFailed {
		t.Errorf("code %d, want %d", r.Code, exitFailed)
	}
	wantLines(t, "the second user", string(r.Stderr), b.DataDir, "in use")
	wantHealthy(t, b, dialRaw(t, b.Addr))

	// And a second user of the address.
	third := []string{"serve", "--set", "log.dirs=" + t.TempDir(), "--set", "admin.listeners=none", "--set", "listeners=PLAINTEXT://" + b.Addr}
	r = testutil.RunFirn(t, third...)
	if r.Code != exitFailed {
		t.Errorf("code %d, want %d", r.Code, exitFailed)
	}
	wantLines(t, "the second user of an address", string(r.Stderr), b.Addr)
	b.Kill() // the lock goes with its process
	b.Start()
}

// A bucket that holds another cluster may be somebody's only copy.
func TestServeRefusesAnotherClustersBucket(t *testing.T) {
	g := testutil.StartGateway(t)
	first := testutil.StartBroker(t, tiered(g, "s3", nil))
	createTopic(t, first, "mine", 1)
	produceAll(t, first, "mine", 0, numbered(0, 10))
	waitInStore(t, first, "mine", 0, 10)
	id := statusOf(t, first).ClusterID

	second := testutil.NewBroker(t, tiered(g, "minio", nil))
	r := testutil.RunFirn(t, append([]string{"serve"}, second.SetFlags()...)...)
	if r.Code != exitFailed {
		t.Errorf("code %d, want %d", r.Code, exitFailed)
	}
	wantLines(t, "the second cluster", string(r.Stderr), id, "--new-cluster")

	// It has left nothing behind: it may still go elsewhere, or begin beside
	// the other one on purpose.
	elsewhere := testutil.NewBroker(t, tiered(g, "minio", map[string]string{"log.dirs": second.DataDir, "tier.s3.prefix": "elsewhere"}))
	elsewhere.Start()
	if got := statusOf(t, elsewhere).ClusterID; got == id {
		t.Error("two clusters have one id")
	}
	createTopic(t, elsewhere, "mine", 1)
	produceAll(t, elsewhere, "mine", 0, numbered(100, 10))
	waitInStore(t, elsewhere, "mine", 0, 10)

	data := t.TempDir()
	flags := setFlags(tiered(g, "s3", map[string]string{
		"log.dirs": data, "listeners": fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", testutil.FreePort(t)), "admin.listeners": "none"}))
	var out output
	cmd := exec.Command(testutil.FirnPath(t), append([]string{"serve", "--new-cluster"}, flags...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	waitFor(t, "the new cluster to serve", func() (bool, any) {
		return strings.Contains(out.String(), "event=serving"), out.String()
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the new cluster: %v", err)
	}
	// The first one goes on as it was.
	first.Restart()
	values := testutil.NewKcat(t, first.Addr)
	var got bytes.Buffer
	values.Consume(t, "mine", &got)
	if got.String() != strings.Join(numbered(0, 10), "\n")+"\n" {
		t.Errorf("the first cluster reads %q", got.String())
	}
}

// What a data directory has in a store it will not be started without.
func TestServeKeepsToItsStore(t *testing.T) {
	g := testutil.StartGateway(t)
	b := testutil.StartBroker(t, tiered(g, "s3", nil))
	createTopic(t, b, "kept", 1, "local.retention.ms=1")
	produceAll(t, b, "kept", 0, numbered(0, 10))
	waitOffLocal(t, b, "kept", 0, 10)
	b.Stop()
	without := map[string]string{"log.dirs": b.DataDir, "admin.listeners": "none", "listeners": fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", testutil.FreePort(t))}
	r := testutil.RunFirn(t, append([]string{"serve"}, setFlags(without)...)...)
	if r.Code != exitFailed {
		t.Errorf("without its store: code %d, want %d", r.Code, exitFailed)
	}
	wantLines(t, "without its store", string(r.Stderr), "tier.store")

	other := testutil.StartGateway(t)
	elsewhere := tiered(other, "s3", without)
	r = testutil.RunFirn(t, append([]string{"serve"}, setFlags(elsewhere)...)...)
	if r.Code != exitFailed {
		t.Errorf("on an empty bucket: code %d, want %d", r.Code, exitFailed)
	}
	wantLines(t, "on an empty bucket", string(r.Stderr), "does not belong", "another bucket or prefix?")
	if keys := other.Keys(""); len(keys) != 0 {
		t.Errorf("the other bucket now holds %v", keys)
	}
	b.Start()
	n := 0
	consume(t, b, "kept", 0, 0, 10, func(*kgo.Record) { n++ })
	if n != 10 {
		t.Errorf("%d records came back, want 10", n)
	}
}

// A directory that was never bound needs its store at the first start, and
// leaves nothing half done.
func TestServeNeedsTheStoreOnce(t *testing.T) {
	g := testutil.StartGateway(t)
	settings := tiered(g, "s3", nil)
	b := testutil.NewBroker(t, settings)
	g.Stop()
	r := testutil.RunFirn(t, append([]string{"serve"}, b.SetFlags()...)...)
	if r.Code == 0 {
		t.Error("a first start without the store succeeded")
	}
	wantLines(t, "a first start without the store", string(r.Stderr), "object store", "does not answer")
	g.Start()
	wrong := maps.Clone(settings)
	wrong["tier.s3.secret.access.key"] = "HUNTER2"
	refused := testutil.NewBroker(t, wrong)
	r = testutil.RunFirn(t, append([]string{"serve"}, refused.SetFlags()...)...)
	if r.Code == 0 || strings.Contains(string(r.Stderr), "HUNTER2") {
		t.Errorf("with a wrong secret: code %d, %s", r.Code, r.Stderr)
	}
	wrong = maps.Clone(settings)
	wrong["tier.s3.bucket"] = "no-such-bucket"
	r = testutil.RunFirn(t, append([]string{"serve"}, testutil.NewBroker(t, wrong).SetFlags()...)...)
	if r.Code == 0 {
		t.Error("a first start without the bucket succeeded")
	}
	wantLines(t, "a first start without the bucket", string(r.Stderr), "no-such-bucket")
	b.Start()
	wantLines(t, "the banner", b.Logs(), "s3 bucket "+g.Bucket, "conditional-put", "tier.roll.ms")
	g.Stop()
	b.Restart()
	b.WaitLog("event=store_down", patience) // the start does not wait for it
}
