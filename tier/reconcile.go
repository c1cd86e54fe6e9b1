// SPDX-License-Identifier: Apache-2.0

package tier

import "firn/record"

// localView is the local log at one moment.
type localView struct {
	start, end, logStart record.Offset
	epochs               record.Epochs
}

func viewOf(l Local) localView {
	return localView{start: l.StartOffset(), end: l.EndOffset(), logStart: l.LogStartOffset(), epochs: l.Epochs()}
}

// comparison is the highest offset that both the chain has in a segment and
// the local log covers or passed, with its leader epoch on either side. Equal
// epochs at one offset mean equal records up to it: one leader wrote each
// epoch, in order.
type comparison struct {
	made         bool // there is such an offset, and both sides know its epoch
	offset       record.Offset
	chain, local record.Epoch
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
// A local log that is empty, or lies wholly below the log start, has nothing
// to lose and agrees with every chain that ends above it.
func reconcile(local localView, m *Manifest, seen bool, c comparison) outcome {
	logStart := max(local.logStart, m.LogStart)
	behind := local.end < m.End
	if behind && (local.start == local.end || local.end <= logStart) {
		return outcome{reset: true}
	}
	if c.made && c.chain != c.local {
		return outcome{reason: ReasonDiverged, detail: "the leader epochs differ"}
	}
	switch {
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
