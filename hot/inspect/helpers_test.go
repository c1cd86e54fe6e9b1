// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"firn/hot"
	"firn/hot/inspect"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

const logDir = "/firn"

var (
	tp      = record.TopicPartition{Topic: "orders", Partition: 3}
	topicID = record.TopicID{1, 2, 3}
)

// readOnly is a file system on which nothing may be changed (I1).
type readOnly struct {
	vfs.FS
	t testing.TB
}

func (r readOnly) OpenFile(path string, flag int, perm fs.FileMode) (vfs.File, error) {
	if flag != vfs.ReadOnly {
		r.t.Errorf("%s is opened with flags %x", path, flag)
	}
	return r.FS.OpenFile(path, flag, perm)
}

func (r readOnly) forbidden(what, path string) error {
	r.t.Errorf("%s of %s", what, path)
	return errors.New("forbidden")
}

func (r readOnly) Remove(path string) error                  { return r.forbidden("removal", path) }
func (r readOnly) RemoveAll(path string) error               { return r.forbidden("removal", path) }
func (r readOnly) Rename(from, _ string) error               { return r.forbidden("rename", from) }
func (r readOnly) MkdirAll(path string, _ fs.FileMode) error { return r.forbidden("making", path) }
func (r readOnly) Lock(path string) (vfs.Unlocker, error) {
	return nil, r.forbidden("locking", path)
}

// gunzip unpacks what the tests pack.
func gunzip(codec record.Codec, section []byte) ([]byte, error) {
	switch codec {
	case record.CodecNone:
		return section, nil
	case record.CodecGzip:
		z, err := gzip.NewReader(bytes.NewReader(section))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(io.LimitReader(z, 1<<20))
	}
	return nil, fmt.Errorf("%w: codec %d", inspect.ErrNotUnpacked, codec)
}

func packed() recordtest.Option {
	return recordtest.Compressed(record.CodecGzip, func(b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write(b) // never fails into a buffer
		_ = w.Close()
		return out.Bytes()
	})
}

// options are those of the tests, over a file system that must not change.
func options(t testing.TB, fsys vfs.FS) inspect.Options {
	return inspect.Options{FS: readOnly{fsys, t}, Decompress: gunzip}
}

// appended fills a log with 30 batches of three records, of two producers and
// of none, some packed, under three epochs, in several segments.
func appended(t testing.TB, l *hot.Log) {
	t.Helper()
	sequence := [2]int32{}
	for i := range 30 {
		opts := []recordtest.Option{recordtest.Count(3), recordtest.Timestamp(recordtest.DefaultTimestamp + int64(i%7)*10 + int64(i)), recordtest.Headers(i % 2)}
		if n := i % 3; n < 2 {
			opts = append(opts, recordtest.Producer(int64(40+n), int16(n), sequence[n]))
			sequence[n] += 3
		}
		if i%4 == 0 {
			opts = append(opts, packed())
		}
		if _, err := l.Append(recordtest.Batch(0, opts...), record.Epoch(i/10)); err != nil {
			t.Fatal(err)
		}
	}
}

// written is a log directory after a clean stop: one partition with segments
// at the offsets that it answers.
func written(t testing.TB) (*vfs.Mem, []record.Offset) {
	t.Helper()
	mem := vfs.NewMem()
	s, l := opened(t, mem)
	appended(t, l)
	var bases []record.Offset
	for _, segment := range l.Segments() {
		bases = append(bases, segment.BaseOffset())
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(bases) < 3 {
		t.Fatalf("segments at %v", bases)
	}
	return mem, bases
}

func opened(t testing.TB, fsys vfs.FS) (*hot.Store, *hot.Log) {
	t.Helper()
	s, err := hot.Open(t.Context(), hot.Options{Dir: logDir, FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
	l, err := s.CreateLog(t.Context(), tp, topicID, hot.LogOptions{SegmentBytes: 1200, IndexInterval: 100})
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

// inDir is the path of a file of the partition.
func inDir(name string) string { return filepath.Join(logDir, tp.String(), name) }

func fileAt(base record.Offset, suffix string) string { return inDir(base.FileName() + suffix) }

func readFile(t testing.TB, fsys vfs.FS, path string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fsys, path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, fsys vfs.FS, path string, b []byte) {
	t.Helper()
	if err := vfs.ReplaceFile(fsys, path, b); err != nil {
		t.Fatal(err)
	}
}

// copyDir puts a directory of the disk into a Mem, below logDir.
func copyDir(t testing.TB, from string) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	err := filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil || e.IsDir() {
			return errors.Join(err, mem.MkdirAll(filepath.Join(logDir, name), 0o755))
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return vfs.ReplaceFile(mem, filepath.Join(logDir, name), b)
	})
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

// verify verifies the log directory and answers what was found, a line each:
// "fault <path below the partition or top>:<position> <reason>".
func verify(t testing.TB, o inspect.Options) (lines []string, sum inspect.Summary) {
	t.Helper()
	sum, err := inspect.Verify(t.Context(), logDir, o, func(f inspect.Finding) error {
		word := "note"
		if f.Fault {
			word = "fault"
		}
		path := strings.TrimPrefix(strings.TrimPrefix(f.File, logDir+"/"), tp.String()+"/")
		lines = append(lines, fmt.Sprintf("%s %s:%d %s", word, path, f.Position, f.Reason))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := sum.Faults + sum.Notes; n != len(lines) {
		t.Errorf("the summary counts %d, %d were reported", n, len(lines))
	}
	return lines, sum
}
