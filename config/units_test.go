// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"firn/cluster"
)

func TestUnits(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "512MiB": 512 << 20, "1 GiB": 1 << 30, "2tib": 2 << 40, "10kb": 10_000, "3MB": 3_000_000, "7b": 7, "-1": -1, " 42 ": 42,
		"9223372036854775807": math.MaxInt64,
	} {
		if got, err := ParseBytes(s); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for s, want := range map[string]int64{"90": 90, "250ms": 250, "90s": 90_000, "5m": 300_000, "12h": 43_200_000, "7d": 604_800_000, "2w": 1_209_600_000, "-1": -1} {
		if got, err := ParseMillis(s); err != nil || got != want {
			t.Errorf("ParseMillis(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "x", "1.5GiB", "-1KiB", "MiB", "5XB", "9223372036854775808", "8388608TiB", "1e3", "0x10", "1_000"} {
		if got, err := ParseBytes(s); err == nil {
			t.Errorf("ParseBytes(%q) = %d", s, got)
		}
	}
	for _, s := range []string{"", "d", "1.5h", "-1s", "1y", "15250284453w"} {
		if got, err := ParseMillis(s); err == nil {
			t.Errorf("ParseMillis(%q) = %d", s, got)
		}
	}
	if got, err := Canonical(cluster.UnitNone, " 7d "); err != nil || got != "7d" {
		t.Errorf("without a unit: %q, %v", got, err)
	}
}

// TestShownParses reads back what the reference shows.
func TestShownParses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Min(1).Draw(t, "n")
		for u, parse := range map[cluster.Unit]func(string) (int64, error){cluster.UnitBytes: ParseBytes, cluster.UnitMs: ParseMillis} {
			s := strings.Trim(shown(strconv.FormatInt(n, 10), u), "`")
			if got, err := parse(s); err != nil || got != n {
				t.Fatalf("%d is shown as %s, which is %d, %v", n, s, got, err)
			}
		}
	})
}

func FuzzParseBytes(f *testing.F) {
	for _, s := range []string{"1", "1KiB", "-1", "9223372036854775807b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseBytes(s)
		if err != nil {
			return
		}
		// Whatever is taken has a plain form that means the same.
		if again, err := ParseBytes(strconv.FormatInt(n, 10)); err != nil || again != n {
			t.Fatalf("%q gives %d, which gives %d, %v", s, n, again, err)
		}
	})
}

// FuzzFiles feeds both kinds of settings files: there is a Config or there
// are faults, and never a panic.
func FuzzFiles(f *testing.F) {
	f.Add("yaml", "log.dirs: x\n")
	f.Add("properties", "log.dirs=x\nlog.dir = y\\\n z")
	f.Add("yaml", "a: &x [1]\nb: *x\n")
	f.Fuzz(func(t *testing.T, ext, content string) {
		d, err := newFileDecoder("f." + ext)
		if err != nil {
			return
		}
		m := map[string]any{}
		if err := d.Decode([]byte(content), m); err == nil && len(m) != len(d.where) {
			t.Fatalf("%d values at %d places", len(m), len(d.where))
		}
	})
}

func TestNearest(t *testing.T) {
	names := settings().names
	for typo, want := range map[string]string{
		"log.dris": "log.dirs", "listener": "listeners", "tier.s3.buckt": "tier.s3.bucket", "log.retention.mss": "log.retention.ms",
		"advertized.listeners": "advertised.listeners", "q": "", "completely.different": "",
	} {
		if got, _ := nearest(typo, names); got != want {
			t.Errorf("nearest(%s) = %q, want %q", typo, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"kitten", "sitting", 3}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("distance of %q and %q is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestTable holds the table to its own rules.
func TestTable(t *testing.T) {
	for _, n := range settings().names {
		s := settings().byName[n]
		if kafkaNames()[n] {
			t.Errorf("%s means something and nothing", n)
		}
		if s.doc == "" || !strings.HasSuffix(s.doc, ".") {
			t.Errorf("%s: documentation %q", n, s.doc)
		}
		if s.def != "" && s.check != nil {
			if err := s.check(s.def); err != nil {
				t.Errorf("%s: the default %q is refused: %v", n, s.def, err)
			}
		}
		for _, weaker := range s.instead {
			if settings().byName[weaker] == nil {
				t.Errorf("%s: %s is no setting", n, weaker)
			}
		}
	}
}
