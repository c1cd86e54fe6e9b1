// SPDX-License-Identifier: Apache-2.0

package recordtest

import (
	"encoding/binary"

	"firn/record"
)

// Marker builds the control batch, as a transaction coordinator writes it, that
// ends the transaction of a producer. Options come last.
func Marker(base record.Offset, producerID int64, producerEpoch int16, m record.Marker, opts ...Option) []byte {
	kind := uint16(1)
	if m.Abort {
		kind = 0
	}
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, kind)
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(m.CoordinatorEpoch))
	made := []Option{Keys(key), Values(value), Producer(producerID, producerEpoch, record.NoSequence), Transactional(), Control()}
	return Batch(base, append(made, opts...)...)
}
