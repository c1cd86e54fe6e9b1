// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"firn/record"
)

// ReplayOptions say what a replay reads.
type ReplayOptions struct {
	// Broker, Topic and Raw are as in Options; FetchBytes of 0 means 1 MiB.
	Broker     string
	Topic      string
	Partition  int32
	Raw        bool
	FetchBytes int
	// From is the first offset, To the one to stop at. To of 0 is where the
	// partition ends when the replay starts.
	From, To record.Offset
	// Values are what the records must hold; nil checks offsets alone with a
	// full client, and offsets and CRCs with raw frames.
	Values *Values
	// Progress is called after each answer; nil for nobody.
	Progress func(ReplayProgress)
}

// ReplayProgress is how far a replay is.
type ReplayProgress struct {
	Next    record.Offset `json:"next"`
	To      record.Offset `json:"to"`
	Bytes   int64         `json:"bytes"`
	Seconds float64       `json:"seconds"`
}

// ReplayResult is what a replay has read.
type ReplayResult struct {
	Seconds      float64 `json:"seconds"`
	FirstMs      float64 `json:"first_record_ms"`
	Records      int64   `json:"records"`
	Bytes        int64   `json:"bytes"`
	MiBPerSecond float64 `json:"mib_per_second"`
	// CRC32 is that of all values, where they were checked.
	CRC32 string `json:"crc32,omitempty"`
}

// Replay reads a partition from an offset to its end once, as fast as it comes,
// and checks what it reads. Records that are missing, doubled, out of order or
// changed fail it. The bytes are those of the batches with raw frames, those
// of the values with a full client.
func Replay(ctx context.Context, o ReplayOptions) (ReplayResult, error) {
	setDefault(&o.FetchBytes, 1<<20)
	connection, err := dial(ctx, o.Broker)
	if err != nil {
		return ReplayResult{}, err
	}
	defer connection.close()
	if o.To == 0 {
		if o.To, err = connection.listOffset(o.Topic, o.Partition, latest); err != nil {
			return ReplayResult{}, err
		}
	}
	if o.From < 0 || o.From > o.To {
		return ReplayResult{}, fmt.Errorf("replay %s-%d from offset %d: it ends before %d", o.Topic, o.Partition, o.From, o.To)
	}
	r := &replaying{ReplayOptions: o, check: NewVerifier(o.Values, o.From), started: time.Now()}
	if o.Raw {
		err = r.raw(connection)
	} else {
		err = r.client(ctx)
	}
	if err != nil {
		return ReplayResult{}, fmt.Errorf("replay %s-%d after %d records: %w", o.Topic, o.Partition, r.check.Count(), err)
	}
	took := time.Since(r.started).Seconds()
	result := ReplayResult{
		Seconds: took, FirstMs: milliseconds(r.first), Records: r.check.Count(),
		Bytes: r.bytes, MiBPerSecond: float64(r.bytes) / (1 << 20) / took,
	}
	if o.Values != nil {
		result.CRC32 = fmt.Sprintf("%08x", r.check.Sum())
	}
	return result, nil
}

type replaying struct {
	ReplayOptions
	check   *Verifier
	started time.Time
	first   time.Duration
	bytes   int64
}

// progress counts one answer.
func (r *replaying) progress(n int64) {
	took := time.Since(r.started)
	if r.bytes == 0 && n > 0 {
		r.first = took
	}
	r.bytes += n
	if r.Progress != nil {
		r.Progress(ReplayProgress{r.check.Next(), r.To, r.bytes, took.Seconds()})
	}
}

func (r *replaying) raw(connection *conn) error {
	f := fetchRequest{topic: r.Topic, partition: r.Partition, maxBytes: int32(r.FetchBytes), minBytes: 1, maxWait: 500 * time.Millisecond}
	for r.check.Next() < r.To {
		f.offset = r.check.Next()
		got, err := connection.fetch(f)
		if err != nil {
			return err
		}
		if err := eachBatch(got.batches, r.check.Batch); err != nil {
			return err
		}
		r.progress(int64(len(got.batches)))
	}
	return nil
}

func (r *replaying) client(ctx context.Context) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(r.Broker), kgo.ClientID(clientID),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.Topic: {r.Partition: kgo.NewOffset().At(int64(r.From))}}),
		kgo.FetchMaxPartitionBytes(int32(r.FetchBytes)),
	)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	defer cl.Close()
	for r.check.Next() < r.To {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		var n int64
		for rec := range fetches.RecordsAll() {
			if err := r.check.Record(record.Offset(rec.Offset), rec.Value); err != nil {
				return err
			}
			n += int64(len(rec.Value))
		}
		r.progress(n)
	}
	return nil
}
