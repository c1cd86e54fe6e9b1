// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// RepoRoot is the directory of the module that the test runs in.
func RepoRoot(t testing.TB) string {
	t.Helper()
	root, err := repoRoot()
	if err != nil {
		t.Fatalf("find the repository: %v", err)
	}
	return root
}

func repoRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod in any directory above the test")
		}
		dir = parent
	}
}

// FindProgram finds a program by the environment variable that names it, in
// .cache/bin, or in PATH. One that is nowhere fails the test.
func FindProgram(t testing.TB, name, variable string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			t.Fatalf("%s=%s cannot be run: %v", variable, path, err)
		}
		return path
	}
	cached := filepath.Join(RepoRoot(t), ".cache", "bin", name)
	for _, path := range []string{cached, name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Fatalf("%s is not installed, and this test needs it: run `make tools`, or set %s to its path", name, variable)
	return ""
}

// environment is the environment without what would configure the programs
// under test behind the test's back, and with extra.
func environment(extra ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "FIRN_") && !strings.HasPrefix(v, "KAFKA_") && !strings.HasPrefix(v, "AWS_") &&
			!strings.HasPrefix(v, "VGW_") {
			env = append(env, v)
		}
	}
	return append(env, extra...)
}
