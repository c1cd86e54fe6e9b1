// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/hot"
)

// ConnInfo says where a request came from.
type ConnInfo struct {
	// RemoteAddr is the peer's address, host:port.
	RemoteAddr string
	// Listener is the name given to Listen.
	Listener string
	// ID numbers the connections of a server from 1.
	ID uint64
}

// Request is one decoded request. It, Body and the byte slices inside Message
// alias a pooled buffer: they are valid until the Response to it was sent, or
// until Handle returns when that gives no Answer. Strings may be kept.
type Request struct {
	// Key and Version are as the client asked.
	Key, Version int16
	// CorrelationID is what the response must carry.
	CorrelationID int32
	// ClientID is empty when the client sent none.
	ClientID string
	// Body is what follows the header.
	Body []byte
	// Message is the decoded body, nil when Unsupported.
	Message kmsg.Request
	// Unsupported marks an ApiVersions request of a version outside the
	// Table, which Kafka answers in version 0 with an error: see
	// ApiVersionsV0. Other keys never reach the Handler unsupported.
	Unsupported bool
	// Conn says where the request came from.
	Conn ConnInfo
	// Received is when the frame was complete.
	Received time.Time
}

// Handler answers requests.
type Handler interface {
	// Handle runs on the connection's reader goroutine, in read order, and
	// nothing more is read from that connection before it returns: it does
	// what must be ordered, such as appends, and leaves what must wait to the
	// Answer. A nil Answer means that the client expects no response. An
	// error closes the connection once the answers before it are sent, and an
	// Answer beside it is ignored. The context ends when the connection fails
	// or the server is forced to stop; Handle must return soon after.
	Handle(ctx context.Context, r *Request) (Answer, error)
}

// Answer produces the response to a request. It is run exactly once, by the
// connection's writer, after all earlier answers of the connection were sent.
// When the connection has failed meanwhile it is run all the same, with a
// context that is done, so that it can give back what it holds. It must return
// soon after its context is done. A nil Response sends nothing; an error closes
// the connection.
type Answer func(ctx context.Context) (*Response, error)

// Response is an answer ready to be sent: either Message or Parts.
type Response struct {
	// Message is encoded behind a response header. Its key must be the
	// request's and its version too, but for ApiVersions, which may be
	// answered in version 0.
	Message kmsg.Response
	// Parts are a whole frame, length field and response header included, as
	// EncodeFetch makes it.
	Parts []Part
	// Bulk makes the response take turns with all other bulk responses, so
	// that it does not delay answers at the tail. It is set for everything
	// that is not a tail answer.
	Bulk bool
	// Appended, if not zero, is when the oldest batch in an answer at the tail
	// was appended, for the metric of the delivery.
	Appended time.Time
	// Done, if not nil, is called exactly once when nothing of the response
	// is needed any more. sent says whether all of it was handed to the
	// kernel. It releases Regions and buffers.
	Done func(sent bool)
}

func (r *Response) done(sent bool) {
	if r != nil && r.Done != nil {
		r.Done(sent)
	}
}

// Part is a piece of a response: either Bytes or a Region, sent whole. The
// sender does not release Regions; see ReleaseParts.
type Part struct {
	Bytes  []byte
	Region *hot.Region
}

// Len is the size of the part in bytes.
func (p Part) Len() int64 {
	if p.Region != nil {
		return p.Region.Len()
	}
	return int64(len(p.Bytes))
}

// ReleaseParts releases every Region among parts. It is for use in
// Response.Done, once.
func ReleaseParts(parts []Part) {
	for _, p := range parts {
		if p.Region != nil {
			p.Region.Release()
		}
	}
}

// ChunkReader reads what a Region promised to be in the page cache and is not
// there any more, by means that do not disturb the cache.
type ChunkReader interface {
	// ReadChunk fills p from off, relative to the region, as io.ReaderAt
	// does: n < len(p) comes with an error. It may be called concurrently
	// and returns soon after ctx is done.
	ReadChunk(ctx context.Context, r *hot.Region, p []byte, off int64) (int, error)
}

// uncached is the ChunkReader of a server that was given none.
type uncached struct{}

func (uncached) ReadChunk(ctx context.Context, r *hot.Region, p []byte, off int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return r.ReadUncachedAt(p, off)
}

// ApiVersionsV0 is the answer to an ApiVersions request of an unknown version
// (Request.Unsupported): version 0, which every client can read, with the
// given error code and keys. The client then asks again in a version that it
// found in the list.
func ApiVersionsV0(errorCode int16, keys []kmsg.ApiVersionsResponseApiKey) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 0
	resp.ErrorCode = errorCode
	resp.ApiKeys = keys
	return resp
}
