// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"firn/record"
)

// codecs are the compressions by name.
var codecs = map[string]func() kgo.CompressionCodec{
	"none":   kgo.NoCompression,
	"gzip":   kgo.GzipCompression,
	"snappy": kgo.SnappyCompression,
	"lz4":    kgo.Lz4Compression,
	"zstd":   kgo.ZstdCompression,
}

// Codecs lists the names of the compressions.
func Codecs() []string { return slices.Sorted(maps.Keys(codecs)) }

// batchBuilder encodes batches into a buffer of its own. It is not safe for
// concurrent use.
type batchBuilder struct {
	compress kgo.Compressor // nil for none
	packed   bytes.Buffer
	out      []byte
	count    int32
}

func newBatchBuilder(codec string) (*batchBuilder, error) {
	make, ok := codecs[codec]
	if !ok {
		return nil, fmt.Errorf("codec %q: want one of %v", codec, Codecs())
	}
	compress, err := kgo.DefaultCompressor(make())
	if err != nil {
		return nil, fmt.Errorf("codec %s: %w", codec, err)
	}
	return &batchBuilder{compress: compress}, nil
}

// begin starts a new batch; the last one is no longer valid.
func (b *batchBuilder) begin() {
	b.out = append(b.out[:0], make([]byte, record.HeaderSize)...)
	b.count = 0
}

// add appends a record with the value that fill appends, of size bytes.
func (b *batchBuilder) add(size int, fill func(dst []byte) []byte) {
	delta, length := varintSize(int64(b.count)), varintSize(int64(size))
	// Attributes, timestamp delta, offset delta, no key, value, no headers.
	b.out = binary.AppendVarint(b.out, int64(1+1+delta+1+length+size+1))
	b.out = append(b.out, 0, 0)
	b.out = binary.AppendVarint(b.out, int64(b.count))
	b.out = binary.AppendVarint(b.out, -1)
	b.out = binary.AppendVarint(b.out, int64(size))
	b.out = fill(b.out)
	b.out = append(b.out, 0)
	b.count++
}

func varintSize(v int64) int {
	var scratch [binary.MaxVarintLen64]byte
	return binary.PutVarint(scratch[:], v)
}

// size is how large the batch is by now, before compression.
func (b *batchBuilder) size() int { return len(b.out) }

// recordOverhead bounds what a record adds to its value.
const recordOverhead = 4 + binary.MaxVarintLen32*2

// finish completes the batch and returns it; it is valid until begin.
func (b *batchBuilder) finish(now time.Time) []byte {
	attributes := int16(0)
	if b.compress != nil {
		b.packed.Reset()
		packed, codec := b.compress.Compress(&b.packed, b.out[record.HeaderSize:])
		b.out = append(b.out[:record.HeaderSize], packed...)
		attributes = int16(codec)
	}
	h := b.out
	order := binary.BigEndian
	order.PutUint64(h[0:], 0)
	order.PutUint32(h[8:], uint32(len(h)-record.LogOverhead))
	order.PutUint32(h[12:], ^uint32(0)) // no leader epoch
	h[16] = record.Magic
	order.PutUint16(h[21:], uint16(attributes))
	order.PutUint32(h[23:], uint32(b.count-1))
	order.PutUint64(h[27:], uint64(now.UnixMilli()))
	order.PutUint64(h[35:], uint64(now.UnixMilli()))
	order.PutUint64(h[43:], ^uint64(0)) // no producer
	order.PutUint16(h[51:], ^uint16(0))
	order.PutUint32(h[53:], ^uint32(0))
	order.PutUint32(h[57:], uint32(b.count))
	order.PutUint32(h[17:], record.CRC32C(h[21:]))
	return h
}

// eachBatch calls visit with every whole batch in b. What is cut off at the
// end, as Kafka may do, is left out.
func eachBatch(b []byte, visit func(record.Batch) error) error {
	for len(b) >= record.HeaderSize {
		h, err := record.ParseHeader(b)
		if err != nil {
			return err
		}
		if h.Size() > len(b) {
			return nil
		}
		if err := visit(record.Batch(b[:h.Size()])); err != nil {
			return err
		}
		b = b[h.Size():]
	}
	return nil
}
