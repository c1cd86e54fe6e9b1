// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"firn/record"
)

var epoch0 = time.UnixMilli(1_700_000_000_000)

// aged makes a span of n records ending at to, whose newest record is so old.
func aged(from, to record.Offset, bytes int64, age time.Duration) span {
	return span{from: from, to: to, bytes: bytes, maxTimestamp: epoch0.Add(-age)}
}

func TestPlanLogStart(t *testing.T) {
	spans := []span{
		aged(0, 10, 100, 3*time.Hour),
		aged(10, 20, 100, 2*time.Hour),
		aged(20, 30, 100, 1*time.Hour),
	}
	const active = 50
	for _, c := range []struct {
		name     string
		r        Retention
		logStart record.Offset
		want     record.Offset
	}{
		{"without limits", Retention{Age: -1, Bytes: -1}, 0, 0},
		{"by age", Retention{Age: 90 * time.Minute, Bytes: -1}, 0, 20},
		{"exactly the age stays", Retention{Age: 2 * time.Hour, Bytes: -1}, 0, 10},
		{"everything too old", Retention{Age: time.Minute, Bytes: -1}, 0, 30},
		{"size is not exceeded by a whole segment", Retention{Age: -1, Bytes: 251}, 0, 0},
		{"size is exceeded by one", Retention{Age: -1, Bytes: 250}, 0, 10},
		{"size zero keeps the active segment", Retention{Age: -1, Bytes: 0}, 0, 30},
		{"either", Retention{Age: 150 * time.Minute, Bytes: 150}, 0, 20},
		{"what lies below the log start is not counted", Retention{Age: -1, Bytes: 150}, 10, 20},
		{"never falls", Retention{Age: -1, Bytes: -1}, 25, 25},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := planLogStart(c.r, epoch0, c.logStart, 300+active, slices.Values(spans))
			if got != c.want {
				t.Errorf("log start %d, want %d", got, c.want)
			}
		})
	}
}

func TestPlanLocalStart(t *testing.T) {
	local := []span{
		aged(10, 20, 100, 2*time.Hour),
		aged(20, 30, 100, 1*time.Hour),
		aged(30, 40, 100, 30*time.Minute),
	}
	const active = 50
	for _, c := range []struct {
		name              string
		r                 Retention
		logStart, tierEnd record.Offset
		want              record.Offset
	}{
		{"nothing in the tier", Retention{LocalAge: 0, LocalBytes: 0}, 0, 0, 0},
		{"tiered but kept", Retention{LocalAge: -1, LocalBytes: -1}, 0, 40, 0},
		{"tiered and too old", Retention{LocalAge: 45 * time.Minute, LocalBytes: -1}, 0, 40, 30},
		{"too old but only partly tiered", Retention{LocalAge: 0, LocalBytes: -1}, 0, 25, 20},
		{"over the local size", Retention{LocalAge: -1, LocalBytes: 200}, 0, 40, 20},
		{"below the log start, tiered or not", Retention{LocalAge: -1, LocalBytes: -1}, 30, 0, 30},
		{"a segment that straddles the log start stays", Retention{LocalAge: -1, LocalBytes: -1}, 25, 0, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := planLocalStart(c.r, epoch0, c.logStart, c.tierEnd, 300+active, local)
			if got != c.want {
				t.Errorf("local start %d, want %d", got, c.want)
			}
		})
	}
}

// TestPlanLocalStartKeepsTheOnlyCopy attacks I2: whatever the settings, no
// segment goes that is neither in the tier nor below the log start.
func TestPlanLocalStartKeepsTheOnlyCopy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var local []span
		var bytes int64
		next := record.Offset(rapid.Int64Range(0, 100).Draw(t, "start"))
		for range rapid.IntRange(0, 10).Draw(t, "segments") {
			to := next + record.Offset(rapid.Int64Range(1, 50).Draw(t, "records"))
			s := aged(next, to, rapid.Int64Range(1, 1000).Draw(t, "bytes"), time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "age")))
			local = append(local, s)
			bytes += s.bytes
			next = to
		}
		r := Retention{
			LocalAge:   time.Duration(rapid.Int64Range(-1, 1e15).Draw(t, "localAge")),
			LocalBytes: rapid.Int64Range(-1, 5000).Draw(t, "localBytes"),
		}
		logStart := record.Offset(rapid.Int64Range(0, 400).Draw(t, "logStart"))
		tierEnd := record.Offset(rapid.Int64Range(0, 400).Draw(t, "tierEnd"))
		got := planLocalStart(r, epoch0, logStart, tierEnd, bytes, local)
		for _, s := range local {
			if s.to <= got && s.to > max(logStart, tierEnd) {
				t.Fatalf("local start %d drops [%d,%d), log start %d, tier end %d", got, s.from, s.to, logStart, tierEnd)
			}
		}
	})
}
