// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/binary"
	"fmt"

	"firn/record"
)

// The types of marker that end a transaction, as the key of their record
// numbers them.
const (
	markerAbort  = 0
	markerCommit = 1
)

// parseMarker reads the record of a control batch: a key of version and type, a
// value of version and coordinator epoch. Later versions may only append.
func parseMarker(r record.Record) (Marker, error) {
	if len(r.Key) < 4 || len(r.Value) < 6 {
		return Marker{}, fmt.Errorf("transaction marker with a key of %d and a value of %d bytes, want 4 and 6", len(r.Key), len(r.Value))
	}
	m := Marker{CoordinatorEpoch: int32(binary.BigEndian.Uint32(r.Value[2:]))}
	switch what := int16(binary.BigEndian.Uint16(r.Key[2:])); what {
	case markerAbort:
		m.Type = "abort"
	case markerCommit:
		m.Type = "commit"
	default:
		return Marker{}, fmt.Errorf("control record of type %d, want %d or %d", what, markerAbort, markerCommit)
	}
	return m, nil
}
