// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"path/filepath"

	"firn/internal/vfs"
)

// residencyStep is the piece of a file that counts as in memory or not.
const residencyStep = 256 << 10

// Residency is how much of some files is in the page cache.
type Residency struct {
	Bytes    int64 `json:"bytes"`
	Resident int64 `json:"resident_bytes"`
}

// Share is the resident part, from 0 to 1; 1 when there are no bytes.
func (r Residency) Share() float64 {
	if r.Bytes == 0 {
		return 1
	}
	return float64(r.Resident) / float64(r.Bytes)
}

// MeasureResidency looks at the log files in a partition's directory, reading
// none of them. A file that goes away meanwhile does not count.
func MeasureResidency(io *vfs.IO, dir string) (Residency, error) {
	var sum Residency
	paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return sum, err
	}
	for _, path := range paths {
		one, ok := fileResidency(io, path)
		if ok {
			sum.Bytes += one.Bytes
			sum.Resident += one.Resident
		}
	}
	return sum, nil
}

func fileResidency(io *vfs.IO, path string) (Residency, bool) {
	file, err := vfs.Disk().OpenFile(path, vfs.ReadOnly, 0)
	if err != nil {
		return Residency{}, false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Residency{}, false
	}
	r := Residency{Bytes: info.Size()}
	for at := int64(0); at < r.Bytes; at += residencyStep {
		n := min(residencyStep, r.Bytes-at)
		if io.Resident(file, at, n) {
			r.Resident += n
		}
	}
	return r, true
}

// DropFiles takes files out of the page cache, as well as the system can.
func DropFiles(io *vfs.IO, paths []string) error {
	for _, path := range paths {
		file, err := vfs.Disk().OpenFile(path, vfs.ReadOnly, 0)
		if err != nil {
			return err
		}
		io.DropWritten(file)
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}
