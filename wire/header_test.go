// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func asString(b []byte) string { return string(b) }

// TestDecodeEveryVersion decodes what kmsg encodes, for every key and version
// it knows, with and without tags in the header.
func TestDecodeEveryVersion(t *testing.T) {
	table := Table{}
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		if req := kmsg.RequestForKey(key); req != nil {
			table[key] = Versions{Min: 0, Max: req.MaxVersion()}
		}
	}
	const controlledShutdown = 7 // its version 0 has a header of its own
	for key, versions := range table {
		for v := versions.Min; v <= versions.Max; v++ {
			if key == controlledShutdown && v == 0 {
				continue
			}
			req := kmsg.RequestForKey(key)
			if d, ok := req.(interface{ Default() }); ok {
				d.Default()
			}
			req.SetVersion(v)
			frame := encode(77, req)[lengthSize:]
			got, err := decode(frame, table, asString)
			if err != nil {
				t.Errorf("key %d version %d: %v", key, v, err)
				continue
			}
			if got.Key != key || got.Version != v || got.CorrelationID != 77 || got.ClientID != "tester" || got.Unsupported {
				t.Errorf("key %d version %d: got %+v", key, v, got)
			}
			if want := req.AppendTo(nil); !bytes.Equal(got.Body, want) {
				t.Errorf("key %d version %d: body %x, want %x", key, v, got.Body, want)
			}
			if again := got.Message.AppendTo(nil); !bytes.Equal(again, got.Body) {
				t.Errorf("key %d version %d: message encodes to %x, want %x", key, v, again, got.Body)
			}
		}
	}
}

// rawHeader builds a header by hand.
func rawHeader(key, version int16, clientID []byte, null bool, rest ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 5)
	if null {
		b = binary.BigEndian.AppendUint16(b, math.MaxUint16)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(clientID)))
		b = append(b, clientID...)
	}
	return append(b, rest...)
}

func TestDecodeHeaders(t *testing.T) {
	tooLong := rawHeader(18, 0, nil, false)
	binary.BigEndian.PutUint16(tooLong[8:], 300)
	negative := rawHeader(18, 0, nil, false)
	binary.BigEndian.PutUint16(negative[8:], uint16(0xFFFE))
	tests := []struct {
		name  string
		frame []byte
		want  error
		check func(r *Request) bool
	}{
		{"null client id", rawHeader(18, 0, nil, true), nil, func(r *Request) bool { return r.ClientID == "" && r.Message != nil }},
		{"tags are skipped", rawHeader(3, 12, []byte("c"), false, append([]byte{2, 0, 1, 9, 200, 1, 0}, metadataRequest(12, "t").AppendTo(nil)...)...), nil,
			func(r *Request) bool { return *r.Message.(*kmsg.MetadataRequest).Topics[0].Topic == "t" }},
		{"newer ApiVersions", rawHeader(18, 99, nil, true, 0, 1, 2, 3), nil,
			func(r *Request) bool {
				return r.Unsupported && r.Message == nil && r.Version == 99 && bytes.Equal(r.Body, []byte{1, 2, 3})
			}},
		{"negative ApiVersions", rawHeader(18, -1, nil, true), nil, func(r *Request) bool { return r.Unsupported && r.Version == -1 }},
		{"empty", nil, errMalformed, nil},
		{"short", make([]byte, minFrame-1), errMalformed, nil},
		{"client id too long", tooLong, errMalformed, nil},
		{"client id of negative length", negative, errMalformed, nil},
		{"no tags where there must be", rawHeader(3, 12, nil, true), errMalformed, nil},
		{"endless tag number", rawHeader(3, 12, nil, true, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), errMalformed, nil},
		{"tag number over 32 bits", rawHeader(3, 12, nil, true, 0xff, 0xff, 0xff, 0xff, 0x7f), errMalformed, nil},
		{"tag past the end", rawHeader(3, 12, nil, true, 1, 0, 9, 1), errMalformed, nil},
		{"fewer tags than said", rawHeader(3, 12, nil, true, 3, 0, 0), errMalformed, nil},
		{"body too short", rawHeader(3, 1, nil, true, 0, 0), errMalformed, nil},
		{"unknown key", rawHeader(999, 0, nil, true), errUnsupported, nil},
		{"negative key", rawHeader(-5, 0, nil, true), errUnsupported, nil},
		{"key not served", rawHeader(11, 2, nil, true), errUnsupported, nil},
		{"version below", rawHeader(0, 2, nil, true), errUnsupported, nil},
		{"version above", rawHeader(3, 14, nil, true), errUnsupported, nil},
		{"negative version", rawHeader(3, -1, nil, true), errUnsupported, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := decode(tt.frame, testTable(), asString)
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Fatalf("got error %v, want %v", err, tt.want)
			}
			if tt.check != nil && !tt.check(r) {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// panicking is a request whose decoder panics.
type panicking struct{ kmsg.MetadataRequest }

func (*panicking) ReadFrom(b []byte) error { _ = b[len(b)]; return nil }

func TestDecoderPanicIsMalformed(t *testing.T) {
	if err := readMessage(&panicking{}, nil); !errors.Is(err, errMalformed) {
		t.Errorf("got %v", err)
	}
}

func TestCheckLength(t *testing.T) {
	for _, n := range []int64{minFrame, 100, 1 << 20} {
		if got, err := checkLength(binary.BigEndian.AppendUint32(nil, uint32(n)), 1<<20); err != nil || int64(got) != n {
			t.Errorf("length %d: got %d, %v", n, got, err)
		}
	}
	for _, n := range []int64{-1, math.MinInt32, 0, minFrame - 1, 1<<20 + 1, math.MaxInt32, 0x47455420} {
		if _, err := checkLength(binary.BigEndian.AppendUint32(nil, uint32(n)), 1<<20); !errors.Is(err, errMalformed) {
			t.Errorf("length %d: got %v", n, err)
		}
	}
}

func TestApiVersionsV0(t *testing.T) {
	resp := ApiVersionsV0(35, testTable().ApiKeys())
	req := &Request{Key: 18, Version: 99, CorrelationID: 4}
	b, err := appendMessage(nil, req, &Response{Message: resp})
	if err != nil {
		t.Fatal(err)
	}
	got := kmsg.NewPtrApiVersionsResponse()
	if err := got.ReadFrom(b[8:]); err != nil {
		t.Fatal(err)
	}
	if got.ErrorCode != 35 || len(got.ApiKeys) != 4 || got.ApiKeys[0].ApiKey != 0 || got.ApiKeys[3].ApiKey != 18 || got.ApiKeys[3].MaxVersion != 4 {
		t.Errorf("got %+v", got)
	}
}

func TestResponseHeaders(t *testing.T) {
	tests := []struct {
		key, version int16
		tags         bool
	}{{3, 8, false}, {3, 9, true}, {18, 0, false}, {18, 3, false}, {18, 4, false}, {0, 8, false}, {0, 9, true}}
	for _, tt := range tests {
		m := kmsg.ResponseForKey(tt.key)
		m.SetVersion(tt.version)
		want := binary.BigEndian.AppendUint32(nil, 9)
		if tt.tags {
			want = append(want, 0)
		}
		want = m.AppendTo(want)
		want = append(binary.BigEndian.AppendUint32(nil, uint32(len(want))), want...)
		got, err := appendMessage(nil, &Request{Key: tt.key, Version: tt.version, CorrelationID: 9}, &Response{Message: m})
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("key %d version %d: got %x, %v, want %x", tt.key, tt.version, got, err, want)
		}
	}
}

func TestResponsesThatDoNotFit(t *testing.T) {
	m := kmsg.NewPtrMetadataResponse()
	m.Version = 3
	for _, req := range []Request{{Key: 3, Version: 4}, {Key: 18, Version: 3}} {
		if _, err := appendMessage(nil, &req, &Response{Message: m}); !errors.Is(err, errBadResponse) {
			t.Errorf("%+v: got %v", req, err)
		}
	}
	good := []byte{0, 0, 0, 5, 0, 0, 0, 1, 7}
	req := &Request{CorrelationID: 1}
	if err := checkParts([]Part{{Bytes: good[:8]}, {Bytes: good[8:]}}, req); err != nil {
		t.Errorf("good parts: %v", err)
	}
	for name, parts := range map[string][]Part{
		"none":              nil,
		"short head":        {{Bytes: good[:7]}, {Bytes: good[7:]}},
		"too long":          {{Bytes: good}, {Bytes: good}},
		"other correlation": {{Bytes: []byte{0, 0, 0, 5, 0, 0, 0, 2, 7}}},
	} {
		if err := checkParts(parts, req); !errors.Is(err, errBadResponse) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
