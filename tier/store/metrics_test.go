// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"firn/tier/store"
	"firn/tier/store/dirstore"
)

func TestMetricsCountWhatHappened(t *testing.T) {
	inner, err := dirstore.New(dirstore.Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	s := store.WithMetrics(inner, reg)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, ok := store.As[*dirstore.Store](s); !ok {
		t.Error("the decorator hides the store")
	}
	if store.WithMetrics(inner, nil) != store.Store(inner) {
		t.Error("without a registerer there is nothing to decorate")
	}
	ctx := context.Background()
	body := store.BytesSource([]byte("0123456789"))
	if err := s.Put(ctx, "a/b", body, store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ctx, "a/b", body, store.PutOptions{IfNoneMatch: true}); !errors.Is(err, store.ErrExists) {
		t.Fatal(err)
	}
	if _, err := s.GetRange(ctx, "a/b", make([]byte, 4), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetRange(ctx, "a/b", make([]byte, 8), 8); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if _, err := s.Head(ctx, "a/c"); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	if _, _, err := s.List(ctx, "a/", "", 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, []string{"a/b"}); err != nil {
		t.Fatal(err)
	}
	for want, values := range map[[2]string]float64{
		{"put", "ok"}: 1, {"put", "exists"}: 1, {"get", "ok"}: 1, {"get", "permanent"}: 1,
		{"head", "not_found"}: 1, {"list", "ok"}: 1, {"delete", "ok"}: 1, {"head", "ok"}: 0,
	} {
		if got := value(t, reg, "firn_store_requests_total", "operation", want[0], "result", want[1]); got != values {
			t.Errorf("%v: %v requests, want %v", want, got, values)
		}
	}
	if w, r := value(t, reg, "firn_store_bytes_total", "direction", "written"), value(t, reg, "firn_store_bytes_total", "direction", "read"); w != 10 || r != 6 {
		t.Errorf("%v bytes written and %v read, want 10 and 6", w, r)
	}
}

// value finds a counter by its name and labels.
func value(t *testing.T, g prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			has := map[string]string{}
			for _, l := range m.Label {
				has[l.GetName()] = l.GetValue()
			}
			match := true
			for i := 0; i < len(labels); i += 2 {
				match = match && has[labels[i]] == labels[i+1]
			}
			if match {
				return m.Counter.GetValue()
			}
		}
	}
	t.Fatalf("no %s with %v", name, labels)
	return 0
}
