// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"

	"firn/record"
)

const (
	// MinValueBytes is the smallest value: the number of its record.
	MinValueBytes = 8
	// MaxValueBytes is the largest one.
	MaxValueBytes = 1 << 20
	// noiseBytes is how much noise the values are cut from.
	noiseBytes = 4 << 20
)

// Values are the values of a topic that can be checked: each begins with the
// number of its record, and goes on with noise that depends on the number
// alone. Values are immutable and may be shared.
type Values struct {
	size  int
	noise []byte
}

// NewValues makes values of size bytes, between MinValueBytes and
// MaxValueBytes. Those of two processes are the same.
func NewValues(size int) (*Values, error) {
	if size < MinValueBytes || size > MaxValueBytes {
		return nil, fmt.Errorf("values of %d bytes: want %d to %d", size, MinValueBytes, MaxValueBytes)
	}
	noise := make([]byte, noiseBytes)
	_, _ = rand.NewChaCha8([32]byte{'f', 'i', 'r', 'n'}).Read(noise) // it cannot fail
	return &Values{size: size, noise: noise}, nil
}

// Size is the length of each value.
func (v *Values) Size() int { return v.size }

// rest is what follows the number. Neighbours lie far apart in the noise, so
// that no two in a batch look alike to a codec.
func (v *Values) rest(number int64) []byte {
	at := uint64(number) * 0x9e3779b97f4a7c15 % uint64(noiseBytes-v.size)
	return v.noise[at : at+uint64(v.size-MinValueBytes)]
}

// Append appends the value of a record to dst.
func (v *Values) Append(dst []byte, number int64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(number))
	return append(dst, v.rest(number)...)
}

// Is tells whether value is that of the record.
func (v *Values) Is(value []byte, number int64) bool {
	return len(value) == v.size && binary.BigEndian.Uint64(value) == uint64(number) &&
		bytes.Equal(value[MinValueBytes:], v.rest(number))
}

// ErrRecords says that records are missing, doubled, out of order or not as
// they were written.
var ErrRecords = errors.New("records are not as they were written")

// Verifier checks the records of one partition, one after another: none is
// missing, doubled, out of order or changed. It is not safe for concurrent
// use.
type Verifier struct {
	values *Values // nil checks the batches alone
	next   record.Offset
	count  int64
	sum    uint32
}

// NewVerifier begins at the offset from. With values, record n must have the
// value of number n; without, the offsets and the batches' CRCs are checked.
func NewVerifier(values *Values, from record.Offset) *Verifier {
	return &Verifier{values: values, next: from}
}

// Next is the offset that is expected next, Count how many records were right.
func (v *Verifier) Next() record.Offset { return v.next }

// Count is how many records were right so far.
func (v *Verifier) Count() int64 { return v.count }

// Sum is the CRC-32 of all values so far; 0 when there were none to check.
func (v *Verifier) Sum() uint32 { return v.sum }

// Batch checks one whole batch.
func (v *Verifier) Batch(b record.Batch) error {
	h := b.Header()
	if h.BaseOffset != v.next {
		return fmt.Errorf("%w: a batch begins at offset %d, want %d", ErrRecords, h.BaseOffset, v.next)
	}
	if err := b.CheckCRC(); err != nil {
		return fmt.Errorf("%w: the batch at offset %d: %w", ErrRecords, h.BaseOffset, err)
	}
	if v.values == nil {
		v.next = h.NextOffset()
		v.count += int64(h.Count)
		return nil
	}
	if h.Codec() != record.CodecNone {
		return fmt.Errorf("the batch at offset %d is compressed: it is not of those that can be checked", h.BaseOffset)
	}
	for r, err := range h.Records(b.Section()) {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRecords, err)
		}
		if err := v.Record(h.RecordOffset(r), r.Value); err != nil {
			return err
		}
	}
	return nil
}

// Record checks one record.
func (v *Verifier) Record(offset record.Offset, value []byte) error {
	if offset != v.next {
		return fmt.Errorf("%w: a record came back at offset %d, want %d", ErrRecords, offset, v.next)
	}
	if v.values != nil {
		if !v.values.Is(value, int64(offset)) {
			return fmt.Errorf("%w: the record at offset %d came back with other bytes", ErrRecords, offset)
		}
		v.sum = crc32.Update(v.sum, crc32.IEEETable, value)
	}
	v.next++
	v.count++
	return nil
}
