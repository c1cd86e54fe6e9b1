// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// rememberedBatches is how many batches of each producer are kept to recognise
// duplicates: what a client may have in flight at most.
const rememberedBatches = 5

// maxRun bounds how far back in sequence numbers a duplicate is recognised
// once its batch is forgotten: half of their range, beyond which "before" and
// "after" cannot be told apart.
const maxRun = 1 << 30

// Producers is the state of the idempotent producers of one partition: what
// tells a batch that comes next from a duplicate, a gap and a fenced producer,
// and which transactions are open.
// It is pure: no clock, no I/O. It is not safe for concurrent use.
//
// Invariants:
//
//	P1  A batch that was applied is answered as a duplicate, with the offsets
//	    it got, until five more batches of its producer were applied.
//	P2  Check answers ErrDuplicateSequence only for sequence numbers that were
//	    seen being applied: clients take it for success.
//	P3  Applying the same batches again in the same order changes nothing.
//	P4  Marshal writes the same bytes for the same state.
//	P5  open lists exactly the producers whose txnFirst is set, by that offset.
type Producers struct {
	byID map[int64]*producer
	// open are the open transactions, by first offset.
	open []OpenTxn
	// maxID is the highest producer id ever applied, -1 for none.
	maxID int64
	// clock is the latest time that Check was told, in ms.
	clock int64
}

// producer is what is known of one producer.
type producer struct {
	epoch            int16
	coordinatorEpoch int32
	lastTimestamp    int64 // ms, as the last batch says
	lastSeen         int64 // ms, of the broker's clock; 0 when loaded or rebuilt
	txnFirst         Offset
	// reached is the last offset applied, markers included.
	reached Offset
	// run is how many sequence numbers up to the last batch's are known to
	// have been applied in this epoch, at most maxRun.
	run     int64
	batches []appended // oldest first, at most rememberedBatches
	// short says that batches came from a snapshot, which has the last one
	// alone: the log may have more of this epoch before it.
	short bool
}

// appended is a batch that was applied.
type appended struct {
	lastSequence int32
	delta        int32 // last offset less first offset, and last sequence less first
	lastOffset   Offset
	timestamp    int64 // ms, the batch's maximum
}

func (a appended) firstSequence() int32 {
	if a.lastSequence < 0 {
		return NoSequence
	}
	return subtractSequence(a.lastSequence, a.delta)
}

// subtractSequence is the inverse of AddSequence.
func subtractSequence(sequence, n int32) int32 {
	return int32((int64(sequence) - int64(n)) & math.MaxInt32)
}

// NewProducers is the state of a partition that no producer has written to.
func NewProducers() *Producers {
	return &Producers{byID: map[int64]*producer{}, maxID: NoProducerID}
}

// Verdict is what Check found.
type Verdict struct {
	// Duplicate says that the batch was applied before and must not be
	// appended again.
	Duplicate bool
	// Base and Next are the first offset of the original and the one after
	// its last; set for a duplicate only.
	Base, Next Offset
}

// Check says whether a client's batch may be appended, and recognises a
// duplicate. It looks at producer id, epoch and sequence of h alone; a batch
// without a producer id always passes. nowMs is the time in ms since the Unix
// epoch.
//
// The rules are Kafka's: a producer that is not known may begin with any
// sequence number (its state may have expired); a newer epoch begins at 0;
// within an epoch each batch begins where the last one ended, wrapping from
// 2^31-1 to 0.
//
// The error wraps ErrInvalidBatch for a producer without a sequence or epoch,
// ErrInvalidProducerEpoch for an epoch below the producer's,
// ErrDuplicateSequence for a duplicate whose offset is no longer known, and
// ErrOutOfOrderSequence for everything else that does not fit.
func (p *Producers) Check(h Header, nowMs int64) (Verdict, error) {
	p.clock = max(p.clock, nowMs)
	if !h.HasProducer() {
		return Verdict{}, nil
	}
	if h.BaseSequence < 0 || h.ProducerEpoch < 0 {
		return Verdict{}, fmt.Errorf("%w: producer %d with epoch %d and sequence %d", ErrInvalidBatch, h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	}
	s := p.byID[h.ProducerID]
	if s == nil {
		return Verdict{}, nil
	}
	if h.ProducerEpoch == s.epoch {
		return s.checkSequence(h)
	}
	if h.ProducerEpoch < s.epoch {
		return Verdict{}, fmt.Errorf("%w: producer %d has epoch %d, the batch %d", ErrInvalidProducerEpoch, h.ProducerID, s.epoch, h.ProducerEpoch)
	}
	if h.BaseSequence != 0 && s.epoch >= 0 {
		return Verdict{}, fmt.Errorf("%w: epoch %d of producer %d begins at sequence %d, want 0", ErrOutOfOrderSequence, h.ProducerEpoch, h.ProducerID, h.BaseSequence)
	}
	return Verdict{}, nil
}

// checkSequence places a batch of the current epoch.
func (s *producer) checkSequence(h Header) (Verdict, error) {
	first, last := h.BaseSequence, h.LastSequence()
	for _, b := range s.batches {
		if b.lastSequence == last && b.firstSequence() == first {
			return Verdict{Duplicate: true, Base: b.lastOffset - Offset(b.delta), Next: b.lastOffset + 1}, nil
		}
	}
	if len(s.batches) == 0 {
		if first != 0 {
			return Verdict{}, fmt.Errorf("%w: producer %d begins at sequence %d, want 0", ErrOutOfOrderSequence, h.ProducerID, first)
		}
		return Verdict{}, nil
	}
	newest := s.batches[len(s.batches)-1].lastSequence
	switch {
	case newest < 0 && first == 0, newest >= 0 && first == AddSequence(newest, 1):
		return Verdict{}, nil
	case s.forgot(first, last):
		return Verdict{}, fmt.Errorf("%w: producer %d sent sequence %d to %d again, which are no longer remembered", ErrDuplicateSequence, h.ProducerID, first, last)
	}
	return Verdict{}, fmt.Errorf("%w: producer %d sent sequence %d, want %d", ErrOutOfOrderSequence, h.ProducerID, first, AddSequence(newest, 1))
}

// forgot says whether the sequence numbers first to last were all applied
// before the oldest batch that is remembered. The remembered ones are excluded:
// a batch that lies across their bounds is no duplicate of any.
func (s *producer) forgot(first, last int32) bool {
	newest, oldest := s.batches[len(s.batches)-1], s.batches[0].firstSequence()
	if newest.lastSequence < 0 || oldest < 0 {
		return false
	}
	// Both distances count back from the newest sequence number, which is 0.
	toFirst := int64(subtractSequence(newest.lastSequence, first))
	toLast := int64(subtractSequence(newest.lastSequence, last))
	toOldest := int64(subtractSequence(newest.lastSequence, oldest))
	return toFirst < s.run && toLast <= toFirst && toLast > toOldest
}

// Apply takes in a data batch that was appended, with its base offset set. It
// trusts the batch, so that it also rebuilds the state from a log. A batch at
// or below what its producer is known to have reached changes nothing.
//
// What a control batch says is not in its header: that is ApplyMarker's, and
// changes nothing here. began says that a transaction begins with the batch.
func (p *Producers) Apply(h Header) (began bool) {
	if !h.HasProducer() || h.IsControl() {
		return false
	}
	s := p.reach(h)
	if s == nil {
		return false
	}
	if began = h.IsTransactional() && s.txnFirst == NoOffset; began {
		s.txnFirst = h.BaseOffset
		p.open = append(p.open, OpenTxn{ProducerID: h.ProducerID, FirstOffset: h.BaseOffset})
	}
	s.remember(h)
	return began
}

// reach finds the producer of a batch, moves it to the batch's end and epoch,
// and answers nil when it was there already.
func (p *Producers) reach(h Header) *producer {
	s := p.byID[h.ProducerID]
	if s == nil {
		s = &producer{epoch: -1, coordinatorEpoch: -1, txnFirst: NoOffset, reached: NoOffset}
		p.byID[h.ProducerID] = s
		p.maxID = max(p.maxID, h.ProducerID)
	}
	if h.LastOffset() <= s.reached {
		return nil
	}
	s.reached = h.LastOffset()
	if s.epoch != h.ProducerEpoch {
		s.epoch, s.run, s.batches, s.short = h.ProducerEpoch, 0, s.batches[:0], false
	}
	s.lastTimestamp, s.lastSeen = h.MaxTimestamp, p.clock
	return s
}

// remember adds a data batch and forgets the oldest beyond the limit.
func (s *producer) remember(h Header) {
	n := len(s.batches)
	follows := n > 0 && h.BaseSequence >= 0 && h.BaseSequence == AddSequence(s.batches[n-1].lastSequence, 1)
	if !follows {
		s.run = 0
	}
	if h.BaseSequence >= 0 {
		s.run = min(s.run+int64(h.LastOffsetDelta)+1, maxRun)
	}
	b := appended{lastSequence: h.LastSequence(), delta: h.LastOffsetDelta, lastOffset: h.LastOffset(), timestamp: h.MaxTimestamp}
	if n == rememberedBatches {
		copy(s.batches, s.batches[1:])
		s.batches[n-1] = b
		return
	}
	s.batches = append(s.batches, b)
}

// Recall says whether a batch that Check found out of order may be one that was
// applied before the snapshot from which its producer was loaded. Then the log
// knows it: Refill takes the producer's batches of this epoch below the offset
// before. It is asked at most once for each producer and snapshot.
func (p *Producers) Recall(h Header) (before Offset, missing int, ok bool) {
	s := p.byID[h.ProducerID]
	if s == nil || !s.short || s.epoch != h.ProducerEpoch || len(s.batches) == 0 {
		return NoOffset, 0, false
	}
	oldest := s.batches[0]
	return oldest.lastOffset - Offset(oldest.delta), rememberedBatches - len(s.batches), len(s.batches) < rememberedBatches
}

// Refill puts batches of a producer, from the log and in its order, before the
// ones that are remembered, as far as they lead up to them without a gap.
func (p *Producers) Refill(id int64, older []Header) {
	s := p.byID[id]
	if s == nil || !s.short {
		return
	}
	s.short = false
	for _, h := range slices.Backward(older) {
		oldest := s.batches[0].firstSequence()
		if len(s.batches) == rememberedBatches || h.ProducerID != id || h.ProducerEpoch != s.epoch || h.BaseSequence < 0 ||
			oldest < 0 || AddSequence(h.LastSequence(), 1) != oldest {
			return
		}
		s.batches = slices.Insert(s.batches, 0, appended{
			lastSequence: h.LastSequence(), delta: h.LastOffsetDelta, lastOffset: h.LastOffset(), timestamp: h.MaxTimestamp,
		})
		s.run = min(s.run+int64(h.LastOffsetDelta)+1, maxRun)
	}
}

// Expire forgets the producers that were idle for at least after at nowMs (ms
// since the Unix epoch), except those with an open transaction. Idle counts
// from the later of the last batch's timestamp and, when Check was told the
// time, its append: a producer of old timestamps does not lose its state
// between two batches.
func (p *Producers) Expire(nowMs int64, after time.Duration) {
	for id, s := range p.byID {
		idle := nowMs - max(s.lastTimestamp, s.lastSeen, 0)
		if s.txnFirst == NoOffset && idle >= after.Milliseconds() {
			delete(p.byID, id)
		}
	}
}

// Len is the number of producers known.
func (p *Producers) Len() int { return len(p.byID) }

// MaxProducerID is the highest producer id that was ever applied or read from
// the snapshot, expired ones included; NoProducerID when there was none.
func (p *Producers) MaxProducerID() int64 { return p.maxID }

// Clone is an independent copy.
func (p *Producers) Clone() *Producers {
	c := &Producers{byID: make(map[int64]*producer, len(p.byID)), open: slices.Clone(p.open), maxID: p.maxID, clock: p.clock}
	for id, s := range p.byID {
		dup := *s
		dup.batches = append(make([]appended, 0, len(s.batches)+1), s.batches...)
		c.byID[id] = &dup
	}
	return c
}
