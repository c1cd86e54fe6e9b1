// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// lengthSize is the length field ahead of every frame.
	lengthSize = 4
	// minFrame is the shortest request: key, version, correlation id and an
	// absent client id.
	minFrame = 10
)

// Reasons to close a connection that lie in what it sent.
var (
	errMalformed   = errors.New("malformed frame")
	errUnsupported = errors.New("unsupported request")
)

// header is what comes ahead of a request's body.
type header struct {
	key, version  int16
	correlationID int32
	clientID      []byte // aliases the frame; nil when null
}

// parseHeader reads the part of a request header that all versions share and
// returns what follows it.
func parseHeader(frame []byte) (header, []byte, error) {
	if len(frame) < minFrame {
		return header{}, nil, fmt.Errorf("%w: %d bytes are too short for a request header", errMalformed, len(frame))
	}
	h := header{
		key:           int16(binary.BigEndian.Uint16(frame)),
		version:       int16(binary.BigEndian.Uint16(frame[2:])),
		correlationID: int32(binary.BigEndian.Uint32(frame[4:])),
	}
	n := int(int16(binary.BigEndian.Uint16(frame[8:])))
	rest := frame[minFrame:]
	switch {
	case n == -1:
		return h, rest, nil
	case n < 0 || n > len(rest):
		return header{}, nil, fmt.Errorf("%w: client id of %d bytes in a header with %d left", errMalformed, n, len(rest))
	}
	h.clientID = rest[:n:n]
	return h, rest[n:], nil
}

// skipTags returns what follows the tagged fields at the start of b. No tag of
// a request header has a meaning to a broker.
func skipTags(b []byte) ([]byte, error) {
	count, b, err := uvarint(b)
	if err != nil {
		return nil, fmt.Errorf("read the number of header tags: %w", err)
	}
	for ; count > 0; count-- {
		if _, b, err = uvarint(b); err != nil {
			return nil, fmt.Errorf("read a header tag: %w", err)
		}
		var size uint32
		if size, b, err = uvarint(b); err != nil {
			return nil, fmt.Errorf("read a header tag's size: %w", err)
		}
		if uint64(size) > uint64(len(b)) {
			return nil, fmt.Errorf("%w: header tag of %d bytes with %d left", errMalformed, size, len(b))
		}
		b = b[size:]
	}
	return b, nil
}

func uvarint(b []byte) (uint32, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > math.MaxUint32 {
		return 0, nil, fmt.Errorf("%w: bad variable-length number", errMalformed)
	}
	return uint32(v), b[n:], nil
}

// decode turns a frame into a Request whose Conn and Received are left to the
// caller, and whose ClientID is intern(the bytes of the client id). The error
// wraps errMalformed or errUnsupported.
func decode(frame []byte, table Table, intern func([]byte) string) (*Request, error) {
	h, rest, err := parseHeader(frame)
	if err != nil {
		return nil, err
	}
	msg := kmsg.RequestForKey(h.key)
	if msg == nil {
		return nil, fmt.Errorf("%w: unknown key %d, version %d", errUnsupported, h.key, h.version)
	}
	versions, known := table[h.key]
	supported := known && versions.Contains(h.version)
	if !supported && h.key != apiVersionsKey {
		return nil, fmt.Errorf("%w: key %d (%s), version %d", errUnsupported, h.key, kmsg.NameForKey(h.key), h.version)
	}
	msg.SetVersion(h.version)
	if msg.IsFlexible() {
		if rest, err = skipTags(rest); err != nil {
			return nil, err
		}
	}
	r := &Request{
		Key: h.key, Version: h.version, CorrelationID: h.correlationID, ClientID: intern(h.clientID),
		Body: rest, Unsupported: !supported,
	}
	if !supported {
		return r, nil
	}
	if err := readMessage(msg, rest); err != nil {
		return nil, fmt.Errorf("decode key %d (%s), version %d: %w", h.key, kmsg.NameForKey(h.key), h.version, err)
	}
	r.Message = msg
	return r, nil
}

// readMessage decodes a body. A panic of the decoder is one more way for a
// body to be malformed: it must not take the broker down.
func readMessage(msg kmsg.Request, body []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: decoder panicked: %v", errMalformed, p)
		}
	}()
	if err := msg.ReadFrom(body); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return nil
}
