// SPDX-License-Identifier: Apache-2.0

// Package faultfs is a file system that fails on demand.
//
// FS wraps another vfs.FS, counts every operation by kind and lets a rule or a
// hook decide, operation by operation, that one fails: with an error, after a
// short write, for want of space, in a sync, or with a flipped bit in what was
// read. It is meant for tests; what it is not asked to change it passes on.
//
//	caller → FS/file → hook? rule? → inner FS
//	                     │ fault: error, part of a write, flipped bit
//
// The usual test runs its subject again and again with the first, second,
// third … operation failing, until a run passes without the rule having fired,
// and wants an error or a right result each time.
//
// Invariants:
//
//	I1  Each operation is counted once and meets at most one fault.
//	I2  An operation that fails has no effect on the inner file system apart
//	    from the bytes that Fault.Bytes lets through. A failed Sync or SyncDir
//	    syncs nothing; where the inner file can, it forgets what was unsynced,
//	    as Linux does, so that trying again does not bring it back.
//	I3  Close reaches the inner file even when it is made to fail: no test
//	    leaks descriptors.
//
// The package owns no goroutine.
package faultfs
