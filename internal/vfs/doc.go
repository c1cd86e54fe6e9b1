// SPDX-License-Identifier: Apache-2.0

// Package vfs is the seam between Firn and the file system.
//
// Everything that the local log and the embedded store do to a disk goes
// through FS and File, so that a test can put the memory form (Mem), which
// loses on a simulated crash what was not synced, or the fault form (package
// faultfs) in the place of the real one (Disk). IO is the other half: reads
// and writes of bulk data that leave the page cache to the readers at the
// tail, and the question whether a range is in the page cache.
//
// It does not know Kafka's formats, keeps no descriptors open on its own and
// never retries a failed write or sync.
//
// What a crash takes, in the memory form as on a disk:
//
//	             written      Sync(file)         SyncDir(parent)
//	bytes        lost     →   kept
//	length       lost     →   kept
//	entry        lost         lost           →   kept
//
//	after a Sync that failed the page cache goes on showing the bytes that are
//	lost, until DropClean
//
//	a file is found again when its bytes were synced and so was the
//	directory of every entry on the way to it
//
// How a bulk read spares the page cache, best method first:
//
//	dontcache   preadv2 with RWF_DONTCACHE: cached pages are used and left,
//	            others are dropped as soon as they have been copied
//	fadvise     buffered; each aligned window of 8 MiB that was not resident
//	            when the reader came near it is dropped when it has been read
//	buffered    a plain read
//
// Invariants:
//
//	I1  No operation reports success before it is done as documented; a failed
//	    Sync is reported once and what it covered counts as lost.
//	I2  Mem.Crash keeps exactly the bytes, lengths and entries that were
//	    synced; Mem.CrashKeeping keeps those and some of the rest, never
//	    anything that was not written.
//	I3  Handles opened before a Crash stay on the old Mem and cannot change
//	    the new one.
//	I4  ReplaceFile leaves either the old content or the new one, whenever the
//	    machine stops.
//	I5  IO gives the same bytes by every method; a method that the kernel or
//	    the file system refuses is left for the next one, for that file system,
//	    and the call goes on where it was.
//	I6  Resident never says "not resident" unless a verified method said so.
//
// The package owns no goroutine.
package vfs
