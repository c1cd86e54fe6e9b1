// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"firn/internal/testutil"
)

// produceError produces one record with acks=all and without any retry.
func produceError(t testing.TB, b *testutil.Broker, l *ledger, size int) error {
	t.Helper()
	client := b.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(), kgo.RecordRetries(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer client.Close()
	l.mu.Lock()
	n := l.tries
	l.tries++
	l.mu.Unlock()
	r, err := client.ProduceSync(t.Context(), &kgo.Record{Topic: l.topic, Partition: l.partition, Value: payload(l.topic, l.partition, n, size)}).First()
	if err == nil {
		l.ack(r.Offset, n)
	}
	return err
}

// Below the reserve produce is refused with an error that clients retry, and
// everything else goes on.
func TestDiskReserve(t *testing.T) {
	_, store, b := startGateway(t)
	createTopic(t, b, "reserved", 1, "segment.bytes=1048576", "local.retention.ms=1")
	l := newLedger("reserved", 0)
	l.fill(t, b, outageSegment*3/2, outageRecord)

	b.Set("firn.disk.reserve.bytes", strconv.FormatInt(freeSpace(t, b.DataDir)+1<<40, 10))
	b.Restart()
	l.tries = 10_000
	if err := produceError(t, b, l, 100); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("produce below the reserve is answered with %v", err)
	}
	l.check(t, b, 0)
	waitOffLocal(t, b, "reserved", 0, l.end) // uploads may use the reserve
	l.check(t, b, 0)
	if s := statusOf(t, b).Disk; s.Free >= s.Reserve {
		t.Errorf("the status does not tell: %+v", s)
	}
	createTopic(t, b, "born-below-the-reserve", 1)

	// A client that retries gets through once there is room.
	client := b.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	waiting := make(chan error, 1)
	client.Produce(t.Context(), &kgo.Record{Topic: "reserved", Value: payload("reserved", 0, 20_000, 100)}, func(r *kgo.Record, err error) {
		if err == nil {
			l.ack(r.Offset, 20_000)
		}
		waiting <- err
	})
	b.Set("firn.disk.reserve.bytes", "0")
	b.Restart()
	if err := <-waiting; err != nil {
		t.Errorf("a produce that was retried fails with %v", err)
	}
	l.check(t, b, 0)
	waitExact(t, b, store, "reserved")
}

func freeSpace(t testing.TB, dir string) int64 {
	t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize
}

// inNamespace says to the test binary that it has a mount namespace of its own.
const inNamespace = "TEST_IN_MOUNT_NAMESPACE"

// withSmallDisk runs the test again in a mount namespace of its own, where it
// may mount what it likes, and reports how that went. There it returns a small
// file system in memory and true.
func withSmallDisk(t *testing.T, size string) (dir string, inside bool) {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		dir := filepath.Join(t.TempDir(), "disk")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("firn-test", dir, "tmpfs", 0, "size="+size); err != nil {
			t.Fatalf("mount a small disk: %v", err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Errorf("unmount the small disk: %v", err)
			}
		})
		return dir, true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	how := [][]string{{"--user", "--map-root-user", "--mount"}}
	if os.Geteuid() == 0 {
		how = append([][]string{{"--mount"}}, how...)
	}
	var out bytes.Buffer
	for _, flags := range how {
		out.Reset()
		probe := exec.CommandContext(t.Context(), "unshare", append(flags, "true")...)
		probe.Stdout, probe.Stderr = &out, &out
		if err := probe.Run(); err != nil {
			continue
		}
		out.Reset()
		cmd := exec.CommandContext(t.Context(), "unshare", append(flags, self, "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "5m")...)
		cmd.Env = append(os.Environ(), inNamespace+"=yes")
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("in a mount namespace: %v\n%s", err, out.Bytes())
		}
		if !strings.Contains(out.String(), "--- PASS: "+t.Name()) {
			t.Fatalf("in a mount namespace no test ran:\n%s", out.Bytes())
		}
		t.Logf("in a mount namespace:\n%s", out.Bytes())
		return "", false
	}
	t.Fatalf("no mount namespace can be had, as root or by `unshare --user --map-root-user --mount`:\n%s", out.Bytes())
	return "", false
}

// filler takes all space of a disk.
type filler struct {
	t    *testing.T
	path string
}

// fill leaves free bytes of the disk, about.
func (f filler) fill(free int64) {
	f.t.Helper()
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, 4096)
	for freeSpace(f.t, filepath.Dir(f.path)) > free {
		if _, err := file.Write(block); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f filler) remove() {
	f.t.Helper()
	if err := os.Remove(f.path); err != nil {
		f.t.Fatal(err)
	}
}

// A disk that is really full costs nothing that was acknowledged: an append
// that does not fit is cut back and answered with an error, and the broker
// goes on when there is space again.
func TestDiskFull(t *testing.T) {
	dir, inside := withSmallDisk(t, "40m")
	if !inside {
		return
	}
	g := testutil.StartGateway(t)
	settings := tiered(g, "minio", gracefully)
	maps.Copy(settings, map[string]string{"log.dirs": filepath.Join(dir, "data"), "firn.disk.reserve.bytes": "0"})
	b := testutil.StartBroker(t, settings)
	createTopic(t, b, "full", 1, "segment.bytes=1048576", "local.retention.ms=1", "index.interval.bytes=64")
	store := storage{settings, func() []string { return g.Keys("") }}
	l := newLedger("full", 0)
	f := filler{t, filepath.Join(dir, "filler")}

	// Sizes that leave the disk full at different places of an append, a roll,
	// a snapshot and a manifest.
	for round, size := range []int{100, 4 << 10, 60 << 10, 300 << 10, 900 << 10} {
		for range 5 {
			if err := produceError(t, b, l, size); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		f.fill(int64(size))
		l.fillUntilRefused(t, b, size)
		l.check(t, b, 0)
		if round%2 == 1 {
			b.Kill()
			f.fill(0)
			b.Start() // with the disk full to its last block
			l.check(t, b, 0)
		}
		f.remove()
		waitFor(t, "the broker to go on", func() (bool, any) {
			err := produceError(t, b, l, size)
			return err == nil, err
		})
		l.check(t, b, 0)
	}
	waitOffLocal(t, b, "full", 0, l.end)
	waitExact(t, b, store, "full")
	b.Restart()
	l.check(t, b, 0)
}

// fillUntilRefused produces until a record is refused for want of space, and
// wants it to be refused as a fault of the storage.
func (l *ledger) fillUntilRefused(t testing.TB, b *testutil.Broker, size int) {
	t.Helper()
	for range 2000 {
		err := produceError(t, b, l, size)
		switch {
		case errors.Is(err, kerr.KafkaStorageError):
			return
		case err != nil:
			t.Fatalf("a full disk is answered with %v", err)
		}
	}
	t.Fatal("the disk never got full")
}

// Many partitions meet a full disk at once, with uploads and retention under
// way, and the disk fills and empties while they do.
func TestDiskFullUnderLoad(t *testing.T) {
	dir, inside := withSmallDisk(t, "48m")
	if !inside {
		return
	}
	g := testutil.StartGateway(t)
	settings := tiered(g, "s3", gracefully)
	maps.Copy(settings, map[string]string{"log.dirs": filepath.Join(dir, "data"), "firn.disk.reserve.bytes": "0", "log.flush.offset.checkpoint.interval.ms": "200"})
	b := testutil.StartBroker(t, settings)
	store := storage{settings, func() []string { return g.Keys("") }}
	f := filler{t, filepath.Join(dir, "filler")}
	const partitions = 4
	createTopic(t, b, "crowd", partitions, "segment.bytes=1048576", "local.retention.ms=1")
	var ledgers [partitions]*ledger
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var producers sync.WaitGroup
	client := b.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(64), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
	for p := range ledgers {
		ledgers[p] = newLedger("crowd", int32(p))
		producers.Go(func() {
			ledgers[p].produceIdempotent(ctx, client, func(err error) { t.Errorf("an idempotent producer gave up: %v", err) })
		})
	}
	for round := range 4 {
		f.fill(0)
		time.Sleep(700 * time.Millisecond)
		f.fill(0) // what dropped segments gave back
		time.Sleep(300 * time.Millisecond)
		if round == 2 {
			b.Kill()
			f.remove()
			b.Start()
		} else {
			f.remove()
		}
		_, before := ledgers[0].promised()
		waitFor(t, "the producers to go on", func() (bool, any) {
			_, end := ledgers[0].promised()
			return end > before, fmt.Sprint(end)
		})
	}
	cancel()
	producers.Wait()
	flush, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := client.Flush(flush); err != nil {
		t.Fatal(err)
	}
	for p, l := range ledgers {
		l.check(t, b, 0)
		waitInStore(t, b, "crowd", int32(p), endOffset(t, b, "crowd", int32(p)))
	}
	waitExact(t, b, store, "crowd")
	if !strings.Contains(b.Logs(), "event=append_refused") || !strings.Contains(b.Logs(), "event=append_resumed") {
		t.Error("nothing in the broker's log speaks of a full disk")
	}
	if poisoned := statusOf(t, b).Attention; len(poisoned) > 0 {
		t.Errorf("partitions need attention: %+v", poisoned)
	}
	b.Restart()
	for _, l := range ledgers {
		l.check(t, b, 0)
	}
}
