// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"firn/hot"
)

func TestPlace(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		what   string
		spaces []hot.Space
		want   int
	}{
		{"no directory", nil, -1},
		{"the only one, though it is full", []hot.Space{{Free: 0, Reserve: gib, Partitions: 9}}, 0},
		{"most free space", []hot.Space{{Free: 10 * gib}, {Free: 90 * gib}, {Free: 50 * gib}}, 1},
		{"the reserve does not count", []hot.Space{{Free: 60 * gib, Reserve: 50 * gib}, {Free: 20 * gib, Reserve: gib}}, 1},
		{"room for each partition, not in all", []hot.Space{{Free: 100 * gib, Partitions: 99}, {Free: 50 * gib, Partitions: 1}}, 1},
		{"a large disk takes more of them", []hot.Space{{Free: 100 * gib, Partitions: 5}, {Free: 10 * gib, Partitions: 1}}, 0},
		{"fewest partitions of two that have as much", []hot.Space{{Free: 30 * gib, Partitions: 2}, {Free: 20 * gib, Partitions: 1}}, 1},
		{"the first of two that are alike", []hot.Space{{Free: gib, Partitions: 1}, {Free: gib, Partitions: 1}}, 0},
		{"nothing above any reserve: most free space", []hot.Space{{Free: 1, Reserve: gib}, {Free: 3, Reserve: 2 * gib, Partitions: 7}, {Free: 2, Reserve: 2}}, 1},
		{"room above the reserve before room in it", []hot.Space{{Free: gib, Reserve: 2 * gib}, {Free: 11, Reserve: 10, Partitions: 1000}}, 1},
		{"no overflow", []hot.Space{{Free: math.MaxUint64, Partitions: math.MaxInt32}, {Free: math.MaxUint64, Partitions: 1}}, 1},
	} {
		if got := hot.Place(c.spaces); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

// Many partitions made at once are spread in proportion to the room, to within
// one of each disk's part.
func TestPlaceSpreads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spaces := make([]hot.Space, rapid.IntRange(1, 6).Draw(t, "disks"))
		total := uint64(0)
		for i := range spaces {
			spaces[i].Free = rapid.Uint64Range(1<<20, 1<<44).Draw(t, "free")
			total += spaces[i].Free
		}
		n := rapid.IntRange(1, 500).Draw(t, "partitions")
		for range n {
			spaces[hot.Place(spaces)].Partitions++
		}
		for i, s := range spaces {
			part := float64(n) * float64(s.Free) / float64(total)
			if float64(s.Partitions) > part+float64(len(spaces)) {
				t.Fatalf("disk %d of %+v has %d of %d partitions, its part is %.1f", i, spaces, s.Partitions, n, part)
			}
		}
	})
}
