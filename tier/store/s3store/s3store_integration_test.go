// SPDX-License-Identifier: Apache-2.0

//go:build integration

package s3store_test

import (
	"testing"

	"firn/internal/testutil"
	"firn/tier/store/s3store"
	"firn/tier/store/storetest/drivertest"
)

func TestServer(t *testing.T) {
	g := testutil.StartGateway(t)
	drivertest.RunServer(t, s3store.New, drivertest.Server{
		Endpoint: g.Endpoint, Region: g.Region, Bucket: g.Bucket, AccessKey: g.AccessKey, SecretKey: g.SecretKey,
		Stop: g.Stop, Start: g.Start, Pause: g.Pause, Resume: g.Resume,
		OpenUploads: func() (n int) {
			for u := range g.Client().ListIncompleteUploads(t.Context(), g.Bucket, "", true) {
				if u.Err != nil {
					t.Fatal(u.Err)
				}
				n++
			}
			return n
		},
	})
}
