// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestOptionsDefaults(t *testing.T) {
	o := Options{Table: testTable(), Handler: handlerFunc(nil), MaxRequestBytes: 200 << 20}
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	if o.RequestMemory != 200<<20 || o.MaxInFlight != DefaultMaxInFlight || o.IdleTimeout != 10*time.Minute ||
		o.SendTimeout != 30*time.Second || o.Turns == nil || o.Logger == nil || o.ChunkReader == nil {
		t.Errorf("got %+v", o)
	}
}

// TestValidateNamesEveryFault: one call reports all of them.
func TestValidateNamesEveryFault(t *testing.T) {
	o := Options{
		Table:           Table{3: {Min: 5, Max: 2}, 0: {Min: 0, Max: 99}, 999: {}, 1: {Min: -1, Max: 4}},
		MaxRequestBytes: 1 << 31, MaxInFlight: -1, RequestMemory: 1, MaxConnections: -1, MaxConnectionsPerIP: -1,
		IdleTimeout: -1, SendTimeout: -1,
	}
	_, err := New(o)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, word := range []string{
		"Handler", "MaxRequestBytes", "MaxInFlight", "RequestMemory", "MaxConnections", "MaxConnectionsPerIP",
		"IdleTimeout", "SendTimeout", "key 3 ", "key 0 ", "key 999 ", "key 1 ",
	} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not named in:\n%v", word, err)
		}
	}
}

func TestListenAfterCloseFails(t *testing.T) {
	s := newServer(t, Options{Handler: handlerFunc(nil)})
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen("TEST", "127.0.0.1:0"); err == nil {
		t.Error("listening on a closed server succeeded")
	}
}

func TestListenReportsTheAddressInUse(t *testing.T) {
	s := newServer(t, Options{Handler: handlerFunc(nil)})
	addr, err := s.Listen("A", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen("B", addr.String()); err == nil || !strings.Contains(err.Error(), "listen for B") {
		t.Errorf("got %v", err)
	}
}
