// SPDX-License-Identifier: Apache-2.0

package dirstore_test

import (
	"testing"

	"firn/internal/vfs"
	"firn/tier/store"
	"firn/tier/store/dirstore"
	"firn/tier/store/storetest"
)

func open(t *testing.T, o dirstore.Options) *dirstore.Store {
	t.Helper()
	s, err := dirstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformanceOnDisk(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return open(t, dirstore.Options{Path: t.TempDir()})
	})
}

func TestConformanceUncached(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		dir := t.TempDir()
		io, err := vfs.ProbeIO(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		return open(t, dirstore.Options{Path: dir, IO: io})
	})
}

func TestConformanceInMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return open(t, dirstore.Options{Path: "/bucket", FS: vfs.NewMem()})
	})
}
