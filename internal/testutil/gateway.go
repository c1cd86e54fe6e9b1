// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Gateway is a real S3 server, versitygw over a directory, that belongs to one
// test. Its methods belong to the goroutine of that test.
type Gateway struct {
	Endpoint  string // http://127.0.0.1:port
	Region    string
	Bucket    string // exists, and is empty at first
	AccessKey string
	SecretKey string
	// Dir is where the objects of the bucket are, as files by their keys.
	Dir string

	t      testing.TB
	path   string
	addr   string
	root   string
	output *capture
	proc   *process
}

// StartGateway starts an S3 server with an empty bucket. It ends with the
// test.
func StartGateway(t testing.TB) *Gateway {
	t.Helper()
	addr := loopback(FreePort(t))
	root := t.TempDir()
	g := &Gateway{
		Endpoint: "http://" + addr, Region: "us-east-1", Bucket: "firn-test",
		AccessKey: "testkey", SecretKey: "testsecret",
		t: t, path: FindProgram(t, "versitygw", "TEST_VERSITYGW"), addr: addr, root: root, output: newCapture(),
	}
	g.Dir = filepath.Join(root, g.Bucket)
	t.Cleanup(func() {
		g.proc.kill()
		dump(t, "versitygw", g.output)
	})
	g.Start()
	if err := g.Client().MakeBucket(t.Context(), g.Bucket, minio.MakeBucketOptions{Region: g.Region}); err != nil {
		t.Fatalf("create bucket %s: %v", g.Bucket, err)
	}
	return g
}

// Start starts the server on the same port and data as before, and waits until
// it answers.
func (g *Gateway) Start() {
	g.t.Helper()
	if g.proc.running() {
		g.t.Fatal("versitygw is running already")
	}
	cmd := exec.Command(g.path, "--port", g.addr, "--region", g.Region, "--keep-alive", "--quiet", "--health", "/healthz", "posix", g.root)
	cmd.Env = environment("ROOT_ACCESS_KEY="+g.AccessKey, "ROOT_SECRET_KEY="+g.SecretKey)
	cmd.Dir = g.root
	g.proc = startProcess(g.t, "versitygw", cmd, g.output)
	g.proc.awaitReady(g.t, g.healthy)
}

func (g *Gateway) healthy(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.Endpoint+"/healthz", nil)
	if err != nil {
		return err
	}
	// A connection of its own: a kept one would count as a leak.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("health check answers %s", resp.Status)
	}
	return nil
}

// Stop kills the server: the outage. Connections break, new ones are refused.
func (g *Gateway) Stop() { g.proc.kill() }

// Pause makes the server hang: connections stay open and nothing is answered.
// It returns when every thread of the server stands still, so that no request
// that was sent after it slips through.
func (g *Gateway) Pause() {
	g.t.Helper()
	g.proc.signal(g.t, syscall.SIGSTOP)
	deadline := time.Now().Add(pauseLimit)
	for !stopped(g.proc.cmd.Process.Pid) {
		if time.Now().After(deadline) {
			g.t.Fatalf("versitygw did not stand still within %v", pauseLimit)
		}
		runtime.Gosched()
	}
}

// pauseLimit bounds the wait for a process to stand still.
const pauseLimit = 10 * time.Second

// stopped says whether all threads of a process are stopped, as far as /proc
// tells; where there is none, the signal has to do.
func stopped(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return true
	}
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		if err != nil {
			continue // the thread is gone
		}
		// The state follows the name, which is in brackets and may hold any
		// character.
		_, rest, _ := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" "))
		if len(rest) > 0 && rest[0] != 'T' {
			return false
		}
	}
	return true
}

// Resume ends a Pause.
func (g *Gateway) Resume() {
	g.t.Helper()
	g.proc.signal(g.t, syscall.SIGCONT)
}

// Client makes an S3 client for the server.
func (g *Gateway) Client() *minio.Client {
	g.t.Helper()
	c, err := minio.New(g.addr, &minio.Options{
		Creds:      credentials.NewStaticV4(g.AccessKey, g.SecretKey, ""),
		Region:     g.Region,
		MaxRetries: 1, // a test looks at the server as it is now
		// Without idle connections, which would count as leaked goroutines.
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	})
	if err != nil {
		g.t.Fatalf("make an S3 client: %v", err)
	}
	return c
}

// Keys lists the keys of the bucket under prefix, in order.
func (g *Gateway) Keys(prefix string) []string {
	g.t.Helper()
	var keys []string
	for o := range g.Client().ListObjects(g.t.Context(), g.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			g.t.Fatalf("list the bucket: %v", o.Err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// Get reads an object.
func (g *Gateway) Get(key string) []byte {
	g.t.Helper()
	b, err := os.ReadFile(filepath.Join(g.Dir, filepath.FromSlash(key)))
	if err != nil {
		g.t.Fatalf("read object: %v", err)
	}
	return b
}

// Env is the environment by which AWS's SDKs find the credentials.
func (g *Gateway) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + g.AccessKey, "AWS_SECRET_ACCESS_KEY=" + g.SecretKey, "AWS_REGION=" + g.Region}
}

// Settings are the broker's settings for this server, by the given driver: s3
// or minio.
func (g *Gateway) Settings(driver string) map[string]string {
	return map[string]string{
		"tier.store":         driver,
		"tier.s3.endpoint":   g.Endpoint,
		"tier.s3.bucket":     g.Bucket,
		"tier.s3.region":     g.Region,
		"tier.s3.path.style": "true",
	}
}
