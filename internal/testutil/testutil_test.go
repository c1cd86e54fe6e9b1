// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func playFirn(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEST_FIRN", self)
	t.Setenv("FIRN_LOG_SEGMENT_BYTES", "1")
}

func listening(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// I1, I3: start, stop, kill and restart, on one port.
func TestBroker(t *testing.T) {
	playFirn(t)
	var b *Broker
	failed, log := record(t, func(t testing.TB) {
		b = StartBroker(t, map[string]string{"tier.store": "none", "say": "hello"})
		if !listening(b.Addr) {
			t.Error("not listening")
		}
		e := b.Stop()
		if e.Code != 0 || e.Stderr != "hello\nevent=stopped\n" {
			t.Errorf("stopped with %+v", e)
		}
		if listening(b.Addr) {
			t.Error("still listening")
		}
		b.Set("say", "again")
		b.Restart()
		b.WaitLog("again", time.Minute)
		b.Kill()
		b.Kill()
		if listening(b.Addr) {
			t.Error("killed, and still listening")
		}
		b.Restart()
		b.Restart()
		if got := strings.Count(b.Logs(), "tier.store=none"); got != 4 {
			t.Errorf("%d starts in the log:\n%s", got, b.Logs())
		}
		if !strings.Contains(b.Logs(), "log.dirs="+b.DataDir) {
			t.Error("no data directory was given")
		}
	})
	if failed {
		t.Error(log)
	}
	if listening(b.Addr) {
		t.Error("the broker outlives its test")
	}
}

// I2, I3: a broker that does not come up fails the test with its output.
func TestBrokerThatFails(t *testing.T) {
	playFirn(t)
	failed, log := record(t, func(t testing.TB) {
		StartBroker(t, map[string]string{"fail": "yes", "say": "bad setting"})
	})
	if !failed || !strings.Contains(log, "ended before it was ready") || !strings.Contains(log, "bad setting") {
		t.Errorf("failed %v:\n%s", failed, log)
	}
	failed, log = record(t, func(t testing.TB) {
		b := StartBroker(t, map[string]string{"say": "WARNING: DATA RACE"})
		b.Stop()
		b.Stop()
	})
	if !failed || !strings.Contains(log, "the broker is not running") || !strings.Contains(log, `printed "WARNING: DATA RACE"`) {
		t.Errorf("failed %v:\n%s", failed, log)
	}
}

func TestWaitLogEndsWithTheProgram(t *testing.T) {
	playFirn(t)
	failed, log := record(t, func(t testing.TB) {
		b := StartBroker(t, nil)
		b.Kill()
		b.WaitLog("serving", time.Minute)
		b.WaitLog("never printed", time.Minute)
	})
	if !failed || !strings.Contains(log, "the program ended first") {
		t.Errorf("failed %v:\n%s", failed, log)
	}
}

func TestCommand(t *testing.T) {
	sh := func(script string) Command { return Command{Path: "/bin/sh", Args: []string{"-c", script}} }
	t.Setenv("KAFKA_OPTS", "x")
	c := sh("cat; echo $EXTRA $KAFKA_OPTS >&2; exit 3")
	c.Stdin, c.Env = strings.NewReader("in"), []string{"EXTRA=more"}
	if r := c.Run(t); r.Code != 3 || string(r.Stdout) != "in" || string(r.Stderr) != "more\n" {
		t.Errorf("%d %q %q", r.Code, r.Stdout, r.Stderr)
	}
	failed, log := record(t, func(t testing.TB) { sh("echo why >&2; exit 3").MustRun(t) })
	if !failed || !strings.Contains(log, "exit code 3") || !strings.Contains(log, "why") {
		t.Error(log)
	}
	failed, log = record(t, func(t testing.TB) {
		c := sh("echo busy >&2; exec sleep 1000")
		c.Timeout = 200 * time.Millisecond
		c.Run(t)
	})
	if !failed || !strings.Contains(log, "did not end within") || !strings.Contains(log, "busy") {
		t.Error(log)
	}
	failed, log = record(t, func(t testing.TB) { Command{Path: "/no/such/program"}.Run(t) })
	if !failed || !strings.Contains(log, "/no/such/program") {
		t.Error(log)
	}
}

func TestFindProgram(t *testing.T) {
	t.Setenv("TEST_KCAT", "/bin/sh")
	if got := FindProgram(t, "kcat", "TEST_KCAT"); got != "/bin/sh" {
		t.Errorf("by variable: %s", got)
	}
	t.Setenv("TEST_KCAT", "")
	if got := FindProgram(t, "sh", "TEST_KCAT"); !strings.HasSuffix(got, "/sh") {
		t.Errorf("in PATH: %s", got)
	}
	failed, log := record(t, func(t testing.TB) { FindProgram(t, "no-such-program", "TEST_KCAT") })
	if !failed || !strings.Contains(log, "make tools") || !strings.Contains(log, "TEST_KCAT") {
		t.Error(log)
	}
	t.Setenv("TEST_KCAT", "/no/such/program")
	failed, log = record(t, func(t testing.TB) { FindProgram(t, "sh", "TEST_KCAT") })
	if !failed || !strings.Contains(log, "TEST_KCAT=/no/such/program") {
		t.Error(log)
	}
	if root := RepoRoot(t); !filepath.IsAbs(root) {
		t.Errorf("root %s", root)
	}
}

func TestCapture(t *testing.T) {
	c := newCapture()
	line := strings.Repeat("x", 1<<16)
	for range 2 * captureLimit / len(line) {
		_, _ = c.Write([]byte(line))
	}
	_, _ = c.Write([]byte("end"))
	if n := len(c.bytes()); n > captureLimit*5/4+3 || n < captureLimit || !strings.HasSuffix(string(c.bytes()), "xend") {
		t.Errorf("%d bytes kept", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.waitFor(ctx, "never", nil); err != context.Canceled {
		t.Errorf("waiting ended with %v", err)
	}
	for n, want := range map[int]string{1: "c", 2: "b\nc", 3: "a\nb\nc", 9: "a\nb\nc"} {
		if got := string(lastLines([]byte("a\nb\nc\n"), n)); got != want {
			t.Errorf("last %d: %q", n, got)
		}
	}
}

// I1, I2: any program, waited for, stopped, and stopped though it has ended.
func TestService(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addr := loopback(FreePort(t))
	serve := Command{Path: self, Args: []string{"serve", "--set", "listeners=PLAINTEXT://" + addr, "--set", "say=hello"}}
	s := StartService(t, "fake", serve)
	s.Await(func(context.Context) error {
		if !listening(addr) {
			return os.ErrNotExist
		}
		return nil
	})
	if e := s.Stop(); e.Code != 0 || !strings.Contains(e.Stderr, "hello") || !strings.Contains(s.Logs(), "hello") {
		t.Errorf("stopped with %+v and\n%s", e, s.Logs())
	}
	failed, log := record(t, func(t testing.TB) {
		serve.Args = append(serve.Args, "--set", "fail=yes")
		StartService(t, "fake", serve).Await(func(context.Context) error { return os.ErrNotExist })
	})
	if !failed || !strings.Contains(log, "fake ended before it was ready") {
		t.Errorf("a program that ends at once: failed %v with\n%s", failed, log)
	}
}
