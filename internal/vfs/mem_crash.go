// SPDX-License-Identifier: Apache-2.0

package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// sector is the unit that a disk writes wholly or not at all, in bytes.
const sector = 512

// Crash returns what a power cut at this moment would leave: synced bytes,
// synced lengths and synced entries, nothing else. The new file system shares
// nothing with the old one, on which open handles go on working. No lock is
// held in it, and everything in it is durable.
func (m *Mem) Crash() *Mem {
	return m.crash(func(n *node) ([]byte, map[string]*node) {
		return slices.Clone(n.disk), n.synced
	})
}

// CrashKeeping is Crash on a machine that had already written some of what
// nobody had synced: of each directory a prefix of the changes, of each file
// some lengths and pages, pages torn between sectors. What was lost inside a
// length that was kept reads as it did before, or as zeros. The same seed on
// the same history gives the same result.
func (m *Mem) CrashKeeping(seed uint64) *Mem {
	rng := rand.New(rand.NewPCG(seed, 0))
	return m.crash(func(n *node) ([]byte, map[string]*node) {
		if n.dir {
			return nil, keepEntries(rng, n)
		}
		return keepBytes(rng, n), nil
	})
}

// Kill returns what the next process finds when this one was killed and the
// machine ran on: everything that was written, synced or not (a later Crash
// still takes what was not), and no lock.
func (m *Mem) Kill() *Mem {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := copier{seen: make(map[*node]*node)}
	c.visit = func(n, to *node) {
		to.data, to.disk, to.dirty = slices.Clone(n.data), slices.Clone(n.disk), maps.Clone(n.dirty)
		to.entries, to.synced = c.entries(n.entries, true), c.entries(n.synced, false)
		for _, changes := range n.pending {
			kept := slices.Clone(changes)
			for i := range kept {
				kept[i].node = c.copy(kept[i].node)
			}
			to.pending = append(to.pending, kept)
		}
	}
	return c.mem(m)
}

// crash copies the part of the tree that survivors lets live.
func (m *Mem) crash(survivors func(n *node) (content []byte, entries map[string]*node)) *Mem {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := copier{seen: make(map[*node]*node)}
	c.visit = func(n, to *node) {
		content, entries := survivors(n)
		to.data, to.disk, to.dirty = content, slices.Clone(content), make(map[int64]struct{})
		to.entries = c.entries(entries, true)
		to.synced = maps.Clone(to.entries)
	}
	return c.mem(m)
}

// keepEntries applies some of the oldest changes that were not synced: file
// systems write their journals in order.
func keepEntries(rng *rand.Rand, n *node) map[string]*node {
	entries := maps.Clone(n.synced)
	for _, changes := range n.pending[:rng.IntN(len(n.pending)+1)] {
		setEntries(entries, changes)
	}
	return entries
}

// keepBytes mixes the durable content of a file with some of what was written
// since.
func keepBytes(rng *rand.Rand, n *node) []byte {
	size := len(n.disk)
	if len(n.data) != len(n.disk) && rng.IntN(2) == 0 {
		low, high := min(len(n.data), len(n.disk)), max(len(n.data), len(n.disk))
		size = low + rng.IntN(high-low+1)
	}
	content := resized(slices.Clone(n.disk), size)
	for _, page := range slices.Sorted(maps.Keys(n.dirty)) {
		switch rng.IntN(3) {
		case 0: // lost
		case 1:
			copyPage(content, n.data, page, memPage)
		case 2:
			copyPage(content, n.data, page, sector*rng.IntN(memPage/sector))
		}
	}
	return content
}

// copier copies nodes, each once, so that a file reached by two entries stays
// one file.
type copier struct {
	seen  map[*node]*node
	visit func(n, to *node)
}

func (c *copier) copy(n *node) *node {
	if n == nil {
		return nil
	}
	if to := c.seen[n]; to != nil {
		return to
	}
	to := &node{dir: n.dir, perm: n.perm, modTime: n.modTime}
	c.seen[n] = to
	c.visit(n, to)
	return to
}

// entries copies a directory in the order of names, so that a random choice
// made on the way depends on the seed alone.
func (c *copier) entries(from map[string]*node, link bool) map[string]*node {
	to := make(map[string]*node, len(from))
	for _, name := range slices.Sorted(maps.Keys(from)) {
		to[name] = c.copy(from[name])
		if link {
			to[name].links++
		}
	}
	return to
}

func (c *copier) mem(m *Mem) *Mem {
	to := &Mem{root: c.copy(m.root), capacity: m.capacity}
	for _, n := range c.seen {
		if n.links > 0 {
			to.used += int64(len(n.data))
		}
	}
	return to
}
