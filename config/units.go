// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"firn/cluster"
)

// suffix is a unit and how many of the base unit it is.
type suffix struct {
	name   string
	factor int64
}

// The longer of two suffixes that end alike stands first.
var (
	byteSuffixes = []suffix{
		{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
		{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"b", 1},
	}
	timeSuffixes = []suffix{
		{"ms", 1}, {"s", 1000}, {"m", 60_000}, {"h", 3_600_000}, {"d", 86_400_000}, {"w", 604_800_000},
	}
)

// ParseBytes reads a number of bytes, with or without a unit: B, KiB to TiB
// in steps of 1,024, kB to TB in steps of 1,000, in any case. Negative
// numbers, which Kafka uses as marks, are taken without a unit only.
func ParseBytes(s string) (int64, error) {
	n, ok := parseUnit(s, byteSuffixes)
	if !ok {
		return 0, fmt.Errorf("want a number of bytes, such as 1048576, 512KiB or 1GiB")
	}
	return n, nil
}

// ParseMillis reads a time in milliseconds, with or without a unit: ms, s, m,
// h, d or w. Negative numbers, which Kafka uses as marks, are taken without a
// unit only.
func ParseMillis(s string) (int64, error) {
	n, ok := parseUnit(s, timeSuffixes)
	if !ok {
		return 0, fmt.Errorf("want a time, such as 60000 (ms), 90s, 12h or 7d")
	}
	return n, nil
}

func parseUnit(s string, units []suffix) (int64, bool) {
	low := strings.ToLower(strings.TrimSpace(s))
	if n, err := strconv.ParseInt(low, 10, 64); err == nil {
		return n, true
	}
	for _, u := range units {
		digits, ok := strings.CutSuffix(low, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.factor {
			return 0, false
		}
		return n * u.factor, true
	}
	return 0, false
}

// Canonical rewrites a value of the unit in plain numbers; without a unit it
// only loses the blanks around it. The error says what is wanted.
func Canonical(unit cluster.Unit, value string) (string, error) {
	value = strings.TrimSpace(value)
	var n int64
	var err error
	switch unit {
	case cluster.UnitBytes:
		n, err = ParseBytes(value)
	case cluster.UnitMs:
		n, err = ParseMillis(value)
	default:
		return value, nil
	}
	if err != nil {
		return "", err
	}
	return strconv.FormatInt(n, 10), nil
}
