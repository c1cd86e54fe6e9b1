// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"context"
	"testing"
)

// Service is any program that runs beside one test. Its methods belong to the
// goroutine of that test.
type Service struct {
	t      testing.TB
	output *capture
	proc   *process
}

// StartService starts a program without waiting for it to be ready; name is
// what messages call it. Of the command Path, Args, Env and Dir count. It ends
// with the test.
func StartService(t testing.TB, name string, c Command) *Service {
	t.Helper()
	s := &Service{t: t, output: newCapture()}
	s.proc = startProcess(t, name, c.start(), s.output)
	t.Cleanup(func() {
		s.proc.kill()
		dump(t, name, s.output)
	})
	return s
}

// Await asks until the program answers. One that ends first, or takes too
// long, fails the test.
func (s *Service) Await(ask func(ctx context.Context) error) {
	s.t.Helper()
	s.proc.awaitReady(s.t, ask)
}

// Stop asks the program to end (SIGTERM), waits for it and tells how it ended.
// One that has ended already, or has to be killed, fails the test.
func (s *Service) Stop() Exit {
	s.t.Helper()
	if !s.proc.running() {
		s.t.Fatalf("%s is not running\n%s", s.proc.name, lastLines(s.output.bytes(), 50))
	}
	if err := s.proc.terminate(); err != nil {
		s.t.Error(err)
	}
	return Exit{Code: s.proc.cmd.ProcessState.ExitCode(), Stderr: string(s.proc.stderr.bytes())}
}

// Logs is what the program has printed.
func (s *Service) Logs() string { return string(s.output.bytes()) }
