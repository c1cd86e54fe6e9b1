// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

const (
	readyTimeout = 60 * time.Second // cold binary on a busy machine
	readyPause   = 20 * time.Millisecond
	stopTimeout  = 60 * time.Second
	// dumpLines is how much of a program's output a failed test shows.
	dumpLines = 300
)

// process is a program that runs beside the test.
type process struct {
	name   string
	cmd    *exec.Cmd
	output *capture      // both streams, over all runs
	stderr *capture      // of this run
	done   chan struct{} // closed when it has ended and its output is complete
}

// startProcess starts a program; output collects what it prints.
func startProcess(t testing.TB, name string, cmd *exec.Cmd, output *capture) *process {
	t.Helper()
	p := &process{name: name, cmd: cmd, output: output, stderr: newCapture(), done: make(chan struct{})}
	cmd.Stdout = output
	cmd.Stderr = io.MultiWriter(output, p.stderr)
	cmd.WaitDelay = stopTimeout
	tieToParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.done)
		// The state says how it ended; an error here says the same again.
		_ = cmd.Wait()
	}()
	return p
}

// awaitReady asks until the program answers. A program that ends first, or
// takes too long, fails the test.
func (p *process) awaitReady(t testing.TB, ask func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	for {
		once, stop := context.WithTimeout(ctx, 2*time.Second)
		err := ask(once)
		stop()
		if err == nil {
			return
		}
		select {
		case <-p.done:
			t.Fatalf("%s ended before it was ready: %v\n%s", p.name, p.cmd.ProcessState, lastLines(p.output.bytes(), 50))
		case <-ctx.Done():
			t.Fatalf("%s was not ready within %v: %v\n%s", p.name, readyTimeout, err, lastLines(p.output.bytes(), 50))
		case <-time.After(readyPause):
		}
	}
}

// running tells whether the program has not ended.
func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends the program at once, and waits for the end.
func (p *process) kill() {
	if p.running() {
		_ = p.cmd.Process.Kill() // it may just have ended
		<-p.done
	}
}

// terminate asks the program to end, and kills it when it does not.
func (p *process) terminate() error {
	if !p.running() {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may just have ended
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		p.kill()
		return fmt.Errorf("%s did not stop within %v of SIGTERM", p.name, stopTimeout)
	}
}

// signal sends a signal to a program that has to be running.
func (p *process) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if !p.running() {
		t.Fatalf("%s is not running", p.name)
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %s: %v", p.name, err)
	}
}

// dump shows the end of what a program printed, when the test has failed.
func dump(t testing.TB, name string, output *capture) {
	if t.Failed() {
		t.Logf("the output of %s ends with:\n%s", name, lastLines(output.bytes(), dumpLines))
	}
}
