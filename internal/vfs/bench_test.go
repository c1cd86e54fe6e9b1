// SPDX-License-Identifier: Apache-2.0

package vfs_test

import (
	"path/filepath"
	"testing"

	"firn/internal/vfs"
)

// BenchmarkIO measures what a warm worker and a route decision cost, by each
// method that works here.
func BenchmarkIO(b *testing.B) {
	dir := b.TempDir()
	f, err := vfs.Disk().OpenFile(filepath.Join(dir, "a"), vfs.Create, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const size, piece = 64 << 20, 256 << 10
	buf := make([]byte, piece)
	for off := int64(0); off < size; off += piece {
		if _, err := f.WriteAt(buf, off); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	for _, force := range []string{"dontcache,cachestat", "fadvise,cachestat", "fadvise,mincore", "none"} {
		o, err := vfs.ProbeIO(dir, force)
		if err != nil {
			b.Logf("%s: %v", force, err)
			continue
		}
		b.Run("resident/"+force, func(b *testing.B) {
			for i := range b.N {
				o.Resident(f, int64(i)*piece%size, piece)
			}
		})
		b.Run("read/"+force, func(b *testing.B) {
			o.DropWritten(f)
			b.SetBytes(piece)
			for i := range b.N {
				if _, err := o.ReadUncached(f, buf, int64(i)*piece%size); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
