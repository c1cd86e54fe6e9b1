// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"

	"firn/record"
)

// claim is the object by which a writer takes a leader epoch of a partition
// for itself, before it writes a head or uploads anything under it.
type claim struct {
	topicID   record.TopicID
	partition int32
	epoch     record.Epoch
	writer    WriterID
	createdMs int64 // wall time, ms since the Unix epoch
}

// claimObjectSize is the size of a claim object in bytes.
const claimObjectSize = frameOverhead + 16 + 4 + 4 + 16 + 8

func (c claim) encode() []byte {
	b := append([]byte(nil), c.topicID[:]...)
	b = appendU32(b, uint32(c.partition))
	b = appendEpoch(b, c.epoch)
	b = append(b, c.writer[:]...)
	b = appendI64(b, c.createdMs)
	return appendFrame(nil, magicClaim, b)
}

// decodeClaim reads a claim object. The error is a *record.CorruptionError or
// wraps record.ErrUnsupportedVersion.
func decodeClaim(path string, b []byte) (claim, error) {
	body, err := openFrame(path, magicClaim, b)
	if err != nil {
		return claim{}, fmt.Errorf("read claim: %w", err)
	}
	r := newBodyReader(path, body)
	c := claim{topicID: r.id(), partition: int32(r.u32()), epoch: r.epoch(), writer: r.id(), createdMs: r.i64()}
	if c.partition < 0 || c.epoch < 0 {
		r.fail("partition %d or epoch %d is impossible", c.partition, c.epoch)
	}
	if err := r.end(); err != nil {
		return claim{}, fmt.Errorf("read claim: %w", err)
	}
	return c, nil
}
