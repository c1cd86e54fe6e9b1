// SPDX-License-Identifier: Apache-2.0

package s3kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"firn/tier/store"
	"firn/tier/store/storetest"
)

func testOptions() Options {
	o := Options{Bucket: "snow", MultipartBytes: 6 << 20, PartBytes: 5 << 20}
	o.EnsureDefaults()
	return o
}

func newStore(d Driver) *Store {
	return New(d, Site{Kind: "fake", Endpoint: "http://store:9000"}, testOptions())
}

// want sees that the driver was used as its contract says, and that no upload
// is left open, which attacks I2 and I3.
func (d *fakeDriver) want(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, fault := range d.faults {
		t.Error(fault)
	}
	if len(d.uploads) != 0 {
		t.Errorf("%d uploads are left open", len(d.uploads))
	}
}

// TestConformance runs the suite on stores with every quirk that Firn can live
// with, before and after they were probed.
func TestConformance(t *testing.T) {
	for name, q := range map[string]quirks{
		"all that S3 has":                {},
		"checksums refused":              {refuseChecksums: true},
		"checksums of parts refused":     {refusePartChecksums: true},
		"no conditions on large objects": {refuseLargeCond: true},
		"bulk deletes that do nothing":   {bulkDeleteLies: true},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.Store {
				d := newFake(q)
				t.Cleanup(func() { d.want(t) })
				s := newStore(d)
				if _, err := store.Probe(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				return s
			})
		})
	}
}

func TestDetect(t *testing.T) {
	full := store.Capabilities{Name: "fake http://store:9000/snow", ConditionalPut: true, BulkDelete: true, Multipart: true, Checksums: true}
	for name, c := range map[string]struct {
		q        quirks
		change   func(*store.Capabilities)
		partsCRC bool
	}{
		"all that S3 has":            {quirks{}, func(*store.Capabilities) {}, true},
		"checksums refused":          {quirks{refuseChecksums: true}, func(c *store.Capabilities) { c.Checksums = false }, false},
		"checksums ignored":          {quirks{ignoreChecksums: true}, func(c *store.Capabilities) { c.Checksums = false }, false},
		"checksums of parts refused": {quirks{refusePartChecksums: true}, func(*store.Capabilities) {}, false},
		"conditions refused":         {quirks{refuseConditions: true}, func(c *store.Capabilities) { c.ConditionalPut = false }, true},
		"conditions ignored":         {quirks{ignoreConditions: true}, func(c *store.Capabilities) { c.ConditionalPut = false }, true},
		"large conditions refused":   {quirks{refuseLargeCond: true}, func(*store.Capabilities) {}, true},
		"no bulk delete":             {quirks{noBulkDelete: true}, func(c *store.Capabilities) { c.BulkDelete = false }, true},
		"bulk delete lies":           {quirks{bulkDeleteLies: true}, func(c *store.Capabilities) { c.BulkDelete = false }, true},
		"versioned":                  {quirks{versioned: true}, func(c *store.Capabilities) { c.Versioned = true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFake(c.q)
			s := newStore(d)
			want := full
			c.change(&want)
			got, err := store.Probe(t.Context(), s)
			if err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
			if m := s.modes.Load(); m.partChecksums != c.partsCRC {
				t.Errorf("checksums of parts: %v, want %v", m.partChecksums, c.partsCRC)
			}
			if len(d.objects) != 0 {
				t.Errorf("the probe left %d objects", len(d.objects))
			}
			d.want(t)
		})
	}
}

func TestDetectNeedsMultipart(t *testing.T) {
	d := newFake(quirks{noMultipart: true})
	_, err := store.Probe(t.Context(), newStore(d))
	if err == nil || store.IsRetriable(err) || !strings.Contains(err.Error(), "uploads in parts") {
		t.Errorf("got %v, want a permanent error about uploads in parts", err)
	}
	if len(d.objects) != 0 {
		t.Errorf("the probe left %d objects", len(d.objects))
	}
}

// TestWithoutConditions is the best that can be done: a look first.
func TestWithoutConditions(t *testing.T) {
	for _, size := range []int{10, 7 << 20} {
		d := newFake(quirks{refuseConditions: true})
		s := newStore(d)
		if _, err := store.Probe(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			err := s.Put(t.Context(), "k", store.BytesSource(make([]byte, size)), store.PutOptions{IfNoneMatch: true})
			if errors.Is(err, store.ErrExists) != (i == 1) || (err == nil) != (i == 0) {
				t.Errorf("put %d of %d bytes: %v", i+1, size, err)
			}
		}
	}
}

// TestConditionsBeforeTheProbe: they are sent and not relied upon; a store that
// does not know them is spared them from then on.
func TestConditionsBeforeTheProbe(t *testing.T) {
	for _, size := range []int{10, 7 << 20} {
		for _, q := range []quirks{{}, {refuseConditions: true}} {
			s := newStore(newFake(q))
			for i := range 2 {
				err := s.Put(t.Context(), "k", store.BytesSource(make([]byte, size)), store.PutOptions{IfNoneMatch: true})
				if errors.Is(err, store.ErrExists) != (i == 1) || (err == nil) != (i == 0) {
					t.Errorf("%+v: put %d of %d bytes: %v", q, i+1, size, err)
				}
			}
			if s.Capabilities().ConditionalPut {
				t.Errorf("%+v: nobody knows whether conditions are honoured", q)
			}
		}
	}
}

// TestUploadEnds attacks I3: whichever request of an upload fails, and whether
// the caller still lives, no parts are left.
func TestUploadEnds(t *testing.T) {
	body := store.BytesSource(make([]byte, 12<<20))
	for _, op := range []string{"create", "part", "complete"} {
		for _, c := range []struct {
			err  error
			kind store.Kind
		}{
			{api(500, "InternalError"), store.Retriable}, {api(503, "SlowDown"), store.Retriable}, {api(403, "AccessDenied"), store.Permanent},
			{errors.New("connection reset"), store.Retriable},
		} {
			for _, dead := range []bool{false, true} {
				ctx, cancel := context.WithCancel(t.Context())
				d := newFake(quirks{})
				d.fail = func(o, _ string) error {
					if o != op {
						return nil
					}
					if dead {
						cancel()
					}
					return c.err
				}
				err := newStore(d).Put(ctx, "k", body, store.PutOptions{})
				cancel()
				kind := c.kind
				if dead {
					kind = store.Retriable
				}
				if err == nil || store.KindOf(err) != kind || errors.Is(err, context.Canceled) != dead || !errors.Is(err, c.err) {
					t.Errorf("%s fails with %v, dead %v: got %v, which is %v", op, c.err, dead, err, store.KindOf(err))
				}
				d.want(t)
				if len(d.objects) != 0 {
					t.Errorf("%s fails: there is an object", op)
				}
			}
		}
	}
}

// TestAbortFails says that parts were left, and keeps the error's kind.
func TestAbortFails(t *testing.T) {
	d := newFake(quirks{})
	d.fail = func(op, _ string) error {
		switch op {
		case "part":
			return api(403, "AccessDenied")
		case "abort":
			return api(500, "InternalError")
		}
		return nil
	}
	err := newStore(d).Put(t.Context(), "k", store.BytesSource(make([]byte, 12<<20)), store.PutOptions{})
	if store.KindOf(err) != store.Permanent || err == nil || !strings.Contains(err.Error(), "lifecycle rule") {
		t.Errorf("got %v", err)
	}
}

// TestBuffersAreBounded attacks I4: with as many uploads under way as there are
// buffers, a large Put waits for its turn or its context; a small one passes.
func TestBuffersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFake(quirks{})
		o := testOptions()
		o.MaxUploads = 2
		s := New(blocking{Driver: d, gate: make(chan struct{})}, Site{}, o)
		gate := s.driver.(blocking).gate
		body := store.BytesSource(make([]byte, 1<<20))
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				if err := s.Put(t.Context(), fmt.Sprint("k", i), body, store.PutOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		waits := make(chan error, 1)
		go func() { waits <- s.Put(ctx, "late", body, store.PutOptions{}) }()
		synctest.Wait()
		select {
		case err := <-waits:
			t.Errorf("the third large put did not wait: %v", err)
		default:
		}
		small := make(chan error, 1)
		go func() { small <- s.Put(t.Context(), "small", store.BytesSource([]byte("x")), store.PutOptions{}) }()
		synctest.Wait()
		cancel()
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Errorf("the third large put: %v", err)
		}
		close(gate)
		wg.Wait()
		if err := <-small; err != nil {
			t.Errorf("the small put: %v", err)
		}
	})
}

// blocking holds every Put until the gate opens.
type blocking struct {
	Driver
	gate chan struct{}
}

func (b blocking) Put(ctx context.Context, key string, body []byte, o PutHeaders) error {
	select {
	case <-b.gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	return b.Driver.Put(ctx, key, body, o)
}

func TestPartSize(t *testing.T) {
	s := newStore(newFake(quirks{}))
	for _, size := range []int64{1, 6 << 20, 1 << 30, 50_000 << 20, 50_001 << 20, 1 << 40, 5 << 40} {
		part := s.partSize(size)
		if part < 5<<20 || part%partAlign != 0 || (size+part-1)/part > maxParts {
			t.Errorf("%d bytes: parts of %d", size, part)
		}
		if size <= 50_000<<20 && part != 5<<20 {
			t.Errorf("%d bytes: parts of %d, larger than needed", size, part)
		}
	}
}

// answers is a driver whose Get gives what the test wants.
type answers struct {
	Driver
	answer RangeAnswer
}

func (a answers) Get(context.Context, string, int64, int) (*RangeAnswer, error) {
	copied := a.answer
	return &copied, nil
}

// closeRecorder tells what was read of a body, and whether it was closed.
type closeRecorder struct {
	io.Reader
	closed *bool
}

func (c closeRecorder) Close() error { *c.closed = true; return nil }

// TestRangeAnswers attacks I5 and I6.
func TestRangeAnswers(t *testing.T) {
	cut := errors.New("connection reset")
	for name, c := range map[string]struct {
		header string
		length int64
		body   io.Reader
		n      int
		ok     bool
		past   bool // the object ends inside the range
	}{
		"right":                  {"bytes 10-19/100", 10, strings.NewReader("0123456789"), 10, true, false},
		"right, slowly":          {"bytes 10-19/100", 10, iotest.OneByteReader(strings.NewReader("0123456789")), 10, true, false},
		"right, EOF with data":   {"bytes 10-19/100", 10, iotest.DataErrReader(strings.NewReader("0123456789")), 10, true, false},
		"past the end":           {"bytes 10-13/14", 4, strings.NewReader("0123"), 4, false, true},
		"empty object, 200":      {"", 0, strings.NewReader(""), 0, false, true},
		"whole object, 200":      {"", 100, strings.NewReader(strings.Repeat("x", 100)), 0, false, false},
		"other range":            {"bytes 0-9/100", 10, strings.NewReader("0123456789"), 0, false, false},
		"shorter range":          {"bytes 10-18/100", 9, strings.NewReader("012345678"), 0, false, false},
		"longer range":           {"bytes 10-20/100", 11, strings.NewReader("0123456789a"), 0, false, false},
		"wrong length":           {"bytes 10-19/100", 9, strings.NewReader("012345678"), 0, false, false},
		"no length":              {"bytes 10-19/100", -1, strings.NewReader("0123456789"), 0, false, false},
		"rubbish header":         {"bites 10-19/100", 10, strings.NewReader("0123456789"), 0, false, false},
		"rubbish after header":   {"bytes 10-19/100x", 10, strings.NewReader("0123456789"), 0, false, false},
		"unknown size":           {"bytes 10-19/*", 10, strings.NewReader("0123456789"), 0, false, false},
		"impossible size":        {"bytes 10-19/15", 10, strings.NewReader("0123456789"), 0, false, false},
		"short body":             {"bytes 10-19/100", 10, strings.NewReader("01234"), 5, false, false},
		"no body":                {"bytes 10-19/100", 10, strings.NewReader(""), 0, false, false},
		"long body":              {"bytes 10-19/100", 10, strings.NewReader("0123456789abc"), 10, false, false},
		"body that breaks off":   {"bytes 10-19/100", 10, io.MultiReader(strings.NewReader("0123"), iotest.ErrReader(cut)), 4, false, false},
		"body that breaks at 10": {"bytes 10-19/100", 10, io.MultiReader(strings.NewReader("0123456789"), iotest.ErrReader(cut)), 10, false, false},
		"unexpected end":         {"bytes 10-19/100", 10, io.MultiReader(strings.NewReader("0123"), iotest.ErrReader(io.ErrUnexpectedEOF)), 4, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			closed := false
			s := newStore(answers{answer: RangeAnswer{Body: closeRecorder{c.body, &closed}, ContentRange: c.header, Length: c.length}})
			p := make([]byte, 10)
			n, err := s.GetRange(t.Context(), "k", p, 10)
			if n != c.n || (err == nil) != c.ok {
				t.Errorf("got %d, %v", n, err)
			}
			if errors.Is(err, io.ErrUnexpectedEOF) != c.past {
				t.Errorf("%v: io.ErrUnexpectedEOF is for the object's end alone", err)
			}
			if err != nil && store.IsRetriable(err) == c.past {
				t.Errorf("%v is %v", err, store.KindOf(err))
			}
			if c.ok && !bytes.Equal(p, []byte("0123456789")) {
				t.Errorf("got %q", p)
			}
			if !closed {
				t.Error("the body was not closed")
			}
		})
	}
}

func FuzzParseContentRange(f *testing.F) {
	for _, h := range []string{"bytes 0-9/10", "bytes 5-5/6", "bytes */10", "", "bytes 9-0/10", "bytes -1-0/1", "bytes 0-9223372036854775807/9223372036854775807"} {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, h string) {
		first, last, size, err := parseContentRange(h)
		if err == nil && (first < 0 || last < first || size <= last) {
			t.Errorf("%q: %d-%d/%d", h, first, last, size)
		}
	})
}

// pages is a driver whose List gives what the test wants.
type pages struct {
	Driver
	infos []store.Info
	more  bool
}

func (p pages) List(context.Context, string, string, int) ([]store.Info, bool, error) {
	return p.infos, p.more, nil
}

func TestListAnswers(t *testing.T) {
	info := func(keys ...string) (infos []store.Info) {
		for _, key := range keys {
			infos = append(infos, store.Info{Key: key})
		}
		return infos
	}
	for name, c := range map[string]struct {
		page pages
		ok   bool
	}{
		"right":          {pages{infos: info("p/c", "p/d"), more: true}, true},
		"nothing":        {pages{}, true},
		"nothing, more":  {pages{more: true}, false},
		"out of order":   {pages{infos: info("p/d", "p/c")}, false},
		"double":         {pages{infos: info("p/c", "p/c")}, false},
		"not after":      {pages{infos: info("p/b")}, false},
		"other prefix":   {pages{infos: info("q/c")}, false},
		"too many":       {pages{infos: info("p/c", "p/d", "p/e", "p/f")}, false},
		"without a size": {pages{infos: []store.Info{{Key: "p/c", Size: -1}}}, false},
	} {
		infos, more, err := newStore(c.page).List(t.Context(), "p/", "p/b", 3)
		if (err == nil) != c.ok || err == nil && (len(infos) != len(c.page.infos) || more != c.page.more) {
			t.Errorf("%s: got %v, %v, %v", name, infos, more, err)
		}
	}
}

// TestHeadAsksWhatIsMissing: a 404 to HEAD may hide that there is no bucket.
func TestHeadAsksWhatIsMissing(t *testing.T) {
	d := newFake(quirks{})
	s := newStore(d)
	if _, err := s.Head(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no object: %v", err)
	}
	for _, c := range []struct {
		err  error
		kind store.Kind
	}{{api(404, "NoSuchBucket"), store.Permanent}, {api(403, "InvalidAccessKeyId"), store.Permanent}, {api(503, "SlowDown"), store.Retriable}} {
		d.fail = func(op, _ string) error {
			if op == "list" {
				return c.err
			}
			return nil
		}
		if _, err := s.Head(t.Context(), "k"); errors.Is(err, store.ErrNotFound) || store.KindOf(err) != c.kind {
			t.Errorf("%v: got %v", c.err, err)
		}
	}
}

func TestDeleteOneByOneFails(t *testing.T) {
	d := newFake(quirks{noBulkDelete: true})
	s := newStore(d)
	if _, err := store.Probe(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for i := range 50 {
		keys = append(keys, fmt.Sprint("k", i))
	}
	d.fail = func(_, key string) error {
		if key == "k33" {
			return api(503, "SlowDown")
		}
		return nil
	}
	if err := s.Delete(t.Context(), keys); !store.IsRetriable(err) {
		t.Errorf("got %v", err)
	}
	d.fail = nil
	if err := s.Delete(t.Context(), keys); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestDeleteInBatches(t *testing.T) {
	d := newFake(quirks{})
	keys := make([]string, 2*store.MaxList+1)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	if err := newStore(d).Delete(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	d.want(t)
	if d.bulk != 3 {
		t.Errorf("%d requests, want 3", d.bulk)
	}
}

func TestCreateBucket(t *testing.T) {
	d := newFake(quirks{})
	s := newStore(d)
	for _, c := range []struct {
		err error
		ok  bool
	}{{nil, true}, {api(409, "BucketAlreadyOwnedByYou"), true}, {api(409, "BucketAlreadyExists"), false}, {api(403, "AccessDenied"), false}} {
		d.fail = func(string, string) error { return c.err }
		if err := s.CreateBucket(t.Context()); (err == nil) != c.ok {
			t.Errorf("%v: got %v", c.err, err)
		}
	}
	if err := s.Close(); err != nil || !d.closed {
		t.Errorf("close: %v, the driver is closed: %v", err, d.closed)
	}
}
