// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"fmt"

	"firn/record"
)

// DeleteRecords raises the log start to before, in both tiers, and answers
// where it is then: further on when it was there already. record.NoOffset
// stands for the high watermark. The log start is durable here when
// DeleteRecords returns; segments below it go with the next retention, objects
// once the manifest has followed.
//
// The error wraps record.ErrOffsetOutOfRange for what is above the high
// watermark or no offset, record.ErrReadOnly, or record.ErrStorage.
func (p *Partition) DeleteRecords(ctx context.Context, before record.Offset) (logStart record.Offset, err error) {
	if err := p.writable(); err != nil {
		return record.NoOffset, fmt.Errorf("delete records of %s: %w", p.tp, err)
	}
	high := p.HighWatermark()
	if before == record.NoOffset {
		before = high
	}
	if before < 0 || before > high {
		return record.NoOffset, fmt.Errorf("delete records of %s before %d, its high watermark is %d: %w", p.tp, before, high, record.ErrOffsetOutOfRange)
	}
	if before > p.log.LogStartOffset() {
		if err := p.log.SetLogStartOffset(ctx, before); err != nil {
			return record.NoOffset, fmt.Errorf("delete records of %s: %w", p.tp, err)
		}
		if cold := p.Tier(); cold != nil {
			cold.SetLogStart(before)
		}
		p.watchers.notify()
	}
	return p.LogStartOffset(), nil
}
