// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"firn/bench"
)

// child is this binary running another of its commands. Whoever starts it
// stops it.
type child struct {
	cmd    *exec.Cmd
	stderr *lastText
	done   chan struct{} // closed when it has ended
	err    error         // how, once done
}

// startChild starts a command of this binary in an environment without
// settings. stdin and stdout may be nil.
func startChild(args []string, stdin io.Reader, stdout io.Writer) (*child, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the own binary: %w", err)
	}
	c := &child{cmd: exec.Command(path, args...), stderr: &lastText{}, done: make(chan struct{})}
	c.cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "FIRN_") || strings.HasPrefix(e, "KAFKA_")
	})
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdout, c.stderr
	c.cmd.WaitDelay = drainTime
	tieToParent(c.cmd)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start firn %s: %w", args[0], err)
	}
	go func() {
		defer close(c.done)
		c.err = c.cmd.Wait()
	}()
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop asks the child to end, and kills it when it does not.
func (c *child) stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may just have ended
	select {
	case <-c.done:
	case <-time.After(drainTime):
		_ = c.cmd.Process.Kill() // likewise
		<-c.done
	}
	if c.err != nil {
		return fmt.Errorf("firn %s ended: %w\n%s", c.cmd.Args[1], c.err, c.stderr)
	}
	return nil
}

// lastText keeps the end of what a child prints. It is safe for concurrent use.
type lastText struct {
	mu   sync.Mutex
	text []byte
}

const maxLastText = 16 << 10

func (l *lastText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - maxLastText; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(p), nil
}

func (l *lastText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// field finds the value of a line of the banner; "" when it is not there yet.
func (l *lastText) field(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.text) {
		rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(name+" "))
		if ok && bytes.HasSuffix(line, []byte("\n")) {
			return string(bytes.TrimSpace(rest))
		}
	}
	return ""
}

// startBroker runs firn serve with settings whose ports are 0, and returns the
// addresses that it found once it is up.
func startBroker(ctx context.Context, settings []string) (c *child, address, admin string, err error) {
	args := []string{"serve"}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	if c, err = startChild(args, nil, nil); err != nil {
		return nil, "", "", err
	}
	ticker := time.NewTicker(demoPoll)
	defer ticker.Stop()
	// The admin port is the last line of the banner.
	for c.stderr.field("admin") == "" {
		select {
		case <-ticker.C:
		case <-c.done:
			return nil, "", "", fmt.Errorf("the broker ended before it was up: %w\n%s", c.err, c.stderr)
		case <-ctx.Done():
			return nil, "", "", errors.Join(ctx.Err(), c.stop())
		}
	}
	_, address, _ = strings.Cut(c.stderr.field("listening on"), "://")
	return c, address, c.stderr.field("admin"), nil
}

// replayChild is firn bench replay at the lowest priority: a client on another
// machine, as near as one machine can have it.
type replayChild struct {
	*child
	read chan struct{} // closed when all that it printed was taken

	mu     sync.Mutex
	at     bench.ReplayProgress
	result *bench.ReplayResult
	failed error
}

// startReplay replays from a broker or a control, as more flags say.
func startReplay(address, topic string, more ...string) (*replayChild, error) {
	in, out := io.Pipe()
	c, err := startChild(append([]string{
		"bench", "replay", "--brokers", address, "--topic", topic, "--raw", "--nice", "--progress",
	}, more...), nil, out)
	if err != nil {
		return nil, err
	}
	r := &replayChild{child: c, read: make(chan struct{})}
	go func() {
		defer close(r.read)
		r.take(in)
		_ = in.Close() // a pipe in memory: it cannot fail
	}()
	go func() {
		<-c.done
		_ = out.Close() // likewise
	}()
	return r, nil
}

// take reads the lines of the child until it ends.
func (r *replayChild) take(in io.Reader) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var line replayLine
		err := json.Unmarshal(lines.Bytes(), &line)
		r.mu.Lock()
		switch {
		case err != nil:
			r.failed = fmt.Errorf("read the progress of a replay: %w", err)
		case line.Wrong:
			r.failed = exitf(exitFaulty, "%s", line.Error)
		case line.Error != "":
			r.failed = errors.New(line.Error)
		case line.Progress != nil:
			r.at = *line.Progress
		case line.Result != nil:
			r.result = line.Result
		}
		r.mu.Unlock()
	}
}

// progress is how far the replay is.
func (r *replayChild) progress() bench.ReplayProgress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// finish waits for the end, or stops the replay when ctx ends, and tells what
// came of it.
func (r *replayChild) finish(ctx context.Context) (bench.ReplayResult, error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		return bench.ReplayResult{}, errors.Join(ctx.Err(), r.stop())
	}
	<-r.read
	switch {
	case r.failed != nil:
		return bench.ReplayResult{}, r.failed
	case r.result == nil:
		return bench.ReplayResult{}, fmt.Errorf("a replay ended without a result: %w\n%s", r.err, r.stderr)
	}
	return *r.result, nil
}
