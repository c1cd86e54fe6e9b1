// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchEncoder appends a fetch response to buf and notes where records go
// between its bytes. buf may move while it grows, so that it is cut into parts
// only at the end.
type fetchEncoder struct {
	version  int16
	flexible bool
	buf      []byte
	splices  []splice
	spliced  int64 // bytes in splices
	count    int   // parts in splices
}

// splice says that parts come before byte at of the buffer.
type splice struct {
	at    int
	parts []Part
}

// parts cuts the buffer at its splices. The buffer always ends behind the last
// splice or at it; empty pieces are left out.
func (e *fetchEncoder) parts() []Part {
	out := make([]Part, 0, len(e.splices)+e.count+1)
	from := 0
	for _, s := range e.splices {
		if s.at > from {
			out = append(out, Part{Bytes: e.buf[from:s.at:s.at]})
			from = s.at
		}
		out = append(out, s.parts...)
	}
	if from < len(e.buf) {
		out = append(out, Part{Bytes: e.buf[from:]})
	}
	return out
}

func (e *fetchEncoder) response(r *FetchResponse) error {
	e.int32(r.ThrottleMillis)
	if e.version >= fetchSessions {
		e.int16(r.ErrorCode)
		e.int32(r.SessionID)
	}
	e.arrayLen(len(r.Topics))
	for i := range r.Topics {
		if err := e.topic(&r.Topics[i]); err != nil {
			return err
		}
	}
	if !e.flexible {
		return nil
	}
	if len(r.Brokers) == 0 {
		e.noTags()
		return nil
	}
	e.uvarint(1)
	e.tag(0, func() { e.brokers(r.Brokers) })
	return nil
}

func (e *fetchEncoder) topic(t *FetchTopic) error {
	if e.version >= fetchTopicIDs {
		e.buf = append(e.buf, t.TopicID[:]...)
	} else {
		e.string(t.Topic)
	}
	e.arrayLen(len(t.Partitions))
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if err := e.partition(p); err != nil {
			return fmt.Errorf("partition %d of topic %q (%v): %w", p.Partition, t.Topic, t.TopicID, err)
		}
	}
	e.noTags()
	return nil
}

func (e *fetchEncoder) partition(p *FetchPartition) error {
	e.int32(p.Partition)
	e.int16(p.ErrorCode)
	e.int64(int64(p.HighWatermark))
	e.int64(int64(p.LastStableOffset))
	if e.version >= fetchLogStart {
		e.int64(int64(p.LogStartOffset))
	}
	if p.AbortedTransactions == nil {
		e.nullArray()
	} else {
		e.arrayLen(len(p.AbortedTransactions))
	}
	for _, a := range p.AbortedTransactions {
		e.int64(a.ProducerID)
		e.int64(int64(a.FirstOffset))
		e.noTags()
	}
	if e.version >= fetchReplica {
		e.int32(p.PreferredReadReplica)
	}
	if err := e.records(p.Records); err != nil {
		return err
	}
	e.partitionTags(p)
	return nil
}

// records writes the length of a record set and notes the set itself.
func (e *fetchEncoder) records(parts []Part) error {
	var n int64
	for _, p := range parts {
		n += p.Len()
	}
	if n >= math.MaxInt32 {
		return fmt.Errorf("records of %d bytes do not fit a 31-bit length", n)
	}
	if e.flexible {
		e.uvarint(uint32(n) + 1)
	} else {
		e.int32(int32(n))
	}
	if n > 0 {
		e.splices = append(e.splices, splice{at: len(e.buf), parts: parts})
		e.spliced += n
		e.count += len(parts)
	}
	return nil
}

func (e *fetchEncoder) partitionTags(p *FetchPartition) {
	if !e.flexible {
		return
	}
	var tags uint32
	for _, there := range [...]bool{p.DivergingEpoch != nil, p.CurrentLeader != nil, p.SnapshotID != nil, p.Tier != ""} {
		if there {
			tags++
		}
	}
	e.uvarint(tags)
	if d := p.DivergingEpoch; d != nil {
		e.tag(0, func() { e.int32(int32(d.Epoch)); e.int64(int64(d.EndOffset)); e.noTags() })
	}
	if l := p.CurrentLeader; l != nil {
		e.tag(1, func() { e.int32(l.LeaderID); e.int32(int32(l.LeaderEpoch)); e.noTags() })
	}
	if s := p.SnapshotID; s != nil {
		e.tag(2, func() { e.int64(int64(s.EndOffset)); e.int32(int32(s.Epoch)); e.noTags() })
	}
	if p.Tier != "" {
		e.tag(TagTier, func() { e.buf = append(e.buf, p.Tier...) })
	}
}

func (e *fetchEncoder) brokers(brokers []kmsg.FetchResponseBroker) {
	e.arrayLen(len(brokers))
	for i := range brokers {
		b := &brokers[i]
		e.int32(b.NodeID)
		e.string(b.Host)
		e.int32(b.Port)
		if b.Rack == nil {
			e.uvarint(0)
		} else {
			e.string(*b.Rack)
		}
		e.noTags()
	}
}

// tag writes one tagged field. Its size comes before its content and has no
// fixed width, so the content is written to a buffer of its own first.
func (e *fetchEncoder) tag(id uint32, content func()) {
	outer := e.buf
	e.buf = nil
	content()
	inner := e.buf
	e.buf = outer
	e.uvarint(id)
	e.uvarint(uint32(len(inner)))
	e.buf = append(e.buf, inner...)
}

func (e *fetchEncoder) int16(v int16) { e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(v)) }
func (e *fetchEncoder) int32(v int32) { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }
func (e *fetchEncoder) int64(v int64) { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }

func (e *fetchEncoder) uvarint(v uint32) { e.buf = binary.AppendUvarint(e.buf, uint64(v)) }

// noTags writes an empty set of tags where the version has tags.
func (e *fetchEncoder) noTags() {
	if e.flexible {
		e.buf = append(e.buf, 0)
	}
}

func (e *fetchEncoder) arrayLen(n int) {
	if e.flexible {
		e.uvarint(uint32(n) + 1)
	} else {
		e.int32(int32(n))
	}
}

func (e *fetchEncoder) nullArray() {
	if e.flexible {
		e.uvarint(0)
	} else {
		e.int32(-1)
	}
}

func (e *fetchEncoder) string(s string) {
	if e.flexible {
		e.uvarint(uint32(len(s)) + 1)
	} else {
		e.int16(int16(len(s)))
	}
	e.buf = append(e.buf, s...)
}
