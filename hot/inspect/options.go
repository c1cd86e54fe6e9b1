// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"

	"firn/internal/vfs"
	"firn/record"
)

// ErrNotUnpacked is what Options.Decompress wraps when it leaves records packed
// though they may be whole, since they would take too much memory.
var ErrNotUnpacked = errors.New("records are too large to unpack")

// Options say how to look.
type Options struct {
	// FS is the file system. Nil means vfs.Disk().
	FS vfs.FS
	// IO reads .log files beside the page cache. Nil means plain reads.
	IO *vfs.IO
	// Decompress unpacks the record section of a batch, and returns one of
	// CodecNone as it is. Nil leaves packed records alone.
	Decompress func(codec record.Codec, section []byte) ([]byte, error)
	// Records has Dump show the records of the batches.
	Records bool
	// InUse says that a broker uses the directory, so that files may come, go
	// and grow, and the end of a log may be unfinished.
	InUse bool
	// Gaps allows offsets that are missing, as compaction leaves them.
	Gaps bool
}

// EnsureDefaults puts the defaults in the place of zero values.
func (o *Options) EnsureDefaults() {
	if o.FS == nil {
		o.FS = vfs.Disk()
	}
	if o.Decompress == nil {
		o.Decompress = func(codec record.Codec, section []byte) ([]byte, error) {
			if codec == record.CodecNone {
				return section, nil
			}
			return nil, ErrNotUnpacked
		}
	}
}

// maxSmallFile bounds the files that are read as a whole: indexes, snapshots
// and checkpoints, in bytes.
const maxSmallFile = 1 << 28

// readSmall reads a whole file. Too large a one is damage.
func (o *Options) readSmall(path string) ([]byte, error) {
	b, err := vfs.ReadFile(o.FS, path, maxSmallFile)
	if errors.Is(err, vfs.ErrTooLarge) {
		return nil, &record.CorruptionError{Path: path, Position: maxSmallFile, Reason: "the file is larger than any of its kind"}
	}
	return b, err
}
