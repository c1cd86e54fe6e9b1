// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"firn/internal/vfs"
)

const (
	// enoughDescriptors lets 10,000 partitions be open; fewFails is too little
	// for a handful of clients.
	enoughDescriptors = 20_000
	fewDescriptors    = 1024
	// processMemory is what the broker takes beside its budgets.
	processMemory = 128 << 20
	// fetchMemory is the budget of warm and cold reads.
	fetchMemory = 128 << 20
	// clockWatch is how long the two clocks are compared, clockSlack by how
	// much they may differ after it, and future how far a record or file may
	// be ahead.
	clockWatch = 100 * time.Millisecond
	clockSlack = 10 * time.Millisecond
	future     = time.Minute
)

// existing is a data directory, or the nearest directory above it that is
// there.
func existing(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "."
	}
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return dir
		}
		dir = up
	}
}

func (d *doctor) checkDataDirs(context.Context) {
	for _, dir := range d.cfg.Log.Dirs {
		d.checkDataDir(dir)
	}
	if d.status == nil {
		return
	}
	for _, s := range d.status.LogDirs {
		if s.Offline != "" {
			d.fail("data directory", "see to its disk and start the broker again; its partitions are offline until then", "the broker does not use %s: %s", s.Dir, s.Offline)
		}
	}
}

func (d *doctor) checkDataDir(dir string) {
	const name = "data directory"
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.ok(name, "%s is not there yet and will be made", dir)
		return
	case err != nil:
		d.fail(name, "give the user of the broker access to it", "%v", err)
		return
	case !info.IsDir():
		d.fail(name, "set log.dirs to a directory", "%s is no directory", dir)
		return
	}
	lock := filepath.Join(dir, ".lock")
	if _, err := os.Stat(lock); err != nil {
		d.ok(name, "%s is there, and nobody uses it", dir)
		return
	}
	unlock, err := vfs.Disk().Lock(lock)
	switch {
	case err == nil:
		if err := unlock.Unlock(); err != nil {
			d.warn(name, "see whether a broker can start", "%s: %v", dir, err)
			return
		}
		d.ok(name, "%s is there, and nobody uses it", dir)
	case errors.Is(err, vfs.ErrLocked) && d.status != nil:
		d.ok(name, "%s is in use, and a broker answers", dir)
	case errors.Is(err, vfs.ErrLocked):
		d.warn(name, "stop what uses it before you start a broker, or look at admin.listeners", "%s is in use, and no broker answers at the admin port", dir)
	default:
		d.fail(name, "give the user of the broker access to it", "%v", err)
	}
}

func (d *doctor) checkFileSystems(context.Context) {
	for _, dir := range d.cfg.Log.Dirs {
		d.checkFileSystem(existing(dir))
	}
}

func (d *doctor) checkFileSystem(dir string) {
	const name = "file system"
	io, err := vfs.ProbeIO(dir, d.cfg.Operation.IOForce)
	if err != nil {
		cure := "let the user of the broker write there"
		if errors.Is(err, vfs.ErrUnknownMethod) {
			cure = "set firn.io.force to what works here, or leave it empty"
		}
		d.fail(name, cure, "%v", err)
		return
	}
	m := io.Methods()
	text := dir + ": read " + m.UncachedRead + ", write " + m.UncachedWrite + ", residency " + m.Residency + ", send " + m.Send
	switch {
	case m.Residency == "unknown":
		d.warn(name, "keep the data on ext4 or xfs with Linux 5.10 or newer",
			"%s; nothing tells what is in the page cache, so that replays of local data take the tail's pages", text)
	case m.UncachedRead == "buffered":
		d.warn(name, "keep the data on ext4 or xfs with Linux 5.10 or newer",
			"%s; nothing reads past the page cache, so that replays of local data take the tail's pages", text)
	default:
		d.ok(name, "%s", text)
	}
}

func (d *doctor) checkSpaces(context.Context) {
	for _, dir := range d.cfg.Log.Dirs {
		d.checkSpace(existing(dir))
	}
}

func (d *doctor) checkSpace(dir string) {
	const name = "disk space"
	u, err := vfs.Disk().Usage(dir)
	if err != nil {
		d.fail(name, "see whether the disk is well", "%v", err)
		return
	}
	reserve := d.cfg.Operation.Reserve(u.Total)
	free := dir + ": " + humanBytes(int64(u.Free)) + " free of " + humanBytes(int64(u.Total)) + ", reserve " + humanBytes(int64(reserve))
	cure := "make room, lower retention or local.retention.*, or lower firn.disk.reserve.bytes"
	switch {
	case u.Free < reserve:
		d.fail(name, cure, "%s: produce is refused", free)
	case u.Free < 2*reserve:
		d.warn(name, cure, "%s: near the point where produce is refused", free)
	default:
		d.ok(name, "%s", free)
	}
}

func (d *doctor) checkDescriptors(context.Context) {
	const name = "descriptors"
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		d.warn(name, "see ulimit -n", "%v", err)
		return
	}
	// The Go runtime raises the soft limit to the hard one.
	cure := "raise it: LimitNOFILE=1048576 in a systemd unit, --ulimit nofile=1048576 in a container"
	switch n := uint64(limit.Max); {
	case n < fewDescriptors:
		d.fail(name, cure, "at most %d files and connections (nofile)", n)
	case n < enoughDescriptors:
		d.warn(name, cure, "at most %d files and connections (nofile), enough for some hundred partitions", n)
	default:
		d.ok(name, "up to %d files and connections (nofile)", n)
	}
}

func (d *doctor) checkMemory(context.Context) {
	const name = "memory"
	need := d.cfg.Network.RequestMemory + fetchMemory + processMemory
	if d.cfg.Tier.Enabled() {
		need += max(0, d.cfg.Tier.CacheBytes) + max(0, d.cfg.Tier.IndexCacheBytes) + 2*max(0, d.cfg.Tier.PrefetchBytes)
	}
	limit, limited := memoryLimit("/proc/self/cgroup", "/sys/fs/cgroup")
	cure := "raise the limit, or lower queued.max.request.bytes and the caches (tier.*)"
	switch {
	case !limited:
		d.ok(name, "no limit by a cgroup; the broker takes up to %s, the hot set in the page cache comes on top", humanBytes(need))
	case limit < need:
		d.fail(name, cure, "the cgroup allows %s, the broker may take %s at full load", humanBytes(limit), humanBytes(need))
	case limit < 2*need:
		d.warn(name, cure, "the cgroup allows %s, the broker may take %s at full load: %s are left for the hot set, whose page cache counts",
			humanBytes(limit), humanBytes(need), humanBytes(limit-need))
	default:
		d.ok(name, "the cgroup allows %s, the broker takes up to %s; the rest is for the hot set in the page cache", humanBytes(limit), humanBytes(need))
	}
}

// memoryLimit is the lowest memory limit of the cgroups that this process is
// in, by the files of version 2 or version 1.
func memoryLimit(self, root string) (limit int64, limited bool) {
	b, err := os.ReadFile(self)
	if err != nil {
		return 0, false
	}
	take := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			return
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		// Version 1 says nearly 2^63 for no limit.
		if err == nil && n < 1<<60 && (!limited || n < limit) {
			limit, limited = n, true
		}
	}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base, file := root, "memory.max"
		if parts[1] != "" {
			if !strings.Contains(","+parts[1]+",", ",memory,") {
				continue
			}
			base, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		}
		for dir := filepath.Clean("/" + parts[2]); ; dir = filepath.Dir(dir) {
			take(filepath.Join(base, dir, file))
			if dir == "/" {
				break
			}
		}
	}
	return limit, limited
}

func (d *doctor) checkClock(ctx context.Context) {
	const name = "clock"
	before := time.Now()
	select {
	case <-time.After(clockWatch):
	case <-ctx.Done():
	}
	after := time.Now()
	// Round(0) takes the monotonic reading off.
	drift := after.Round(0).Sub(before.Round(0)) - after.Sub(before)
	newest, what := d.newest()
	ahead := newest.Sub(after)
	switch {
	case drift.Abs() > clockSlack:
		d.fail(name, "let one service alone set the clock, and let it slew", "the wall clock went %v away from the monotonic one within %v: it is being set", drift, clockWatch)
	case ahead > future && d.status == nil:
		d.fail(name, "set the clock of this machine", "%s is %v ahead of the clock, which has gone back", what, ahead.Round(time.Second))
	case ahead > future:
		d.warn(name, "look at the clocks of the producers and of this machine: retention goes by the time of records", "%s is %v ahead of the clock", what, ahead.Round(time.Second))
	case !clockSynced():
		d.warn(name, "run chrony or systemd-timesyncd", "steady, but the kernel says that nothing keeps it right")
	default:
		d.ok(name, "steady, and not behind what was written")
	}
}

// newest is the newest record that the broker tells of or, when none runs, the
// newest segment file.
func (d *doctor) newest() (at time.Time, what string) {
	if d.status != nil {
		if d.status.NewestRecordMs > 0 {
			at = time.UnixMilli(d.status.NewestRecordMs)
		}
		return at, "the newest record"
	}
	for _, dir := range d.cfg.Log.Dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*", "*.log"))
		if err != nil {
			continue
		}
		for _, path := range files {
			if info, err := os.Stat(path); err == nil && info.ModTime().After(at) {
				at, what = info.ModTime(), path
			}
		}
	}
	return at, what
}
