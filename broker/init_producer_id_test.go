// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"errors"
	"testing"
)

// Ids rise within a start, each block is reserved as a whole before its first
// id, and another start from the same state has others.
func TestProducerIDs(t *testing.T) {
	taken := make(map[int64]bool)
	for range 3 { // three lives of copies of one data directory
		reserved := int64(5000)
		block := func(_ context.Context, n int64) (int64, error) {
			first := reserved
			reserved += n
			return first, nil
		}
		var ids producerIDs
		last := int64(-1)
		for range 2*producerIDBlock + 1 {
			id, err := ids.take(t.Context(), block)
			if err != nil {
				t.Fatal(err)
			}
			if id <= last || id < 5000 || id >= reserved {
				t.Fatalf("id %d after %d, below %d is reserved", id, last, reserved)
			}
			if taken[id] {
				t.Fatalf("id %d was given out in another life", id)
			}
			taken[id], last = true, id
		}
		if reserved > 5000+producerIDJump+3*producerIDBlock {
			t.Errorf("%d ids were reserved", reserved-5000)
		}
	}
}

func TestProducerIDsWithoutADisk(t *testing.T) {
	var ids producerIDs
	broken := errors.New("no disk")
	if _, err := ids.take(t.Context(), func(context.Context, int64) (int64, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if id, err := ids.take(t.Context(), func(context.Context, int64) (int64, error) { return 7, nil }); err != nil || id < 7 {
		t.Errorf("id %d, %v", id, err)
	}
}
