// SPDX-License-Identifier: Apache-2.0

package s3kit

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"firn/internal/bulk"
)

const (
	// minPart is the smallest part of a multipart upload that S3 takes.
	minPart = 5 << 20
	// maxSingle is the largest body that S3 takes in one request.
	maxSingle = 5 << 30
	// maxParts is the most parts of one upload.
	maxParts = 10_000
)

// Options says which bucket, and how to talk to it.
type Options struct {
	// Endpoint is the store's address, http://host[:port] or
	// https://host[:port]. Empty: Amazon S3, in Region.
	Endpoint string
	// Region is what requests are signed for. Empty: what the environment or
	// the shared configuration say, else us-east-1.
	Region string
	// Bucket is the bucket's name. Required.
	Bucket string
	// PathStyle puts the bucket into the path of the address instead of its
	// host name. Most stores beside Amazon's want it.
	PathStyle bool

	// AccessKey, SecretKey and SessionToken, when AccessKey is set, are used
	// instead of the default credential chain.
	AccessKey, SecretKey, SessionToken string

	// MultipartBytes is the size above which a body goes up in parts.
	// 0: 16 MiB.
	MultipartBytes int64
	// PartBytes is the size of a part, at least 5 MiB. 0: 16 MiB.
	PartBytes int64
	// MaxUploads is how many large bodies or parts are in memory at once;
	// further Puts wait. 0: 4.
	MaxUploads int
	// MaxUploadConns and MaxDownloadConns bound the connections for GetRange
	// and for everything else; they do not share any. 0: 16 and 64.
	MaxUploadConns, MaxDownloadConns int

	// Turns are taken by everything that moves over the connections. nil: none.
	Turns *bulk.Turns
}

// FromEnv fills in what is empty from the variables that Amazon's tools use.
// An endpoint that comes from there is taken to want PathStyle, unless it is
// Amazon's. getenv is os.Getenv, or a test's.
func (o *Options) FromEnv(getenv func(string) string) {
	if o.Endpoint == "" {
		o.Endpoint = cmp.Or(getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"))
		o.PathStyle = o.PathStyle || o.Endpoint != "" && !Amazon(o.Endpoint)
	}
	o.Region = cmp.Or(o.Region, getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"))
}

// Amazon says whether an endpoint is one of Amazon's own.
func Amazon(endpoint string) bool { return strings.Contains(endpoint, ".amazonaws.com") }

// EnsureDefaults fills in what is zero, apart from Endpoint and Region.
func (o *Options) EnsureDefaults() {
	o.MultipartBytes = cmp.Or(o.MultipartBytes, 16<<20)
	o.PartBytes = cmp.Or(o.PartBytes, 16<<20)
	o.MaxUploads = cmp.Or(o.MaxUploads, 4)
	o.MaxUploadConns = cmp.Or(o.MaxUploadConns, 16)
	o.MaxDownloadConns = cmp.Or(o.MaxDownloadConns, 64)
}

// Validate reports every fault. It expects EnsureDefaults to have run.
func (o *Options) Validate() error {
	var errs []error
	if o.Bucket == "" {
		errs = append(errs, errors.New("the bucket's name is empty"))
	}
	if o.Endpoint != "" {
		if err := checkEndpoint(o.Endpoint); err != nil {
			errs = append(errs, err)
		}
	}
	if (o.AccessKey == "") != (o.SecretKey == "") {
		errs = append(errs, errors.New("an access key needs a secret key, and the other way round"))
	}
	if o.MultipartBytes < 0 || o.MultipartBytes > maxSingle {
		errs = append(errs, fmt.Errorf("the size above which bodies go up in parts is %d bytes, want 0 to %d", o.MultipartBytes, int64(maxSingle)))
	}
	if o.PartBytes < minPart || o.PartBytes > maxSingle {
		errs = append(errs, fmt.Errorf("a part has %d bytes, want %d to %d", o.PartBytes, minPart, int64(maxSingle)))
	}
	if o.MaxUploads < 1 || o.MaxUploadConns < 1 || o.MaxDownloadConns < 1 {
		errs = append(errs, fmt.Errorf("%d uploads, %d and %d connections: want at least 1 of each", o.MaxUploads, o.MaxUploadConns, o.MaxDownloadConns))
	}
	return errors.Join(errs...)
}

func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return fmt.Errorf("the endpoint %q is no address: %w", endpoint, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || (u.Path != "" && u.Path != "/") {
		return fmt.Errorf("the endpoint is %q, want http://host:port or https://host:port", endpoint)
	}
	return nil
}

// NewTransport makes the connections for one direction. A driver has one
// transport for downloads and one for everything else, so that replays and
// uploads never wait for each other's connections.
func NewTransport(conns int, turns *bulk.Turns) *http.Transport {
	// HTTP/1.1 only: with HTTP/2 all transfers would share one connection and
	// its flow control, and the bound below would mean nothing.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           turns.Dialer((&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext),
		Protocols:             protocols,
		MaxConnsPerHost:       conns,
		MaxIdleConns:          conns,
		MaxIdleConnsPerHost:   conns,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		// Objects are compressed batches, and a decoded body would not have
		// the length that was asked for.
		DisableCompression: true,
		WriteBufferSize:    64 << 10,
		ReadBufferSize:     64 << 10,
	}
}
