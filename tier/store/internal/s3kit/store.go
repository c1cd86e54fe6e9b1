// SPDX-License-Identifier: Apache-2.0

package s3kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"firn/tier/store"
)

// drainBytes is how much of an unwanted answer is read so that its
// connection can be used again.
const drainBytes = 64 << 10

// Store is a store.Store over one bucket of an S3-compatible store.
type Store struct {
	driver Driver
	site   Site
	o      Options
	slots  chan struct{}
	pool   sync.Pool // *[]byte of o's buffer size

	// modes is what the store is taken to be able to do; Detect replaces it, and
	// a refusal before that changes it.
	modes atomic.Pointer[modes]
}

// modes are the ways of working that Detect chooses between.
type modes struct {
	// conditional: If-None-Match is sent with bodies of one request;
	// conditionalLarge: with the completion of uploads in parts.
	conditional, conditionalLarge bool
	// checksums and partChecksums: the CRC-32C is sent with whole bodies and
	// with parts.
	checksums, partChecksums bool
	bulkDelete               bool
	versioned                bool
	// known: Detect has found all this out.
	known bool
}

var (
	_ store.Store         = (*Store)(nil)
	_ store.Adaptive      = (*Store)(nil)
	_ store.BucketCreator = (*Store)(nil)
)

// Site is what a driver found out about where it goes.
type Site struct {
	// Kind is the driver's name.
	Kind string
	// Endpoint is the address in use, as errors and banners name it.
	Endpoint string
	// Unsigned says that no credentials were found.
	Unsigned bool
}

// New makes a store over a driver. The options are whole and valid. The result
// owns the driver.
func New(d Driver, site Site, o Options) *Store {
	s := &Store{driver: d, site: site, o: o, slots: make(chan struct{}, o.MaxUploads)}
	// Before Detect: conditions are sent, since most stores honour them, but not
	// relied upon; checksums are not sent, since many stores refuse them.
	s.modes.Store(&modes{conditional: true, conditionalLarge: true, bulkDelete: true})
	return s
}

// Capabilities implements store.Store.
func (s *Store) Capabilities() store.Capabilities {
	m := s.modes.Load()
	return store.Capabilities{
		Name:           fmt.Sprintf("%s %s/%s", s.site.Kind, s.site.Endpoint, s.o.Bucket),
		ConditionalPut: m.conditional && m.known,
		BulkDelete:     m.bulkDelete,
		Multipart:      true,
		Checksums:      m.checksums,
		Versioned:      m.versioned,
		PathStyle:      s.o.PathStyle,
	}
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.driver.Close()
	return nil
}

// CreateBucket implements store.BucketCreator.
func (s *Store) CreateBucket(ctx context.Context) error {
	err := s.driver.CreateBucket(ctx)
	var api *APIError
	if errors.As(err, &api) && api.Code == "BucketAlreadyOwnedByYou" {
		return nil
	}
	if err != nil {
		return s.fail(ctx, store.OpCreateBucket, "", err)
	}
	return nil
}

// GetRange implements store.Store.
func (s *Store) GetRange(ctx context.Context, key string, p []byte, off int64) (int, error) {
	if err := store.CheckGet(key, p, off); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, s.fail(ctx, store.OpGet, key, err)
	}
	answer, err := s.driver.Get(ctx, key, off, len(p))
	if err != nil {
		return 0, s.failGet(ctx, key, len(p), off, err)
	}
	defer answer.close()
	size, err := answer.check(off, len(p))
	if err != nil {
		return 0, s.fail(ctx, store.OpGet, key, err)
	}
	n := int(min(int64(len(p)), max(0, size-off)))
	if got, err := answer.fill(p[:n]); err != nil {
		return got, s.fail(ctx, store.OpGet, key, err)
	}
	if n < len(p) {
		return n, &store.Error{Op: store.OpGet, Key: key, Err: store.PastEnd(off, len(p), size)}
	}
	return n, nil
}

// failGet turns the answer to a range wholly beyond the end into what the
// contract says of it.
func (s *Store) failGet(ctx context.Context, key string, n int, off int64, err error) error {
	var api *APIError
	if errors.As(err, &api) && (api.Status == http.StatusRequestedRangeNotSatisfiable || api.Code == "InvalidRange") {
		return &store.Error{Op: store.OpGet, Key: key, Err: store.PastEnd(off, n, -1)}
	}
	return s.fail(ctx, store.OpGet, key, err)
}

// check says how large the object is, or how the answer differs from what was
// asked for.
func (a *RangeAnswer) check(off int64, n int) (size int64, err error) {
	if a.ContentRange == "" {
		// Some stores answer 200 to any range of an empty object.
		if a.Length == 0 {
			return 0, nil
		}
		return 0, fmt.Errorf("asked for %d bytes at %d, and the store answered with %d bytes and no Content-Range", n, off, a.Length)
	}
	first, last, size, err := parseContentRange(a.ContentRange)
	if err != nil {
		return 0, err
	}
	if want := min(off+int64(n), size) - 1; first != off || last != want || a.Length != last-first+1 {
		return 0, fmt.Errorf("asked for %d bytes at %d, and the store answered with Content-Range %q and %d bytes", n, off, a.ContentRange, a.Length)
	}
	return size, nil
}

// fill reads the whole body, which must have len(p) bytes.
func (a *RangeAnswer) fill(p []byte) (int, error) {
	n, err := io.ReadFull(a.Body, p)
	if err != nil {
		// Not wrapped: io.ErrUnexpectedEOF would say that the object ends here.
		if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
			return n, fmt.Errorf("the answer was cut after %d of %d bytes", n, len(p))
		}
		return n, fmt.Errorf("read the answer at byte %d of %d: %w", n, len(p), err)
	}
	var beyond [1]byte
	switch extra, err := a.Body.Read(beyond[:]); {
	case extra > 0:
		return n, fmt.Errorf("the answer is longer than the %d bytes it announced", len(p))
	case err != nil && err != io.EOF:
		return n, fmt.Errorf("end the answer: %w", err)
	}
	return n, nil
}

// close drains what is left of the body, within reason, and closes it.
func (a *RangeAnswer) close() {
	_, _ = io.CopyN(io.Discard, a.Body, drainBytes)
	_ = a.Body.Close()
}

// parseContentRange reads "bytes first-last/size".
func parseContentRange(h string) (first, last, size int64, err error) {
	var rest string
	n, _ := fmt.Sscanf(h, "bytes %d-%d/%d%s", &first, &last, &size, &rest)
	if n != 3 || first < 0 || last < first || size <= last {
		return 0, 0, 0, fmt.Errorf("the store answered with Content-Range %q", h)
	}
	return first, last, size, nil
}

// Head implements store.Store.
//
// The answer to HEAD has no body: a 404 may stand for a missing object, a
// missing bucket or, on some stores, an unknown access key, and a caller that
// takes the latter two for the first may do harm. So a list, which tells, has
// the last word.
func (s *Store) Head(ctx context.Context, key string) (store.Info, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Info{}, &store.Error{Op: store.OpHead, Key: key, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return store.Info{}, s.fail(ctx, store.OpHead, key, err)
	}
	info, err := s.driver.Head(ctx, key)
	if isKind(store.OpHead, err, store.NotFound) {
		if _, _, listErr := s.driver.List(ctx, key, "", 1); listErr != nil {
			return store.Info{}, s.fail(ctx, store.OpHead, key, listErr)
		}
	}
	if err != nil {
		return store.Info{}, s.fail(ctx, store.OpHead, key, err)
	}
	if info.Size < 0 {
		return store.Info{}, s.fail(ctx, store.OpHead, key, errors.New("the store did not say how large the object is"))
	}
	return info, nil
}

// List implements store.Store. A page that breaks the order of keys is an
// error: readers of heads rely on it.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]store.Info, bool, error) {
	limit, err := store.CheckList(prefix, after, limit)
	if err != nil {
		return nil, false, err
	}
	if err := ctx.Err(); err != nil {
		return nil, false, s.fail(ctx, store.OpList, prefix, err)
	}
	infos, more, err := s.driver.List(ctx, prefix, after, limit)
	if err == nil {
		err = checkPage(infos, more, prefix, after, limit)
	}
	if err != nil {
		return nil, false, s.fail(ctx, store.OpList, prefix, err)
	}
	return infos, more, nil
}
