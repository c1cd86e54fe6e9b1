// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestGroups(t *testing.T) {
	cases := map[string][][]string{
		"./...":                    {{"./..."}},
		"-race ./a -- -tags x ./b": {{"-race", "./a"}, {"-tags", "x", "./b"}},
		"-- ./a -- ./b":            {{"./a"}, {"./b"}},
	}
	for args, want := range cases {
		if got := groups(strings.Fields(args)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", args, got)
		}
	}
}

// run plays events written as "action package test output" lines; "-" stands
// for nothing.
func run(s *suite, events string) {
	for line := range strings.SplitSeq(strings.TrimSpace(events), "\n") {
		f := strings.Fields(line)
		for len(f) < 4 {
			f = append(f, "")
		}
		for i := range f {
			f[i] = strings.TrimPrefix(f[i], "-")
		}
		e := fmt.Sprintf(`{"Action":%q,"Package":%q,"Test":%q,"Output":%q}`, f[0], f[1], f[2], f[3]+"\n")
		if f[0] == "build-output" {
			e = fmt.Sprintf(`{"Action":%q,"ImportPath":%q,"Output":%q}`, f[0], f[1], f[3]+"\n")
		}
		s.line([]byte(e + "\n"))
	}
}

func TestSuite(t *testing.T) {
	cases := []struct {
		name   string
		events string
		err    error
		last   string
		shown  []string
		hidden []string
	}{
		{name: "all pass", events: `
			run p A
			output p A noise
			pass p A
			run p B
			run p B/x
			run p B/y
			pass p B/x
			pass p B/y
			pass p B
			pass p`,
			last: "3 passed, 0 failed", shown: []string{"ok    p"}, hidden: []string{"noise"}},
		{name: "one fails", events: `
			run p A
			output p A why
			fail p A
			run p B
			pass p B
			fail p`,
			err: errors.New("exit status 1"), last: "1 passed, 1 failed", shown: []string{"why", "--- FAIL: p A", "FAIL: p A"}},
		{name: "a subtest fails", events: `
			run p A
			run p A/x
			run p A/y
			output p A/x why
			output p A around
			fail p A/x
			pass p A/y
			fail p A
			fail p`,
			last: "1 passed, 1 failed", shown: []string{"why", "around", "FAIL: p A/x"}, hidden: []string{"FAIL: p A\n"}},
		{name: "a test fails beside its subtests", events: `
			run p A
			run p A/x
			pass p A/x
			output p A why
			fail p A
			fail p`,
			last: "1 passed, 1 failed", shown: []string{"why", "FAIL: p A\n"}},
		{name: "skipped", events: `
			run p A
			output p A no-such-tool
			skip p A
			pass p`,
			last: "0 passed, 1 failed", shown: []string{"SKIPPED", "no-such-tool"}},
		{name: "cut off by a panic", events: `
			run p A
			output p A goroutine-1
			run p B
			pass p B
			output p - exit-status-2
			fail p`,
			last: "1 passed, 1 failed", shown: []string{"DID NOT END: p A", "goroutine-1", "exit-status-2"}},
		{name: "does not build", events: `
			run q A
			pass q A
			pass q
			fail p`,
			err: errors.New("exit status 1"), last: "1 passed, 1 failed", shown: []string{"p: failed outside its tests"}},
		{name: "no test files", events: `
			run q A
			pass q A
			pass q
			output p - [no-test-files]
			skip p`,
			last: "1 passed, 0 failed", hidden: []string{"no-test-files"}},
		{name: "no tests at all", events: `skip p`, last: "0 passed, 1 failed", shown: []string{"no test ran: go test x"}},
		{name: "go test itself fails", events: `
			run q A
			pass q A
			pass q`,
			err: errors.New("signal: killed"), last: "1 passed, 1 failed", shown: []string{"go test x: signal: killed"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			s := newSuite(&out)
			s.beginGroup("go test x")
			run(s, c.events)
			s.endGroup(c.err)
			ok := s.finish()
			text := out.String()
			if !strings.HasSuffix(text, "\n"+c.last+"\n") || ok != strings.HasSuffix(c.last, " 0 failed") {
				t.Errorf("ok %v, output:\n%s", ok, text)
			}
			for _, want := range c.shown {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not shown:\n%s", want, text)
				}
			}
			for _, bad := range c.hidden {
				if strings.Contains(text, bad) {
					t.Errorf("%q is shown:\n%s", bad, text)
				}
			}
		})
	}
}

// A test of two groups counts once, by its worse result.
func TestTwoGroups(t *testing.T) {
	for _, order := range [][2]string{{"pass", "fail"}, {"fail", "pass"}, {"pass", "pass"}} {
		var out bytes.Buffer
		s := newSuite(&out)
		for _, end := range order {
			s.beginGroup("go test")
			run(s, "run p A\n"+end+" p A\n"+end+" p")
			s.endGroup(nil)
		}
		want := "0 passed, 1 failed\n"
		if order == [2]string{"pass", "pass"} {
			want = "1 passed, 0 failed\n"
		}
		s.finish()
		if !strings.HasSuffix(out.String(), want) {
			t.Errorf("%v:\n%s", order, out.String())
		}
	}
}

// What the compiler says of a package that does not build is shown, and lines
// that are no events are passed on.
func TestBuildFailure(t *testing.T) {
	var out bytes.Buffer
	s := newSuite(&out)
	s.beginGroup("go test")
	err := feed(strings.NewReader(`{"ImportPath":"p [p.test]","Action":"build-output","Output":"p.go:1: undefined: x\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"FAIL p [build failed]\n"}
{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p [p.test]"}
plain words`), s)
	if err != nil {
		t.Fatal(err)
	}
	s.endGroup(errors.New("exit status 1"))
	if s.finish() {
		t.Error("passed")
	}
	for _, want := range []string{"undefined: x", "plain words", "no test ran", "0 passed, 2 failed\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}
