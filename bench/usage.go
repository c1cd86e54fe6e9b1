// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Usage is what a process uses, as /proc tells it.
type Usage struct {
	// CPUSeconds is the time on a CPU since its start, in user and kernel.
	CPUSeconds float64 `json:"cpu_seconds"`
	// RSS is its resident memory, Anonymous the part of it that is no file.
	RSS       int64 `json:"rss_bytes"`
	Anonymous int64 `json:"anonymous_bytes"`
	Threads   int   `json:"threads"`
}

// clockTicks is the unit of CPU time in /proc/<pid>/stat, per second. Linux
// shows 100 to every user program, whatever the kernel counts in.
const clockTicks = 100

// ReadUsage asks /proc about a process. The error says why it cannot tell,
// as on systems that have no /proc.
func ReadUsage(pid int) (Usage, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Usage{}, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return Usage{}, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return parseUsage(stat, status)
}

// parseUsage reads /proc/<pid>/stat, in which the name may hold anything up to
// the last parenthesis, and /proc/<pid>/status.
func parseUsage(stat, status []byte) (Usage, error) {
	const utime, stime = 11, 12 // fields after the name
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime {
		return Usage{}, fmt.Errorf("read the use of a process: %d fields in stat", len(fields))
	}
	var ticks int64
	for _, i := range []int{utime, stime} {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("read the use of a process: CPU time %q", fields[i])
		}
		ticks += n
	}
	u := Usage{CPUSeconds: float64(ticks) / clockTicks}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			continue // a line that is no number is none of those wanted
		}
		switch name {
		case "VmRSS":
			u.RSS = n << 10
		case "RssAnon", "RssShmem":
			u.Anonymous += n << 10
		case "Threads":
			u.Threads = int(n)
		}
	}
	return u, nil
}

// Spent is what a process used over a run.
type Spent struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	// CPUPerGiB is CPUSeconds by the bytes that the run moved; 0 for none.
	CPUPerGiB float64 `json:"cpu_seconds_per_gib,omitempty"`
	// The rest is as of the end.
	RSS       int64 `json:"rss_bytes"`
	Anonymous int64 `json:"anonymous_bytes"`
	Threads   int   `json:"threads"`
}

// Since is what was used since before, for moved bytes.
func (u Usage) Since(before Usage, moved int64) Spent {
	s := Spent{CPUSeconds: u.CPUSeconds - before.CPUSeconds, RSS: u.RSS, Anonymous: u.Anonymous, Threads: u.Threads}
	if moved > 0 {
		s.CPUPerGiB = s.CPUSeconds * (1 << 30) / float64(moved)
	}
	return s
}
