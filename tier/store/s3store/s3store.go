// SPDX-License-Identifier: Apache-2.0

package s3store

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"firn/tier/store"
	"firn/tier/store/internal/s3kit"
)

// defaultRegion is what requests are signed for when nobody says another; most
// stores beside Amazon's take it.
const defaultRegion = "us-east-1"

// Options says which bucket, and how to talk to it.
type Options = s3kit.Options

// Store is the store that New makes. It is a store.Store, store.Adaptive and
// store.BucketCreator.
type Store = s3kit.Store

// New opens the store. It reads the environment and configuration files, and
// asks nothing of the network. The error is a *store.Error.
func New(ctx context.Context, o Options) (*Store, error) {
	o.FromEnv(os.Getenv)
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, &store.Error{Op: "open", Err: err}
	}
	cfg, err := load(ctx, o)
	if err != nil {
		return nil, &store.Error{Op: "open", Err: fmt.Errorf("load the AWS configuration: %w", err)}
	}
	up, down := s3kit.NewTransport(o.MaxUploadConns, o.Turns), s3kit.NewTransport(o.MaxDownloadConns, o.Turns)
	d := &driver{
		bucket:     aws.String(o.Bucket),
		region:     cfg.Region,
		up:         newClient(cfg, o, up),
		down:       newClient(cfg, o, down),
		transports: []*http.Transport{up, down},
	}
	site := s3kit.Site{Kind: "s3", Endpoint: o.Endpoint, Unsigned: aws.IsCredentialsProvider(cfg.Credentials, aws.AnonymousCredentials{})}
	if site.Endpoint == "" {
		site.Endpoint = "https://s3." + cfg.Region + ".amazonaws.com"
	}
	return s3kit.New(d, site, o), nil
}

// load gathers region and credentials.
func load(ctx context.Context, o Options) (aws.Config, error) {
	var loaders []func(*config.LoadOptions) error
	if o.Region != "" {
		loaders = append(loaders, config.WithRegion(o.Region))
	}
	if o.AccessKey != "" {
		static := credentials.NewStaticCredentialsProvider(o.AccessKey, o.SecretKey, o.SessionToken)
		loaders = append(loaders, config.WithCredentialsProvider(static))
	}
	own := o.Endpoint != "" && !s3kit.Amazon(o.Endpoint)
	if own {
		// Nothing answers there outside Amazon's machines, which would cost
		// seconds; and inside, the role is not meant for another store.
		loaders = append(loaders, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	cfg, err := config.LoadDefaultConfig(ctx, loaders...)
	if err != nil {
		return aws.Config{}, err
	}
	if cfg.Region == "" {
		cfg.Region = defaultRegion
	}
	// The instance metadata is the chain's last resort: there is nothing else.
	if own && aws.IsCredentialsProvider(cfg.Credentials, (*ec2rolecreds.Provider)(nil)) {
		cfg.Credentials = aws.AnonymousCredentials{}
	}
	return cfg, nil
}

func newClient(cfg aws.Config, o Options, t *http.Transport) *s3.Client {
	return s3.NewFromConfig(cfg, func(so *s3.Options) {
		if o.Endpoint != "" {
			so.BaseEndpoint = aws.String(o.Endpoint)
		}
		so.UsePathStyle = o.PathStyle
		so.HTTPClient = &http.Client{
			Transport: t,
			// A redirected request would carry a signature for another place.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		// One attempt, whatever AWS_MAX_ATTEMPTS says: store.WithRetry retries.
		so.Retryer = aws.NopRetryer{}
		so.RetryMaxAttempts = 0
		// Checksums in trailers break many stores; s3kit sends its own where
		// the store checks them.
		so.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		so.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		so.DisableLogOutputChecksumValidationSkipped = true
		so.Logger = logging.Nop{}
	})
}
