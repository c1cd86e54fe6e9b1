// SPDX-License-Identifier: Apache-2.0

package partition

import "time"

// Unprotected is what of a tiered partition is on the local disk alone, and
// would be lost with it.
type Unprotected struct {
	Segments int
	Bytes    int64
	// Oldest is when the oldest of these records was appended: exact for
	// segments begun by this process, else as hot.Segment.FirstAppend
	// estimates it. Zero when everything is in the bucket.
	Oldest time.Time
}

// Unprotected tells what the bucket does not have yet. It is zero for a
// partition without a cold tier, which has nothing anywhere else.
func (p *Partition) Unprotected() Unprotected {
	var u Unprotected
	cold := p.Tier()
	if cold == nil {
		return u
	}
	// What lies below the log start is deleted, and lost to nobody.
	from := max(cold.End(), p.LogStartOffset())
	for _, s := range p.log.Segments() {
		if s.NextOffset() <= from || s.Size() == 0 {
			continue
		}
		u.Segments++
		u.Bytes += s.Size()
		if at := s.FirstAppend(); u.Oldest.IsZero() || at.Before(u.Oldest) {
			u.Oldest = at
		}
	}
	return u
}

// Add joins what two partitions have on the local disk alone.
func (u Unprotected) Add(o Unprotected) Unprotected {
	u.Segments += o.Segments
	u.Bytes += o.Bytes
	if u.Oldest.IsZero() || !o.Oldest.IsZero() && o.Oldest.Before(u.Oldest) {
		u.Oldest = o.Oldest
	}
	return u
}

// Age is how old the oldest record is, 0 when there is none.
func (u Unprotected) Age(now time.Time) time.Duration {
	if u.Oldest.IsZero() {
		return 0
	}
	return max(0, now.Sub(u.Oldest))
}
