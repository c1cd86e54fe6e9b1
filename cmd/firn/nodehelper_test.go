// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firn/config"
)

// testNode is a whole broker in this process, with a store in a directory.
type testNode struct {
	*node
	sets []string // --set of its settings, for commands that read them
}

// startTestNode starts a broker on free ports with more settings.
func startTestNode(t *testing.T, more ...string) testNode {
	t.Helper()
	dir := t.TempDir()
	sets := append([]string{
		"log.dirs=" + filepath.Join(dir, "data"), "tier.store=dir", "tier.dir.path=" + filepath.Join(dir, "cold"),
		"listeners=PLAINTEXT://127.0.0.1:0", "admin.listeners=http://127.0.0.1:0",
		"log.retention.check.interval.ms=100ms", "log.segment.delete.delay.ms=0",
	}, more...)
	c, _, err := config.Load(config.LoadOptions{Flags: sets})
	if err != nil {
		t.Fatal(err)
	}
	n, err := startNode(t.Context(), c, nodeOptions{logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	out := testNode{node: n}
	for _, s := range sets {
		out.sets = append(out.sets, "--set", s)
	}
	return out
}

func (n testNode) admin() string { return n.console.Addrs()[0].String() }

func (n testNode) kafka() string {
	_, addr, _ := strings.Cut(n.addresses[0], "://")
	return addr
}

// waitFor looks until ok, for at most a minute.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
