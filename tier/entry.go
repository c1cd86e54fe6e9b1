// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"encoding/hex"
	"fmt"

	"firn/record"
)

// EntryKind says what an Entry of the chain stands for.
type EntryKind uint8

// The kinds of entry. The numbers are part of the manifest's format.
const (
	// KindSegment is an entry whose records lie in one segment object.
	KindSegment EntryKind = 1
	// KindGap is an entry without records: a read in it goes on at the next
	// entry.
	KindGap EntryKind = 2
)

// String is the kind as it is printed.
func (k EntryKind) String() string {
	switch k {
	case KindSegment:
		return "segment"
	case KindGap:
		return "gap"
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// GapReason says why offsets are in no object.
type GapReason uint8

// The reasons for a gap. The numbers are part of the manifest's format.
const (
	// GapNone is the reason of an entry that is no gap.
	GapNone GapReason = 0
	// GapExpired: retention or DeleteRecords removed the records before they
	// were uploaded.
	GapExpired GapReason = 1
	// GapDropOldest: the outage policy gave up records that were not yet in
	// the bucket.
	GapDropOldest GapReason = 2
	// GapLateEnabling: the records were gone locally when tiering began, or
	// began again.
	GapLateEnabling GapReason = 3
	// GapCopyDisabled: remote.log.copy.disable was set while they aged out.
	GapCopyDisabled GapReason = 4
)

// String is the reason as it is printed.
func (r GapReason) String() string {
	switch r {
	case GapNone:
		return "none"
	case GapExpired:
		return "expired"
	case GapDropOldest:
		return "drop-oldest"
	case GapLateEnabling:
		return "late-enabling"
	case GapCopyDisabled:
		return "copy-disabled"
	}
	return fmt.Sprintf("reason-%d", uint8(r))
}

// Hash is the first 16 bytes of a SHA-256, as it stands in object keys.
type Hash [16]byte

// String is the hash in lower-case hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Entry is one link of a partition's chain: the offsets [From, To) and where
// their records are. It is a value; the chain's entries are contiguous in
// offsets. For a gap only Kind, From, To and Reason are set.
type Entry struct {
	Kind   EntryKind
	Reason GapReason
	// From and To bound the offsets, To exclusive.
	From, To record.Offset
	// Epoch is the leader epoch under which the object was uploaded. It is
	// part of the object's key, and says nothing of the records in it.
	Epoch record.Epoch
	// FirstEpoch and LastEpoch are the leader epochs of the first and of the
	// last batch in the object.
	FirstEpoch, LastEpoch record.Epoch
	// Hash is the digest of the object's footer, part of its key.
	Hash Hash
	// ObjectSize is the size of the whole object in bytes, LogSize that of
	// its log section, FooterSize that of the footer at its end.
	ObjectSize, LogSize int64
	FooterSize          int32
	// FirstTimestamp is the base timestamp of the first batch, MaxTimestamp
	// the highest timestamp of all, in ms since the Unix epoch.
	FirstTimestamp, MaxTimestamp int64
	// MaxTimestampOffset is the last offset of the first batch that has
	// MaxTimestamp.
	MaxTimestampOffset record.Offset
	// Records is the number of records in the object.
	Records int64
	// HasAborted says whether the object lists aborted transactions.
	HasAborted bool
	// SealedMs and UploadedMs are the wall times, in ms since the Unix epoch,
	// at which the segment was found sealed and at which its upload was
	// verified.
	SealedMs, UploadedMs int64
}

// Gap is the entry for the offsets [from, to) that are in no object.
func Gap(from, to record.Offset, reason GapReason) Entry {
	return Entry{Kind: KindGap, Reason: reason, From: from, To: to}
}

// Covers says whether o lies in [From, To).
func (e Entry) Covers(o record.Offset) bool { return e.From <= o && o < e.To }

// String names the entry in errors and logs.
func (e Entry) String() string {
	if e.Kind == KindGap {
		return fmt.Sprintf("gap [%d, %d) %s", e.From, e.To, e.Reason)
	}
	return fmt.Sprintf("%s [%d, %d) epoch %d hash %s", e.Kind, e.From, e.To, e.Epoch, e.Hash)
}

// check tells what is wrong with an entry taken by itself.
func (e Entry) check() error {
	if e.From < 0 || e.To <= e.From {
		return fmt.Errorf("offsets [%d, %d) are not a range", e.From, e.To)
	}
	switch e.Kind {
	case KindGap:
		if e.Reason < GapExpired || e.Reason > GapCopyDisabled {
			return fmt.Errorf("gap [%d, %d) has the unknown reason %d", e.From, e.To, e.Reason)
		}
		if e != Gap(e.From, e.To, e.Reason) {
			return fmt.Errorf("gap [%d, %d) describes an object", e.From, e.To)
		}
	case KindSegment:
		return e.checkSegment()
	default:
		return fmt.Errorf("offsets [%d, %d) have the unknown kind %d", e.From, e.To, e.Kind)
	}
	return nil
}

func (e Entry) checkSegment() error {
	switch {
	case e.Reason != GapNone:
		return fmt.Errorf("segment [%d, %d) has the gap reason %d", e.From, e.To, e.Reason)
	case e.Epoch < 0 || e.FirstEpoch < record.NoEpoch || e.LastEpoch < e.FirstEpoch:
		return fmt.Errorf("segment [%d, %d) has the epochs %d, %d to %d", e.From, e.To, e.Epoch, e.FirstEpoch, e.LastEpoch)
	case e.LogSize <= 0 || e.FooterSize <= 0 || e.ObjectSize < e.LogSize || e.ObjectSize-e.LogSize < int64(e.FooterSize):
		return fmt.Errorf("segment [%d, %d) has the sizes object %d, log %d, footer %d", e.From, e.To, e.ObjectSize, e.LogSize, e.FooterSize)
	case e.Records < 0:
		return fmt.Errorf("segment [%d, %d) counts %d records", e.From, e.To, e.Records)
	case !e.Covers(e.MaxTimestampOffset):
		return fmt.Errorf("segment [%d, %d) has its maximum timestamp at offset %d", e.From, e.To, e.MaxTimestampOffset)
	}
	return nil
}
