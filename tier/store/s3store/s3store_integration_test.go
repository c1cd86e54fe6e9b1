// SPDX-License-Identifier: Apache-2.0

//go:build integration

package s3store_test

import (
	"testing"

	"firn/tier/store"
	"firn/tier/store/s3store"
	"firn/tier/store/storetest"
)

func options(endpoint string) s3store.Options {
	return s3store.Options{
		Endpoint: endpoint, Bucket: "firn-test", PathStyle: true, AccessKey: "testkey", SecretKey: "testsecret",
		MultipartBytes: 5 << 20, PartBytes: 5 << 20,
	}
}

func open(t *testing.T, o s3store.Options) *s3store.Store {
	t.Helper()
	s, err := s3store.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	endpoint := startGateway(t)
	s := open(t, options(endpoint))
	if err := s.CreateBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, options(endpoint)) })
}
