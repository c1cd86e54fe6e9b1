// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"firn/config"
	"firn/console"
)

func TestHealth(t *testing.T) {
	ready := admin(t, console.Status{})
	starting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		http.Error(w, "the broker is starting", http.StatusServiceUnavailable)
	}))
	t.Cleanup(starting.Close)
	nobody := unusedAddr(t)
	for _, c := range []struct {
		name, args, out, errOut string
		code                    int
	}{
		{"ready", "--admin " + ready, "ready\n", "", exitOK},
		{"ready, by its URL", "--admin http://" + ready + "/", "ready\n", "", exitOK},
		{"ready, by the settings", "--set admin.listeners=http://" + ready, "ready\n", "", exitOK},
		{"not ready", "--admin " + starting.URL, "", "is not ready: the broker is starting", exitFailed},
		{"nobody", "--admin " + nobody, "", nobody + " cannot be reached", exitUnreachable},
		{"nobody, by the settings", "--set admin.listeners=http://" + nobody, "", nobody + " cannot be reached", exitUnreachable},
		{"no port", "--set admin.listeners=none", "", "there is no port to ask", exitUsage},
		{"bad settings", "--set admin.listener=x", "", "did you mean admin.listeners?", exitUsage},
		{"bad address", "--admin http://%zz", "", "admin address http://%zz", exitUsage},
	} {
		got := firn(t, append([]string{"health"}, strings.Fields(c.args)...)...)
		if got.code != c.code || got.out != c.out || !strings.Contains(got.errOut, c.errOut) || c.errOut == "" && got.errOut != "" {
			t.Errorf("%s: %+v, want code %d, %q and %q", c.name, got, c.code, c.out, c.errOut)
		}
	}
}

func TestOwnAdmin(t *testing.T) {
	for _, c := range []struct {
		host, want string
	}{
		{"", "127.0.0.1:9190"},
		{"0.0.0.0", "127.0.0.1:9190"},
		{"::", "[::1]:9190"},
		{"10.0.0.1", "10.0.0.1:9190"},
		{"admin.local", "admin.local:9190"},
	} {
		got, err := ownAdmin([]config.Address{{Host: c.host, Port: 9190}, {Host: "x", Port: 1}})
		if err != nil || got != c.want {
			t.Errorf("%q: %s, %v, want %s", c.host, got, err, c.want)
		}
	}
	var e *exitError
	if _, err := ownAdmin(nil); !errors.As(err, &e) || e.code != exitUsage {
		t.Errorf("no listener: %v", err)
	}
}
