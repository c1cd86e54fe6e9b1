// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// defaultTimeout bounds a command that names no timeout of its own.
const defaultTimeout = 2 * time.Minute

// Command is one run of a program.
type Command struct {
	Path string
	Args []string
	// Env is added to the environment.
	Env []string
	Dir string
	// Stdin is empty when nil.
	Stdin io.Reader
	// Stdout takes the output instead of Result.Stdout.
	Stdout io.Writer
	// Timeout is 2 minutes when 0.
	Timeout time.Duration
}

// Result is what a command left.
type Result struct {
	// Code is the exit code; -1 after a signal.
	Code           int
	Stdout, Stderr []byte
}

// Run runs the command to its end, whatever its exit code. A command that
// cannot be started, or does not end in time, fails the test.
func (c Command) Run(t testing.TB) Result {
	t.Helper()
	timeout := c.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Env = environment(c.Env...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, c.Stdin, &stdout, &stderr
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	cmd.WaitDelay = stopTimeout
	tieToParent(cmd)
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s did not end within %v; its errors end with:\n%s", c, timeout, lastLines(stderr.Bytes(), 50))
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %s: %v\n%s", c, err, lastLines(stderr.Bytes(), 50))
	}
	return Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
}

// start is the command as a process that runs beside the test; Stdin, Stdout
// and Timeout do not count.
func (c Command) start() *exec.Cmd {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Dir = environment(c.Env...), c.Dir
	return cmd
}

// MustRun is Run for a command that has to succeed.
func (c Command) MustRun(t testing.TB) Result {
	t.Helper()
	r := c.Run(t)
	if r.Code != 0 {
		t.Fatalf("%s: exit code %d\n%s", c, r.Code, lastLines(append(r.Stdout, r.Stderr...), 50))
	}
	return r
}

// String is the command as one would type it.
func (c Command) String() string { return strings.Join(append([]string{c.Path}, c.Args...), " ") }
