// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

const (
	// HeaderSize is the size of a batch's header in bytes.
	HeaderSize = 61
	// LogOverhead is what lies before the part that the length field counts:
	// base offset and the length itself.
	LogOverhead = 12
	// MaxBatchSize bounds the size of one batch, header included. It is what
	// an int32 request size can carry; topics set a lower limit.
	MaxBatchSize = math.MaxInt32
	// Magic is the only batch format that is stored.
	Magic = 2
	// NoProducerID marks a batch of a producer that is not idempotent.
	NoProducerID = -1
	// NoSequence is the base sequence of such a batch.
	NoSequence = -1
)

const (
	posLength        = 8
	posEpoch         = 12
	posMagic         = 16
	posCRC           = 17
	posAttributes    = 21
	posLastDelta     = 23
	posBaseTimestamp = 27
	posMaxTimestamp  = 35
	posProducerID    = 43
	posProducerEpoch = 51
	posBaseSequence  = 53
	posCount         = 57
)

// Attribute bits of a batch.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

// Codec is the compression of a batch's records, as its attributes number it.
type Codec int8

// The codecs of Kafka's protocol.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC32C is the CRC-32 with the Castagnoli polynomial over b, which Kafka's
// batches and every checksum of ours use.
func CRC32C(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// UpdateCRC32C continues a CRC-32C with b.
func UpdateCRC32C(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// Header is the header of a batch, by value.
type Header struct {
	BaseOffset      Offset
	Length          int32 // bytes after the length field
	LeaderEpoch     Epoch
	Magic           int8
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64 // ms since the Unix epoch
	MaxTimestamp    int64 // ms since the Unix epoch
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
}

// ParseHeader reads the header at the start of b, which need not hold the
// whole batch. The error wraps ErrUnsupportedMagic for an older format and
// ErrCorruptBatch when the fields contradict one another; a b shorter than
// HeaderSize is corrupt as well.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("%w: %d bytes, a header has %d", ErrCorruptBatch, len(b), HeaderSize)
	}
	h := Header{
		BaseOffset:      Offset(binary.BigEndian.Uint64(b)),
		Length:          int32(binary.BigEndian.Uint32(b[posLength:])),
		LeaderEpoch:     Epoch(binary.BigEndian.Uint32(b[posEpoch:])),
		Magic:           int8(b[posMagic]),
		CRC:             binary.BigEndian.Uint32(b[posCRC:]),
		Attributes:      int16(binary.BigEndian.Uint16(b[posAttributes:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(b[posLastDelta:])),
		BaseTimestamp:   int64(binary.BigEndian.Uint64(b[posBaseTimestamp:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(b[posMaxTimestamp:])),
		ProducerID:      int64(binary.BigEndian.Uint64(b[posProducerID:])),
		ProducerEpoch:   int16(binary.BigEndian.Uint16(b[posProducerEpoch:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(b[posBaseSequence:])),
		Count:           int32(binary.BigEndian.Uint32(b[posCount:])),
	}
	return h, h.check()
}

func (h Header) check() error {
	switch {
	case h.Magic >= 0 && h.Magic < Magic:
		return fmt.Errorf("%w: magic %d, only %d is accepted", ErrUnsupportedMagic, h.Magic, Magic)
	case h.Magic != Magic:
		return fmt.Errorf("%w: magic %d, only %d is known", ErrCorruptBatch, h.Magic, Magic)
	case h.Length < HeaderSize-LogOverhead || h.Length > MaxBatchSize-LogOverhead:
		return fmt.Errorf("%w: length field %d, want %d to %d", ErrCorruptBatch, h.Length, HeaderSize-LogOverhead, MaxBatchSize-LogOverhead)
	case h.BaseOffset < 0:
		return fmt.Errorf("%w: base offset %d is negative", ErrCorruptBatch, h.BaseOffset)
	case h.LastOffsetDelta < 0 || int64(h.BaseOffset) > math.MaxInt64-int64(h.LastOffsetDelta)-1:
		return fmt.Errorf("%w: last offset delta %d from base offset %d", ErrCorruptBatch, h.LastOffsetDelta, h.BaseOffset)
	case h.Count < 0:
		return fmt.Errorf("%w: record count %d is negative", ErrCorruptBatch, h.Count)
	}
	return nil
}

// Size is the size of the whole batch in bytes, header included.
func (h Header) Size() int { return int(h.Length) + LogOverhead }

// LastOffset is the offset of the batch's last record.
func (h Header) LastOffset() Offset { return h.BaseOffset + Offset(h.LastOffsetDelta) }

// NextOffset is the first offset after the batch.
func (h Header) NextOffset() Offset { return h.LastOffset() + 1 }

// Codec is the compression of the records.
func (h Header) Codec() Codec { return Codec(h.Attributes & attrCodec) }

// IsLogAppendTime says whether the broker stamped the batch.
func (h Header) IsLogAppendTime() bool { return h.Attributes&attrLogAppendTime != 0 }

// IsTransactional says whether the batch belongs to a transaction.
func (h Header) IsTransactional() bool { return h.Attributes&attrTransactional != 0 }

// IsControl says whether the batch holds a transaction marker.
func (h Header) IsControl() bool { return h.Attributes&attrControl != 0 }

// HasProducer says whether an idempotent producer wrote the batch.
func (h Header) HasProducer() bool { return h.ProducerID >= 0 }

// LastSequence is the sequence number of the batch's last record, or
// NoSequence when the batch has none. Sequence numbers wrap from 2^31-1 to 0.
func (h Header) LastSequence() int32 {
	if h.BaseSequence < 0 {
		return NoSequence
	}
	return AddSequence(h.BaseSequence, h.LastOffsetDelta)
}

// AddSequence adds n, which is not negative, to a sequence number that is not
// negative, and wraps from 2^31-1 to 0.
func AddSequence(sequence, n int32) int32 {
	return int32((int64(sequence) + int64(n)) & math.MaxInt32)
}

// Batch is one whole batch, in place in somebody else's buffer.
type Batch []byte

// SplitBatch takes the first batch off b. The batch aliases b. The error is
// ParseHeader's, or wraps ErrCorruptBatch when b ends before the batch does;
// the CRC is not checked.
func SplitBatch(b []byte) (Batch, []byte, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return nil, b, err
	}
	if h.Size() > len(b) {
		return nil, b, fmt.Errorf("%w: the batch at offset %d says %d bytes, %d are there", ErrCorruptBatch, h.BaseOffset, h.Size(), len(b))
	}
	return Batch(b[:h.Size():h.Size()]), b[h.Size():], nil
}

// Header reads the batch's header. The batch must come from SplitBatch.
func (b Batch) Header() Header {
	h, _ := ParseHeader(b)
	return h
}

// Section is the record section as it is stored, compressed as the attributes
// say. It aliases the batch.
func (b Batch) Section() []byte { return b[HeaderSize:] }

// CheckCRC compares the batch's CRC-32C with its content. The error wraps
// ErrCorruptBatch.
func (b Batch) CheckCRC() error {
	want := binary.BigEndian.Uint32(b[posCRC:])
	if got := CRC32C(b[posAttributes:]); got != want {
		return fmt.Errorf("%w: CRC-32C is %08x, the header says %08x", ErrCorruptBatch, got, want)
	}
	return nil
}

// SetBaseOffset writes the base offset, which the CRC does not cover.
func (b Batch) SetBaseOffset(o Offset) { binary.BigEndian.PutUint64(b, uint64(o)) }

// SetLeaderEpoch writes the leader epoch, which the CRC does not cover.
func (b Batch) SetLeaderEpoch(e Epoch) { binary.BigEndian.PutUint32(b[posEpoch:], uint32(e)) }

// SetLogAppendTime stamps the batch with the broker's time in ms since the
// Unix epoch, as message.timestamp.type=LogAppendTime asks, and renews the
// CRC. Clients then take the maximum timestamp for every record, so that the
// records need not be decoded.
func (b Batch) SetLogAppendTime(ms int64) {
	binary.BigEndian.PutUint16(b[posAttributes:], binary.BigEndian.Uint16(b[posAttributes:])|attrLogAppendTime)
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(ms))
	binary.BigEndian.PutUint32(b[posCRC:], CRC32C(b[posAttributes:]))
}
