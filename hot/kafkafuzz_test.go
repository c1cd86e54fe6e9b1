// SPDX-License-Identifier: Apache-2.0

package hot_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
)

// smallFiles are those that FuzzSmallFiles gives other content: everything that
// can be told from the batches, and the recovery points.
var smallFiles = []string{
	"golden-0/00000000000000000000.index",
	"golden-0/00000000000000000000.timeindex",
	"golden-0/00000000000000000040.index",
	"golden-0/00000000000000000040.timeindex",
	"golden-0/00000000000000000000.txnindex",
	"golden-0/00000000000000000040.snapshot",
	"golden-0/00000000000000000041.snapshot",
	"golden-0/leader-epoch-checkpoint",
	"golden-0/partition.metadata",
	"recovery-point-offset-checkpoint",
	".kafka_cleanshutdown",
}

// FuzzSmallFiles opens a log of which one file beside the batches has any
// content: it opens with all of its batches, or is refused with an error, and
// never answers other batches than were written.
func FuzzSmallFiles(f *testing.F) {
	base := copyDir(f, kafkaDir)
	writeFile(f, base, logDir+"/.kafka_cleanshutdown", []byte("{}"))
	tp := record.TopicPartition{Topic: "golden", Partition: 0}
	id, want := record.TopicID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, []stored(nil)
	if got, err := openAndRead(f, base.Kill(), tp, id); err != nil || len(got) != 17 {
		f.Fatalf("%d batches, %v", len(got), err)
	} else {
		want = got
	}
	for i, name := range smallFiles {
		b := readFile(f, base, filepath.Join(logDir, name))
		for _, clean := range []bool{true, false} {
			f.Add(uint8(i), b, clean)
			f.Add(uint8(i), append(slices.Clone(b), make([]byte, 24)...), clean)
			f.Add(uint8(i), b[:len(b)*2/3], clean)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, content []byte, clean bool) {
		mem := base.Kill()
		name := smallFiles[int(which)%len(smallFiles)]
		if !clean {
			if err := mem.Remove(logDir + "/.kafka_cleanshutdown"); err != nil {
				t.Fatal(err)
			}
		}
		writeFile(t, mem, filepath.Join(logDir, name), content)
		got, err := openAndRead(t, mem, tp, id)
		if err == nil && !slices.Equal(got, want) {
			t.Fatalf("%d batches, want %d: %s was %x", len(got), len(want), name, content)
		}
	})
}

// openAndRead opens one log and reads it to its end.
func openAndRead(t testing.TB, fsys vfs.FS, tp record.TopicPartition, id record.TopicID) ([]stored, error) {
	t.Helper()
	s, err := hot.Open(t.Context(), hot.Options{Dir: logDir, FS: fsys})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	l, err := s.OpenLog(t.Context(), tp, id, hot.LogOptions{})
	if err != nil {
		return nil, err
	}
	return readAll(t, l, 1<<20), nil
}
