// SPDX-License-Identifier: Apache-2.0

package miniostore

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"os"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"firn/tier/store"
	"firn/tier/store/internal/s3kit"
)

// defaultRegion is what requests are signed for when nobody says another.
const defaultRegion = "us-east-1"

// Options says which bucket, and how to talk to it.
type Options = s3kit.Options

// Store is the store that New makes. It is a store.Store, store.Adaptive and
// store.BucketCreator.
type Store = s3kit.Store

// New opens the store. It reads the environment, and asks nothing of the
// network. The error is a *store.Error.
func New(_ context.Context, o Options) (*Store, error) {
	o.FromEnv(os.Getenv)
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, &store.Error{Op: "open", Err: err}
	}
	o.Region = cmp.Or(o.Region, defaultRegion)
	o.Endpoint = cmp.Or(o.Endpoint, "https://s3."+o.Region+".amazonaws.com")
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, &store.Error{Op: "open", Err: err}
	}
	up, down := s3kit.NewTransport(o.MaxUploadConns, o.Turns), s3kit.NewTransport(o.MaxDownloadConns, o.Turns)
	d := &driver{bucket: o.Bucket, region: o.Region, transports: []*http.Transport{up, down}}
	creds, unsigned := chain(o)
	if d.up, err = newCore(endpoint, o, creds, up); err != nil {
		return nil, &store.Error{Op: "open", Err: err}
	}
	if d.down, err = newCore(endpoint, o, creds, down); err != nil {
		return nil, &store.Error{Op: "open", Err: err}
	}
	site := s3kit.Site{Kind: "minio", Endpoint: o.Endpoint, Unsigned: unsigned}
	return s3kit.New(d, site, o), nil
}

func newCore(endpoint *url.URL, o Options, creds *credentials.Credentials, t *http.Transport) (*minio.Core, error) {
	lookup := minio.BucketLookupDNS
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	return minio.NewCore(endpoint.Host, &minio.Options{
		Creds:        creds,
		Secure:       endpoint.Scheme == "https",
		Transport:    t,
		Region:       o.Region,
		BucketLookup: lookup,
		// One attempt: store.WithRetry retries.
		MaxRetries: 1,
		// Checksums in trailers are refused by some stores; s3kit sends its
		// own, in headers.
		TrailingHeaders: false,
	})
}

// chain is where credentials are looked for, in this order, and whether there
// are none.
func chain(o Options) (creds *credentials.Credentials, unsigned bool) {
	if o.AccessKey != "" {
		return credentials.NewStaticV4(o.AccessKey, o.SecretKey, o.SessionToken), false
	}
	providers := []credentials.Provider{
		&credentials.EnvAWS{},
		&credentials.EnvMinio{},
		&credentials.FileAWSCredentials{},
	}
	// The instance metadata answers on Amazon's machines only, and elsewhere
	// the question costs seconds.
	role := s3kit.Amazon(o.Endpoint)
	for _, name := range []string{"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		role = role || os.Getenv(name) != ""
	}
	if role {
		return credentials.NewChainCredentials(append(providers, &credentials.IAM{Region: o.Region})), false
	}
	creds = credentials.NewChainCredentials(providers)
	// Variables and a file: this asks nothing of the network.
	value, err := creds.GetWithContext(nil)
	return creds, err == nil && value.SignerType.IsAnonymous()
}
