// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"fmt"
)

// Marker is what a control batch says: how its producer's transaction ended.
type Marker struct {
	// Abort says that the records of the transaction are void.
	Abort bool
	// CoordinatorEpoch is the epoch of the transaction coordinator that wrote
	// the marker.
	CoordinatorEpoch int32
}

const (
	markerAbort  = 0
	markerCommit = 1

	markerKeySize   = 4 // version, type
	markerValueSize = 6 // version, coordinator epoch
)

// Marker reads the marker in the control batch that h heads, of which section
// is the record section. Longer keys and values, as later versions may have
// them, are read as far as they are known. The error wraps ErrInvalidBatch for
// what is no marker of a transaction's end; a control batch without records,
// whose marker was compacted away, is none.
func (h Header) Marker(section []byte) (Marker, error) {
	switch {
	case !h.IsControl() || !h.HasProducer():
		return Marker{}, fmt.Errorf("%w: not a control batch of a producer", ErrInvalidBatch)
	case h.Codec() != CodecNone:
		return Marker{}, fmt.Errorf("%w: a compressed control batch", ErrInvalidBatch)
	}
	for r, err := range h.Records(section) {
		if err != nil {
			return Marker{}, fmt.Errorf("%w: %w", ErrInvalidBatch, err)
		}
		return ParseMarker(r)
	}
	return Marker{}, fmt.Errorf("%w: a control batch without records", ErrInvalidBatch)
}

// ParseMarker reads the record of a control batch, as Header.Marker does.
func ParseMarker(r Record) (Marker, error) {
	if len(r.Key) < markerKeySize || len(r.Value) < markerValueSize {
		return Marker{}, fmt.Errorf("%w: a control record with a key of %d bytes and a value of %d", ErrInvalidBatch, len(r.Key), len(r.Value))
	}
	keyVersion, kind := int16(binary.BigEndian.Uint16(r.Key)), binary.BigEndian.Uint16(r.Key[2:])
	valueVersion := int16(binary.BigEndian.Uint16(r.Value))
	switch {
	case keyVersion < 0 || valueVersion < 0:
		return Marker{}, fmt.Errorf("%w: a control record of the versions %d and %d", ErrInvalidBatch, keyVersion, valueVersion)
	case kind != markerAbort && kind != markerCommit:
		return Marker{}, fmt.Errorf("%w: a control record of type %d ends no transaction", ErrInvalidBatch, kind)
	}
	return Marker{Abort: kind == markerAbort, CoordinatorEpoch: int32(binary.BigEndian.Uint32(r.Value[2:]))}, nil
}
