// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"iter"
	"time"

	"firn/record"
)

// Retention says how long a partition keeps its records. In every field a
// negative value means "without limit".
type Retention struct {
	// Age and Bytes are retention.ms and retention.bytes: what the partition
	// keeps in both tiers together.
	Age   time.Duration
	Bytes int64
	// LocalAge and LocalBytes are local.retention.ms and
	// local.retention.bytes with -2 resolved: what it keeps on local disk
	// once the cold tier has it. They mean nothing without a tier.
	LocalAge   time.Duration
	LocalBytes int64
}

// span is a run of records that stands or falls as a whole: a segment, a
// manifest entry or a gap.
type span struct {
	from, to     record.Offset // [from, to)
	bytes        int64
	maxTimestamp time.Time
}

func (s span) expired(age time.Duration, now time.Time) bool {
	return age >= 0 && now.Sub(s.maxTimestamp) > age
}

// planLogStart decides how far the log start may rise: past every leading span
// that is too old, and past as many as the size is over its limit. spans are
// ascending, hold what may be deleted (the active segment is not among them)
// and are read only as far as needed; totalBytes counts everything, the active
// segment included.
func planLogStart(r Retention, now time.Time, logStart record.Offset, totalBytes int64, spans iter.Seq[span]) record.Offset {
	kept := totalBytes
	for s := range spans {
		if s.to > logStart {
			overSize := r.Bytes >= 0 && kept-s.bytes >= r.Bytes
			if !overSize && !s.expired(r.Age, now) {
				break
			}
			logStart = s.to
		}
		kept -= s.bytes
	}
	return logStart
}

// planLocalStart decides how far the local start may rise: past what lies
// below the log start, and past what the tier has (it ends below tierEnd) and
// local retention does not keep. local holds the sealed segments, ascending;
// localBytes counts all of them and the active one.
func planLocalStart(r Retention, now time.Time, logStart, tierEnd record.Offset, localBytes int64, local []span) record.Offset {
	var start record.Offset
	kept := localBytes
	for _, s := range local {
		overSize := r.LocalBytes >= 0 && kept-s.bytes >= r.LocalBytes
		tiered := s.to <= tierEnd
		if s.to > logStart && !(tiered && (overSize || s.expired(r.LocalAge, now))) {
			break
		}
		kept -= s.bytes
		start = s.to
	}
	return start
}
