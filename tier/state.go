// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"

	"firn/record"
)

// Phase says how far a partition's log in the cold tier is.
type Phase uint8

const (
	// Loading: the bucket was not read yet. The partition serves and appends
	// from the local log; nothing is uploaded or deleted.
	Loading Phase = iota
	// Ready: reconciled with the bucket.
	Ready
	// ReadOnly: the partition takes no appends, for Reason. With the reason
	// ReasonLogBehind it is still waiting for the bucket and may become Ready;
	// with any other it stays until an operator decides.
	ReadOnly
)

// String is the phase as it is printed.
func (p Phase) String() string {
	switch p {
	case Loading:
		return "loading"
	case Ready:
		return "ready"
	case ReadOnly:
		return "read-only"
	}
	return fmt.Sprintf("phase-%d", uint8(p))
}

// Reasons of a State. They are fixed words.
const (
	// ReasonStoreDown: the last requests to the store failed; they are
	// repeated for as long as it takes.
	ReasonStoreDown = "store-down"
	// ReasonOpenTransaction: the next segment ends above the last stable
	// offset.
	ReasonOpenTransaction = "open-transaction"
	// ReasonCopyDisabled: remote.log.copy.disable is set.
	ReasonCopyDisabled = "copy-disabled"
	// ReasonCorrupt: the next segment, or an object that is needed, is not
	// what was written.
	ReasonCorrupt = "corrupt"
	// ReasonMisaligned: the next local segment begins below the chain's end
	// and ends above it.
	ReasonMisaligned = "misaligned"
	// ReasonLogBehind: the local log ends below what its copy of the manifest
	// says is in the bucket, or it was lost and nobody knows what that is.
	ReasonLogBehind = "log-behind"
	// ReasonDiverged: the local log and the chain hold different records at
	// the same offsets.
	ReasonDiverged = "diverged"
	// ReasonForeignWriter: somebody whom this directory never saw wrote to
	// the chain, and the local log has records beyond it.
	ReasonForeignWriter = "foreign-writer"
	// ReasonFenced: somebody claimed a higher epoch while we were writing.
	ReasonFenced = "fenced"
	// ReasonBucketBehind: the bucket lacks what the local copy of the manifest
	// says is in it.
	ReasonBucketBehind = "bucket-behind"
	// ReasonUnknownVersion: the bucket was written by a newer Firn.
	ReasonUnknownVersion = "unknown-version"
	// ReasonStoreMismatch: the bucket belongs to another data directory.
	ReasonStoreMismatch = "store-mismatch"
)

// State is what a partition's log in the cold tier is like at one moment.
type State struct {
	Phase Phase
	// Loaded says that a manifest is known, be it the local copy or the
	// bucket's. Only then is an offset below the local log out of range.
	Loaded bool
	// Reason is one of the words above, or empty. In the phases Loading and
	// Ready it says why nothing goes up at the moment.
	Reason string
	// Epoch is the leader epoch that new records must be appended with. It
	// rises when the bucket knows a higher one than the broker.
	Epoch record.Epoch
	// LogStart is the log start offset in the manifest.
	LogStart record.Offset
	// Start and End bound what the chain covers, End exclusive; they are equal
	// when it covers nothing. Start is not below LogStart.
	Start, End record.Offset
	// Bytes is the log size of the chain's segments that are not wholly below
	// the log start, also one that is on its way into the manifest, and
	// Segments is their number. They may be too low for a moment after the log
	// start moved, never too high: retention may count on them.
	Bytes    int64
	Segments int64
	// Tombstones is the number of objects that wait to be deleted.
	Tombstones int
	// LagSegments and LagBytes are the closed local segments above End.
	LagSegments int
	LagBytes    int64
	// LastError is the newest failure, nil once a step succeeded after it.
	LastError error
}

// halt is an error after which a partition stays read-only.
type halt struct {
	reason string
	err    error
}

func (h *halt) Error() string { return h.reason + ": " + h.err.Error() }
func (h *halt) Unwrap() error { return h.err }

func halted(reason, format string, args ...any) error {
	return &halt{reason: reason, err: fmt.Errorf(format, args...)}
}

// Phase is State's Phase and Reason alone, for paths that cannot afford State.
func (l *Log) Phase() (Phase, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase, l.reason
}

// Loaded is State's Loaded alone.
func (l *Log) Loaded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loaded
}

// LogStart is State's LogStart alone.
func (l *Log) LogStart() record.Offset { return l.manifest.Load().LogStart }
