// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math/rand/v2"
	"slices"
)

const (
	bootstrapRuns  = 2000
	intervalInside = 0.8
)

// Ratio is the median of the ratios of several rounds, with the interval that
// a bootstrap gives for it at 80 %.
type Ratio struct {
	Median float64   `json:"median"`
	Low    float64   `json:"low"`
	High   float64   `json:"high"`
	Rounds []float64 `json:"rounds"`
}

// NewRatio sums up the ratios of rounds; all zero without any.
func NewRatio(rounds []float64) Ratio {
	r := Ratio{Rounds: append([]float64{}, rounds...)}
	if len(rounds) == 0 {
		return r
	}
	r.Median = Median(rounds)
	random := rand.New(rand.NewPCG(3, 4)) // the same rounds give the same interval
	medians := make([]float64, bootstrapRuns)
	sample := make([]float64, len(rounds))
	for i := range medians {
		for j := range sample {
			sample[j] = rounds[random.IntN(len(rounds))]
		}
		medians[i] = Median(sample)
	}
	slices.Sort(medians)
	cut := int(bootstrapRuns * (1 - intervalInside) / 2)
	r.Low, r.High = medians[cut], medians[len(medians)-1-cut]
	return r
}

// Median is the middle of the values, or of the two middle ones; 0 for none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}
