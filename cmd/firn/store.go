// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"firn/config"
	"firn/internal/bulk"
	"firn/internal/vfs"
	"firn/tier/store"
	"firn/tier/store/dirstore"
	"firn/tier/store/miniostore"
	"firn/tier/store/s3store"
)

// openStore makes the object store that the settings name, without retries
// around it. t must be enabled. What moves to and from it takes turns. io and
// turns may be nil.
func openStore(ctx context.Context, t config.Tier, io *vfs.IO, turns *bulk.Turns) (store.Store, error) {
	switch t.Store {
	case config.StoreDir:
		return dirstore.New(dirstore.Options{Path: t.DirPath, IO: io})
	case config.StoreS3:
		return s3store.New(ctx, s3store.Options{
			Endpoint:   t.S3.Endpoint,
			Region:     t.S3.Region,
			Bucket:     t.S3.Bucket,
			PathStyle:  t.S3.PathStyle,
			AccessKey:  t.S3.AccessKeyID,
			SecretKey:  t.S3.SecretAccessKey,
			MaxUploads: t.Uploaders,
			Turns:      turns,
		})
	case config.StoreMinio:
		return miniostore.New(ctx, miniostore.Options{
			Endpoint:   t.S3.Endpoint,
			Region:     t.S3.Region,
			Bucket:     t.S3.Bucket,
			PathStyle:  t.S3.PathStyle,
			AccessKey:  t.S3.AccessKeyID,
			SecretKey:  t.S3.SecretAccessKey,
			MaxUploads: t.Uploaders,
			Turns:      turns,
		})
	}
	return nil, fmt.Errorf("open the object store: tier.store is %s", t.Store)
}

// probePrefix is where a probe puts its objects: below the prefix, so that
// credentials confined to it are enough.
func probePrefix(t config.Tier) string {
	if t.Prefix == "" {
		return ""
	}
	return t.Prefix + "/"
}
