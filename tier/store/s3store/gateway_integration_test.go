// SPDX-License-Identifier: Apache-2.0

//go:build integration

package s3store_test

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"
)

// startGateway runs a versitygw for the test and gives its address.
func startGateway(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("TEST_VERSITYGW")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	cmd := exec.Command(bin, "--port", addr, "--keep-alive", "--quiet", "--health", "/healthz", "posix", t.TempDir())
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=testkey", "ROOT_SECRET_KEY=testsecret")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for range 100 {
		resp, err := http.Get("http://" + addr + "/healthz")
		if err == nil {
			resp.Body.Close()
			return "http://" + addr
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("versitygw did not become ready")
	return ""
}
