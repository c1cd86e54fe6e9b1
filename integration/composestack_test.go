// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"firn/internal/testutil"
)

// stack runs the services of docker-compose.yml as processes of this machine:
// each service's command and environment, with its ports and volumes put in
// the place of those that it would have in its container. What a container
// adds beyond that (its memory limit, its user, its read-only root) is not
// here.
type stack struct {
	t        *testing.T
	file     composeFile
	image    dockerfile
	firn     string // the binary that the Dockerfile builds
	ports    map[containerPort]int
	volumes  map[string]string // name to directory
	running  map[string]*testutil.Service
	finished map[string]testutil.Result // one-shot services
}

// containerPort is a port inside a container.
type containerPort struct {
	service string
	port    string
}

func newStack(t *testing.T, set map[string]string) *stack {
	s := &stack{
		t: t, file: readCompose(t, set), image: readDockerfile(t),
		ports: map[containerPort]int{}, volumes: map[string]string{},
		running: map[string]*testutil.Service{}, finished: map[string]testutil.Result{},
	}
	for name := range s.file.Volumes {
		s.volumes[name] = t.TempDir()
	}
	s.firn = buildByDockerfile(t, s.image)
	return s
}

// buildByDockerfile runs the line of the Dockerfile that builds the binary, on
// the working tree, and checks that the binary needs nothing beside itself.
func buildByDockerfile(t *testing.T, d dockerfile) string {
	t.Helper()
	root := testutil.RepoRoot(t)
	out := filepath.Join(root, ".cache", "test", "image")
	var line string
	for _, run := range d.stages[0].all("RUN") {
		if strings.Contains(run, "go build") {
			line = run
		}
	}
	if !strings.Contains(line, "-o /out/firn ") {
		t.Fatalf("the Dockerfile does not build /out/firn: %q", line)
	}
	d.args = maps.Clone(d.args)
	d.args["TARGETARCH"] = runtime.GOARCH
	line = strings.ReplaceAll(d.expand(line), "/out/", out+"/")
	testutil.Command{Path: "sh", Args: []string{"-c", line}, Dir: root, Timeout: 10 * time.Minute}.MustRun(t)
	binary := filepath.Join(out, "firn")
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatalf("read the binary: %v", err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil || len(libraries) != 0 || slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Errorf("the binary is not static: it needs %v and a loader, %v", libraries, err)
	}
	return binary
}

// up starts a service once the services that it depends on are as it wants
// them to be.
func (s *stack) up(name string, env ...string) {
	s.t.Helper()
	for need, n := range s.file.Services[name].DependsOn {
		switch n.Condition {
		case "service_healthy":
			s.awaitHealthy(need)
		case "service_completed_successfully":
			if r, ok := s.finished[need]; !ok || r.Code != 0 {
				s.t.Fatalf("%s wants %s to have ended well: %+v", name, need, r)
			}
		default:
			s.t.Fatalf("%s waits for %s by the condition %q", name, need, n.Condition)
		}
	}
	if s.oneShot(name) {
		s.finished[name] = s.command(name, s.file.Services[name].Command, env...).Run(s.t)
		return
	}
	s.running[name] = testutil.StartService(s.t, name, s.command(name, s.file.Services[name].Command, env...))
}

// oneShot tells whether a service ends by itself.
func (s *stack) oneShot(name string) bool {
	for _, other := range s.file.Services {
		if other.DependsOn[name].Condition == "service_completed_successfully" {
			return true
		}
	}
	return false
}

// down stops a service as docker compose does, and tells how it ended.
func (s *stack) down(name string) testutil.Exit {
	s.t.Helper()
	e := s.running[name].Stop()
	delete(s.running, name)
	return e
}

// command is a program of a service, on this machine.
func (s *stack) command(name string, args []string, env ...string) testutil.Command {
	s.t.Helper()
	service := s.file.Services[name]
	c := testutil.Command{Dir: s.t.TempDir()}
	var environment []string
	if ours(service) {
		c.Path = s.firn
		environment = s.image.env()
	} else {
		c.Path = testutil.FindProgram(s.t, "versitygw", "TEST_VERSITYGW")
	}
	for _, a := range args {
		c.Args = append(c.Args, s.local(name, a))
	}
	for _, key := range slices.Sorted(maps.Keys(service.Environment)) {
		environment = append(environment, key+"="+service.Environment[key])
	}
	for _, kv := range environment {
		key, value, _ := strings.Cut(kv, "=")
		if key == "FIRN_ADVERTISED_LISTENERS" {
			value = s.translate(name, value, s.onHost) // told to clients, also to those outside
		} else {
			value = s.local(name, value)
		}
		c.Env = append(c.Env, key+"="+value)
	}
	c.Env = append(c.Env, env...)
	return c
}

// ours tells whether a service runs the image that the Dockerfile makes.
func ours(s composeService) bool { return s.Image == "firn:local" }

var composeAddress = regexp.MustCompile(`(^|[/ ])([a-z0-9.-]*):(\d+)\b`)

// local translates what a service is told: paths of volumes into directories,
// addresses by container ports into addresses of this machine.
func (s *stack) local(service, text string) string {
	s.t.Helper()
	for _, v := range s.file.Services[service].Volumes {
		if name, path, _ := strings.Cut(v, ":"); text == path {
			return s.volumes[name]
		}
	}
	return s.translate(service, text, func(port string) string { return s.addr(service, port) })
}

// translate translates the addresses in a text for a service; what loopback
// means depends on who reads it.
func (s *stack) translate(service, text string, loopback func(port string) string) string {
	s.t.Helper()
	return composeAddress.ReplaceAllStringFunc(text, func(a string) string {
		m := composeAddress.FindStringSubmatch(a)
		switch before, host, port := m[1], m[2], m[3]; host {
		case "":
			return before + s.addr(service, port)
		case "127.0.0.1":
			return before + loopback(port)
		default:
			return before + s.addr(host, port)
		}
	})
}

// onHost is where the service is that has a port of the host.
func (s *stack) onHost(port string) string {
	s.t.Helper()
	for name, service := range s.file.Services {
		for _, p := range service.Ports {
			if inside, ok := strings.CutPrefix(p, "127.0.0.1:"+port+":"); ok {
				return s.addr(name, inside)
			}
		}
	}
	s.t.Fatalf("no service has the host's port %s", port)
	return ""
}

// addr is the address on this machine that stands for a container's port.
func (s *stack) addr(service, port string) string {
	s.t.Helper()
	if _, ok := s.file.Services[service]; !ok {
		s.t.Fatalf("there is no service %q, whose port %s is used", service, port)
	}
	p := containerPort{service, port}
	if s.ports[p] == 0 {
		s.ports[p] = testutil.FreePort(s.t)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.ports[p]))
}

// awaitHealthy waits until the service's own health check passes.
func (s *stack) awaitHealthy(name string) {
	s.t.Helper()
	if s.running[name] == nil {
		s.t.Fatalf("%s is waited for, and does not run", name)
	}
	s.running[name].Await(func(ctx context.Context) error { return s.health(ctx, name) })
}

// health runs the health check of a service: our own command as it is, and a
// GET of the same address in place of the wget of another image.
func (s *stack) health(ctx context.Context, name string) error {
	s.t.Helper()
	check := s.file.Services[name].HealthCheck
	if check == nil {
		s.t.Fatalf("%s has no health check", name)
	}
	switch {
	case check.Test[0] == "CMD" && ours(s.file.Services[name]) && check.Test[1] == s.image.list(s.t, "ENTRYPOINT")[0]:
		if r := s.command(name, check.Test[2:]).Run(s.t); r.Code != 0 {
			return fmt.Errorf("exit code %d: %s", r.Code, r.Stderr)
		}
		return nil
	case check.Test[0] == "CMD-SHELL" && strings.HasPrefix(check.Test[1], "wget -q -O /dev/null http://"):
		_, err := get(ctx, s.local(name, strings.Fields(check.Test[1])[4]))
		return err
	}
	s.t.Fatalf("the health check of %s is not understood: %v", name, check.Test)
	return nil
}

// get is the body of an answer that has to be 200.
func get(ctx context.Context, url string) (body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return string(b), err
}
