// SPDX-License-Identifier: Apache-2.0

// Command testsummary runs go test and says what came of it: a line for each
// package, the output of what failed, and one last line "N passed, N failed".
//
//	testsummary ARGS... [-- ARGS...]...
//
// Each group of arguments is given to one `go test -json`; all groups are run,
// whatever the ones before came to. A test that was skipped counts as failed,
// and so does a group in which no test ran: what is not tested must not look
// as if it were. A test that runs in several groups counts once.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	s := newSuite(os.Stdout)
	for _, args := range groups(os.Args[1:]) {
		s.beginGroup("go test " + strings.Join(args, " "))
		s.endGroup(runGoTest(args, s))
	}
	if !s.finish() {
		os.Exit(1)
	}
}

// groups splits the arguments at each "--".
func groups(args []string) [][]string {
	var out [][]string
	for {
		i := slices.Index(args, "--")
		if i < 0 {
			return append(out, args)
		}
		if i > 0 {
			out = append(out, args[:i])
		}
		args = args[i+1:]
	}
}

// runGoTest feeds the events of one run to the suite. Its error says how go
// test itself ended.
func runGoTest(args []string, s *suite) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := feed(stdout, s)
	if err := cmd.Wait(); err != nil {
		return err
	}
	return readErr
}

// feed reads events, one a line, to the end.
func feed(r io.Reader, s *suite) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			s.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the events of go test: %w", err)
		}
	}
}
