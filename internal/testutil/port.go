// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports below those that the kernel hands out (32768 on Linux): a port of its
// choice could go to some outgoing connection while a program that owns it is
// down between two starts.
const (
	firstPort = 20000
	lastPort  = 32000
)

// FreePort finds a loopback port that nobody listens on.
func FreePort(t testing.TB) int {
	t.Helper()
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatalf("close the probe of port %d: %v", port, err)
		}
		return port
	}
	t.Fatalf("no free port found: %v", last)
	return 0
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
