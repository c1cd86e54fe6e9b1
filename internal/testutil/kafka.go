// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaTools runs Apache Kafka's own programs.
type KafkaTools struct {
	java string
	libs string
}

// NewKafkaTools finds Java and Kafka's archives.
func NewKafkaTools(t testing.TB) KafkaTools {
	t.Helper()
	libs := filepath.Join(RepoRoot(t), ".cache", "kafka", "libs")
	if _, err := os.Stat(libs); err != nil {
		t.Fatalf("Apache Kafka is not installed, and this test needs it: run `make tools`: %v", err)
	}
	return KafkaTools{java: FindProgram(t, "java", "TEST_JAVA"), libs: libs}
}

// Command is a run of the given class with its arguments.
func (k KafkaTools) Command(class string, args ...string) Command {
	return Command{Path: k.java, Args: append([]string{
		"-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(k.libs, "*"), class,
	}, args...)}
}

// DumpLog is what kafka-dump-log prints for the files. It has to succeed.
func (k KafkaTools) DumpLog(t testing.TB, files []string, args ...string) string {
	t.Helper()
	c := k.Command("org.apache.kafka.tools.DumpLogSegments", append(args, "--files", strings.Join(files, ","))...)
	return string(c.MustRun(t).Stdout)
}

// Kafka is an Apache Kafka broker that belongs to one test, its own controller
// in KRaft mode. Its methods belong to the goroutine of that test.
type Kafka struct {
	Addr    string // host:port of the listener
	DataDir string

	t      testing.TB
	tools  KafkaTools
	config string
	output *capture
	proc   *process
}

// StartKafka formats a data directory of its own, starts a broker on it with
// the given settings, and waits until it answers. It ends with the test.
func StartKafka(t testing.TB, settings map[string]string) *Kafka {
	t.Helper()
	k := &Kafka{Addr: loopback(FreePort(t)), DataDir: filepath.Join(t.TempDir(), "kafka"), t: t, tools: NewKafkaTools(t), output: newCapture()}
	controller := loopback(FreePort(t))
	all := map[string]string{
		"process.roles": "broker,controller", "node.id": "1", "controller.quorum.voters": "1@" + controller,
		"listeners": "PLAINTEXT://" + k.Addr + ",CONTROLLER://" + controller, "controller.listener.names": "CONTROLLER",
		"log.dirs": k.DataDir, "auto.create.topics.enable": "false",
		"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "0",
		"transaction.state.log.num.partitions": "1", "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
	}
	maps.Copy(all, settings)
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s=%s\n", key, all[key])
	}
	k.config = filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(k.config, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	k.tools.Command("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", k.config).MustRun(t)
	t.Cleanup(func() {
		k.proc.kill()
		dump(t, "Kafka", k.output)
	})
	k.Start()
	return k
}

// Start starts the broker on the same ports and data as before, and waits until
// it answers.
func (k *Kafka) Start() {
	k.t.Helper()
	if k.proc.running() {
		k.t.Fatal("Kafka is running already")
	}
	c := k.tools.Command("kafka.Kafka", k.config)
	k.proc = startProcess(k.t, "Kafka", c.start(), k.output)
	k.proc.awaitReady(k.t, func(ctx context.Context) error {
		client, err := kgo.NewClient(kgo.SeedBrokers(k.Addr), kgo.RetryTimeout(0), kgo.RequestRetries(0))
		if err != nil {
			return err
		}
		defer client.Close()
		return client.Ping(ctx)
	})
}

// Stop asks the broker to stop, and waits for it.
func (k *Kafka) Stop() {
	k.t.Helper()
	if err := k.proc.terminate(); err != nil {
		k.t.Fatal(err)
	}
}

// Kill ends the broker as kill -9 does.
func (k *Kafka) Kill() { k.proc.kill() }

// Logs is what the broker has printed, in all of its runs: warnings and errors.
func (k *Kafka) Logs() string { return string(k.output.bytes()) }

// Client makes a franz-go client for the broker; it is closed with the test.
func (k *Kafka) Client(opts ...kgo.Opt) *kgo.Client {
	k.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(k.Addr)}, opts...)...)
	if err != nil {
		k.t.Fatalf("make a client: %v", err)
	}
	k.t.Cleanup(client.Close)
	return client
}
