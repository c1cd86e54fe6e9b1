// SPDX-License-Identifier: Apache-2.0

package config

import "slices"

// nearest finds the name that is fewest edits away, unless all of them are so
// far that a suggestion would only mislead.
func nearest(name string, names []string) (string, bool) {
	best, bestDistance := "", 2+len(name)/5
	for _, n := range names {
		if d := editDistance(name, n); d < bestDistance || d == bestDistance && best == "" {
			best, bestDistance = n, d
		}
	}
	return best, best != ""
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b, in bytes.
func editDistance(a, b string) int {
	var before, prev []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, prev, row = prev, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = slices.Min([]int{prev[j] + 1, row[j-1] + 1, prev[j-1] + cost})
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
