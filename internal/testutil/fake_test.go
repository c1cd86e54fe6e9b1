// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

// TestMain runs the tests, or, when the harness has started this binary as if
// it were firn, plays a broker that can answer ApiVersions.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		fakeServe(os.Args[2:])
		return
	}
	goleak.VerifyTestMain(m)
}

// fakeServe knows the settings listeners, and fail to end at once.
func fakeServe(args []string) {
	settings := map[string]string{}
	for i := 0; i+1 < len(args); i += 2 {
		key, value, _ := strings.Cut(args[i+1], "=")
		settings[key] = value
	}
	fmt.Println("serving with", strings.Join(args, " "))
	fmt.Fprintln(os.Stderr, settings["say"])
	if settings["fail"] != "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("tcp", strings.TrimPrefix(settings["listeners"], "PLAINTEXT://"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	<-ctx.Done()
	fmt.Fprintln(os.Stderr, "event=stopped")
}

// answer answers every request as ApiVersions.
func answer(c net.Conn) {
	defer c.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		request := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, request); err != nil {
			return
		}
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.Version = int16(binary.BigEndian.Uint16(request[2:]))
		resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: 18, MaxVersion: resp.Version}}
		body := resp.AppendTo(append(make([]byte, 4, 64), request[4:8]...))
		binary.BigEndian.PutUint32(body, uint32(len(body)-4))
		if _, err := c.Write(body); err != nil {
			return
		}
	}
}

// recorder is a test within a test: its failures are what is tested.
type recorder struct {
	testing.TB
	failed   bool
	log      strings.Builder
	cleanups []func()
}

func (r *recorder) Helper()           {}
func (r *recorder) Cleanup(f func())  { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool      { return r.failed }
func (r *recorder) Error(args ...any) { r.failed = true; fmt.Fprintln(&r.log, args...) }
func (r *recorder) Logf(format string, args ...any) {
	fmt.Fprintf(&r.log, format+"\n", args...)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = true
	r.Logf(format, args...)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

// record runs a test to its end, its clean-up included, and returns what it
// said.
func record(t *testing.T, test func(t testing.TB)) (failed bool, log string) {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(r.cleanups) - 1; i >= 0; i-- {
				r.cleanups[i]()
			}
		}()
		test(r)
	}()
	<-done
	return r.failed, r.log.String()
}
