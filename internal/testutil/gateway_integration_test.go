// SPDX-License-Identifier: Apache-2.0

//go:build integration

package testutil

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

// The S3 server keeps its data and its port over an outage, and can hang.
func TestGateway(t *testing.T) {
	g := StartGateway(t)
	put := func(ctx context.Context, key string) error {
		_, err := g.Client().PutObject(ctx, g.Bucket, key, strings.NewReader("ice"), 3, minio.PutObjectOptions{})
		return err
	}
	if err := put(t.Context(), "data/a/1.seg"); err != nil {
		t.Fatal(err)
	}
	if got := string(g.Get("data/a/1.seg")); got != "ice" {
		t.Errorf("stored %q", got)
	}
	g.Stop()
	if err := put(t.Context(), "data/a/2.seg"); err == nil {
		t.Error("a stopped server took an object")
	}
	g.Start()
	if err := put(t.Context(), "data/b/3.seg"); err != nil {
		t.Fatal(err)
	}
	g.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := put(ctx, "data/b/4.seg"); err == nil {
		t.Error("a hanging server answered")
	}
	g.Resume()
	if err := put(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(g.Keys("data/"), " "); !strings.HasPrefix(got, "data/a/1.seg data/b/3.seg") {
		t.Errorf("keys %s", got)
	}
	bad := *g
	bad.SecretKey = "wrong"
	if _, err := bad.Client().BucketExists(t.Context(), g.Bucket); err == nil {
		t.Error("a wrong secret was taken")
	}
}

// Two servers at once do not meet.
func TestTwoGateways(t *testing.T) {
	a, b := StartGateway(t), StartGateway(t)
	if a.Endpoint == b.Endpoint || a.Dir == b.Dir {
		t.Errorf("%s and %s", a.Endpoint, b.Endpoint)
	}
	if keys := append(a.Keys(""), b.Keys("")...); len(keys) != 0 {
		t.Errorf("new buckets hold %v", keys)
	}
}

func TestKcatIsThere(t *testing.T) {
	r := NewKcat(t, "127.0.0.1:1").Command("-V").MustRun(t)
	if !strings.Contains(string(r.Stdout)+string(r.Stderr), "kcat") {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
}
