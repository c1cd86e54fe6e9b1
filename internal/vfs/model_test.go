// SPDX-License-Identifier: Apache-2.0

package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"firn/internal/vfs"
)

// TestMemBehavesAsDisk does the same random things to Disk and to Mem and
// compares every answer, down to the error number.
func TestMemBehavesAsDisk(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "model")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		mem := vfs.NewMem()
		if err := mem.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		p := &pair{dir: dir, forms: [2]vfs.FS{vfs.Disk(), mem}}
		defer p.closeAll()
		t.Repeat(map[string]func(*rapid.T){
			"open":     p.open,
			"write":    p.write,
			"read":     p.read,
			"truncate": p.truncate,
			"close":    p.close,
			"remove":   p.remove,
			"rename":   p.rename,
			"mkdir":    p.mkdir,
			"list":     p.list,
			"":         p.same,
		})
	})
}

// pair holds the two forms and the handles open on both.
type pair struct {
	dir     string
	forms   [2]vfs.FS
	handles [][2]vfs.File
}

// both asks the two forms and fails where they answer differently.
func (p *pair) both(t *rapid.T, what string, ask func(i int, fsys vfs.FS) (any, error)) {
	var answers [2]string
	for i, fsys := range p.forms {
		answer, err := ask(i, fsys)
		answers[i] = fmt.Sprintf("%v, %s", answer, reason(err))
	}
	if answers[0] != answers[1] {
		t.Fatalf("%s: disk answers %s, mem %s", what, answers[0], answers[1])
	}
}

// reason is the innermost meaning of an error.
func reason(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, io.EOF):
		return "EOF"
	}
	return "another error"
}

func (p *pair) path(t *rapid.T) string {
	name := rapid.SampledFrom([]string{"a", "b", "d", "d/a", "d/b", "e", "e/a", "d/e"}).Draw(t, "path")
	return filepath.Join(p.dir, name)
}

func (p *pair) handle(t *rapid.T) [2]vfs.File {
	if len(p.handles) == 0 {
		t.Skip("nothing is open")
	}
	return rapid.SampledFrom(p.handles).Draw(t, "handle")
}

func (p *pair) open(t *rapid.T) {
	path := p.path(t)
	flag := rapid.SampledFrom([]int{vfs.ReadOnly, vfs.ReadWrite, vfs.Create, vfs.CreateNew, vfs.Create | os.O_TRUNC}).Draw(t, "flag")
	var handles [2]vfs.File
	p.both(t, "open "+path, func(i int, fsys vfs.FS) (any, error) {
		f, err := fsys.OpenFile(path, flag, 0o644)
		handles[i] = f
		return f != nil, err
	})
	if handles[0] != nil {
		p.handles = append(p.handles, handles)
	}
}

func (p *pair) write(t *rapid.T) {
	h := p.handle(t)
	data := rapid.SliceOfN(rapid.Byte(), 0, 6000).Draw(t, "data")
	off := rapid.Int64Range(0, 10000).Draw(t, "off")
	p.both(t, "write", func(i int, _ vfs.FS) (any, error) { return result(h[i].WriteAt(data, off)) })
}

func (p *pair) read(t *rapid.T) {
	h := p.handle(t)
	size := rapid.IntRange(0, 20000).Draw(t, "size")
	off := rapid.Int64Range(0, 12000).Draw(t, "off")
	p.both(t, "read", func(i int, _ vfs.FS) (any, error) {
		b := make([]byte, size)
		n, err := h[i].ReadAt(b, off)
		return b[:n], err
	})
}

func (p *pair) truncate(t *rapid.T) {
	h := p.handle(t)
	size := rapid.Int64Range(0, 12000).Draw(t, "size")
	p.both(t, "truncate", func(i int, _ vfs.FS) (any, error) { return nil, h[i].Truncate(size) })
}

func (p *pair) close(t *rapid.T) {
	if len(p.handles) == 0 {
		t.Skip("nothing is open")
	}
	h := p.handles[0]
	p.handles = p.handles[1:]
	p.both(t, "close", func(i int, _ vfs.FS) (any, error) { return nil, h[i].Close() })
}

func (p *pair) remove(t *rapid.T) {
	path := p.path(t)
	all := rapid.Bool().Draw(t, "all")
	p.both(t, "remove "+path, func(_ int, fsys vfs.FS) (any, error) {
		if all {
			return nil, fsys.RemoveAll(path)
		}
		return nil, fsys.Remove(path)
	})
}

func (p *pair) rename(t *rapid.T) {
	from, to := p.path(t), p.path(t)
	p.both(t, "rename "+from+" to "+to, func(_ int, fsys vfs.FS) (any, error) { return nil, fsys.Rename(from, to) })
}

func (p *pair) mkdir(t *rapid.T) {
	path := p.path(t)
	p.both(t, "mkdir "+path, func(_ int, fsys vfs.FS) (any, error) { return nil, fsys.MkdirAll(path, 0o755) })
}

func (p *pair) list(t *rapid.T) {
	path := p.path(t)
	p.both(t, "list "+path, func(_ int, fsys vfs.FS) (any, error) {
		entries, err := fsys.ReadDir(path)
		return fmt.Sprint(entries), err
	})
}

// same compares the whole trees.
func (p *pair) same(t *rapid.T) {
	p.both(t, "tree", func(_ int, fsys vfs.FS) (any, error) { return tree(fsys, p.dir) })
	p.both(t, "open files", func(i int, _ vfs.FS) (any, error) {
		var out []string
		for _, h := range p.handles {
			info, err := h[i].Stat()
			if err != nil {
				return nil, err
			}
			if !info.IsDir() {
				out = append(out, fmt.Sprint(info.Name(), info.Size()))
			}
		}
		return out, nil
	})
}

func (p *pair) closeAll() {
	for _, h := range p.handles {
		_, _ = h[0].Close(), h[1].Close()
	}
}

func result(n int, err error) (any, error) { return n, err }

// tree is everything below dir in one string.
func tree(fsys vfs.FS, dir string) (string, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return "", err
	}
	out := ""
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		var inner string
		if e.IsDir() {
			inner, err = tree(fsys, path)
		} else {
			var b []byte
			b, err = vfs.ReadFile(fsys, path, 1<<20)
			inner = fmt.Sprintf("%x", b)
		}
		if err != nil {
			return "", err
		}
		out += e.Name() + "{" + inner + "}"
	}
	return out, nil
}
