// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"

	"firn/hot"
	"firn/record"
	"firn/tier"
)

// Partition is a partition as a fetch sees it. All methods may be called
// concurrently.
type Partition interface {
	TopicPartition() record.TopicPartition
	TopicID() record.TopicID
	// HighWatermark and LastStableOffset end what consumers of either
	// isolation level may see.
	HighWatermark() record.Offset
	LastStableOffset() record.Offset
	// LogStartOffset is the first offset that is kept in either tier.
	LogStartOffset() record.Offset
	// Locate says which tier a read from the given offset goes to, and at
	// which offset it goes on (further on, when from lies in a gap). The
	// error wraps record.ErrOffsetOutOfRange when neither tier has it, and
	// record.ErrStorage when that cannot be told yet.
	Locate(from record.Offset) (cold bool, at record.Offset, err error)
	// LocalResident says whether about maxBytes of local log from the given
	// offset lie in the page cache, and how many bytes of local log there are
	// from there to the log's end. It reads nothing of the log.
	LocalResident(from record.Offset, maxBytes int) (resident bool, bytesToEnd int64, err error)
	// ReadLocal pins whole batches of one local segment, from the one that
	// holds from up to limit. Nil without an error means that there are none.
	// record.ErrOffsetOutOfRange means that the local part has moved on. It
	// looks at batch headers: uncached makes it do so past the page cache.
	ReadLocal(from, limit record.Offset, maxBytes int, minOne, uncached bool) (*hot.Region, error)
	// AbortedTxns are the aborted transactions that overlap the offsets [from,
	// to) of the local part, which lie below the last stable offset.
	// record.ErrOffsetOutOfRange means that the local part has moved on.
	AbortedTxns(from, to record.Offset) ([]record.AbortedTxn, error)
	// ReadCold reads whole, verified batches from the cold tier.
	ReadCold(ctx context.Context, from, limit record.Offset, maxBytes int, minOne bool) (tier.Data, error)
	// Watch signals wake when a read may find more than before.
	Watch(wake chan<- struct{}) (cancel func())
}
