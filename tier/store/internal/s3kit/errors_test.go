// SPDX-License-Identifier: Apache-2.0

package s3kit

import (
	"errors"
	"net"
	"strings"
	"testing"

	"firn/tier/store"
)

// TestErrors goes through what stores answer and networks do.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		op   store.Op
		err  error
		kind store.Kind
		says string
	}{
		{store.OpGet, api(404, "NoSuchKey"), store.NotFound, ""},
		{store.OpHead, api(404, ""), store.NotFound, ""},
		{store.OpList, api(404, "NoSuchBucket"), store.Permanent, "tier.s3.bucket"},
		{store.OpList, api(404, ""), store.Permanent, "no S3 store"},
		{store.OpPut, api(404, "NoSuchUpload"), store.Retriable, ""},
		{store.OpPut, api(412, ""), store.Exists, ""},
		{store.OpPut, api(409, "ConditionalRequestConflict"), store.Retriable, ""},
		{store.OpPut, api(200, "InternalError"), store.Retriable, ""},
		{store.OpPut, api(400, "InvalidRequest"), store.Permanent, ""},
		{store.OpPut, api(400, "BadDigest"), store.Retriable, ""},
		{store.OpPut, api(400, "EntityTooSmall"), store.Permanent, ""},
		{store.OpPut, api(400, "RequestTimeout"), store.Retriable, ""},
		{store.OpPut, api(501, "NotImplemented"), store.Permanent, "cannot do this"},
		{store.OpGet, api(403, "SignatureDoesNotMatch"), store.Permanent, "AWS_SECRET_ACCESS_KEY"},
		{store.OpGet, api(403, "InvalidAccessKeyId"), store.Permanent, "AWS_ACCESS_KEY_ID"},
		{store.OpGet, api(403, ""), store.Permanent, "access is denied"},
		{store.OpGet, api(401, ""), store.Permanent, "access is denied"},
		{store.OpGet, api(400, "ExpiredToken"), store.Retriable, "expired"},
		{store.OpGet, api(403, "RequestTimeTooSkewed"), store.Permanent, "clocks"},
		{store.OpGet, api(301, ""), store.Permanent, "tier.s3.region"},
		{store.OpGet, api(307, ""), store.Retriable, ""},
		{store.OpGet, api(429, ""), store.Retriable, ""},
		{store.OpGet, api(500, ""), store.Retriable, ""},
		{store.OpGet, api(503, "SlowDown"), store.Retriable, ""},
		{store.OpGet, api(599, "Whatever"), store.Retriable, ""},
		{store.OpGet, errors.New("unexpected EOF"), store.Retriable, ""},
		{store.OpGet, &net.DNSError{Err: "no such host", Name: "snow.store"}, store.Retriable, "does not resolve"},
		{store.OpGet, &net.OpError{Op: "dial", Err: errors.New("connection refused")}, store.Retriable, "cannot be reached"},
		{store.OpGet, errors.New("http: server gave HTTP response to HTTPS client"), store.Permanent, "http://"},
	} {
		err := newStore(nil).fail(t.Context(), c.op, "k", c.err)
		if store.KindOf(err) != c.kind || !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: got %v, which is %v, want %v and %q", c.err, err, store.KindOf(err), c.kind, c.says)
		}
		if !strings.Contains(err.Error(), `bucket "snow" at http://store:9000`) {
			t.Errorf("%v does not say where", err)
		}
	}
	for _, c := range []struct {
		err  error
		want error
	}{
		{api(404, "NoSuchBucket"), store.ErrNoBucket},
		{api(403, "SignatureDoesNotMatch"), store.ErrDenied},
		{api(401, ""), store.ErrDenied},
		{api(403, "RequestTimeTooSkewed"), nil},
		{api(404, "NoSuchKey"), store.ErrNotFound},
		{errors.New("unexpected EOF"), nil},
	} {
		err := newStore(nil).fail(t.Context(), store.OpList, "k", c.err)
		for _, reason := range []error{store.ErrNoBucket, store.ErrDenied, store.ErrNotFound} {
			if errors.Is(err, reason) != (reason == c.want) {
				t.Errorf("%v matches %v: %v", err, reason, errors.Is(err, reason))
			}
		}
	}
	unsigned := New(nil, Site{Kind: "fake", Endpoint: "http://store:9000", Unsigned: true}, testOptions())
	if err := unsigned.fail(t.Context(), store.OpGet, "k", api(403, "AccessDenied")); !strings.Contains(err.Error(), "no credentials were found") {
		t.Errorf("unsigned: %v", err)
	}
}
