// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"

	"firn/record"
)

// Sealed is a closed, completely synced segment of the local log, as the
// archiver reads it. All methods may be called concurrently; the bytes and
// everything else it tells never change.
type Sealed interface {
	// BaseOffset is the first offset, NextOffset the one after the last.
	BaseOffset() record.Offset
	NextOffset() record.Offset
	// Size is the size of the log file in bytes.
	Size() int64
	// ReadUncachedAt is an io.ReaderAt over the log file that leaves the page
	// cache as it was.
	ReadUncachedAt(p []byte, off int64) (int, error)
	// Pin keeps the file readable, even when the log drops the segment
	// meanwhile; Unpin gives it up. They nest.
	Pin() error
	Unpin()
	// ProducerSnapshot is the content of the producer snapshot at the
	// segment's end.
	ProducerSnapshot() ([]byte, error)
	// Epochs is the lineage of leader epochs up to the segment's end.
	Epochs() record.Epochs
	// AbortedTxns lists every aborted transaction that overlaps the
	// segment's offsets, wherever its marker lies. It is asked once the
	// segment ends at or below the last stable offset: until then it does not
	// know them all.
	AbortedTxns() ([]record.AbortedTxn, error)
}

// chainView is a partition's chain as the reader sees it. It may be called
// concurrently.
type chainView interface {
	// keyOf is the whole key of a segment entry's object.
	keyOf(e Entry) string
	// entryAt finds the segment entry that covers o or, when o lies in a gap
	// or below the chain's start, the next segment entry above. ok is false
	// when there is none, next is where reading goes on: o itself, the start
	// of the entry found or, without one, the end of the chain, but never
	// below o. It may load a page of the manifest.
	entryAt(ctx context.Context, o record.Offset) (e Entry, next record.Offset, ok bool, err error)
}
