// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
)

const (
	maxFileLines     = 600
	maxFunctionLines = 70
	license          = "// SPDX-License-Identifier: Apache-2.0\n"
)

// unfinished finds the words that mark unfinished work. They are put together
// here so that this file passes its own check.
var unfinished = regexp.MustCompile(`\b(` + "TO" + `DO|` + "FIX" + `ME|` + "XX" + `X)\b`)

// CheckLicense wants the licence in the first line.
func CheckLicense(f *File) []string {
	if bytes.HasPrefix(f.Source, []byte(license)) {
		return nil
	}
	return []string{fmt.Sprintf("%s:1: want the first line %q", f.Path, license)}
}

// CheckUnfinished refuses the words that mark unfinished work.
func CheckUnfinished(f *File) []string {
	var faults []string
	for i, line := range bytes.Split(f.Source, []byte("\n")) {
		if word := unfinished.Find(line); word != nil {
			faults = append(faults, fmt.Sprintf("%s:%d: %s: nothing unfinished is kept in the source", f.Path, i+1, word))
		}
	}
	return faults
}

// CheckSizes refuses files and functions that are too long to be read at once.
// Tests may be longer: their tables are.
func CheckSizes(f *File) []string {
	if f.IsTest() {
		return nil
	}
	var faults []string
	if n := bytes.Count(f.Source, []byte("\n")); n > maxFileLines {
		faults = append(faults, fmt.Sprintf("%s:1: %d lines, at most %d are allowed", f.Path, n, maxFileLines))
	}
	for _, d := range f.tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Type.Pos()).Line + 1
		if n > maxFunctionLines {
			faults = append(faults, f.fault(fn.Pos(), "function %s has %d lines, at most %d are allowed", fn.Name.Name, n, maxFunctionLines))
		}
	}
	return faults
}

// CheckInit refuses func init: what happens at start is called from main.
func CheckInit(f *File) []string {
	var faults []string
	for _, d := range f.tree.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			faults = append(faults, f.fault(fn.Pos(), "func init runs behind everybody's back"))
		}
	}
	return faults
}

// use is something of another package that only some files may use.
type use struct {
	path  string
	names []string
	why   string
	// allowed says which files may.
	allowed func(f *File) bool
}

func inCommand(f *File) bool { return under(f.Package, "cmd") }

func inCommandOrIntegration(f *File) bool { return inCommand(f) || f.isIntegration() }

func outsideTests(f *File) bool { return !f.IsTest() || f.isIntegration() }

// uses is the table of what is used nowhere but where it says.
var uses = []use{
	{"os", []string{"Exit"}, "only main ends the process", inCommandOrIntegration},
	{"log", []string{"Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln", "Print", "Printf", "Println", "Default", "SetOutput"},
		"loggers are passed in, and only main ends the process", inCommand},
	{"log/slog", []string{"Default", "SetDefault", "Debug", "Info", "Warn", "Error", "Log", "DebugContext", "InfoContext", "WarnContext", "ErrorContext"},
		"loggers are passed in", inCommand},
	{"github.com/prometheus/client_golang/prometheus", []string{"Register", "MustRegister", "Unregister", "DefaultRegisterer", "DefaultGatherer"},
		"registerers are passed in", func(*File) bool { return false }},
	{"time", []string{"Sleep"}, "a test waits for what it waits for: a channel, or testing/synctest", outsideTests},
}

// CheckUses goes through everything that the file uses of other packages.
// time.Sleep is allowed within a call of synctest.Test, whose clock it moves.
func CheckUses(f *File) []string {
	bubbles := f.bubbles()
	var faults []string
	ast.Inspect(f.tree, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := s.X.(*ast.Ident)
		if !ok {
			return true
		}
		for _, u := range uses {
			if f.names[id.Name] != u.path || !slices.Contains(u.names, s.Sel.Name) || u.allowed(f) {
				continue
			}
			if u.path == "time" && within(bubbles, s.Pos()) {
				continue
			}
			faults = append(faults, f.fault(s.Pos(), "%s.%s: %s", id.Name, s.Sel.Name, u.why))
		}
		return true
	})
	return faults
}

// bubbles are the calls of synctest.Test.
func (f *File) bubbles() []ast.Node {
	var calls []ast.Node
	ast.Inspect(f.tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "Test" {
			return true
		}
		if id, ok := s.X.(*ast.Ident); ok && f.names[id.Name] == "testing/synctest" {
			calls = append(calls, call)
		}
		return true
	})
	return calls
}

func within(nodes []ast.Node, at token.Pos) bool {
	return slices.ContainsFunc(nodes, func(n ast.Node) bool { return n.Pos() <= at && at < n.End() })
}

// CheckDocs wants a doc.go in every package that is neither a command nor a
// set of integration tests.
func CheckDocs(files []*File) []string {
	has := map[string]bool{}
	for _, f := range files {
		has[f.Package] = has[f.Package] || f.Path == f.Package+"/doc.go"
	}
	var faults []string
	for pkg, ok := range has {
		if !ok && !under(pkg, "cmd") && !under(pkg, "integration") {
			faults = append(faults, fmt.Sprintf("%s: the package has no doc.go that says its duty", pkg))
		}
	}
	slices.Sort(faults)
	return faults
}
