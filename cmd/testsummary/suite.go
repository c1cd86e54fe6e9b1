// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// outputLimit bounds what is kept of the output of one test, in bytes.
const outputLimit = 256 << 10

// event is one line of `go test -json`, as `go doc test2json` and `go help
// buildjson` describe them.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64 // seconds
	ImportPath  string  // of a build event
	FailedBuild string  // the import path whose build failed this package
}

// id names a test, or a package where the name is empty.
type id struct{ pkg, test string }

func (i id) String() string { return strings.TrimSpace(i.pkg + " " + i.test) }

// parent of a subtest is the test around it.
func (i id) parent() (id, bool) {
	at := strings.LastIndexByte(i.test, '/')
	if at < 0 {
		return id{}, false
	}
	return id{i.pkg, i.test[:at]}, true
}

// The states of a test, the later ones outweighing the earlier ones when a
// test runs in several groups.
const (
	unknown = iota
	passed
	running // at the end: cut off
	skipped
	failed
)

// suite gathers events and prints what a person wants of them, as it comes. It
// belongs to one goroutine.
//
// S1: every test that began is counted exactly once: as passed when it passed,
// as failed when it did anything else. A test with subtests is not counted
// beside them, unless it failed while they did not.
type suite struct {
	out    io.Writer
	states map[id]int
	output map[id]*bytes.Buffer // of what is running, or has failed
	builds map[string]*bytes.Buffer
	extra  []string // failures that belong to no test

	group      string
	groupTests int
	groupBad   bool
}

func newSuite(out io.Writer) *suite {
	return &suite{out: out, states: map[id]int{}, output: map[id]*bytes.Buffer{}, builds: map[string]*bytes.Buffer{}}
}

func (s *suite) printf(format string, args ...any) {
	// Nobody is left to be told when standard output is gone.
	_, _ = fmt.Fprintf(s.out, format, args...)
}

func (s *suite) beginGroup(name string) {
	s.group, s.groupTests, s.groupBad = name, 0, false
	s.printf("=== %s\n", name)
}

// endGroup takes the error that go test itself ended with.
func (s *suite) endGroup(err error) {
	if s.groupTests == 0 {
		s.fail(fmt.Sprintf("no test ran: %s", s.group))
	}
	if err != nil && !s.groupBad {
		s.fail(fmt.Sprintf("%s: %v", s.group, err))
	}
}

// fail records a failure that belongs to no test.
func (s *suite) fail(what string) {
	s.groupBad = true
	s.extra = append(s.extra, what)
}

// line takes one line of the output of go test. What is no event is shown.
func (s *suite) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		s.printf("%s", line)
		return
	}
	s.add(e)
}

func (s *suite) add(e event) {
	at := id{e.Package, e.Test}
	switch {
	case e.Action == "build-output":
		keep(s.builds, e.ImportPath, e.Output)
	case e.Action == "output":
		keep(s.output, at, e.Output)
	case e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
		s.endPackage(e)
	case e.Action == "run":
		s.groupTests++
		s.settle(at, running)
	case e.Action == "pass":
		// It ran anew; only what another group said of it may outweigh this.
		if s.states[at] == running {
			s.states[at] = passed
		}
		delete(s.output, at)
	case e.Action == "skip":
		s.settle(at, skipped)
		s.groupBad = true
	case e.Action == "fail":
		s.settle(at, failed)
		s.groupBad = true
	}
}

func (s *suite) settle(at id, state int) { s.states[at] = max(s.states[at], state) }

func keep[K comparable](m map[K]*bytes.Buffer, key K, text string) {
	if m[key] == nil {
		m[key] = new(bytes.Buffer)
	}
	if m[key].Len() < outputLimit {
		m[key].WriteString(text)
	}
}

// endPackage prints the line of a package, and the output of what failed.
func (s *suite) endPackage(e event) {
	pkg := id{pkg: e.Package}
	defer delete(s.output, pkg)
	good, bad := s.count(e.Package)
	if e.Action != "fail" && len(bad) == 0 {
		if good > 0 {
			s.printf("ok    %-40s %7.2fs %5d passed\n", e.Package, e.Elapsed, good)
		}
		return
	}
	s.printf("FAIL  %-40s %7.2fs %5d passed, %d failed\n", e.Package, e.Elapsed, good, len(bad))
	for _, at := range bad {
		s.show(at)
	}
	if len(bad) == 0 {
		s.fail(e.Package + ": failed outside its tests")
		if b := s.builds[e.FailedBuild]; b != nil {
			s.printf("%s", b)
		}
	}
	if b := s.output[pkg]; b != nil {
		s.printf("%s", b)
	}
}

// show prints the output of a test and of the tests around it, where a failure
// outside the subtest may be told.
func (s *suite) show(at id) {
	s.printf("--- %s: %s\n", word(s.states[at]), at)
	s.showOutput(at)
	for around, ok := at.parent(); ok; around, ok = around.parent() {
		s.showOutput(around)
	}
}

func (s *suite) showOutput(at id) {
	if b := s.output[at]; b != nil {
		s.printf("%s", b)
		delete(s.output, at)
	}
}

func word(state int) string {
	switch state {
	case running:
		return "DID NOT END"
	case skipped:
		return "SKIPPED, which counts as failed"
	}
	return "FAIL"
}

// count counts the tests of a package (S1); "" stands for all packages. The
// failed ones come in order.
func (s *suite) count(pkg string) (good int, bad []id) {
	parents, blamed := map[id]bool{}, map[id]bool{}
	for at, state := range s.states {
		for around, ok := at.parent(); ok; around, ok = around.parent() {
			parents[around] = true
			blamed[around] = blamed[around] || state != passed
		}
	}
	for at, state := range s.states {
		switch {
		case pkg != "" && at.pkg != pkg:
		case state != passed && !blamed[at]:
			bad = append(bad, at)
		case state == passed && !parents[at]:
			good++
		}
	}
	slices.SortFunc(bad, func(a, b id) int { return strings.Compare(a.String(), b.String()) })
	return good, bad
}

// finish prints what failed, and the last line. It tells whether nothing did.
func (s *suite) finish() bool {
	good, bad := s.count("")
	var lines []string
	for _, at := range bad {
		lines = append(lines, fmt.Sprintf("%s: %s", word(s.states[at]), at))
	}
	for _, what := range s.extra {
		lines = append(lines, "FAIL: "+what)
	}
	if len(lines) > 0 {
		s.printf("\n%s\n", strings.Join(lines, "\n"))
	}
	s.printf("%d passed, %d failed\n", good, len(lines))
	return len(lines) == 0
}
