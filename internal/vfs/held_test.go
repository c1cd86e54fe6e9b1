// SPDX-License-Identifier: Apache-2.0

package vfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"firn/internal/vfs"
)

func TestLockHeldTellsAndTakesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	want := func(when string, held bool) {
		t.Helper()
		if got, err := vfs.LockHeld(path); err != nil || got != held {
			t.Errorf("%s: held %v, %v", when, got, err)
		}
	}
	want("no file", false)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the question made the file: %v", err)
	}
	lock, err := vfs.Disk().Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	want("locked", true)
	want("asked again", true)
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	want("given back", false)
	again, err := vfs.Disk().Lock(path)
	if err != nil {
		t.Fatalf("after the question: %v", err)
	}
	if err := again.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := vfs.LockHeld(filepath.Join(path, "below")); err == nil {
		t.Error("a path below a file: no error")
	}
}
