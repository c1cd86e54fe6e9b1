// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
)

// Record is one record of a batch. Key and Value alias the record section; nil
// is Kafka's null.
type Record struct {
	// OffsetDelta is the distance from the batch's base offset.
	OffsetDelta int32
	// TimestampDelta is the distance from the batch's base timestamp in ms.
	// It says nothing in a batch that the broker stamped: see
	// Header.RecordTimestamp.
	TimestampDelta int64
	Key, Value     []byte
	// Headers is the number of headers.
	Headers int
	// headers are those headers as they are stored, checked.
	headers []byte
}

// EachHeader goes through the headers, key and value. Both alias the record
// section; a value of nil is Kafka's null.
func (r Record) EachHeader() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		c := cursor{rest: r.headers}
		for range r.Headers {
			if !yield(c.bytes("header key", false), c.bytes("header value", true)) {
				return
			}
		}
	}
}

// RecordOffset is the offset of a record of the batch.
func (h Header) RecordOffset(r Record) Offset { return h.BaseOffset + Offset(r.OffsetDelta) }

// RecordTimestamp is the timestamp of a record of the batch, in ms since the
// Unix epoch.
func (h Header) RecordTimestamp(r Record) int64 {
	if h.IsLogAppendTime() {
		return h.MaxTimestamp
	}
	return h.BaseTimestamp + r.TimestampDelta
}

// Records goes through the records of the batch that h heads. section is the
// batch's record section, decompressed. After an error, which wraps
// ErrCorruptBatch, the sequence ends; without one it yields exactly h.Count
// records, whose offset deltas rise strictly and stay within
// h.LastOffsetDelta, and has used up the section.
func (h Header) Records(section []byte) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		rest, last := section, int32(-1)
		for i := range h.Count {
			r, after, err := splitRecord(rest)
			if err == nil && (r.OffsetDelta <= last || r.OffsetDelta > h.LastOffsetDelta) {
				err = fmt.Errorf("%w: offset delta %d, want one from %d to %d", ErrCorruptBatch, r.OffsetDelta, last+1, h.LastOffsetDelta)
			}
			if err != nil {
				yield(Record{}, fmt.Errorf("record %d of the batch at offset %d: %w", i, h.BaseOffset, err))
				return
			}
			if !yield(r, nil) {
				return
			}
			rest, last = after, r.OffsetDelta
		}
		if len(rest) > 0 {
			yield(Record{}, fmt.Errorf("%w: %d bytes follow the %d records of the batch at offset %d", ErrCorruptBatch, len(rest), h.Count, h.BaseOffset))
		}
	}
}

// splitRecord takes the first record off b.
func splitRecord(b []byte) (Record, []byte, error) {
	c := cursor{rest: b}
	body := c.bytes("record", false)
	if c.err != nil {
		return Record{}, nil, c.err
	}
	rest := c.rest
	c = cursor{rest: body}
	c.skip(1) // attributes, which are unused
	var r Record
	r.TimestampDelta = c.varlong("timestamp delta")
	r.OffsetDelta = c.varint("offset delta")
	r.Key = c.bytes("key", true)
	r.Value = c.bytes("value", true)
	headers := c.varint("header count")
	// Each header has two lengths, so that the count is bounded by the bytes.
	if c.err == nil && (headers < 0 || int(headers) > len(c.rest)/2) {
		c.err = fmt.Errorf("%w: %d headers in %d bytes", ErrCorruptBatch, headers, len(c.rest))
	}
	r.headers = c.rest
	for range headers {
		if c.err != nil {
			break
		}
		c.bytes("header key", false)
		c.bytes("header value", true)
	}
	if c.err == nil && len(c.rest) > 0 {
		c.err = fmt.Errorf("%w: %d bytes follow the record's last header", ErrCorruptBatch, len(c.rest))
	}
	if c.err != nil {
		return Record{}, nil, c.err
	}
	r.Headers = int(headers)
	return r, rest, nil
}

// cursor reads the fields of a record one after another. After its first
// error, which it keeps, every read answers zero.
type cursor struct {
	rest []byte
	err  error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: "+format, append([]any{ErrCorruptBatch}, args...)...)
	}
}

func (c *cursor) skip(n int) {
	if c.err != nil || n > len(c.rest) {
		c.fail("the record ends early")
		return
	}
	c.rest = c.rest[n:]
}

// varlong reads a zigzag varint of up to ten bytes.
func (c *cursor) varlong(what string) int64 {
	if c.err != nil {
		return 0
	}
	v, n := binary.Varint(c.rest)
	if n <= 0 {
		c.fail("%s is cut or too long", what)
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// varint reads a zigzag varint of 32 bits.
func (c *cursor) varint(what string) int32 {
	v := c.varlong(what)
	if v < math.MinInt32 || v > math.MaxInt32 {
		c.fail("%s %d does not fit 32 bits", what, v)
		return 0
	}
	return int32(v)
}

// bytes reads a length and as many bytes; the length -1 is null where that is
// allowed.
func (c *cursor) bytes(what string, nullable bool) []byte {
	n := c.varint(what + " length")
	switch {
	case c.err != nil:
		return nil
	case n == -1 && nullable:
		return nil
	case n < 0 || int(n) > len(c.rest):
		c.fail("%s of %d bytes, %d are there", what, n, len(c.rest))
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}
