// SPDX-License-Identifier: Apache-2.0

package recordtest

import (
	"encoding/binary"
	"fmt"
	"math"

	"firn/record"
)

// DefaultTimestamp is the timestamp of a batch's first record when no option
// sets one: 2023-11-14T22:13:20Z, in ms since the Unix epoch.
const DefaultTimestamp int64 = 1_700_000_000_000

// spec is what the options have said so far.
type spec struct {
	keys, values  [][]byte
	headers       int
	timestamp     int64
	step          int64
	epoch         record.Epoch
	attributes    int16
	producerID    int64
	producerEpoch int16
	sequence      int32
	lastDelta     int32 // -1: the last record's
	count         int32 // -1: the number of records
	compress      func([]byte) []byte
}

// Option changes the batch that Batch builds.
type Option func(*spec)

// Count gives the batch n records with short values that differ, "value-0"
// and so on. The default is one record.
func Count(n int) Option {
	return func(s *spec) {
		s.values = make([][]byte, n)
		for i := range s.values {
			s.values[i] = fmt.Appendf(nil, "value-%d", i)
		}
	}
}

// ValueSize gives the batch n records whose values have size bytes each, the
// same in every call.
func ValueSize(n, size int) Option {
	return func(s *spec) {
		s.values = make([][]byte, n)
		for i := range s.values {
			s.values[i] = make([]byte, size)
			for j := range s.values[i] {
				s.values[i][j] = byte('a' + (i+j)%26)
			}
		}
	}
}

// Values gives the batch one record for each value; nil is a tombstone.
func Values(values ...[]byte) Option { return func(s *spec) { s.values = values } }

// Strings is Values for text.
func Strings(values ...string) Option {
	return func(s *spec) {
		s.values = make([][]byte, len(values))
		for i, v := range values {
			s.values[i] = []byte(v)
		}
	}
}

// Keys sets the keys of the first len(keys) records; the others have none.
func Keys(keys ...[]byte) Option { return func(s *spec) { s.keys = keys } }

// Headers gives every record n headers.
func Headers(n int) Option { return func(s *spec) { s.headers = n } }

// Timestamp sets the first record's timestamp in ms since the Unix epoch.
func Timestamp(ms int64) Option { return func(s *spec) { s.timestamp = ms } }

// TimestampStep is what each record's timestamp lies above the one before it,
// in ms; it may be negative. The default is 0.
func TimestampStep(ms int64) Option { return func(s *spec) { s.step = ms } }

// LeaderEpoch sets the partition leader epoch. The default is record.NoEpoch,
// as clients send it.
func LeaderEpoch(e record.Epoch) Option { return func(s *spec) { s.epoch = e } }

// Producer makes the batch one of an idempotent producer.
func Producer(id int64, epoch int16, sequence int32) Option {
	return func(s *spec) { s.producerID, s.producerEpoch, s.sequence = id, epoch, sequence }
}

// Transactional sets the transactional bit.
func Transactional() Option { return func(s *spec) { s.attributes |= 0x10 } }

// Control sets the control bit.
func Control() Option { return func(s *spec) { s.attributes |= 0x20 } }

// LogAppendTime sets the bit that says that the broker stamped the batch.
func LogAppendTime() Option { return func(s *spec) { s.attributes |= 0x08 } }

// CodecBits sets the codec in the attributes and leaves the records as they
// are: the batch is whole as far as a broker looks that does not decompress.
func CodecBits(c record.Codec) Option {
	return func(s *spec) { s.attributes = s.attributes&^7 | int16(c)&7 }
}

// Compressed sets the codec and passes the record section through compress.
func Compressed(c record.Codec, compress func(records []byte) []byte) Option {
	return func(s *spec) {
		CodecBits(c)(s)
		s.compress = compress
	}
}

// LastOffsetDelta makes the header claim delta, as a compacted batch (whose
// last records are gone) or a false one does.
func LastOffsetDelta(delta int32) Option { return func(s *spec) { s.lastDelta = delta } }

// ClaimCount makes the header claim n records, whatever is in the batch.
func ClaimCount(n int32) Option { return func(s *spec) { s.count = n } }

// Batch builds one batch whose first record has the offset base.
func Batch(base record.Offset, opts ...Option) []byte {
	s := &spec{
		values:     [][]byte{[]byte("value-0")},
		timestamp:  DefaultTimestamp,
		epoch:      record.NoEpoch,
		producerID: record.NoProducerID, producerEpoch: -1, sequence: record.NoSequence,
		lastDelta: -1, count: -1,
	}
	for _, o := range opts {
		o(s)
	}
	if len(s.keys) > len(s.values) {
		panic(fmt.Sprintf("recordtest: %d keys for %d records", len(s.keys), len(s.values)))
	}
	b := appendHeader(make([]byte, 0, record.HeaderSize+64*len(s.values)), base, s)
	section := appendRecords(nil, s)
	if s.compress != nil {
		section = s.compress(section)
	}
	b = append(b, section...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-record.LogOverhead))
	FixCRC(b)
	return b
}

// Log builds n batches one after another from base, each with the same
// options, as a segment's .log file holds them. The timestamps of each batch
// start 1 ms after those of the one before; a producer's sequence goes on.
func Log(base record.Offset, n int, opts ...Option) []byte {
	var out []byte
	next, sequence := base, int32(0)
	for i := range n {
		at := i
		advance := func(s *spec) {
			s.timestamp += int64(at)
			if s.producerID >= 0 {
				s.sequence = record.AddSequence(s.sequence, sequence)
			}
		}
		b := Batch(next, append(opts[:len(opts):len(opts)], advance)...)
		h := record.Batch(b).Header()
		next = h.NextOffset()
		sequence = record.AddSequence(sequence, h.LastOffsetDelta+1)
		out = append(out, b...)
	}
	return out
}

// FixCRC writes the CRC that belongs to the batch as it now is, for tests that
// change a byte and want the batch to stay whole. b is one whole batch.
func FixCRC(b []byte) { binary.BigEndian.PutUint32(b[17:], record.CRC32C(b[21:])) }

func appendHeader(b []byte, base record.Offset, s *spec) []byte {
	n := int32(len(s.values))
	lastDelta, count, maxTimestamp := n-1, n, s.timestamp
	if n > 0 && s.step > 0 {
		maxTimestamp += s.step * int64(n-1)
	}
	if s.lastDelta >= 0 {
		lastDelta = s.lastDelta
	}
	if s.count >= 0 {
		count = s.count
	}
	b = binary.BigEndian.AppendUint64(b, uint64(base))
	b = binary.BigEndian.AppendUint32(b, 0) // the length, once it is known
	b = binary.BigEndian.AppendUint32(b, uint32(s.epoch))
	b = append(b, record.Magic)
	b = binary.BigEndian.AppendUint32(b, 0) // the CRC, likewise
	b = binary.BigEndian.AppendUint16(b, uint16(s.attributes))
	b = binary.BigEndian.AppendUint32(b, uint32(max(lastDelta, 0)))
	b = binary.BigEndian.AppendUint64(b, uint64(s.timestamp))
	b = binary.BigEndian.AppendUint64(b, uint64(maxTimestamp))
	b = binary.BigEndian.AppendUint64(b, uint64(s.producerID))
	b = binary.BigEndian.AppendUint16(b, uint16(s.producerEpoch))
	b = binary.BigEndian.AppendUint32(b, uint32(s.sequence))
	return binary.BigEndian.AppendUint32(b, uint32(count))
}

func appendRecords(b []byte, s *spec) []byte {
	var body []byte
	for i, value := range s.values {
		body = append(body[:0], 0) // attributes, unused
		body = binary.AppendVarint(body, s.step*int64(i))
		body = binary.AppendVarint(body, int64(i))
		var key []byte
		if i < len(s.keys) {
			key = s.keys[i]
		}
		body = appendBytes(body, key)
		body = appendBytes(body, value)
		body = binary.AppendVarint(body, int64(s.headers))
		for h := range s.headers {
			body = appendBytes(body, fmt.Appendf(nil, "header-%d", h))
			body = appendBytes(body, fmt.Appendf(nil, "%d", h))
		}
		if len(body) > math.MaxInt32 {
			panic("recordtest: a record over 2 GiB")
		}
		b = binary.AppendVarint(b, int64(len(body)))
		b = append(b, body...)
	}
	return b
}

// appendBytes writes a length and the bytes; nil has the length -1.
func appendBytes(b, p []byte) []byte {
	if p == nil {
		return binary.AppendVarint(b, -1)
	}
	b = binary.AppendVarint(b, int64(len(p)))
	return append(b, p...)
}
