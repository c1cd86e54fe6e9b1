// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"fmt"
	"slices"
)

// OpenTxn is a transaction that has records in a partition and no marker yet.
type OpenTxn struct {
	ProducerID  int64
	FirstOffset Offset // of its first record
}

// EndedTxn is a transaction that its marker has just ended. LastStableOffset is
// that of the partition with the marker, as far as open transactions go: the
// first offset of the oldest one that is left, or the offset after the marker.
type EndedTxn struct {
	AbortedTxn
	// Abort says that the transaction was aborted: that it belongs into the
	// transaction index.
	Abort bool
}

// Open lists the open transactions, the oldest first. It is a copy.
func (p *Producers) Open() []OpenTxn { return slices.Clone(p.open) }

// InTransaction says whether the producer has a transaction open in this epoch.
func (p *Producers) InTransaction(id int64, epoch int16) bool {
	s := p.byID[id]
	return s != nil && s.txnFirst != NoOffset && s.epoch == epoch
}

// CheckTxn says whether a client's batch, which Check has passed, fits the
// transaction of its producer. verified says that the coordinator knows the
// transaction to hold this partition, so that the batch may begin it here; else
// it must be under way. The error wraps ErrInvalidTxnState.
func (p *Producers) CheckTxn(h Header, verified bool) error {
	switch s := p.byID[h.ProducerID]; {
	case h.IsTransactional() && !verified && !p.InTransaction(h.ProducerID, h.ProducerEpoch):
		return fmt.Errorf("%w: the batch of producer %d in epoch %d is not part of an ongoing transaction", ErrInvalidTxnState, h.ProducerID, h.ProducerEpoch)
	case !h.IsTransactional() && h.HasProducer() && s != nil && s.txnFirst != NoOffset:
		return fmt.Errorf("%w: producer %d has a transaction open from offset %d, the batch is outside of it", ErrInvalidTxnState, h.ProducerID, s.txnFirst)
	}
	return nil
}

// CheckMarker says whether a coordinator's marker, m in the control batch that
// h heads, may be appended. The error wraps ErrInvalidProducerEpoch for an epoch
// below the producer's and ErrFencedCoordinator for a coordinator that has been
// replaced.
func (p *Producers) CheckMarker(h Header, m Marker) error {
	s := p.byID[h.ProducerID]
	switch {
	case s == nil:
		return nil
	case h.ProducerEpoch < s.epoch:
		return fmt.Errorf("%w: producer %d has epoch %d, the marker %d", ErrInvalidProducerEpoch, h.ProducerID, s.epoch, h.ProducerEpoch)
	case m.CoordinatorEpoch < s.coordinatorEpoch:
		return fmt.Errorf("%w: producer %d has a marker of coordinator epoch %d, this one is of %d", ErrFencedCoordinator, h.ProducerID, s.coordinatorEpoch, m.CoordinatorEpoch)
	}
	return nil
}

// ApplyMarker takes in a control batch that was appended, with its base offset
// set, and the marker in it. It trusts both, as Apply does. ok is false when
// there was no transaction to end: it had no record in this partition, or the
// marker was applied before.
func (p *Producers) ApplyMarker(h Header, m Marker) (ended EndedTxn, ok bool) {
	if !h.HasProducer() || !h.IsControl() {
		return EndedTxn{}, false
	}
	s := p.reach(h)
	if s == nil {
		return EndedTxn{}, false
	}
	s.coordinatorEpoch = m.CoordinatorEpoch
	if s.txnFirst == NoOffset {
		return EndedTxn{}, false
	}
	ended = EndedTxn{Abort: m.Abort, AbortedTxn: AbortedTxn{
		ProducerID: h.ProducerID, FirstOffset: s.txnFirst, LastOffset: h.LastOffset(), LastStableOffset: h.NextOffset(),
	}}
	s.txnFirst = NoOffset
	p.open = slices.DeleteFunc(p.open, func(t OpenTxn) bool { return t.ProducerID == h.ProducerID })
	if len(p.open) > 0 {
		ended.LastStableOffset = p.open[0].FirstOffset
	}
	return ended, true
}

// ForgetTransactions makes every open transaction one that has ended, without a
// marker: for a log that begins anew behind a history in which all of them are
// known to be decided.
func (p *Producers) ForgetTransactions() {
	p.open = nil
	for _, s := range p.byID {
		s.txnFirst = NoOffset
	}
}

// sortOpen brings transactions that were read in another order into that of
// their first offsets, in which Apply adds them.
func (p *Producers) sortOpen() {
	slices.SortFunc(p.open, func(a, b OpenTxn) int {
		return cmp.Or(cmp.Compare(a.FirstOffset, b.FirstOffset), cmp.Compare(a.ProducerID, b.ProducerID))
	})
}
