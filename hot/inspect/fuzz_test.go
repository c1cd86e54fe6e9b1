// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"path/filepath"
	"testing"

	"firn/hot/inspect"
	"firn/internal/vfs"
)

// fuzzedFiles are the files that FuzzFiles gives other bytes, one of each kind.
var fuzzedFiles = []string{
	"golden-0/00000000000000000000.log",
	"golden-0/00000000000000000040.log",
	"golden-0/00000000000000000000.index",
	"golden-0/00000000000000000000.timeindex",
	"golden-0/00000000000000000000.txnindex",
	"golden-0/00000000000000000040.snapshot",
	"golden-0/leader-epoch-checkpoint",
	"golden-0/partition.metadata",
	"recovery-point-offset-checkpoint",
	"log-start-offset-checkpoint",
}

// FuzzFiles gives one file of Kafka's directory any content and looks at the
// directory: no panic and no error of reading (I2), nothing is changed (I1), and
// every place that is named lies inside its file or at its end.
func FuzzFiles(f *testing.F) {
	base := copyDir(f, "../../record/testdata/kafka-4.3.1")
	for i, name := range fuzzedFiles {
		b := readFile(f, base, filepath.Join(logDir, name))
		f.Add(uint8(i), b, false)
		if len(b) > 0 {
			f.Add(uint8(i), b[:len(b)-1], true)
			b[len(b)/2] ^= 0x40
			f.Add(uint8(i), b, true)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, content []byte, clean bool) {
		mem := base.Kill()
		path := filepath.Join(logDir, fuzzedFiles[int(which)%len(fuzzedFiles)])
		writeFile(t, mem, path, content)
		if clean {
			writeFile(t, mem, logDir+"/.kafka_cleanshutdown", []byte("{}"))
		}
		o := options(t, mem)
		o.Records = true
		inside := func(path string, at int64) {
			info, err := mem.Stat(path)
			if err != nil || at < 0 || at > info.Size() && !info.IsDir() {
				t.Errorf("%s:%d is named: %v", path, at, err)
			}
		}
		sum, err := inspect.Verify(t.Context(), logDir, o, func(f inspect.Finding) error {
			if f.Position > 0 {
				inside(f.File, f.Position)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		damaged := 0
		err = inspect.Dump(t.Context(), logDir, o, func(item inspect.Item) error {
			if d, ok := item.(*inspect.Damage); ok {
				inside(d.At(), d.Position)
				damaged++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if damaged > 0 && sum.Faults+sum.Notes == 0 {
			t.Errorf("%d places are damaged, and nothing is found", damaged)
		}
		if got, err := vfs.ReadFile(mem, path, 1<<30); err != nil || string(got) != string(content) {
			t.Errorf("the file was changed: %v", err)
		}
	})
}
