// SPDX-License-Identifier: Apache-2.0

package tier

import "firn/record"

// localView is the local log at one moment.
type localView struct {
	start, end, logStart record.Offset
	epochs               record.Epochs
	// grown says that records were appended in this life, before the bucket
	// was read.
	grown bool
}

// viewOf looks at a local log of which epoch is the first one of this life.
func viewOf(l Local, epoch record.Epoch) localView {
	v := localView{start: l.StartOffset(), end: l.EndOffset(), logStart: l.LogStartOffset(), epochs: l.Epochs()}
	last, ok := v.epochs.Last()
	v.grown = ok && last.Epoch >= epoch && v.start < v.end
	return v
}

// comparison is the highest offset that both the chain has in a segment and
// the local log covers or passed, with its leader epoch on either side. Equal
// epochs at one offset mean equal records up to it: one leader wrote each
// epoch, in order. That does not hold for a directory that was set back or
// copied: it gives out epochs a second time. Whenever the chain is not the one
// that this directory wrote last, the batches at the offset are compared too.
type comparison struct {
	made         bool // there is such an offset, and both sides know its epoch
	offset       record.Offset
	chain, local record.Epoch
	differ       bool // the two have different batches there
}

// outcome is what reconciliation decides.
type outcome struct {
	reset  bool   // the local log begins anew at the chain's end
	reason string // not empty: read-only, for this reason
	detail string
}

// reconcile decides how a local log and the chain that was found in the bucket
// go together. seen says that the chain's newest head was written from this
// directory. It is pure.
//
//	                      agrees                       disagrees
//	local ends below      reset to the chain's end     read-only
//	local ends there      go on                        read-only
//	local ends above      go on, if seen               read-only
//
// A local log that is empty, or lies wholly below the log start and has not
// grown in this life, has nothing to lose and agrees with every chain that ends
// above it.
func reconcile(local localView, m *Manifest, seen bool, c comparison) outcome {
	logStart := max(local.logStart, m.LogStart)
	behind := local.end < m.End
	if behind && (local.start == local.end || local.end <= logStart && !local.grown) {
		return outcome{reset: true}
	}
	switch {
	case c.made && c.chain != c.local:
		return outcome{reason: ReasonDiverged, detail: "the leader epochs differ"}
	case c.differ:
		return outcome{reason: ReasonDiverged, detail: "the leader epochs are the same, the records differ"}
	case behind && !c.made:
		return outcome{reason: ReasonDiverged, detail: "the chain has no record that the local log could be compared by"}
	case behind && m.Start > max(local.start, logStart):
		return outcome{reason: ReasonDiverged, detail: "the local log has records from before the chain"}
	case behind:
		return outcome{reset: true}
	case !seen && local.end > m.End:
		return outcome{reason: ReasonForeignWriter, detail: "the local log has records beyond the chain"}
	}
	return outcome{}
}
