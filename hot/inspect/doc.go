// SPDX-License-Identifier: Apache-2.0

// Package inspect looks at a log directory with no broker and changes nothing.
//
// Dump shows what the files hold, item by item; Verify holds them against one
// another and names file and byte of each fault. Both take any bytes for what
// they may be, damaged ones included, and read the files of Kafka and of Firn
// alike.
//
// It opens no log, takes no lock, writes nothing and repairs nothing: that is
// package hot's, which this one neither uses nor is used by. It does not
// decompress: the caller brings a function that does.
//
// What Verify reads of a partition, in this order:
//
//	names ──▶ partition.metadata, leader-epoch-checkpoint
//	      ──▶ each segment, oldest first: every byte of the .log once;
//	            .index, .timeindex and .txnindex are held against the batches
//	            as they pass, and so are epochs, sequences and transactions
//	      ──▶ each .snapshot, when the walk has come to its offset
//	      ──▶ the checkpoints at the top of the log directory
//
// A fault is what cannot be in a log that is whole. A note is what a person may
// want to know and is no damage: what a broker that runs, or that was killed,
// leaves unfinished at the end of a log is a note.
//
// Invariants:
//
//	I1  Nothing is opened for writing and no lock is taken.
//	I2  Whatever the bytes are, the answer is findings and no panic, and the
//	    memory that is used is bounded by the size of one batch and of the
//	    indexes of one segment.
//	I3  After damage in a .log the walk goes on at the next place where the
//	    offset index says that a batch begins and one does.
//
// The package owns no goroutine.
package inspect
