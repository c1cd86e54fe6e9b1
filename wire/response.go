// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// errBadResponse marks a response that does not fit its request: a fault of
// the broker, which costs the connection rather than confusing the client.
var errBadResponse = errors.New("response does not fit its request")

// appendMessage appends a whole frame for resp.Message: length field, response
// header, body.
func appendMessage(dst []byte, req *Request, resp *Response) ([]byte, error) {
	m := resp.Message
	fallback := req.Key == apiVersionsKey && m.GetVersion() == 0
	if m.Key() != req.Key || m.GetVersion() != req.Version && !fallback {
		return dst, fmt.Errorf("%w: key %d, version %d to a request of key %d, version %d",
			errBadResponse, m.Key(), m.GetVersion(), req.Key, req.Version)
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(req.CorrelationID))
	if m.IsFlexible() && req.Key != apiVersionsKey {
		dst = append(dst, 0)
	}
	dst = m.AppendTo(dst)
	n := len(dst) - start - lengthSize
	if n > math.MaxInt32 {
		return dst, fmt.Errorf("%w: %d bytes do not fit a 31-bit length", errBadResponse, n)
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(n))
	return dst, nil
}

// checkParts makes sure that parts are one frame that answers req, so that a
// slip above can never shift a client's view of the stream.
func checkParts(parts []Part, req *Request) error {
	var total int64
	for _, p := range parts {
		total += p.Len()
	}
	if len(parts) == 0 || len(parts[0].Bytes) < lengthSize+4 {
		return fmt.Errorf("%w: parts do not begin with a length and a correlation id", errBadResponse)
	}
	head := parts[0].Bytes
	if n := int64(int32(binary.BigEndian.Uint32(head))); n != total-lengthSize {
		return fmt.Errorf("%w: parts of %d bytes announce %d", errBadResponse, total-lengthSize, n)
	}
	if id := int32(binary.BigEndian.Uint32(head[lengthSize:])); id != req.CorrelationID {
		return fmt.Errorf("%w: correlation id %d to a request with %d", errBadResponse, id, req.CorrelationID)
	}
	return nil
}
