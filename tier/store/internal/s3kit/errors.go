// SPDX-License-Identifier: Apache-2.0

package s3kit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"firn/tier/store"
)

// APIError is an error that the store answered.
type APIError struct {
	// Status is the HTTP status, 0 if the driver does not know it.
	Status int
	// Code is S3's code; empty when the answer had no body, as to HEAD.
	Code string
	// Message is the store's own sentence.
	Message string
	// Err is the driver's error.
	Err error
}

func (e *APIError) Error() string {
	return strings.TrimRight(fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message), ": ")
}

// Unwrap is the driver's error.
func (e *APIError) Unwrap() error { return e.Err }

// codes says what S3's error codes mean for us, where the status alone does not
// tell. The sentence is what an operator should check, if there is anything.
var codes = map[string]struct {
	kind  store.Kind
	check string
}{
	"NoSuchKey":                    {store.NotFound, ""},
	"NoSuchBucket":                 {store.Permanent, "the bucket does not exist: check tier.s3.bucket and tier.s3.endpoint, or make it with firn tier init --create-bucket"},
	"NoSuchUpload":                 {store.Retriable, ""},
	"PreconditionFailed":           {store.Exists, ""},
	"ConditionalRequestConflict":   {store.Retriable, ""},
	"OperationAborted":             {store.Retriable, ""},
	"AccessDenied":                 {store.Permanent, "access is denied: check that the credentials may list, read, write and delete in this bucket"},
	"Forbidden":                    {store.Permanent, "access is denied: check the credentials, and that they may list, read, write and delete in this bucket"},
	"SignatureDoesNotMatch":        {store.Permanent, "the secret key is wrong: check AWS_SECRET_ACCESS_KEY or tier.s3.secret.access.key"},
	"InvalidAccessKeyId":           {store.Permanent, "the access key is unknown there: check AWS_ACCESS_KEY_ID or tier.s3.access.key.id, and tier.s3.endpoint"},
	"XAdminUserNotFound":           {store.Permanent, "the access key is unknown there: check AWS_ACCESS_KEY_ID or tier.s3.access.key.id, and tier.s3.endpoint"},
	"InvalidToken":                 {store.Permanent, "the session token is not valid: check AWS_SESSION_TOKEN"},
	"ExpiredToken":                 {store.Retriable, "the session token has expired: renew the credentials"},
	"TokenRefreshRequired":         {store.Retriable, "the session token has expired: renew the credentials"},
	"RequestTimeTooSkewed":         {store.Permanent, "the clocks differ too much: check the time of this machine"},
	"AuthorizationHeaderMalformed": {store.Permanent, "the signature is for another region: check tier.s3.region"},
	"PermanentRedirect":            {store.Permanent, "the bucket is in another region: check tier.s3.region and tier.s3.endpoint"},
	"InvalidBucketName":            {store.Permanent, "the bucket's name is not allowed: check tier.s3.bucket"},
	"BucketAlreadyExists":          {store.Permanent, "the bucket's name is taken by somebody else: choose another tier.s3.bucket"},
	"RequestTimeout":               {store.Retriable, ""},
	"SlowDown":                     {store.Retriable, ""},
	"InternalError":                {store.Retriable, ""},
	"ServiceUnavailable":           {store.Retriable, ""},
	// A body that arrived otherwise than it was sent.
	"BadDigest":                   {store.Retriable, ""},
	"IncompleteBody":              {store.Retriable, ""},
	"XAmzContentSHA256Mismatch":   {store.Retriable, ""},
	"XAmzContentChecksumMismatch": {store.Retriable, ""},
}

// fail makes a *store.Error of what a request ended with.
func (s *Store) fail(ctx context.Context, op store.Op, key string, err error) error {
	kind, check := classify(op, err)
	var api *APIError
	if s.site.Unsigned && errors.As(err, &api) && (api.Status == http.StatusForbidden || api.Status == http.StatusUnauthorized) {
		check = "no credentials were found, so that requests are not signed: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or tier.s3.access.key.id and tier.s3.secret.access.key"
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		kind, check = store.Retriable, ""
		if !errors.Is(err, ctxErr) {
			err = fmt.Errorf("%w: %w", ctxErr, err)
		}
	}
	if check != "" {
		check += ": "
	}
	return &store.Error{Op: op, Key: key, Kind: kind, Reason: reason(err), Err: fmt.Errorf("bucket %q at %s: %s%w", s.o.Bucket, s.site.Endpoint, check, err)}
}

// reason tells whether the bucket is missing or the access denied.
func reason(err error) error {
	var api *APIError
	switch {
	case !errors.As(err, &api):
		return nil
	case api.Code == "NoSuchBucket":
		return store.ErrNoBucket
	case api.Code == "RequestTimeTooSkewed": // 403 for another fault
		return nil
	case api.Status == http.StatusForbidden, api.Status == http.StatusUnauthorized,
		api.Code == "InvalidAccessKeyId", api.Code == "XAdminUserNotFound", api.Code == "InvalidToken": // some stores say 400 or 404
		return store.ErrDenied
	}
	return nil
}

// isKind says whether a driver's error is of this kind; nil is of none.
func isKind(op store.Op, err error, want store.Kind) bool {
	if err == nil {
		return false
	}
	kind, _ := classify(op, err)
	return kind == want
}

// classify tells the kind of a driver's error, and what an operator should
// check, if there is anything.
func classify(op store.Op, err error) (store.Kind, string) {
	var api *APIError
	if errors.As(err, &api) {
		return classifyAnswer(op, api)
	}
	return classifyPath(err)
}

func classifyAnswer(op store.Op, e *APIError) (store.Kind, string) {
	if c, ok := codes[e.Code]; ok {
		return c.kind, c.check
	}
	switch {
	case e.Status == http.StatusNotFound && (op == store.OpGet || op == store.OpHead):
		return store.NotFound, ""
	case e.Status == http.StatusNotFound:
		return store.Permanent, "what answers there is no S3 store, or has no such bucket: check tier.s3.endpoint, tier.s3.bucket and tier.s3.path.style"
	case e.Status == http.StatusPreconditionFailed:
		return store.Exists, ""
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		c := codes["Forbidden"]
		return c.kind, c.check
	case e.Status == http.StatusMovedPermanently:
		c := codes["PermanentRedirect"]
		return c.kind, c.check
	case e.Status == http.StatusNotImplemented:
		return store.Permanent, "the store cannot do this"
	case e.Status == http.StatusTemporaryRedirect, e.Status == http.StatusRequestTimeout,
		e.Status == http.StatusTooManyRequests, e.Status >= http.StatusInternalServerError:
		return store.Retriable, ""
	}
	return store.Permanent, ""
}

// classifyPath looks at errors of the way to the store. Most of them pass.
func classifyPath(err error) (store.Kind, string) {
	var (
		unknown *tls.CertificateVerificationError
		host    x509.HostnameError
		dns     *net.DNSError
		op      *net.OpError
	)
	switch {
	case errors.As(err, &unknown), errors.As(err, &host):
		return store.Permanent, "the store's certificate is not trusted: check tier.s3.endpoint and the certificates of this machine"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return store.Permanent, "the store speaks plain HTTP: check whether tier.s3.endpoint should begin with http://"
	case errors.As(err, &dns):
		return store.Retriable, "the store's name does not resolve: check tier.s3.endpoint and tier.s3.path.style"
	case errors.As(err, &op) && op.Op == "dial":
		return store.Retriable, "the store cannot be reached: check tier.s3.endpoint and that it is running"
	}
	return store.Retriable, ""
}
