// SPDX-License-Identifier: Apache-2.0

package dirstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"firn/tier/store"
)

// TestRenameNoReplace checks the way for file systems without links.
func TestRenameNoReplace(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for _, path := range []string{from, to} {
		if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := renameNoReplace(from, to)
	if unsupported(err) {
		// As on darwin, and file systems that refuse the flag: placeLocked.
		return
	}
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("a taken name: %v", err)
	}
	if err := os.Remove(to); err != nil {
		t.Fatal(err)
	}
	if err := renameNoReplace(from, to); err != nil {
		t.Errorf("a free name: %v", err)
	}
}

func TestUnsupported(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EPERM: true, syscall.ENOTSUP: true, syscall.ENOSYS: true, syscall.EINVAL: true, syscall.EMLINK: true, errors.ErrUnsupported: true,
		syscall.EEXIST: false, syscall.ENOENT: false, syscall.ENOSPC: false, syscall.EIO: false,
	} {
		if got := unsupported(err); got != want {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
}

// TestWithoutAtomicPublish is what is left where neither links nor the rename
// work: honest capabilities.
func TestWithoutAtomicPublish(t *testing.T) {
	s, err := New(Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.lockedOnly.Store(true)
	caps, err := store.Probe(t.Context(), s)
	if err != nil || caps.ConditionalPut {
		t.Errorf("probe: %+v, %v, want no conditional puts", caps, err)
	}
}
