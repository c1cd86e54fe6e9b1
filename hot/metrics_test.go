// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"sync"
	"testing"

	"firn/record"
)

func TestAppendsRemembersTheNewest(t *testing.T) {
	var a appends
	if _, ok := a.at(5); ok {
		t.Error("an empty memory knows nothing")
	}
	for i := range int64(300) {
		a.note(record.Offset(10*i), 1000+i)
	}
	for _, c := range []struct {
		offset record.Offset
		want   int64
	}{
		{2990, 1299}, {2995, 1299}, {5000, 1299}, {2980, 1298}, {2989, 1298},
		{10 * (300 - recentAppends), 1300 - recentAppends},
		{0, 1300 - recentAppends}, // forgotten: the oldest that is known
	} {
		if got, ok := a.at(c.offset); !ok || got != c.want {
			t.Errorf("offset %d: %d, %v, want %d", c.offset, got, ok, c.want)
		}
	}
}

// TestAppendsUnderRace reads while the writer goes round: a time that is
// answered is never earlier than that of the append that holds the offset.
func TestAppendsUnderRace(t *testing.T) {
	var a appends
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				o := max(int64(a.count.Load())-3, 0)
				if got, ok := a.at(record.Offset(o)); ok && got < o {
					t.Errorf("offset %d was appended at %d", o, got)
					return
				}
			}
		})
	}
	for i := range int64(200_000) {
		a.note(record.Offset(i), i)
	}
	close(stop)
	readers.Wait()
}

func TestAppendAllocatesNothingForItsTime(t *testing.T) {
	var a appends
	if n := testing.AllocsPerRun(100, func() { a.note(1, 1); a.at(1) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
