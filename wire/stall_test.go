// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

// stalled is a reader that has asked for everything a log holds and has taken
// none of it: the answer is stuck in the sender, with pages of the file queued
// in a socket.
type stalled struct {
	store *hot.Store
	log   *hot.Log
	want  []byte // what it asked for, to be got whatever becomes of the log
	dir   string
}

// replace puts files with other content in the place of the log's, by rename, as
// a compaction or a truncation that copies what it keeps does.
func (s *stalled) replace(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".log") {
			junk := bytes.Repeat([]byte{0xee}, len(s.want))
			if err := vfs.ReplaceFile(vfs.Disk(), filepath.Join(s.dir, e.Name()), junk); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// refill appends other records, over as many bytes as were there.
func (s *stalled) refill(t *testing.T, log *hot.Log) {
	t.Helper()
	for n := 0; n < len(s.want); {
		b := recordtest.Batch(0, recordtest.ValueSize(10, 90_000), recordtest.Timestamp(1))
		if _, err := log.Append(b, 9); err != nil {
			t.Fatal(err)
		}
		n += len(b)
	}
	if err := log.WaitDurable(t.Context(), log.EndOffset()); err != nil {
		t.Fatal(err)
	}
}

var stalledTP = record.TopicPartition{Topic: "snow"}

// What a Region promised arrives to the last byte, however slow its reader is
// and whatever happens to the segment meanwhile: no byte changes, none is
// missing, and the connection goes on. The bytes that sendfile has handed to the
// socket are the file's own pages, so that they would change with it.
func TestStalledReaderGetsWhatItAskedFor(t *testing.T) {
	ends := map[string]func(*testing.T, *stalled){
		"retention": func(t *testing.T, s *stalled) {
			if err := s.log.Roll(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n, err := s.log.DropBefore(t.Context(), s.log.EndOffset()); n != 1 || err != nil {
				t.Fatalf("%d dropped, %v", n, err)
			}
			s.refill(t, s.log)
		},
		"truncation to the start": func(t *testing.T, s *stalled) {
			if err := s.log.ResetTo(t.Context(), 0, nil, nil); err != nil {
				t.Fatal(err)
			}
			s.refill(t, s.log) // other bytes under the same name
		},
		"deletion and the topic made anew": func(t *testing.T, s *stalled) {
			if err := s.store.DeleteLog(t.Context(), s.log); err != nil {
				t.Fatal(err)
			}
			again, err := s.store.CreateLog(t.Context(), stalledTP, record.TopicID{2}, hot.LogOptions{SegmentBytes: 64 << 20})
			if err != nil {
				t.Fatal(err)
			}
			s.refill(t, again)
		},
		"replacement of the files": func(t *testing.T, s *stalled) { s.replace(t) },
		"appends":                  func(t *testing.T, s *stalled) { s.refill(t, s.log) },
	}
	for name, end := range ends {
		for _, bulk := range []bool{false, true} {
			t.Run(name+map[bool]string{false: " at the tail", true: " in bulk"}[bulk], func(t *testing.T) {
				stall(t, bulk, end)
			})
		}
	}
}

// stall runs one end while a reader stands still, and then lets it read.
func stall(t *testing.T, bulk bool, end func(*testing.T, *stalled)) {
	ctx, dir := context.Background(), t.TempDir()
	store, err := hot.Open(ctx, hot.Options{Dir: dir, FS: vfs.Disk(), FileDeleteDelay: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(ctx) })
	s := &stalled{store: store, dir: filepath.Join(dir, stalledTP.String())}
	s.log, err = store.CreateLog(ctx, stalledTP, record.TopicID{1}, hot.LogOptions{SegmentBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for len(s.want) < 24<<20 { // far more than the two sockets hold
		b := recordtest.Batch(0, recordtest.ValueSize(10, 100_000))
		if _, err := s.log.Append(b, 1); err != nil {
			t.Fatal(err)
		}
		s.want = append(s.want, b...)
	}
	var released atomic.Int32
	srv := newServer(t, Options{Handler: fetchHandler(t, s.log, bulk, &released), SendTimeout: time.Minute})
	c := dial(t, srv)
	if err := c.Conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrFetchRequest()
	req.Version = 11
	topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	topic.Topic, p.PartitionMaxBytes = stalledTP.Topic, 64<<20
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	c.send(encode(1, req))
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil { // the answer is under way
		t.Fatal(err)
	}
	end(t, s)
	if released.Load() != 0 {
		t.Fatal("the reader was not stalled")
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if n, err := io.ReadFull(c, body); err != nil {
		t.Fatalf("%d of %d bytes arrived: %v", n, len(body), err)
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 11
	if err := resp.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	if got := resp.Topics[0].Partitions[0].RecordBatches; !bytes.Equal(got, s.want) {
		t.Fatalf("%d bytes arrived, %d were promised, or they differ", len(got), len(s.want))
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	closeServer(t, srv)
	if released.Load() != 1 {
		t.Error("the region was not released")
	}
	if haveSendfile && srv.Stats().SendfileBytes != uint64(len(s.want)) {
		t.Errorf("not sent by sendfile: %+v", srv.Stats())
	}
}
