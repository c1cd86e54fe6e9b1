// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/internal/testutil"
	"firn/record/recordtest"
)

// goodFrames are requests of every API that is served, at its newest version,
// which the broker takes as they are.
func goodFrames(c *raw) map[string][]byte {
	c.t.Helper()
	frames := make(map[string][]byte)
	for key, versions := range served {
		req := kmsg.RequestForKey(key)
		req.SetVersion(versions[1])
		switch req := req.(type) {
		case *kmsg.ProduceRequest:
			req.Acks, req.TimeoutMillis = acksAll, 1000
			addRecords(req, "known", 0, recordtest.Batch(0, recordtest.Count(2)))
		case *kmsg.FetchRequest:
			*req = *fetchRequest(versions[1], fetchPartition{topic: fetchTopicOf(c, "known")})
		case *kmsg.MetadataRequest:
			topic := kmsg.NewMetadataRequestTopic()
			name := "known"
			topic.Topic = &name
			req.Topics = append(req.Topics, topic)
		case *kmsg.CreateTopicsRequest:
			req.ValidateOnly = true
			req.Topics = append(req.Topics, topicRequest("new", 1, 1, "retention.ms=1"))
		case *kmsg.DeleteTopicsRequest:
			topic := kmsg.NewDeleteTopicsRequestTopic()
			topic.TopicID = [16]byte{1, 2, 3}
			req.Topics = append(req.Topics, topic)
		case *kmsg.ListOffsetsRequest:
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Timestamp = 1
			topic := kmsg.NewListOffsetsRequestTopic()
			topic.Topic, topic.Partitions = "known", append(topic.Partitions, p)
			req.Topics = append(req.Topics, topic)
		case *kmsg.AlterConfigsRequest:
			req.ValidateOnly = true
			one := kmsg.NewAlterConfigsRequestResource()
			one.ResourceType, one.ResourceName = kmsg.ConfigResourceTypeTopic, "known"
			req.Resources = append(req.Resources, one)
		case *kmsg.IncrementalAlterConfigsRequest:
			req.ValidateOnly = true
			one := kmsg.NewIncrementalAlterConfigsRequestResource()
			one.ResourceType, one.ResourceName = kmsg.ConfigResourceTypeTopic, "known"
			req.Resources = append(req.Resources, one)
		case *kmsg.CreatePartitionsRequest:
			req.ValidateOnly = true
			one := kmsg.NewCreatePartitionsRequestTopic()
			one.Topic, one.Count = "known", 2
			req.Topics = append(req.Topics, one)
		case *kmsg.DeleteRecordsRequest:
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			topic := kmsg.NewDeleteRecordsRequestTopic()
			topic.Topic, topic.Partitions = "known", append(topic.Partitions, p)
			req.Topics = append(req.Topics, topic)
		case *kmsg.DescribeConfigsRequest:
			one := kmsg.NewDescribeConfigsRequestResource()
			one.ResourceType, one.ResourceName, one.ConfigNames = kmsg.ConfigResourceTypeTopic, "known", []string{"retention.ms"}
			req.Resources = append(req.Resources, one)
		}
		frames[kmsg.NameForKey(key)] = c.frame(req)
	}
	return frames
}

// end ends the writing side and reads until the broker closes as well.
func (c *raw) end(why string) {
	c.t.Helper()
	if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) && !isReset(err) {
		c.t.Fatalf("%s: end the connection: %v", why, err)
	}
	if err := c.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c.conn); errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("%s: the broker keeps the connection open", why)
	}
	_ = c.conn.Close() // nothing is left on it
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}

// wantHealthy asks a connection that was there before the attack, and a new
// one, for something that takes the whole broker.
func wantHealthy(t testing.TB, b *testutil.Broker, bystander *raw) {
	t.Helper()
	for _, c := range []*raw{bystander, dialRaw(t, b.Addr)} {
		wantCode(t, "produce", produceRaw(c, "known", recordtest.Batch(0)).ErrorCode, nil)
	}
	if s := statusOf(t, b); !s.Ready {
		t.Errorf("the broker is not ready: %+v", s)
	}
}

// A frame that ends early, anywhere, costs its own connection and nothing
// else.
func TestTruncatedFrames(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "known", 1)
	bystander := dialRaw(t, b.Addr)
	for name, frame := range goodFrames(bystander) {
		for cut := range len(frame) {
			if cut > 40 && cut%7 != 0 {
				continue
			}
			c := dialRaw(t, b.Addr)
			c.write(frame[:cut])
			c.end(fmt.Sprintf("%s cut at %d", name, cut))

			// The same with a length that is true: the fault is inside.
			if cut < 14 {
				continue
			}
			short := bytes.Clone(frame[:cut])
			binary.BigEndian.PutUint32(short, uint32(cut-4))
			c = dialRaw(t, b.Addr)
			c.write(short)
			c.end(fmt.Sprintf("%s short by %d", name, len(frame)-cut))
		}
	}
	wantHealthy(t, b, bystander)
	if end := endOffset(t, b, "known", 0); end != 2 {
		t.Errorf("truncated frames appended: the log ends at %d, want 2", end)
	}
}

// A frame with flipped bits is refused or is another good one; either way
// nobody else notices.
func TestBitFlippedFrames(t *testing.T) {
	b := testutil.StartBroker(t, map[string]string{"auto.create.topics.enable": "false"})
	createTopic(t, b, "known", 1)
	bystander := dialRaw(t, b.Addr)
	random := rand.New(rand.NewPCG(3, 4))
	for _, frame := range goodFrames(bystander) {
		for range 150 {
			bad := bytes.Clone(frame)
			for range 1 + random.IntN(3) {
				at := 4 + random.IntN(len(bad)-4) // the length has a test of its own
				bad[at] ^= 1 << random.IntN(8)
			}
			c := dialRaw(t, b.Addr)
			c.write(bad)
			// A wait in it may have become hours: it is not waited for.
			if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil && !isReset(err) {
				t.Fatal(err)
			}
			_ = c.conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // it is a connection
			_, _ = io.Copy(io.Discard, c.conn)                                // whatever comes
			_ = c.conn.Close()                                                // nothing is left on it
		}
	}
	wantHealthy(t, b, bystander)
	// What was appended on the way is whole.
	c := dialRaw(t, b.Addr)
	topic := fetchTopicOf(c, "known")
	next := listOffsetRaw(c, newestListOffsets, "known", 0, -2).Offset // records may have been deleted, too
	for end := endOffset(t, b, "known", 0); next < end; {
		headers := headersOf(t, fetchData(c, fetchRequest(newestFetch, fetchPartition{topic: topic, offset: next})).RecordBatches)
		next = int64(headers[len(headers)-1].NextOffset())
	}
}

// Bytes of another protocol, and of none.
func TestGarbage(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "known", 1)
	bystander := dialRaw(t, b.Addr)
	random := rand.New(rand.NewPCG(5, 6))
	garbage := [][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: firn\r\n\r\n"),
		[]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello"),
		[]byte("SSH-2.0-OpenSSH_9.9\r\n"),
		make([]byte, 1000),
		bytes.Repeat([]byte{0xff}, 1000),
	}
	for range 200 {
		b := make([]byte, 1+random.IntN(400))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		garbage = append(garbage, b, framed(b))
	}
	for i, g := range garbage {
		c := dialRaw(t, b.Addr)
		if _, err := c.conn.Write(g); err != nil && !isReset(err) {
			t.Fatal(err)
		}
		c.end(fmt.Sprintf("garbage %d", i))
	}
	wantHealthy(t, b, bystander)
}

// A length that no request may have is refused before anything is read for it.
func TestFrameLengths(t *testing.T) {
	b := testutil.StartBroker(t, map[string]string{"socket.request.max.bytes": "1MiB"})
	createTopic(t, b, "known", 1, "max.message.bytes=5000000")
	bystander := dialRaw(t, b.Addr)
	for _, length := range []uint32{0, 1, 9, 1<<20 + 1, 100 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		c := dialRaw(t, b.Addr)
		c.write(binary.BigEndian.AppendUint32(nil, length))
		c.wantClosed(fmt.Sprintf("length %d", length))
	}
	// At the limit it passes, beyond it a client is cut off.
	fits := recordtest.Batch(0, recordtest.ValueSize(1, 1<<20-300))
	wantCode(t, "a request at the limit", produceRaw(bystander, "known", fits).ErrorCode, nil)
	c := dialRaw(t, b.Addr)
	frame := c.frame(produceRequest(newestProduce, acksAll, "known", 0, recordtest.Batch(0, recordtest.ValueSize(1, 1<<20))))
	if _, err := c.conn.Write(frame); err != nil && !isReset(err) {
		t.Fatal(err)
	}
	c.wantClosed("a request over the limit")
	wantHealthy(t, b, bystander)
}

// Hundreds of connections that began a frame and do not go on hold nobody up,
// even where they announce more memory than there is.
func TestHalfOpenConnections(t *testing.T) {
	b := testutil.StartBroker(t, map[string]string{"fetch.send.timeout.ms": "2s", "queued.max.request.bytes": "100MiB"})
	createTopic(t, b, "known", 1)
	bystander := dialRaw(t, b.Addr)
	frames := goodFrames(bystander)
	for i := range 500 {
		c := dialRaw(t, b.Addr)
		switch i % 5 {
		case 0: // says nothing
		case 1:
			c.write([]byte{0, 0})
		case 2:
			c.write(frames["Metadata"][:20])
		case 3:
			c.write(binary.BigEndian.AppendUint32(nil, 50<<20))
		case 4:
			c.write(append(binary.BigEndian.AppendUint32(nil, 50<<20), make([]byte, 1000)...))
		}
	}
	wantHealthy(t, b, bystander)
	// A large request may have to wait until the stalled ones are cut off.
	large := recordtest.Batch(0, recordtest.ValueSize(1, 1<<20-200))
	wantCode(t, "a large request", produceRaw(bystander, "known", large).ErrorCode, nil)
	if r := b.Stop(); r.Code != 0 {
		t.Errorf("with half-open connections the broker stops with code %d", r.Code)
	}
}

// Clients that ask for much and read nothing do not hold up others, nor the
// broker's end.
func TestClientsThatDoNotRead(t *testing.T) {
	b := testutil.StartBroker(t, map[string]string{"fetch.send.timeout.ms": "2s"})
	createTopic(t, b, "known", 1)
	bystander := dialRaw(t, b.Addr)
	for range 20 {
		wantCode(t, "produce", produceRaw(bystander, "known", recordtest.Batch(0, recordtest.ValueSize(1, 1<<20-200))).ErrorCode, nil)
	}
	topic := fetchTopicOf(bystander, "known")
	req := fetchRequest(newestFetch, fetchPartition{topic: topic, maxBytes: 50 << 20})
	var deaf []*raw
	for range 20 {
		c := dialRaw(t, b.Addr)
		for range 5 {
			c.send(req)
		}
		deaf = append(deaf, c)
	}
	var reading sync.WaitGroup
	for range 4 {
		c := dialRaw(t, b.Addr)
		reading.Go(func() {
			for range 3 {
				if got := fetched(c, req)[0]; len(got.RecordBatches) < 20<<20-20*200 {
					t.Errorf("%d bytes", len(got.RecordBatches))
				}
			}
		})
	}
	reading.Wait()
	wantHealthy(t, b, bystander)
	for i, c := range deaf {
		c.end(fmt.Sprintf("deaf client %d", i))
	}
	if r := b.Stop(); r.Code != 0 {
		t.Errorf("the broker stops with code %d", r.Code)
	}
}

// The bounds on connections hold, and free places are given again.
func TestConnectionLimits(t *testing.T) {
	b := testutil.StartBroker(t, map[string]string{"max.connections.per.ip": "5"})
	var open []*raw
	waitFor(t, "five places", func() (bool, any) {
		for _, c := range open {
			_ = c.conn.Close() // they are open
		}
		open = nil
		for range 5 {
			c := dialRaw(t, b.Addr)
			c.send(kmsg.NewPtrApiVersionsRequest())
			if _, err := c.readFrame(); err != nil {
				return false, err
			}
			open = append(open, c)
		}
		return true, nil
	})
	sixth := dialRaw(t, b.Addr)
	sixth.wantClosed("a sixth connection")
	_ = open[0].conn.Close() // it is open
	waitFor(t, "the freed place", func() (bool, any) {
		c := dialRaw(t, b.Addr)
		if _, err := c.conn.Write(c.frame(kmsg.NewPtrApiVersionsRequest())); err != nil {
			return false, err
		}
		_, err := c.readFrame()
		return err == nil, err
	})
}
