// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
	"testing"

	"firn/record"
)

// FuzzParseVouched gives what is parsed a right CRC, so that everything behind
// it is reached: nothing panics or allocates by what a length says, and what is
// taken is written again as it was.
func FuzzParseVouched(f *testing.F) {
	one := vouchedLog{
		tp: record.TopicPartition{Topic: "orders", Partition: 3}, id: record.TopicID{1}, aborts: true, next: 20, maxPID: 5,
		segments: []vouchedSegment{{0, 100, 1}, {10, 50, 2}}, epochs: record.Epochs{{Epoch: 1, StartOffset: 0}},
		producers: record.NewProducers().Marshal(20),
	}
	f.Add(marshalVouched([]vouchedLog{one, {tp: record.TopicPartition{Topic: "refused"}, refused: true}}))
	f.Add(marshalVouched(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= vouchedHead {
			binary.BigEndian.PutUint32(b[12:], crc32.Checksum(b[16:], vouchedCRC))
		}
		logs, err := parseVouched(b)
		if err != nil {
			return
		}
		for l := range maps.Values(logs) {
			if !l.refused && (len(l.segments) == 0 || !slices.IsSortedFunc(l.segments, func(a, b vouchedSegment) int { return int(a.base - b.base) })) {
				t.Fatalf("segments %v", l.segments)
			}
			again, err := parseVouched(marshalVouched([]vouchedLog{*l}))
			if err != nil || len(again) != 1 || again[l.tp].next != l.next || len(again[l.tp].segments) != len(l.segments) {
				t.Fatalf("written again it is %v, %v", again, err)
			}
		}
	})
}
