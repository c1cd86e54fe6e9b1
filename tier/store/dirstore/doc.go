// SPDX-License-Identifier: Apache-2.0

// Package dirstore keeps objects as files below a directory: the embedded
// store, for one machine and for tests.
//
// A key is the path of its file below the directory, so that the store can be
// looked at, copied and backed up with ordinary tools. Bodies are written
// beside the tree and moved in when they are whole and synced:
//
//	<path>/.firn-tmp/<random>        write, check, fsync
//	        │ rename, or link(2) under IfNoneMatch
//	        ▼
//	<path>/data/orders/…/seg/….seg   fsync of the directory, then Put returns
//
// It does not spread over disks, keep versions, limit its rate, or protect
// against losing the disk; it shares the disk and the page cache of the
// machine, which is why all its reads and writes take the uncached paths.
//
// Invariants:
//
//	I1  A file below the directory, outside .firn-tmp, is a whole object.
//	I2  When Put returned nil, file, name and every directory above it are
//	    durable.
//	I3  No key leads out of the directory: elements "." and ".." and empty ones
//	    are refused, and the first element is never .firn-tmp.
//	I4  Only empty directories are removed, and never one that a Put of this
//	    Store is about to use.
//
// A key may not be the directory of another ("a" and "a/b"); Put says so.
// On file systems that ignore case, keys that differ in case alone are one key.
//
// Goroutines: none.
package dirstore
