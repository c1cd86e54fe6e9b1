// SPDX-License-Identifier: Apache-2.0

//go:build integration

package miniostore_test

import (
	"testing"

	"firn/tier/store"
	"firn/tier/store/miniostore"
	"firn/tier/store/storetest"
)

func options(endpoint string) miniostore.Options {
	return miniostore.Options{
		Endpoint: endpoint, Bucket: "firn-test", PathStyle: true, AccessKey: "testkey", SecretKey: "testsecret",
		MultipartBytes: 5 << 20, PartBytes: 5 << 20,
	}
}

func open(t *testing.T, o miniostore.Options) *miniostore.Store {
	t.Helper()
	s, err := miniostore.New(t.Context(), o)
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
