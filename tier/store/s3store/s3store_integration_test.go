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

func TestZ(t *testing.T) {
	s := open(t, options(startGateway(t)))
	_, err := store.Probe(t.Context(), s)
	t.Log(err)
	t.Log(s.CreateBucket(t.Context()), s.CreateBucket(t.Context()))
	c, err := store.Probe(t.Context(), s)
	t.Log(c, err, c.Name)
	_, err = s.Head(t.Context(), "x")
	t.Log(err)
	_, err = s.GetRange(t.Context(), "x", make([]byte, 1), 0)
	t.Log(err)
	o := options("http://127.0.0.1:1")
	s2 := open(t, o)
	_, err = store.Probe(t.Context(), s2)
	t.Log(err)
	o = options(s.Capabilities().Name[3:len(s.Capabilities().Name)-len("/firn-test")])
	o.SecretKey = "wrong"
	_, err = store.Probe(t.Context(), open(t, o))
	t.Log(err)
	o.AccessKey = "wrong"
	_, err = store.Probe(t.Context(), open(t, o))
	t.Log(err)
	_, err = open(t, o).Head(t.Context(), "x")
	t.Log(err)
	o.AccessKey, o.SecretKey = "", ""
	t.Setenv("HOME", t.TempDir())
	_, err = store.Probe(t.Context(), open(t, o))
	t.Log(err)
	o = options(o.Endpoint)
	o.PathStyle = false
	_, err = store.Probe(t.Context(), open(t, o))
	t.Log(err)
}
