// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.yaml.in/yaml/v3"

	"firn/config"
	"firn/console"
	"firn/internal/testutil"
)

var (
	loopbackPort = regexp.MustCompile(`^127\.0\.0\.1:\d+:\d+$`)
	pinnedImage  = regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+\.\d+@sha256:[0-9a-f]{64}$`)
	pinnedGo     = regexp.MustCompile(`^golang:(\d+\.\d+)\.\d+-[a-z]+$`)
)

// What docker-compose.yml promises to those who only start it: nothing is open
// to the network, nothing changes by itself, nothing takes all memory.
func TestComposeFile(t *testing.T) {
	f, image := readCompose(t, nil), readDockerfile(t)
	var profiles []string
	for name, s := range f.Services {
		for _, p := range s.Ports {
			if !loopbackPort.MatchString(p) {
				t.Errorf("%s opens %s, want 127.0.0.1:PORT:PORT", name, p)
			}
		}
		if s.MemLimit == "" {
			t.Errorf("%s has no memory limit", name)
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, named := f.Volumes[from]; !named && !strings.HasPrefix(from, "./deploy/") {
				t.Errorf("%s mounts %s, which is no volume of the file", name, v)
			}
		}
		profiles = append(profiles, s.Profiles...)
		if !ours(s) {
			if !pinnedImage.MatchString(s.Image) {
				t.Errorf("the image of %s is not pinned: %s", name, s.Image)
			}
			continue
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s may write its root or has capabilities", name)
		}
		checkSettings(t, name, image, s)
	}
	if slices.Sort(profiles); !slices.Equal(profiles, []string{"demo", "monitoring"}) {
		t.Errorf("the profiles are %v", profiles)
	}
	if got, want := strings.Join(f.order(t), " "), "store bucket firn"; got != want {
		t.Errorf("docker compose up starts %s, want %s", got, want)
	}
	broker := f.Services["firn"]
	if a, b := f.Services["bucket"].DependsOn["store"].Condition, broker.DependsOn["bucket"].Condition; a != "service_healthy" || b != "service_completed_successfully" {
		t.Errorf("the bucket waits for the store by %q, and the broker for the bucket by %q", a, b)
	}
	if broker.Build != "." || f.Services["store"].HealthCheck == nil || broker.HealthCheck == nil {
		t.Errorf("the broker is built from %q; the health checks are %v and %v", broker.Build, f.Services["store"].HealthCheck, broker.HealthCheck)
	}
	if grace, err := time.ParseDuration(broker.StopGracePeriod); err != nil || grace <= 30*time.Second {
		t.Errorf("the broker has %s to stop, and may take 30s: %v", broker.StopGracePeriod, err)
	}
	// The store is the one that all the other tests run against.
	makefile := string(readFile(t, filepath.Join(testutil.RepoRoot(t), "Makefile")))
	_, version, _ := strings.Cut(makefile, "VERSITYGW_VERSION := ")
	version, _, _ = strings.Cut(version, "\n")
	if want := "versity/versitygw:" + version + "@"; !strings.HasPrefix(f.Services["store"].Image, want) {
		t.Errorf("the store is %s, and the tests use %s", f.Services["store"].Image, want)
	}
}

// checkSettings reads a service's environment as firn does in the container,
// where an unknown name is only warned of.
func checkSettings(t *testing.T, name string, image dockerfile, s composeService) {
	t.Helper()
	env := image.env()
	for key, value := range s.Environment {
		env = append(env, key+"="+value)
	}
	_, warnings, err := config.Load(config.LoadOptions{Env: env})
	if err != nil || len(warnings) != 0 {
		t.Errorf("the environment of %s: %v, %v", name, warnings, err)
	}
	if s.Environment["FIRN_LISTENERS"] == "" {
		return
	}
	// The check above means something only if it can fail.
	for _, bad := range []string{"FIRN_LISTENERS_ALLOW_INSECURE=false", "FIRN_LISTENER=x"} {
		if _, warnings, err := config.Load(config.LoadOptions{Env: append(slices.Clone(env), bad)}); err == nil && len(warnings) == 0 {
			t.Errorf("%s is taken without a word", bad)
		}
	}
}

// The image holds a static binary, runs as nobody in particular, and asks
// itself how it is.
func TestDockerfile(t *testing.T) {
	d := readDockerfile(t)
	m := pinnedGo.FindStringSubmatch(d.stages[0].from)
	if goMod := string(readFile(t, filepath.Join(testutil.RepoRoot(t), "go.mod"))); m == nil || !strings.Contains(goMod, "\ngo "+m[1]) {
		t.Errorf("it is built by %s, want an exact tag with the Go version of go.mod", d.stages[0].from)
	}
	if d.stages[1].from != "scratch" || len(d.stages[1].all("RUN")) != 0 {
		t.Errorf("the image is made on %s and runs something there", d.stages[1].from)
	}
	if user := d.one(t, "USER"); !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		t.Errorf("it runs as %s", user)
	}
	entry := d.list(t, "ENTRYPOINT")
	if !slices.Contains(d.stages[1].all("COPY"), "--from=build /out"+entry[0]+" "+entry[0]) {
		t.Errorf("what it runs, %s, is not what was built: %q", entry, d.stages[1].all("COPY"))
	}
	if got := d.list(t, "CMD"); !slices.Equal(got, []string{"serve"}) {
		t.Errorf("it runs %q", got)
	}
	if got := d.list(t, "HEALTHCHECK"); !slices.Equal(got, []string{entry[0], "health"}) {
		t.Errorf("its health check is %q", got)
	}
}

// docker compose up, work, stop, up again with another setting, and down, with
// every service as a process.
func TestCompose(t *testing.T) {
	s := newStack(t, map[string]string{"KAFKA_PORT": "29092"})
	for _, name := range s.file.order(t) {
		s.up(name)
	}
	s.awaitHealthy("firn")
	host, inside := s.onHost("29092"), s.addr("firn", "9092")
	admin := s.onHost("9190")
	checkAdvertised(t, host)
	checkAdvertised(t, inside)
	checkDemoCommand(t, s)

	createTopicAt(t, inside, "letters", map[string]string{"segment.bytes": "1048576", "local.retention.ms": "1"})
	text := wholeLines(textFor(t, 0), 4<<20)
	half := bytes.IndexByte(text[2<<20:], '\n') + 2<<20 + 1
	testutil.NewKcat(t, host).Produce(t, "letters", bytes.NewReader(text[:half]))
	testutil.NewKcat(t, inside).Produce(t, "letters", bytes.NewReader(text[half:]))
	replayAll(t, s, text)
	broker := &testutil.Broker{AdminURL: "http://" + admin}
	waitFor(t, "segments in the bucket", func() (bool, any) {
		segments := segmentsOf(t, broker, "letters", 0)
		return len(segments) > 2 && segments[1].Tier != console.TierLocal, segments
	})
	checkMonitoring(t, s)

	// Up again: the bucket is there already, and the data is the same. With
	// another setting, what is in the bucket leaves the disk.
	if e := s.down("firn"); e.Code != 0 {
		t.Errorf("the broker stopped with exit code %d", e.Code)
	}
	if err := s.health(t.Context(), "firn"); err == nil || !strings.Contains(err.Error(), "exit code 3") {
		t.Errorf("a broker that is stopped is healthy: %v", err)
	}
	s.up("bucket")
	s.up("firn", "FIRN_LOG_RETENTION_CHECK_INTERVAL_MS=100", "FIRN_LOG_SEGMENT_DELETE_DELAY_MS=0")
	s.awaitHealthy("firn")
	waitFor(t, "segments in the bucket alone", func() (bool, any) {
		segments := segmentsOf(t, broker, "letters", 0)
		return segments[0].Tier == console.TierStore, segments
	})
	replayAll(t, s, text)

	for _, name := range []string{"firn", "store"} {
		if e := s.down(name); e.Code != 0 {
			t.Errorf("%s stopped with exit code %d", name, e.Code)
		}
	}
}

// replayAll reads the topic from its beginning through both listeners.
func replayAll(t *testing.T, s *stack, text []byte) {
	t.Helper()
	for _, addr := range []string{s.onHost("29092"), s.addr("firn", "9092")} {
		d := newDigest()
		testutil.NewKcat(t, addr).Consume(t, "letters", d)
		if want := digestOf(text); d.String() != want {
			t.Errorf("through %s:\n%s came back of\n%s", addr, d, want)
		}
	}
}

// clientAt makes a client for an address; it is closed with the test.
func clientAt(t *testing.T, addr string) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// checkAdvertised has clients of a listener told that listener's own address.
func checkAdvertised(t *testing.T, addr string) {
	t.Helper()
	brokers, err := clientAt(t, addr).ListBrokers(t.Context())
	if err != nil || len(brokers) != 1 {
		t.Fatalf("list the brokers at %s: %v, %v", addr, brokers, err)
	}
	if b := brokers[0]; net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))) != addr {
		t.Errorf("clients of %s are told %s:%d", addr, b.Host, b.Port)
	}
}

func createTopicAt(t *testing.T, addr, topic string, configs map[string]string) {
	t.Helper()
	set := map[string]*string{}
	for key, value := range configs {
		set[key] = &value
	}
	if r, err := clientAt(t, addr).CreateTopic(t.Context(), 1, 1, set, topic); err != nil {
		t.Fatalf("create topic %s: %v %s", topic, err, r.ErrMessage)
	}
}

// checkDemoCommand has the demo's command line understood. The demo itself has
// tests of its own.
func checkDemoCommand(t *testing.T, s *stack) {
	t.Helper()
	args := append(slices.Clone(s.file.Services["demo"].Command), "--help")
	if r := s.command("demo", args).Run(t); r.Code != 0 || !bytes.Contains(r.Stdout, []byte("firn demo")) {
		t.Errorf("firn %v: exit code %d\n%s", args, r.Code, r.Stderr)
	}
}

// checkMonitoring scrapes what the configuration of Prometheus names.
func checkMonitoring(t *testing.T, s *stack) {
	t.Helper()
	mount := s.file.Services["prometheus"].Volumes[0]
	path, _, _ := strings.Cut(mount, ":")
	var c struct {
		Global struct {
			Interval string `yaml:"scrape_interval"`
			Timeout  string `yaml:"scrape_timeout"`
		}
		Scrape []struct {
			Job    string                       `yaml:"job_name"`
			Path   string                       `yaml:"metrics_path"`
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(readFile(t, filepath.Join(testutil.RepoRoot(t), path))))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil {
		t.Fatalf("parse %s: %v", path, err)
	}
	target := "http://" + c.Scrape[0].Static[0].Targets[0] + c.Scrape[0].Path
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	body, err := get(ctx, s.local("prometheus", target))
	if err != nil || !strings.Contains(body, "# TYPE ") {
		t.Errorf("scrape %s: %v\n%.500s", target, err, body)
	}
}
