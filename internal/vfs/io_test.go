// SPDX-License-Identifier: Apache-2.0

package vfs_test

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"firn/internal/vfs"
)

// available lists the forced lanes that work where the tests run, the free
// choice and no method at all among them.
func available(t *testing.T, dir string) map[string]*vfs.IO {
	t.Helper()
	lanes := map[string]*vfs.IO{"nil": nil}
	for _, force := range []string{"", "none", "dontcache", "fadvise", "mincore", "cachestat", "fadvise,mincore", "dontcache,none"} {
		o, err := vfs.ProbeIO(dir, force)
		switch {
		case err == nil:
			lanes["force "+force] = o
		case force == "" || force == "none":
			t.Fatalf("force %q: %v", force, err)
		default:
			wantErr(t, force, err, vfs.ErrUnknownMethod)
		}
	}
	return lanes
}

// I5: the same bytes by every method, on a disk and in memory.
func TestUncachedIsLikeReadAtAndWriteAt(t *testing.T) {
	for name, o := range available(t, t.TempDir()) {
		t.Run(name, func(t *testing.T) {
			eachFS(t, func(t *testing.T, r rig) {
				f, err := r.fs.OpenFile(r.path("a"), vfs.Create, 0o644)
				must(t, err)
				defer f.Close()
				want := make([]byte, 3<<20+123)
				for i := range want {
					want[i] = byte(i * 7 >> 3)
				}
				for off := 0; off < len(want); off += 1 << 20 {
					piece := want[off:min(off+1<<20, len(want))]
					if n, err := o.WriteUncached(f, piece, int64(off)); n != len(piece) || err != nil {
						t.Fatalf("write at %d: %d, %v", off, n, err)
					}
				}
				must(t, f.Sync())
				o.DropWritten(f)
				got := make([]byte, len(want))
				for _, c := range []struct {
					off  int64
					size int
					n    int
					err  error
				}{
					{0, len(want), len(want), nil},
					{4096, 256 << 10, 256 << 10, nil},
					{1001, 7777, 7777, nil},
					{3 << 20, 4096, 123, io.EOF},
					{int64(len(want)), 1, 0, io.EOF},
					{1 << 30, 1, 0, io.EOF},
					{5, 0, 0, nil},
				} {
					n, err := o.ReadUncached(f, got[:c.size], c.off)
					if n != c.n || err != c.err {
						t.Fatalf("read %d at %d: %d, %v", c.size, c.off, n, err)
					}
					if n > 0 && !bytes.Equal(got[:n], want[c.off:c.off+int64(n)]) {
						t.Fatalf("read %d at %d: other bytes", c.size, c.off)
					}
				}
				if _, err := o.ReadUncached(f, got[:1], -1); err == nil || err == io.EOF {
					t.Errorf("read at -1: %v", err)
				}
				if _, err := o.WriteUncached(f, got[:1], -1); err == nil {
					t.Error("write at -1 went through")
				}
			})
		})
	}
}

// Errors of the file come back as they do from the plain calls.
func TestUncachedErrors(t *testing.T) {
	dir := t.TempDir()
	put(t, vfs.Disk(), filepath.Join(dir, "a"), "abc")
	for name, o := range available(t, dir) {
		t.Run(name, func(t *testing.T) {
			f, err := vfs.Disk().OpenFile(filepath.Join(dir, "a"), vfs.ReadOnly, 0)
			must(t, err)
			if _, err := o.WriteUncached(f, []byte("x"), 0); err == nil {
				t.Error("a write by a reader went through")
			}
			must(t, f.Close())
			if _, err := o.ReadUncached(f, make([]byte, 1), 0); err == nil {
				t.Error("a read after close went through")
			}
			if !o.Resident(f, 0, 1) {
				t.Error("unknown must count as resident")
			}
			o.DropWritten(f)
		})
	}
}

func TestResidentWithoutADescriptor(t *testing.T) {
	o, err := vfs.ProbeIO(t.TempDir(), "")
	must(t, err)
	m := vfs.NewMem()
	put(t, m, "/a", "abc")
	f, err := m.OpenFile("/a", vfs.ReadOnly, 0)
	must(t, err)
	if !o.Resident(f, 0, 3) || !(*vfs.IO)(nil).Resident(f, 0, 3) {
		t.Error("a file in memory is resident")
	}
}

func TestForceWords(t *testing.T) {
	dir := t.TempDir()
	for _, bad := range []string{"odirect", "fadvise,dontcache", "mincore,cachestat", "fadvise,none,mincore,x", "Fadvise"} {
		_, err := vfs.ProbeIO(dir, bad)
		wantErr(t, bad, err, vfs.ErrUnknownMethod)
	}
	o, err := vfs.ProbeIO(dir, " none , ")
	must(t, err)
	plain := vfs.Methods{UncachedRead: "buffered", UncachedWrite: "buffered", Residency: "unknown", Send: o.Methods().Send}
	if got := o.Methods(); got != plain || got.Send == "" {
		t.Errorf("forced none: %+v", got)
	}
	if got := (*vfs.IO)(nil).Methods(); got != plain {
		t.Errorf("nil: %+v", got)
	}
	if _, err := vfs.ProbeIO(filepath.Join(dir, "no"), ""); err == nil {
		t.Error("a directory that is not there was probed")
	}
	equal(t, "left by the probes", names(t, vfs.Disk(), dir), []string{})
}
