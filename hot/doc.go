// SPDX-License-Identifier: Apache-2.0

// Package hot is the log on local disk: segments in Kafka's format, byte for
// byte.
//
// It appends clients' batches as they are, with offsets and leader epoch
// written in place; keeps the sparse indexes; rolls; makes appends durable by
// group commit; recovers after a crash; and hands out Regions, pinned ranges
// of a segment's file that the network layer sends without copying. It does
// all its I/O through package vfs.
//
// It does not decide what may be deleted, when a record is visible, or what
// goes to the cold tier, and it does not decompress batches.
//
// A Store is one log directory, Disks are all of a broker's: each partition lies
// in one of them. A directory that fails as a whole (health.go) is offline with
// all its logs until the next start, and takes nothing else with it.
//
// A log directory:
//
//	.lock                                held while a Store is open
//	.kafka_cleanshutdown                 there after a clean stop only
//	firn-clean-stop                      beside it: what that stop left, by partition
//	recovery-point-offset-checkpoint     what was synced, by partition
//	log-start-offset-checkpoint          where SetLogStartOffset has been
//	meta.properties                      whose directory it is
//	firn.ballast                         space for when there is none
//	<topic>-<partition>/
//	    00000000000000000000.log         batches
//	    00000000000000000000.index       offset → position, sparse
//	    00000000000000000000.timeindex   largest timestamp so far → offset
//	    00000000000000000000.txnindex    aborted transactions, if there are any
//	    00000000000000004711.snapshot    producer state at an offset
//	    leader-epoch-checkpoint          epoch → its first offset
//	    partition.metadata               topic id
//	    00000000000000000000.log.88.0.cut   what recovery cut off at byte 88
//	<topic>-<partition>.<32 hex digits>-delete/   moved aside for deletion
//
// The life of a segment:
//
//	          append, index in memory        sealer: indexes, snapshot,
//	          pwrite to the page cache       log and directory synced
//	created ─────────▶ active ───roll──▶ sealed ─────────▶ complete ──drop──▶ unlinked,
//	                     │                  │                 │               kept by pins
//	                     └── group commit: durable offset     └── recovery point, OnSeal
//
// What a crash can cost: nothing below the durable offset. Recovery scans from
// the segment that holds the recovery point, so that its time depends on the
// active segments and not on the bytes stored. After a clean stop no file of a
// partition is opened: what is as the stop left it is believed.
//
// Invariants, beside those of Log, Segment and fileCache:
//
//	I1  Bytes that a Region covers never change and stay readable until its
//	    Release: files are only appended to, and unlinked or renamed, never
//	    overwritten or reused.
//	I2  An offset below DurableOffset survives a power cut. A failed sync
//	    poisons the log and is never tried again.
//	I3  The recovery point passes a segment only when its log, its indexes,
//	    the producer snapshot at its end, the epochs and the directory are
//	    synced.
//	I4  The clean-shutdown mark is gone, durably, before anything is changed;
//	    it comes back only when every open log was closed without an error.
//	I5  After any crash a log opens to whole batches with consecutive offsets,
//	    as they were appended. What is cut off is kept in a side file.
//	    Nothing is cut, skipped or taken for a new epoch on the word of one
//	    reading.
//	I6  Segments are deleted oldest first, each durably before the next.
//	I7  A read holds up no append and waits for none, nor for a sync.
//	I8  Nothing is written to a directory that is known to have failed, nor to
//	    one that has taken its place.
//	I9  FirstUnstable is never above the first batch of a transaction whose
//	    marker is not visible, and AbortedTxns misses no aborted transaction whose
//	    marker is in the log. Both survive what the batches survive.
//
// Goroutines, all owned by a Store and ended by its Close: the flusher, which
// runs the rounds of the group commit; the sealer, which completes sealed
// segments; the janitor, which does what is due by the clock; the watch over
// the directory, if there is a WatchInterval; and one for each OnPoison call.
// Disks have one that waits for the last directory to fail.
package hot
