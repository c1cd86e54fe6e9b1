// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// module is the path of the module, which every import of our own begins with.
const module = "firn"

// File is one Go file with what the checks look at.
type File struct {
	// Path is relative to the root of the module.
	Path string
	// Package is the import path of its directory less the module: "hot",
	// "tier/store". It is empty for the root.
	Package string
	// Name is the name in its package clause.
	Name   string
	Source []byte

	fset *token.FileSet
	tree *ast.File
	// names maps the name that an import has in the file to its path.
	names map[string]string
}

// IsTest says whether go build leaves the file out.
func (f *File) IsTest() bool { return strings.HasSuffix(f.Path, "_test.go") }

// isIntegration says whether the file belongs to the integration tests: by its
// place, or by the build tag of those that stand beside what they test.
func (f *File) isIntegration() bool {
	if under(f.Package, "integration") {
		return true
	}
	for _, group := range f.tree.Comments {
		for _, c := range group.List {
			if c.Pos() < f.tree.Package && constraint.IsGoBuild(c.Text) {
				x, err := constraint.Parse(c.Text)
				return err == nil && !x.Eval(func(tag string) bool { return tag != "integration" })
			}
		}
	}
	return false
}

// fault is one line of a report.
func (f *File) fault(at token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", f.Path, f.fset.Position(at).Line, fmt.Sprintf(format, args...))
}

// imports lists the paths that the file imports, with their positions.
func (f *File) imports(visit func(path string, at token.Pos)) {
	for _, spec := range f.tree.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil {
			visit(path, spec.Pos())
		}
	}
}

// parse reads one file.
func parse(path, pkg string, source []byte) (*File, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse a Go file: %w", err)
	}
	f := &File{Path: path, Package: pkg, Name: tree.Name.Name, Source: source, fset: fset, tree: tree, names: map[string]string{}}
	for _, spec := range tree.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("parse %s: import path: %w", path, err)
		}
		name := p[strings.LastIndexByte(p, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		f.names[name] = p
	}
	return f, nil
}

// listed is what is used of go list's answer.
type listed struct {
	Dir, ImportPath                                              string
	GoFiles, CgoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles []string
}

// Load reads every Go file of the module at root. It runs go list, which must
// be in the path.
func Load(ctx context.Context, root string) ([]*File, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("find the module: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-e", "-json=Dir,ImportPath,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w: %s", err, stderr.Bytes())
	}
	var files []*File
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return files, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the list of packages: %w", err)
		}
		got, err := loadPackage(root, l)
		if err != nil {
			return nil, err
		}
		files = append(files, got...)
	}
}

func loadPackage(root string, l listed) ([]*File, error) {
	var files []*File
	pkg := strings.TrimPrefix(strings.TrimPrefix(l.ImportPath, module), "/")
	for _, name := range slices.Concat(l.GoFiles, l.CgoFiles, l.IgnoredGoFiles, l.TestGoFiles, l.XTestGoFiles) {
		path := filepath.Join(l.Dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a Go file: %w", err)
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return nil, fmt.Errorf("place %s: %w", path, err)
		}
		f, err := parse(filepath.ToSlash(rel), pkg, source)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}
