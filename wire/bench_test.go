// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"firn/internal/vfs"
)

// noFd hides a file's descriptor, so that regions of it are read and written.
type noFd struct{ vfs.File }

func (noFd) Fd() uintptr { return vfs.InvalidFd }

// BenchmarkRegion sends a header and a region of a file in the page cache over
// loopback to a client that discards it, by each way that a region can take.
func BenchmarkRegion(b *testing.B) {
	f, _ := randomFile(b, vfs.Disk(), b.TempDir(), 64<<20)
	head := bytes.Repeat([]byte{1}, 100)
	for _, way := range []struct {
		name string
		file vfs.File
		bulk bool
	}{{"sendfile", f, false}, {"sendfile-bulk", f, true}, {"pread", noFd{f}, false}, {"pread-bulk", noFd{f}, true}} {
		for _, size := range []int64{16 << 10, 64 << 10, 256 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dKiB", way.name, size>>10), func(b *testing.B) {
				s := newServer(b, Options{Handler: handlerFunc(nil)})
				ours, theirs := tcpPair(b)
				read := make(chan struct{})
				go func() {
					defer close(read)
					buf := make([]byte, 1<<20)
					for {
						if _, err := theirs.Read(buf); err != nil {
							return
						}
					}
				}()
				var snd sender
				snd.init(ours, s)
				r := &fakeRegion{file: way.file, n: size}
				pieces := []piece{{bytes: head}, {region: r}}
				b.SetBytes(size)
				b.ReportAllocs()
				for b.Loop() {
					r.off = rand.Int64N(64<<20 - size)
					r.asked = r.asked[:0]
					if err := snd.sendPieces(context.Background(), pieces, way.bulk); err != nil {
						b.Fatal(err)
					}
				}
				_ = ours.Close()
				<-read
			})
		}
	}
}

// BenchmarkRoundTrip is one small request and its response over loopback,
// through reader, Handler and writer.
func BenchmarkRoundTrip(b *testing.B) {
	s := newServer(b, Options{Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) { return reply(r), nil })})
	c := dial(b, s)
	frame := encode(1, metadataRequest(9, "topic"))
	c.send(frame)
	_, body := c.receive()
	buf := make([]byte, len(body)+8)
	b.ReportAllocs()
	for b.Loop() {
		c.send(frame)
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
	}
	_ = c.Close()
}

// BenchmarkEncodeFetch is the encoding of one answer of n partitions without
// the records, which are not touched.
func BenchmarkEncodeFetch(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprintf("%d", n), func(b *testing.B) {
			topic := FetchTopic{Topic: "topic"}
			for i := range int32(n) {
				p := NewFetchPartition(i)
				p.Records = []Part{{Bytes: make([]byte, 100)}}
				topic.Partitions = append(topic.Partitions, p)
			}
			r := &FetchResponse{Topics: []FetchTopic{topic}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := EncodeFetch(18, 1, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
