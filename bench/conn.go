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
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/record"
)

const (
	// The versions that raw frames have: the last before tagged fields, and
	// the last in which a fetch names its topic.
	produceVersion     = 8
	fetchVersion       = 11
	listOffsetsVersion = 4

	maxFrameBytes = 256 << 20
	clientID      = "firn-bench"
	dialTime      = 10 * time.Second
	// requestTimeout is what a request tells the broker.
	requestTimeout = 30 * time.Second
)

// conn is a plain connection that pipelines: one goroutine may send while
// another receives. It ends when its context does.
type conn struct {
	nc      net.Conn
	in      *bufio.Reader
	format  *kmsg.RequestFormatter
	stop    func() bool
	sent    int32
	out     []byte
	got     int32
	scratch []byte
}

// dial connects; after the end of ctx every call fails.
func dial(ctx context.Context, address string) (*conn, error) {
	d := net.Dialer{Timeout: dialTime}
	nc, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c := &conn{
		nc: nc, in: bufio.NewReaderSize(nc, 64<<10),
		format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)),
	}
	c.stop = context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) }) // a closed connection fails as well
	return c, nil
}

func (c *conn) close() {
	c.stop()
	_ = c.nc.Close() // nothing is left to be lost
}

// encode makes a frame that sendFrame can send as often as wanted.
func (c *conn) encode(req kmsg.Request) []byte { return c.format.AppendRequest(nil, req, 0) }

// correlationAt is where a frame has its correlation id.
const correlationAt = 8

// sendFrame sends an encoded frame and changes its correlation id in place.
func (c *conn) sendFrame(frame []byte) error {
	c.sent++
	binary.BigEndian.PutUint32(frame[correlationAt:], uint32(c.sent))
	if _, err := c.nc.Write(frame); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

func (c *conn) send(req kmsg.Request) error {
	c.out = c.format.AppendRequest(c.out[:0], req, 0)
	return c.sendFrame(c.out)
}

// receive reads the next answer. What resp aliases is valid until the next
// call.
func (c *conn) receive(resp kmsg.Response) error {
	var head [8]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	size := int64(binary.BigEndian.Uint32(head[:])) - 4
	c.got++
	if correlation := int32(binary.BigEndian.Uint32(head[4:])); correlation != c.got {
		return fmt.Errorf("receive: the answer is to request %d, want %d", correlation, c.got)
	}
	if size < 0 || size > maxFrameBytes {
		return fmt.Errorf("receive: a frame of %d bytes", size)
	}
	if int64(cap(c.scratch)) < size {
		c.scratch = make([]byte, size)
	}
	body := c.scratch[:size]
	if _, err := io.ReadFull(c.in, body); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if err := resp.ReadFrom(body); err != nil {
		return fmt.Errorf("decode the answer: %w", err)
	}
	return nil
}

func (c *conn) call(req kmsg.Request, resp kmsg.Response) error {
	if err := c.send(req); err != nil {
		return err
	}
	return c.receive(resp)
}

// produceRequest asks to append one batch.
func produceRequest(topic string, partition int32, acks int16, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = produceVersion, acks, int32(requestTimeout.Milliseconds())
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// receiveProduced reads the answer to a produceRequest.
func (c *conn) receiveProduced() error {
	resp := kmsg.ProduceResponse{Version: produceVersion}
	if err := c.receive(&resp); err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("produce to %s-%d: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return nil
}

// fetchRequest asks one partition for what it has at an offset.
type fetchRequest struct {
	topic     string
	partition int32
	offset    record.Offset
	maxBytes  int32
	minBytes  int32
	maxWait   time.Duration
}

// fetched is the answer; batches is valid until the connection's next call.
type fetched struct {
	batches       []byte
	highWatermark record.Offset
}

func (f *fetchRequest) message() *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes = fetchVersion, f.maxBytes, f.minBytes
	req.MaxWaitMillis, req.SessionEpoch = int32(f.maxWait.Milliseconds()), -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = f.partition, int64(f.offset), f.maxBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = f.topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func (c *conn) fetch(f fetchRequest) (fetched, error) {
	resp := kmsg.FetchResponse{Version: fetchVersion}
	if err := c.call(f.message(), &resp); err != nil {
		return fetched{}, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fetched{}, fmt.Errorf("fetch: %w", err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return fetched{}, errors.New("fetch: the answer has not the one partition that was asked for")
	}
	p := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return fetched{}, fmt.Errorf("fetch %s-%d at offset %d: %w", f.topic, f.partition, f.offset, err)
	}
	return fetched{p.RecordBatches, record.Offset(p.HighWatermark)}, nil
}

// The times that listOffset takes.
const (
	latest   = -1
	earliest = -2
)

func (c *conn) listOffset(topic string, partition int32, timestamp int64) (record.Offset, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = listOffsetsVersion
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, timestamp
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp := kmsg.ListOffsetsResponse{Version: listOffsetsVersion}
	if err := c.call(req, &resp); err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, errors.New("list offsets: the answer has not the one partition that was asked for")
	}
	got := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return 0, fmt.Errorf("list offsets of %s-%d: %w", topic, partition, err)
	}
	return record.Offset(got.Offset), nil
}
