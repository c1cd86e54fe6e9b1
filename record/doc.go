// SPDX-License-Identifier: Apache-2.0

// Package record names the units of the log and reads Kafka's formats in
// place.
//
// It is the leaf that every other package shares: offsets, epochs and topic
// ids as types of their own, the header of a batch of magic 2, CRC-32C, the
// kinds of error that a log can meet, the codecs of Kafka's small files
// (offset index, time index, transaction index, producer snapshot, leader
// epoch checkpoint, partition.metadata and the checkpoints of a log directory),
// the markers that end transactions, and the pure producer state that rejects
// duplicates and gaps and knows the open transactions.
//
// It does not do any I/O, own any goroutine or read any clock, and it never
// decompresses: whoever did may go through the records of a batch with
// Header.Records. It imports the standard library alone. docs/format/local.md
// draws every file.
//
// A batch as it lies on disk, on the wire and in the bucket (all big-endian):
//
//	 0  int64  base offset            outside the CRC, set by the broker
//	 8  int32  batch length           bytes that follow this field
//	12  int32  partition leader epoch outside the CRC, set by the broker
//	16  int8   magic                  2
//	17  uint32 CRC-32C                of everything from byte 21 to the end
//	21  int16  attributes             codec, timestamp type, transactional, control
//	23  int32  last offset delta
//	27  int64  base timestamp         ms since the Unix epoch
//	35  int64  max timestamp          ms since the Unix epoch
//	43  int64  producer id            -1 for none
//	51  int16  producer epoch
//	53  int32  base sequence
//	57  int32  record count
//	61         records, compressed as the attributes say
//
// Invariants:
//
//	I1  A Header that ParseHeader returned without an error lies wholly inside
//	    the slice it was read from, as far as its 61 bytes go, and its Size is
//	    between HeaderSize and MaxBatchSize.
//	I2  SplitBatch never returns a Batch that reaches past its input.
//	I3  The only bytes of a batch that this package ever changes outside of
//	    SetLogAppendTime are the base offset and the leader epoch, which the
//	    CRC does not cover.
//	I4  A parser of a file returns either the whole content, checked, or a
//	    *CorruptionError with the byte at which the damage starts, or an
//	    ErrUnsupportedVersion: never a part.
//	I5  Marshal writes the same bytes for the same content, and what Kafka
//	    wrote is written back byte for byte where Kafka's order is fixed.
package record
