// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Broker is `firn serve` as a process of its own that belongs to one test. Its
// methods belong to the goroutine of that test.
type Broker struct {
	Addr     string // host:port of the Kafka listener
	AdminURL string // http://host:port of the admin listener
	DataDir  string

	t        testing.TB
	path     string
	settings map[string]string
	env      []string
	output   *capture
	proc     *process
}

// Exit tells how a program ended.
type Exit struct {
	Code   int // -1 after a signal
	Stderr string
}

// StartBroker starts a broker with the given settings, on free ports and in a
// directory of its own, and waits until it answers ApiVersions. It ends with
// the test. The settings listeners, admin.listeners and log.dirs are filled in
// where they are not given.
func StartBroker(t testing.TB, settings map[string]string) *Broker {
	t.Helper()
	b := NewBroker(t, settings)
	b.Start()
	return b
}

// NewBroker is StartBroker for a broker that is started later.
func NewBroker(t testing.TB, settings map[string]string) *Broker {
	t.Helper()
	b := &Broker{
		Addr:     loopback(FreePort(t)),
		AdminURL: "http://" + loopback(FreePort(t)),
		DataDir:  filepath.Join(t.TempDir(), "data"),
		t:        t,
		path:     FirnPath(t),
		output:   newCapture(),
	}
	b.settings = map[string]string{
		"listeners":       "PLAINTEXT://" + b.Addr,
		"admin.listeners": b.AdminURL,
		"log.dirs":        b.DataDir,
	}
	maps.Copy(b.settings, settings)
	b.DataDir = b.settings["log.dirs"]
	t.Cleanup(func() {
		b.proc.kill()
		b.wantSane()
		dump(t, "firn serve", b.output)
	})
	return b
}

// Set changes a setting for the next start.
func (b *Broker) Set(key, value string) { b.settings[key] = value }

// SetEnv adds key=value entries to the environment of the next start.
func (b *Broker) SetEnv(env ...string) { b.env = append(b.env, env...) }

// Start starts the broker on the same ports and data as before, and waits until
// it answers.
func (b *Broker) Start() {
	b.t.Helper()
	b.Launch()
	b.proc.awaitReady(b.t, b.ping)
}

// Launch is Start without the wait.
func (b *Broker) Launch() {
	b.t.Helper()
	if b.proc.running() {
		b.t.Fatal("the broker is running already")
	}
	cmd := exec.Command(b.path, append([]string{"serve"}, b.SetFlags()...)...)
	cmd.Env = environment(b.env...)
	b.proc = startProcess(b.t, "firn serve", cmd, b.output)
}

// SetFlags are the settings as flags, for a command that shares them.
func (b *Broker) SetFlags() []string {
	var flags []string
	for _, key := range slices.Sorted(maps.Keys(b.settings)) {
		flags = append(flags, "--set", key+"="+b.settings[key])
	}
	return flags
}

// ping has the broker answer ApiVersions.
func (b *Broker) ping(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.RetryTimeout(0), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Ping(ctx)
}

// Stop asks the broker to stop (SIGTERM), waits for it and tells how it ended.
// A broker that has to be killed fails the test.
func (b *Broker) Stop() Exit {
	b.t.Helper()
	if !b.proc.running() {
		b.t.Fatalf("the broker is not running\n%s", lastLines(b.output.bytes(), 50))
	}
	if err := b.proc.terminate(); err != nil {
		b.t.Error(err)
	}
	return b.exit()
}

// Kill ends the broker as kill -9 does.
func (b *Broker) Kill() { b.proc.kill() }

// Restart stops the broker if it runs, and starts it again on the same ports,
// data and settings. A stop that was not clean fails the test.
func (b *Broker) Restart() {
	b.t.Helper()
	if b.proc.running() {
		if e := b.Stop(); e.Code != 0 {
			b.t.Errorf("the broker stopped with exit code %d", e.Code)
		}
	}
	b.Start()
}

// WaitExit waits for a broker that should end by itself.
func (b *Broker) WaitExit(limit time.Duration) Exit {
	b.t.Helper()
	select {
	case <-b.proc.done:
	case <-time.After(limit):
		b.t.Fatalf("the broker did not end within %v", limit)
	}
	return b.exit()
}

func (b *Broker) exit() Exit {
	return Exit{Code: b.proc.cmd.ProcessState.ExitCode(), Stderr: string(b.proc.stderr.bytes())}
}

// Pid is the process id of the running broker.
func (b *Broker) Pid() int { return b.proc.cmd.Process.Pid }

// Logs is what the broker has printed, in all of its runs.
func (b *Broker) Logs() string { return string(b.output.bytes()) }

// WaitLog waits until the broker has printed text, in any of its runs.
func (b *Broker) WaitLog(text string, limit time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), limit)
	defer cancel()
	if err := b.output.waitFor(ctx, text, b.proc.done); err != nil {
		b.t.Fatalf("wait for %q in the log: %v", text, err)
	}
}

// Client makes a franz-go client for the broker; it is closed with the test.
func (b *Broker) Client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr)}, opts...)...)
	if err != nil {
		b.t.Fatalf("make a client: %v", err)
	}
	b.t.Cleanup(client.Close)
	return client
}

// Firn runs a command of the binary against this broker: -b is filled in.
func (b *Broker) Firn(args ...string) Result {
	b.t.Helper()
	return RunFirn(b.t, append(args, "-b", b.Addr)...)
}

// wantSane fails the test when the broker crashed or raced, though the test
// may not have noticed.
func (b *Broker) wantSane() {
	output := b.output.bytes()
	for _, sign := range []string{"\npanic: ", "\nfatal error: ", "WARNING: DATA RACE"} {
		if bytes.Contains(append([]byte("\n"), output...), []byte(sign)) {
			b.t.Errorf("the broker printed %q", sign)
		}
	}
}

// RunFirn runs the binary to its end.
func RunFirn(t testing.TB, args ...string) Result {
	t.Helper()
	return Command{Path: FirnPath(t), Args: args}.Run(t)
}

// FirnPath finds the binary: the one that TEST_FIRN names, else one built from
// the source.
func FirnPath(t testing.TB) string {
	t.Helper()
	if os.Getenv("TEST_FIRN") != "" {
		return FindProgram(t, "firn", "TEST_FIRN")
	}
	path, err := buildFirn()
	if err != nil {
		t.Fatalf("build firn: %v", err)
	}
	return path
}

// buildFirn builds the binary once in a test binary. It goes to .cache/test,
// where the next test binary finds it up to date; a broker that still runs the
// old one keeps it.
var buildFirn = sync.OnceValues(func() (string, error) {
	root, err := repoRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, ".cache", "test", "firn")
	args := []string{"build", "-o", path, "./cmd/firn"}
	if os.Getenv("TEST_FIRN_RACE") != "" {
		path += "-race"
		args = []string{"build", "-race", "-o", path, "./cmd/firn"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	return path, nil
})
