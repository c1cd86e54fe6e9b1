// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package vfs

import (
	"fmt"
	"os"
)

// sendMethod is how file bytes reach a socket here.
const sendMethod = "read and write"

// platform has no methods of its own here: reads and writes are buffered and
// everything counts as resident.
type platform struct{}

func probePlatform(dir string, want forced) (*platform, error) {
	for _, method := range []string{want.uncached, want.residency} {
		if method != "" && method != methodNone {
			return nil, fmt.Errorf("%w: %s on this operating system", ErrUnknownMethod, method)
		}
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	return &platform{}, nil
}

func (platform) methods() Methods { return describe(methodNone, methodNone, methodNone) }

func (platform) readUncached(f File, p []byte, off int64) (int, error) { return f.ReadAt(p, off) }

func (platform) writeUncached(f File, p []byte, off int64) (int, error) { return f.WriteAt(p, off) }

func (platform) dropWritten(File) {}

func (platform) surelyResident(File, int64, int64) bool { return false }

func (platform) residentPages(File, int64, int64) (found, want int64, known bool) {
	return 0, 0, false
}

// pageMap is the mapping of a file that mincore would need.
type pageMap struct{}

func (pageMap) unmap() error { return nil }
