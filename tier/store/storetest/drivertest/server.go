// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"firn/tier/store"
	"firn/tier/store/internal/s3kit"
	"firn/tier/store/storetest"
)

// Server is a real S3 server and the power over it.
type Server struct {
	Endpoint, Region, Bucket, AccessKey, SecretKey string
	// Stop and Start are an outage, Pause and Resume a hang.
	Stop, Start, Pause, Resume func()
	// OpenUploads counts the multipart uploads that were begun and not ended.
	OpenUploads func() int
}

func (srv Server) options() s3kit.Options {
	return s3kit.Options{
		Endpoint: srv.Endpoint, Region: srv.Region, Bucket: srv.Bucket, PathStyle: true, AccessKey: srv.AccessKey, SecretKey: srv.SecretKey,
		MultipartBytes: 6 << 20, PartBytes: 5 << 20,
	}
}

// RunServer runs storetest and more against a real server that honours
// everything of S3 that Firn can use.
func RunServer(t *testing.T, open Open, srv Server) {
	isolate(t)
	opened := func(t *testing.T, change func(*s3kit.Options)) *s3kit.Store {
		t.Helper()
		o := srv.options()
		change(&o)
		s, err := open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	as := func(*s3kit.Options) {}
	t.Run("Conformance", func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		storetest.Run(t, func(t *testing.T) store.Store { return opened(t, as) })
	})
	// Once more in the ways that the probe found.
	t.Run("ConformanceProbed", func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		storetest.Run(t, func(t *testing.T) store.Store {
			s := opened(t, as)
			caps, err := store.Probe(t.Context(), s)
			if err != nil || !caps.ConditionalPut || !caps.BulkDelete || !caps.Multipart || !caps.Checksums || caps.Versioned {
				t.Fatalf("probe: %+v, %v", caps, err)
			}
			return s
		})
	})
	t.Run("NoUploadsLeft", func(t *testing.T) {
		if n := srv.OpenUploads(); n != 0 {
			t.Errorf("%d uploads are open after all those tests", n)
		}
	})
	t.Run("Refusals", func(t *testing.T) { refusals(t, srv, opened) })
	t.Run("CreateBucket", func(t *testing.T) {
		s := opened(t, func(o *s3kit.Options) { o.Bucket = "firn-created" })
		defer s.Close()
		for range 2 {
			if err := s.CreateBucket(t.Context()); err != nil {
				t.Errorf("create: %v", err)
			}
		}
		if _, err := store.Probe(t.Context(), s); err != nil {
			t.Errorf("probe: %v", err)
		}
	})
	t.Run("Outage", func(t *testing.T) { outage(t, opened(t, as), srv.Stop, srv.Start) })
	t.Run("Hang", func(t *testing.T) { outage(t, opened(t, as), srv.Pause, srv.Resume) })
}

// refusals: every operation, Head included, says for good and clearly what is
// wrong.
func refusals(t *testing.T, srv Server, opened func(*testing.T, func(*s3kit.Options)) *s3kit.Store) {
	for name, c := range map[string]struct {
		change func(*s3kit.Options)
		says   string
	}{
		"bad secret":     {func(o *s3kit.Options) { o.SecretKey = "wrong" }, "AWS_SECRET_ACCESS_KEY"},
		"unknown key":    {func(o *s3kit.Options) { o.AccessKey = "nobody" }, "AWS_ACCESS_KEY_ID"},
		"no credentials": {func(o *s3kit.Options) { o.AccessKey, o.SecretKey = "", "" }, "no credentials were found"},
		"no bucket":      {func(o *s3kit.Options) { o.Bucket = "firn-absent" }, "--create-bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, c.change)
			defer s.Close()
			_, probeErr := store.Probe(t.Context(), s)
			errs := operations(t, s)
			errs["probe"] = probeErr
			// What may work all the same.
			delete(errs, "create bucket")
			for op, err := range errs {
				if err == nil || store.KindOf(err) != store.Permanent || !strings.Contains(err.Error(), srv.Endpoint) {
					t.Errorf("%s: %v, which is %v", op, err, store.KindOf(err))
				}
			}
			if !strings.Contains(probeErr.Error(), c.says) {
				t.Errorf("probe: %v, want something about %s", probeErr, c.says)
			}
		})
	}
}

// outage: calls fail as retriable while the server is away or hangs, and those
// that are retried succeed when it is back.
func outage(t *testing.T, s *s3kit.Store, begin, end func()) {
	defer s.Close()
	body := []byte("written in an outage")
	if err := s.Put(t.Context(), "outage/before", store.BytesSource(body), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	begin()
	if err := untilItFails(t, s); !store.IsRetriable(err) {
		t.Errorf("head in an outage: %v", err)
	}
	failed := make(chan struct{}, 1)
	r := store.WithRetry(s, store.RetryOptions{
		AttemptTimeout: 200 * time.Millisecond, MinBackoff: 20 * time.Millisecond, MaxBackoff: 50 * time.Millisecond,
		OnRetry: func(error, int, time.Duration) {
			select {
			case failed <- struct{}{}:
			default:
			}
		},
	})
	done := make(chan error, 1)
	go func() {
		done <- r.Put(t.Context(), "outage/during", store.BytesSource(body), store.PutOptions{IfNoneMatch: true})
	}()
	<-failed
	end()
	// A request that hung may be carried out after all: then the key is taken,
	// and the caller is told to look.
	if err := <-done; err != nil && !(errors.Is(err, store.ErrExists) && errors.Is(err, store.ErrAmbiguous)) {
		t.Errorf("put: %v", err)
	}
	for _, key := range []string{"outage/before", "outage/during"} {
		p := make([]byte, len(body))
		if _, err := r.GetRange(t.Context(), key, p, 0); err != nil || string(p) != string(body) {
			t.Errorf("get %s: %q, %v", key, p, err)
		}
	}
	if err := r.Delete(t.Context(), []string{"outage/before", "outage/during"}); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// untilItFails asks until a request fails: a process that is told to stop may
// answer one more.
func untilItFails(t *testing.T, s store.Store) (err error) {
	for err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err = s.Head(ctx, "outage/before")
		cancel()
	}
	return err
}
