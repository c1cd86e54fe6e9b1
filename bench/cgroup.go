// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cgroupRoot is where control groups are mounted.
const cgroupRoot = "/sys/fs/cgroup"

// MemoryGroup is a memory cgroup of our own, which bounds the memory of the
// processes in it together with the page cache that they fill: the means to
// show on a large machine what happens on a small one.
type MemoryGroup struct {
	dir   string
	limit int64
}

// NewMemoryGroup makes a group below the one that this process is in (or, where
// that may hold no groups, below the nearest one above it that may), in version
// 1 or 2. The error says why that is not allowed here.
func NewMemoryGroup(name string, limit int64) (*MemoryGroup, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find the own cgroup: %w", err)
	}
	parent, file, err := groupParent(cgroupRoot, string(own))
	if err != nil {
		return nil, err
	}
	g := &MemoryGroup{dir: filepath.Join(parent, name), limit: limit}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a memory cgroup: %w", err)
	}
	if err := os.WriteFile(filepath.Join(g.dir, file), []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
		return nil, errors.Join(fmt.Errorf("bound the memory cgroup: %w", err), g.Remove())
	}
	return g, nil
}

// groupParent finds, in the text of /proc/self/cgroup, the directory below
// which a memory group may be made, and the name of the file with its limit.
func groupParent(root, own string) (dir, limitFile string, err error) {
	for line := range strings.Lines(own) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		switch {
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			return filepath.Join(root, "memory", path), "memory.limit_in_bytes", nil
		case id == "0" && controllers == "":
			for at := filepath.Join(root, path); strings.HasPrefix(at, root); at = filepath.Dir(at) {
				below, err := os.ReadFile(filepath.Join(at, "cgroup.subtree_control"))
				if err == nil && slices.Contains(strings.Fields(string(below)), "memory") {
					return at, "memory.max", nil
				}
			}
		}
	}
	return "", "", errors.New("no cgroup here may bound memory")
}

// Limit is the bound in bytes.
func (g *MemoryGroup) Limit() int64 { return g.limit }

// Add moves a process into the group. What it has in memory already stays
// where it is counted.
func (g *MemoryGroup) Add(pid int) error {
	if err := os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
		return fmt.Errorf("move process %d into the memory cgroup: %w", pid, err)
	}
	return nil
}

// Remove removes the group, in which no process may be left. Page cache that
// is counted to it goes to the group above.
func (g *MemoryGroup) Remove() error {
	if err := os.Remove(g.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the memory cgroup: %w", err)
	}
	return nil
}
