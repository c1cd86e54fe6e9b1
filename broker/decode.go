// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"firn/record"
)

// maxDecoded bounds what a batch may decompress to when one of its records has
// to be found by time. A batch beyond it is answered as a whole.
const maxDecoded = 64 << 20

// findTimestamp finds the first record of a batch, at or above an offset, whose
// timestamp is at least ts, in ms since the Unix epoch; ok is false when there
// is none. Of a batch whose records cannot be read the first one is answered:
// too early an offset is a correct place to begin, too late a one is not.
func findTimestamp(batch record.Batch, from record.Offset, ts int64) (offset record.Offset, timestamp int64, ok bool) {
	h := batch.Header()
	whole := func() (record.Offset, int64, bool) {
		return max(from, h.BaseOffset), h.MaxTimestamp, h.MaxTimestamp >= ts && h.NextOffset() > from
	}
	if h.IsLogAppendTime() {
		return whole()
	}
	section, err := Decompress(h.Codec(), batch[record.HeaderSize:])
	if err != nil {
		return whole()
	}
	for r, err := range h.Records(section) {
		if err != nil {
			return whole()
		}
		if at := h.RecordTimestamp(r); at >= ts && h.RecordOffset(r) >= from {
			return h.RecordOffset(r), at, true
		}
	}
	return 0, 0, false
}

// Decompress unpacks the record section of a batch; one that is not compressed
// is returned as it is. The error wraps ErrTooMuchDecoded for one that unpacks
// to more than 64 MiB; everything else says that the bytes are not what the
// codec packs.
func Decompress(codec record.Codec, section []byte) ([]byte, error) {
	switch codec {
	case record.CodecNone:
		return section, nil
	case record.CodecGzip:
		r, err := gzip.NewReader(bytes.NewReader(section))
		if err != nil {
			return nil, fmt.Errorf("open gzip records: %w", err)
		}
		return readBounded(r)
	case record.CodecSnappy:
		return decompressSnappy(section)
	case record.CodecLZ4:
		return readBounded(lz4.NewReader(bytes.NewReader(section)))
	case record.CodecZstd:
		r, err := zstd.NewReader(bytes.NewReader(section), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDecoded))
		if err != nil {
			return nil, fmt.Errorf("open zstd records: %w", err)
		}
		defer r.Close()
		return readBounded(r)
	}
	return nil, fmt.Errorf("%w: codec %d is not known", record.ErrInvalidBatch, codec)
}

// ErrTooMuchDecoded says that records were not decompressed since they would
// take too much memory.
var ErrTooMuchDecoded = errors.New("records decompress to more than is allowed")

func readBounded(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxDecoded+1))
	if err != nil {
		return nil, fmt.Errorf("decompress records: %w", err)
	}
	if len(b) > maxDecoded {
		return nil, ErrTooMuchDecoded
	}
	return b, nil
}

// snappyHeader begins the framing that Java clients put around snappy blocks:
// these 8 bytes, two versions of 4 bytes, then blocks behind their lengths.
var snappyHeader = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const snappyHeaderSize = 16

// decompressSnappy reads one bare snappy block, or blocks in Java's framing.
func decompressSnappy(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, snappyHeader) {
		return appendSnappy(nil, b)
	}
	if len(b) < snappyHeaderSize {
		return nil, fmt.Errorf("%w: snappy framing of %d bytes", record.ErrInvalidBatch, len(b))
	}
	var out []byte
	for b = b[snappyHeaderSize:]; len(b) > 0; {
		if len(b) < 4 {
			return nil, fmt.Errorf("%w: snappy block length cut short", record.ErrInvalidBatch)
		}
		n := binary.BigEndian.Uint32(b)
		b = b[4:]
		if uint64(n) > uint64(len(b)) {
			return nil, fmt.Errorf("%w: snappy block of %d bytes, %d are there", record.ErrInvalidBatch, n, len(b))
		}
		var err error
		if out, err = appendSnappy(out, b[:n]); err != nil {
			return nil, err
		}
		b = b[n:]
	}
	return out, nil
}

func appendSnappy(out, block []byte) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, fmt.Errorf("decompress snappy records: %w", err)
	}
	if n > maxDecoded-len(out) {
		return nil, ErrTooMuchDecoded
	}
	decoded, err := s2.Decode(make([]byte, n), block)
	if err != nil {
		return nil, fmt.Errorf("decompress snappy records: %w", err)
	}
	return append(out, decoded...), nil
}
