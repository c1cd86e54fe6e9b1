// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sinkFileBytes is when a sink begins another file, as a log its next segment.
const sinkFileBytes = 1 << 30

// Sink is what a broker's produce path is compared with: it reads produce
// requests into one buffer for each connection, writes them to a file and
// answers them. It looks at nothing and keeps nothing. It takes what `bench
// produce --raw --existing` sends.
type Sink struct {
	// Dir gets the files, which are removed as they are replaced and at the end.
	Dir string
}

// Serve answers connections until ctx ends, closes the listener and waits for
// all of them.
func (s Sink) Serve(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		nc, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("sink: %w", err)
		}
		serving.Go(func() {
			end := context.AfterFunc(ctx, func() { _ = nc.Close() })
			defer end()
			// A client that goes away ends its connection and nothing else.
			_ = s.serve(nc)
			_ = nc.Close()
		})
	}
}

func (s Sink) serve(nc net.Conn) (err error) {
	var out sinkFile
	defer func() { err = errors.Join(err, out.remove()) }()
	in := bufio.NewReaderSize(nc, 1<<10)
	var frame, answer []byte
	for {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		size := int64(int32(binary.BigEndian.Uint32(head[:])))
		if size < 8 || size > maxFrameBytes {
			return fmt.Errorf("a frame of %d bytes", size)
		}
		if int64(cap(frame)) < size {
			frame = make([]byte, size)
		}
		frame = frame[:size]
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		if err := out.write(s.Dir, frame); err != nil {
			return err
		}
		if answer, err = appendSinkAnswer(answer[:0], frame); err != nil {
			return err
		}
		if len(answer) == 0 {
			continue
		}
		if _, err := nc.Write(answer); err != nil {
			return err
		}
	}
}

// appendSinkAnswer appends the answer to a produce request, nothing for acks=0.
func appendSinkAnswer(b, frame []byte) ([]byte, error) {
	key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
	if key != int16(kmsg.Produce) || version != produceVersion {
		return nil, fmt.Errorf("request %d of version %d", key, version)
	}
	if len(frame) < 10 {
		return nil, errors.New("the header ends early")
	}
	client := max(0, int(int16(binary.BigEndian.Uint16(frame[8:]))))
	if len(frame) < 10+client {
		return nil, errors.New("the header ends early")
	}
	req := kmsg.ProduceRequest{Version: version}
	if err := req.ReadFrom(frame[10+client:]); err != nil {
		return nil, err
	}
	if req.Acks == 0 {
		return b, nil
	}
	resp := kmsg.ProduceResponse{Version: version}
	for _, t := range req.Topics {
		topic := kmsg.ProduceResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, kmsg.ProduceResponseTopicPartition{Partition: p.Partition})
		}
		resp.Topics = append(resp.Topics, topic)
	}
	b = append(b, 0, 0, 0, 0)
	b = append(b, frame[4:8]...) // the correlation id
	b = resp.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b, nil
}

// sinkFile is the file that a connection writes to.
type sinkFile struct {
	file *os.File
	size int64
}

func (f *sinkFile) write(dir string, b []byte) error {
	if f.file == nil || f.size > sinkFileBytes-int64(len(b)) {
		if err := f.remove(); err != nil {
			return err
		}
		var err error
		if f.file, err = os.CreateTemp(dir, "firn-sink-*"); err != nil {
			return err
		}
		f.size = 0
	}
	if _, err := f.file.WriteAt(b, f.size); err != nil {
		return err
	}
	f.size += int64(len(b))
	return nil
}

func (f *sinkFile) remove() error {
	if f.file == nil {
		return nil
	}
	err := errors.Join(f.file.Close(), os.Remove(f.file.Name()))
	f.file = nil
	return err
}
