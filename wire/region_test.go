// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

// openLog makes a log of batches of about 20 KiB each and returns it with the
// bytes that a consumer is to see.
func openLog(t testing.TB, fs vfs.FS, dir string, batches int, o hot.LogOptions) (*hot.Log, []byte) {
	t.Helper()
	ctx := context.Background()
	store, err := hot.Open(ctx, hot.Options{Dir: dir, FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	log, err := store.CreateLog(ctx, record.TopicPartition{Topic: "snow"}, record.TopicID{1}, o)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for range batches {
		b := recordtest.Batch(0, recordtest.ValueSize(20, 1000))
		if _, err := log.Append(b, 1); err != nil {
			t.Fatal(err)
		}
		all = append(all, b...) // Append wrote base offset and epoch in place
	}
	return log, all
}

// fetchHandler answers every Fetch with what log holds from the offset asked
// for, as one region.
func fetchHandler(t testing.TB, log *hot.Log, bulk bool, released *atomic.Int32) Handler {
	return handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
		ask := r.Message.(*kmsg.FetchRequest).Topics[0].Partitions[0]
		return func(context.Context) (*Response, error) {
			region, err := log.Read(record.Offset(ask.FetchOffset), log.EndOffset(), int(ask.PartitionMaxBytes), true)
			if err != nil {
				return nil, err
			}
			p := NewFetchPartition(0)
			p.HighWatermark = log.EndOffset()
			if region != nil {
				p.Records = []Part{{Region: region}}
			}
			parts, err := EncodeFetch(r.Version, r.CorrelationID, &FetchResponse{Topics: []FetchTopic{{Topic: "snow", Partitions: []FetchPartition{p}}}})
			return &Response{Parts: parts, Bulk: bulk, Done: func(sent bool) {
				if !sent {
					t.Error("a fetch response was not sent")
				}
				ReleaseParts(parts)
				released.Add(1)
			}}, err
		}, nil
	})
}

// fetch asks for offset in version 11 and returns the records.
func (c *client) fetch(offset record.Offset, maxBytes int32) []byte {
	c.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.Version = 11
	topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	topic.Topic, p.FetchOffset, p.PartitionMaxBytes = "snow", int64(offset), maxBytes
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	c.send(encode(1, req))
	_, body := c.receive()
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 11
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatal(err)
	}
	return resp.Topics[0].Partitions[0].RecordBatches
}

// replay fetches everything from offset 0 on.
func (c *client) replay(end record.Offset, maxBytes int32) []byte {
	c.t.Helper()
	var got []byte
	for next := record.Offset(0); next < end; {
		b := c.fetch(next, maxBytes)
		got = append(got, b...)
		for len(b) > 0 {
			h, err := record.ParseHeader(b)
			if err != nil || h.Size() > len(b) {
				c.t.Fatalf("records at offset %v: %v", next, err)
			}
			next, b = h.NextOffset(), b[h.Size():]
		}
	}
	return got
}

// TestServeALog sends a real log over loopback and asserts the path taken.
func TestServeALog(t *testing.T) {
	sendfile := func(s Stats) uint64 { return s.SendfileBytes }
	pread := func(s Stats) uint64 { return s.PreadBytes }
	big := sendfile
	if !haveSendfile {
		big = pread
	}
	for _, tt := range []struct {
		name     string
		fs       vfs.FS
		dir      string
		maxBytes int32
		bulk     bool
		path     func(Stats) uint64
	}{
		{"tail by sendfile", vfs.Disk(), t.TempDir(), 1 << 20, false, big},
		{"bulk by sendfile", vfs.Disk(), t.TempDir(), 1 << 20, true, big},
		{"small by pread", vfs.Disk(), t.TempDir(), 30 << 10, false, pread},
		{"memory by pread", vfs.NewMem(), "/log", 1 << 20, true, pread},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, want := openLog(t, tt.fs, tt.dir, 100, hot.LogOptions{})
			var released atomic.Int32
			s := newServer(t, Options{Handler: fetchHandler(t, log, tt.bulk, &released)})
			c := dial(t, s)
			if got := c.replay(log.EndOffset(), tt.maxBytes); !bytes.Equal(got, want) {
				t.Errorf("%d bytes arrived, %d were appended", len(got), len(want))
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			closeServer(t, s)
			st := s.Stats()
			if got := tt.path(st); got != uint64(len(want)) || st.SendfileBytes+st.PreadBytes != got || st.ColdChunks != 0 {
				t.Errorf("sent %d bytes of records: stats %+v", len(want), st)
			}
			if uint64(released.Load()) != st.Requests {
				t.Errorf("%d responses, %d released", st.Requests, released.Load())
			}
		})
	}
}

// TestServeWhileAppending: readers at the tail and from the start see exactly
// what was appended while the log grows and rolls.
func TestServeWhileAppending(t *testing.T) {
	log, want := openLog(t, vfs.Disk(), t.TempDir(), 10, hot.LogOptions{SegmentBytes: 1 << 20})
	var released atomic.Int32
	s := newServer(t, Options{Handler: fetchHandler(t, log, true, &released)})
	addr, err := s.Listen("TEST", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const more = 200
	end := log.EndOffset() + 20*more
	var wg sync.WaitGroup
	got := make([][]byte, 3)
	for i := range got {
		c := dialAddr(t, addr)
		wg.Go(func() { got[i] = c.replay(end, 300<<10); _ = c.Close() })
	}
	for range more {
		b := recordtest.Batch(0, recordtest.ValueSize(20, 1000))
		if _, err := log.Append(b, 2); err != nil {
			t.Fatal(err)
		}
		want = append(want, b...)
	}
	wg.Wait()
	for i := range got {
		if !bytes.Equal(got[i], want) {
			t.Errorf("reader %d got %d bytes, %d were appended", i, len(got[i]), len(want))
		}
	}
}

// chunkReaderFunc makes a ChunkReader of a function.
type chunkReaderFunc func(ctx context.Context, r *hot.Region, p []byte, off int64) (int, error)

func (f chunkReaderFunc) ReadChunk(ctx context.Context, r *hot.Region, p []byte, off int64) (int, error) {
	return f(ctx, r, p, off)
}

// TestChunkReaderGetsTheRegion: what is cold of a hot.Region is read by the
// ChunkReader of the options, and uncached without one.
func TestChunkReaderGetsTheRegion(t *testing.T) {
	log, want := openLog(t, vfs.Disk(), t.TempDir(), 1, hot.LogOptions{})
	region, err := log.Read(0, log.EndOffset(), 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	defer region.Release()
	ctx, cancel := context.WithCancel(context.Background())
	boom := errors.New("boom")
	r := hotRegion{region, chunkReaderFunc(func(got context.Context, r *hot.Region, p []byte, off int64) (int, error) {
		if got != ctx || r != region || len(p) != 7 || off != 3 {
			t.Errorf("got %v, %d bytes at %d", r, len(p), off)
		}
		return 0, boom
	})}
	if _, err := r.readCold(ctx, make([]byte, 7), 3); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	o := Options{}
	o.EnsureDefaults()
	r.chunks = o.ChunkReader
	p := make([]byte, 100)
	if n, err := r.readCold(ctx, p, 3); n != 100 || err != nil || !bytes.Equal(p, want[3:103]) {
		t.Errorf("got %d bytes, %v", n, err)
	}
	cancel()
	if _, err := r.readCold(ctx, p, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v", err)
	}
}
