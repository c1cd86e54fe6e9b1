// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"firn/tier/store"
	"firn/tier/store/internal/s3kit"
)

// Open makes the store under test.
type Open func(ctx context.Context, o s3kit.Options) (*s3kit.Store, error)

// Run runs all tests.
func Run(t *testing.T, open Open) {
	for name, run := range map[string]func(*testing.T, Open){
		"NoRetries":         noRetries,
		"PutHeaders":        putHeaders,
		"PartHeaders":       partHeaders,
		"ChecksumHeaders":   checksumHeaders,
		"BulkDelete":        bulkDelete,
		"BadAnswers":        badAnswers,
		"NoRedirects":       noRedirects,
		"CompletionFails":   completionFails,
		"HangEnds":          hangEnds,
		"SeparateConns":     separateConns,
		"Credentials":       environmentCredentials,
		"Unsigned":          unsigned,
		"UnreachableServer": unreachable,
		"InvalidOptions":    invalidOptions,
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			isolate(t)
			run(t, open)
		})
	}
}

// isolate keeps the credentials and settings of the machine out of the test.
func isolate(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(home, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(home, "credentials"))
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_PROFILE", "AWS_DEFAULT_PROFILE",
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD",
		"MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", "HTTP_PROXY", "http_proxy",
	} {
		t.Setenv(name, "")
	}
	// The SDK must not take its number of attempts from here.
	t.Setenv("AWS_MAX_ATTEMPTS", "5")
}

// request is what the server saw of a request.
type request struct {
	method, path, query, remote string
	header                      http.Header
	body                        []byte
}

// server records requests and answers by handler.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
}

func serve(t *testing.T, handler http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests = append(s.requests, request{r.Method, r.URL.Path, r.URL.RawQuery, r.RemoteAddr, r.Header.Clone(), body})
		s.mu.Unlock()
		// No SDK takes an object without it.
		w.Header().Set("Last-Modified", time.Unix(1, 0).UTC().Format(http.TimeFormat))
		handler(w, r)
	}))
	return s
}

func (s *server) seen() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func options(endpoint string) s3kit.Options {
	return s3kit.Options{
		Endpoint: endpoint, Region: "north-1", Bucket: "snow", PathStyle: true, AccessKey: "key", SecretKey: "secret",
		MultipartBytes: 6 << 20, PartBytes: 5 << 20,
	}
}

// with runs f on a store that talks to a server with this handler.
func with(t *testing.T, open Open, handler http.HandlerFunc, f func(s *s3kit.Store, srv *server)) {
	t.Helper()
	srv := serve(t, handler)
	defer srv.Close()
	s, err := open(t.Context(), options(srv.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f(s, srv)
}

func xmlError(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>as the test wants</Message></Error>`, code)
}

// operations calls every method once.
func operations(t *testing.T, s *s3kit.Store) map[string]error {
	ctx := t.Context()
	_, getErr := s.GetRange(ctx, "k", make([]byte, 10), 5)
	_, headErr := s.Head(ctx, "k")
	_, _, listErr := s.List(ctx, "p", "", 0)
	return map[string]error{
		"put": s.Put(ctx, "k", store.BytesSource([]byte("body")), store.PutOptions{}), "get": getErr, "head": headErr, "list": listErr,
		"large put": s.Put(ctx, "k", store.BytesSource(make([]byte, 7<<20)), store.PutOptions{}),
		"delete":    s.Delete(ctx, []string{"k"}), "bulk delete": s.Delete(ctx, []string{"k", "l"}), "create bucket": s.CreateBucket(ctx),
	}
}

// noRetries: one request for each call, whatever the store answers.
func noRetries(t *testing.T, open Open) {
	for _, c := range []struct {
		status    int
		code      string
		retriable bool
	}{
		{500, "InternalError", true}, {503, "SlowDown", true}, {429, "TooManyRequests", true}, {400, "RequestTimeout", true},
		{403, "AccessDenied", false}, {400, "ExpiredToken", true},
	} {
		handler := func(w http.ResponseWriter, _ *http.Request) { xmlError(w, c.status, c.code) }
		with(t, open, handler, func(s *s3kit.Store, srv *server) {
			errs := operations(t, s)
			for op, err := range errs {
				// The answer to HEAD has no body, and so no code.
				bodyless := op == "head" && c.status == http.StatusBadRequest
				if err == nil || store.IsRetriable(err) != (c.retriable && !bodyless) {
					t.Errorf("%d %s: %s: %v, which is %v", c.status, c.code, op, err, store.KindOf(err))
				}
			}
			if got := len(srv.seen()); got != len(errs) {
				t.Errorf("%d %s: %d requests for %d calls", c.status, c.code, got, len(errs))
			}
		})
	}
}

// putHeaders: the body as it is, its digest signed, and nothing that a store
// must know beyond S3 as it was.
func putHeaders(t *testing.T, open Open) {
	handler := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("ETag", `"x"`) }
	with(t, open, handler, func(s *s3kit.Store, srv *server) {
		for i, body := range [][]byte{nil, []byte("some snow")} {
			err := s.Put(t.Context(), "a b/c+d", store.BytesSource(body), store.PutOptions{IfNoneMatch: i == 1})
			if err != nil {
				t.Fatal(err)
			}
			r := srv.seen()[i]
			if r.method != http.MethodPut || r.path != "/snow/a b/c+d" || string(r.body) != string(body) {
				t.Errorf("%s %s with %q", r.method, r.path, r.body)
			}
			sum := sha256.Sum256(body)
			if got := r.header.Get("X-Amz-Content-Sha256"); got != hex.EncodeToString(sum[:]) {
				t.Errorf("X-Amz-Content-Sha256 is %q", got)
			}
			if got := r.header.Get("If-None-Match"); (got == "*") != (i == 1) {
				t.Errorf("If-None-Match is %q", got)
			}
			if auth := r.header.Get("Authorization"); !strings.Contains(auth, "Credential=key/") || !strings.Contains(auth, "/north-1/s3/") {
				t.Errorf("Authorization is %q", auth)
			}
			wantPlain(t, r)
		}
	})
}

// wantPlain sees that a request has no checksums and no chunks.
func wantPlain(t *testing.T, r request) {
	t.Helper()
	for name := range r.header {
		if strings.HasPrefix(name, "X-Amz-Checksum") || strings.HasPrefix(name, "X-Amz-Sdk-Checksum") || name == "X-Amz-Trailer" || name == "Content-Encoding" {
			t.Errorf("%s %s: unasked for header %s: %s", r.method, r.query, name, r.header.Get(name))
		}
	}
}

// partHeaders plays an upload in parts.
func partHeaders(t *testing.T, open Open) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodHead:
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodGet:
			fmt.Fprint(w, `<ListBucketResult></ListBucketResult>`)
		case r.Method == http.MethodPost && r.URL.Query().Has("uploads"):
			fmt.Fprint(w, `<InitiateMultipartUploadResult><Bucket>snow</Bucket><Key>k</Key><UploadId>u1</UploadId></InitiateMultipartUploadResult>`)
		case r.Method == http.MethodPut:
			w.Header().Set("ETag", `"tag`+r.URL.Query().Get("partNumber")+`"`)
		default:
			fmt.Fprint(w, `<CompleteMultipartUploadResult><Bucket>snow</Bucket><Key>k</Key><ETag>x</ETag></CompleteMultipartUploadResult>`)
		}
	}
	with(t, open, handler, func(s *s3kit.Store, srv *server) {
		err := s.Put(t.Context(), "k", store.BytesSource(make([]byte, 11<<20)), store.PutOptions{IfNoneMatch: true})
		if err != nil {
			t.Fatal(err)
		}
		var sizes []int
		for _, r := range srv.seen() {
			wantPlain(t, r)
			if r.method == http.MethodPut {
				sizes = append(sizes, len(r.body))
				if !strings.Contains(r.query, "uploadId=u1") {
					t.Errorf("part: %s", r.query)
				}
			}
		}
		if !slices.Equal(sizes, []int{5 << 20, 5 << 20, 1 << 20}) {
			t.Errorf("parts of %v bytes", sizes)
		}
		last := srv.seen()[len(srv.seen())-1]
		if last.header.Get("If-None-Match") != "*" || !strings.Contains(string(last.body), "tag3") {
			t.Errorf("completion: %v, %s", last.header, last.body)
		}
	})
}

// checksumHeaders: Detect sends checksums to see what becomes of them.
func checksumHeaders(t *testing.T, open Open) {
	handler := func(w http.ResponseWriter, _ *http.Request) { xmlError(w, http.StatusServiceUnavailable, "SlowDown") }
	with(t, open, handler, func(s *s3kit.Store, srv *server) {
		if _, err := s.Detect(t.Context(), "scratch"); !store.IsRetriable(err) {
			t.Errorf("detect: %v", err)
		}
		for _, r := range srv.seen() {
			if r.method == http.MethodPut {
				if got := r.header.Get("X-Amz-Checksum-Crc32c"); len(got) != 8 {
					t.Errorf("X-Amz-Checksum-Crc32c is %q", got)
				}
				return
			}
		}
		t.Error("nothing was put")
	})
}

// bulkDelete: with Content-MD5, and an answer in which some keys failed.
func bulkDelete(t *testing.T, open Open) {
	for code, c := range map[string]struct {
		kind store.Kind
		ok   bool
	}{
		"": {ok: true}, "NoSuchKey": {ok: true}, "InternalError": {kind: store.Retriable}, "AccessDenied": {kind: store.Permanent},
	} {
		handler := func(w http.ResponseWriter, _ *http.Request) {
			if code == "" {
				fmt.Fprint(w, `<DeleteResult></DeleteResult>`)
				return
			}
			fmt.Fprintf(w, `<DeleteResult><Error><Key>l</Key><Code>%s</Code><Message>as the test wants</Message></Error></DeleteResult>`, code)
		}
		with(t, open, handler, func(s *s3kit.Store, srv *server) {
			err := s.Delete(t.Context(), []string{"k", "l"})
			if (err == nil) != c.ok || err != nil && store.KindOf(err) != c.kind {
				t.Errorf("%s: got %v, which is %v", code, err, store.KindOf(err))
			}
			r := srv.seen()[0]
			sum := md5.Sum(r.body)
			if got := r.header.Get("Content-Md5"); got != base64.StdEncoding.EncodeToString(sum[:]) || r.method != http.MethodPost {
				t.Errorf("%s with Content-MD5 %q", r.method, got)
			}
		})
	}
}

func badAnswers(t *testing.T, open Open) {
	cut := func(w http.ResponseWriter, header string, n int) {
		w.Header().Set("Content-Range", header)
		w.Header().Set("Content-Length", "10")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write([]byte("0123456789")[:n])
	}
	for name, handler := range map[string]http.HandlerFunc{
		"cut":          func(w http.ResponseWriter, _ *http.Request) { cut(w, "bytes 5-14/100", 4) },
		"other range":  func(w http.ResponseWriter, _ *http.Request) { cut(w, "bytes 0-9/100", 10) },
		"whole object": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100)) },
		"a web page":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello</html>") },
		"a proxy's 502": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>bad gateway</html>", http.StatusBadGateway)
		},
		"no answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		with(t, open, handler, func(s *s3kit.Store, _ *server) {
			_, err := s.GetRange(t.Context(), "k", make([]byte, 10), 5)
			if !store.IsRetriable(err) || errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: %v, which is %v", name, err, store.KindOf(err))
			}
		})
	}
	past := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", "bytes */3")
		xmlError(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
	}
	with(t, open, past, func(s *s3kit.Store, _ *server) {
		n, err := s.GetRange(t.Context(), "k", make([]byte, 10), 5)
		if n != 0 || store.IsRetriable(err) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("past the end: %d, %v", n, err)
		}
	})
}

// noRedirects: a signature is for one place alone.
func noRedirects(t *testing.T, open Open) {
	other := serve(t, func(w http.ResponseWriter, _ *http.Request) { xmlError(w, http.StatusTeapot, "Teapot") })
	defer other.Close()
	handler := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", other.URL)
		xmlError(w, http.StatusMovedPermanently, "PermanentRedirect")
	}
	with(t, open, handler, func(s *s3kit.Store, _ *server) {
		for op, err := range operations(t, s) {
			if err == nil || store.IsRetriable(err) || !strings.Contains(err.Error(), "region") {
				t.Errorf("%s: %v", op, err)
			}
		}
		if n := len(other.seen()); n != 0 {
			t.Errorf("%d requests went to the other place", n)
		}
	})
}

// completionFails: S3 may answer 200 to a completion and then say in the body
// that it failed.
func completionFails(t *testing.T, open Open) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && r.URL.Query().Has("uploads"):
			fmt.Fprint(w, `<InitiateMultipartUploadResult><Bucket>snow</Bucket><Key>k</Key><UploadId>u1</UploadId></InitiateMultipartUploadResult>`)
		case r.Method == http.MethodPut:
			w.Header().Set("ETag", `"x"`)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			xmlError(w, http.StatusOK, "InternalError")
		}
	}
	with(t, open, handler, func(s *s3kit.Store, srv *server) {
		err := s.Put(t.Context(), "k", store.BytesSource(make([]byte, 7<<20)), store.PutOptions{})
		if !store.IsRetriable(err) {
			t.Errorf("got %v, which is %v", err, store.KindOf(err))
		}
		seen := srv.seen()
		if last := seen[len(seen)-1]; last.method != http.MethodDelete || !strings.Contains(last.query, "uploadId=u1") {
			t.Errorf("the last request is %s %s, want the abort", last.method, last.query)
		}
	})
}

// hangEnds: a store that never answers costs no more than the context allows.
func hangEnds(t *testing.T, open Open) {
	release := make(chan struct{})
	arrived := make(chan struct{}, 100)
	handler := func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}
	defer close(release)
	with(t, open, handler, func(s *s3kit.Store, _ *server) {
		for name, call := range map[string]func(context.Context) error{
			"put": func(ctx context.Context) error {
				return s.Put(ctx, "k", store.BytesSource([]byte("x")), store.PutOptions{})
			},
			"get":    func(ctx context.Context) error { _, err := s.GetRange(ctx, "k", make([]byte, 1), 0); return err },
			"head":   func(ctx context.Context) error { _, err := s.Head(ctx, "k"); return err },
			"list":   func(ctx context.Context) error { _, _, err := s.List(ctx, "", "", 0); return err },
			"delete": func(ctx context.Context) error { return s.Delete(ctx, []string{"k", "l"}) },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-arrived
				cancel()
			}()
			if err := call(ctx); !errors.Is(err, context.Canceled) || !store.IsRetriable(err) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
	})
}

// separateConns: downloads share no connection with anything else, and a
// connection is used again when its answer was read, good or bad.
func separateConns(t *testing.T, open Open) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			w.Header().Set("ETag", `"x"`)
		case r.URL.Path == "/snow/absent":
			xmlError(w, http.StatusNotFound, "NoSuchKey")
		default:
			w.Header().Set("Content-Range", "bytes 5-14/100")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write([]byte("0123456789"))
		}
	}
	with(t, open, handler, func(s *s3kit.Store, srv *server) {
		for range 10 {
			if err := s.Put(t.Context(), "k", store.BytesSource([]byte("x")), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.GetRange(t.Context(), "k", make([]byte, 10), 5); err != nil {
				t.Fatal(err)
			}
			if _, err := s.GetRange(t.Context(), "absent", make([]byte, 10), 5); !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
		}
		conns := map[string]map[string]bool{http.MethodPut: {}, http.MethodGet: {}}
		for _, r := range srv.seen() {
			conns[r.method][r.remote] = true
		}
		up, down := slices.Sorted(maps.Keys(conns[http.MethodPut])), slices.Sorted(maps.Keys(conns[http.MethodGet]))
		if len(up) != 1 || len(down) != 1 || up[0] == down[0] {
			t.Errorf("uploads used %v, downloads %v, want one connection each", up, down)
		}
	})
}

func environmentCredentials(t *testing.T, open Open) {
	t.Setenv("AWS_ACCESS_KEY_ID", "from-environment")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "east-9")
	srv := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("ETag", `"x"`) })
	defer srv.Close()
	t.Setenv("AWS_ENDPOINT_URL_S3", srv.URL)
	s, err := open(t.Context(), s3kit.Options{Bucket: "snow", PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Put(t.Context(), "k", store.BytesSource(nil), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if auth := srv.seen()[0].header.Get("Authorization"); !strings.Contains(auth, "Credential=from-environment/") || !strings.Contains(auth, "/east-9/") {
		t.Errorf("Authorization is %q", auth)
	}
}

// unsigned: nothing is configured, and the store is one's own.
func unsigned(t *testing.T, open Open) {
	srv := serve(t, func(w http.ResponseWriter, _ *http.Request) { xmlError(w, http.StatusForbidden, "AccessDenied") })
	defer srv.Close()
	s, err := open(t.Context(), s3kit.Options{Endpoint: srv.URL, Bucket: "snow", PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, _, err = s.List(t.Context(), "", "", 0)
	if err == nil || store.IsRetriable(err) || !strings.Contains(err.Error(), "no credentials were found") {
		t.Errorf("got %v", err)
	}
	if auth := srv.seen()[0].header.Get("Authorization"); auth != "" {
		t.Errorf("Authorization is %q", auth)
	}
}

func unreachable(t *testing.T, open Open) {
	srv := serve(t, func(http.ResponseWriter, *http.Request) {})
	endpoint := srv.URL
	srv.Close()
	s, err := open(t.Context(), options(endpoint))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for op, err := range operations(t, s) {
		if !store.IsRetriable(err) || !strings.Contains(err.Error(), "cannot be reached") {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func invalidOptions(t *testing.T, open Open) {
	var se *store.Error
	if _, err := open(t.Context(), s3kit.Options{Endpoint: "localhost:9000"}); !errors.As(err, &se) || se.Kind != store.Permanent {
		t.Errorf("got %v", err)
	}
}
