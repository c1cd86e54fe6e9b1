// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/internal/testutil"
	"firn/record"
	"firn/record/recordtest"
)

// A consumer saw acks=1 records that a power cut takes back; whether the log
// ends below its offset when it comes again or has grown past it, it hears that
// they are lost, from where on, and reads what came in their place. The acks=all
// records before them are there.
func TestSeenRecordsThatAPowerCutTakesBack(t *testing.T) {
	for name, after := range map[string]int{"the log is shorter": 3, "the log has grown past": 12} {
		t.Run(name, func(t *testing.T) {
			const safe, seen = 5, 10
			b := testutil.StartBroker(t, nil)
			createTopic(t, b, "taken", 1)
			c := dialRaw(t, b.Addr)
			old := metadata(c, 12, false, "taken").Topics[0].Partitions[0].LeaderEpoch
			log := filepath.Join(b.DataDir, "taken-0", record.Offset(0).FileName()+".log")
			produceNumbered(t, c, acksAll, "safe", safe)
			kept := fileSize(t, log)
			produceNumbered(t, c, 1, "lost", seen-safe)

			client := b.Client(
				kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"taken": {0: kgo.NewOffset().AtStart()}}),
				kgo.MetadataMinAge(50*time.Millisecond),
				kgo.FetchMaxWait(200*time.Millisecond),
			)
			defer client.Close()
			before, _ := consumeUntil(t, client, seen)

			b.Kill()
			if err := os.Truncate(log, kept); err != nil { // what was never synced
				t.Fatal(err)
			}
			b.Start()
			c = dialRaw(t, b.Addr)
			current := metadata(c, 12, false, "taken").Topics[0].Partitions[0].LeaderEpoch
			if current <= old {
				t.Fatalf("the epoch is %d after %d", current, old)
			}
			// Before the first append and after it the old epoch ends where the
			// loss begins.
			wantEpochEnd(t, c, old, safe)
			produceNumbered(t, c, acksAll, "new", after)
			wantEpochEnd(t, c, old, safe)
			wantEpochEnd(t, c, current, safe+int64(after))

			again, loss := consumeUntil(t, client, safe+int64(after))
			if loss == nil {
				t.Fatal("the consumer did not hear that records were lost")
			}
			if loss.ConsumedTo != seen || loss.ResetTo != safe {
				t.Errorf("the consumer heard of a loss from %d to %d, want %d to %d", loss.ResetTo, loss.ConsumedTo, safe, seen)
			}
			for offset := range int64(safe) {
				if want := fmt.Sprintf("safe %d", offset); before[offset] != want {
					t.Errorf("offset %d had %q, want %q", offset, before[offset], want)
				}
			}
			for i := range int64(after) {
				if want := fmt.Sprintf("new %d", i); again[safe+i] != want {
					t.Errorf("offset %d has %q, want %q", safe+i, again[safe+i], want)
				}
			}
		})
	}
}

// produceNumbered produces n records, one a batch, with values "<what> <i>".
func produceNumbered(t testing.TB, c *raw, acks int16, what string, n int) {
	t.Helper()
	for i := range n {
		b := recordtest.Batch(0, recordtest.Values([]byte(fmt.Sprintf("%s %d", what, i))), recordtest.Timestamp(time.Now().UnixMilli()))
		got := ask[*kmsg.ProduceResponse](c, produceRequest(newestProduce, acks, "taken", 0, b)).Topics[0].Partitions[0]
		wantCode(t, "produce "+what, got.ErrorCode, nil)
	}
}

func wantEpochEnd(t testing.TB, c *raw, epoch int32, end int64) {
	t.Helper()
	got := epochEndRaw(c, 4, "taken", -1, epoch)
	wantCode(t, "the end of an epoch", got.ErrorCode, nil)
	if got.LeaderEpoch != epoch || got.EndOffset != end {
		t.Errorf("epoch %d ends at %d of epoch %d, want %d", epoch, got.EndOffset, got.LeaderEpoch, end)
	}
}

func fileSize(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// consumeUntil reads until the offset before end came, and returns the values
// by offset, and the loss of records that the client told of on the way.
func consumeUntil(t testing.TB, client *kgo.Client, end int64) (map[int64]string, *kgo.ErrDataLoss) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	values := make(map[int64]string)
	var loss *kgo.ErrDataLoss
	for {
		fetches := client.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			if !errors.As(e.Err, &loss) {
				t.Fatalf("read up to %d: %v; got %v", end, e.Err, values)
			}
		}
		for r := range fetches.RecordsAll() {
			values[r.Offset] = string(r.Value)
			if r.Offset == end-1 {
				return values, loss
			}
		}
	}
}
