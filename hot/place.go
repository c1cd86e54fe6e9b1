// SPDX-License-Identifier: Apache-2.0

package hot

import "math/bits"

// Space is what placement knows of a log directory.
type Space struct {
	// Free is the free space of its disk, Reserve what must stay free of it,
	// in bytes.
	Free, Reserve uint64
	// Partitions is how many it holds.
	Partitions int
}

// Place chooses the directory of a new partition: the one where it would have
// most free space to itself, (Free − Reserve) ÷ (Partitions + 1). So a disk
// gets partitions in proportion to its room, also when many are made before
// the first has a byte. Where nothing is left above the reserve, most free space
// decides; then fewest partitions; then the order. -1 means that there is no
// directory.
//
// Counting partitions alone, as Kafka does, fills a small disk as fast as a
// large one; going by free space alone puts a topic of a hundred partitions
// wholly on one disk.
func Place(spaces []Space) int {
	best := -1
	for i, s := range spaces {
		if best < 0 || s.before(spaces[best]) {
			best = i
		}
	}
	return best
}

// before says whether s is the better place.
func (s Space) before(o Space) bool {
	// a ÷ b > c ÷ d is a × d > c × b, in 128 bits.
	high, low := bits.Mul64(s.spare(), uint64(o.Partitions)+1)
	otherHigh, otherLow := bits.Mul64(o.spare(), uint64(s.Partitions)+1)
	switch {
	case high != otherHigh:
		return high > otherHigh
	case low != otherLow:
		return low > otherLow
	case s.spare() == 0 && o.spare() == 0 && s.Free != o.Free:
		return s.Free > o.Free
	}
	return s.Partitions < o.Partitions
}

// spare is the room above the reserve.
func (s Space) spare() uint64 {
	if s.Free < s.Reserve {
		return 0
	}
	return s.Free - s.Reserve
}
