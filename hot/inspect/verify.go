// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"firn/record"
)

// Finding is one thing that Verify has to say.
type Finding struct {
	File string `json:"file"`
	// Position is the byte at which it starts, 0 for a file as a whole.
	Position int64 `json:"position"`
	// Fault says that a log which is whole does not have this; else it is a
	// note.
	Fault  bool   `json:"fault"`
	Reason string `json:"reason"`
}

// Summary is what Verify has looked at.
type Summary struct {
	Partitions int   `json:"partitions"`
	Segments   int   `json:"segments"`
	Batches    int64 `json:"batches"`
	Records    int64 `json:"records"`
	// Bytes are those of the .log files.
	Bytes  int64 `json:"bytes"`
	Faults int   `json:"faults"`
	Notes  int   `json:"notes"`
}

// Add adds another summary to s.
func (s *Summary) Add(o Summary) {
	s.Partitions += o.Partitions
	s.Segments += o.Segments
	s.Batches += o.Batches
	s.Records += o.Records
	s.Bytes += o.Bytes
	s.Faults += o.Faults
	s.Notes += o.Notes
}

// verifier is one Verify.
type verifier struct {
	o      Options
	report func(Finding) error
	sum    Summary
	top    topFiles
}

// topFiles is what the top of a log directory says. A checkpoint that is not
// there or cannot be read is nil.
type topFiles struct {
	clean      bool // the last stop was clean
	points     record.OffsetCheckpoint
	starts     record.OffsetCheckpoint
	watermarks record.OffsetCheckpoint
	cleaned    record.OffsetCheckpoint // where Kafka's compaction has come to
}

// Verify holds the files of a log directory, or of one partition in it, against
// one another, and calls report for all that is to be said. The error is one of
// reading or report's own, not that there are faults.
func Verify(ctx context.Context, dir string, o Options, report func(Finding) error) (Summary, error) {
	o.EnsureDefaults()
	v := &verifier{o: o, report: report}
	err := v.run(ctx, filepath.Clean(dir))
	return v.sum, err
}

func (v *verifier) run(ctx context.Context, dir string) error {
	entries, err := v.o.FS.ReadDir(dir)
	if err != nil {
		return err
	}
	if isPartition(dir, entries) {
		if err := v.readTop(filepath.Dir(dir), false); err != nil {
			return err
		}
		return v.partition(ctx, dir)
	}
	if err := v.readTop(dir, true); err != nil {
		return err
	}
	there := map[record.TopicPartition]bool{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !e.IsDir() {
			if k, _ := kindOf(e.Name()); k == kindOther || looksNamed(e.Name()) {
				if err := v.note(path, 0, "not a file of a log directory"); err != nil {
					return err
				}
			}
			continue
		}
		tp, err := record.ParseTopicPartition(e.Name())
		if err != nil {
			if err := v.note(path, 0, "not the directory of a partition that is in use"); err != nil {
				return err
			}
			continue
		}
		there[tp] = true
		if err := v.partition(ctx, path); err != nil && !v.gone(err) {
			return err
		}
	}
	return v.strangers(dir, there)
}

// isPartition says whether a directory is that of a partition, by its name or
// by what it holds.
func isPartition(dir string, entries []fs.DirEntry) bool {
	for _, e := range entries {
		if k, _ := kindOf(e.Name()); !e.IsDir() && (k == kindLog || k == kindMetadata) {
			return true
		}
	}
	_, err := record.ParseTopicPartition(filepath.Base(dir))
	return err == nil && len(entries) == 0
}

// readTop reads the files at the top of a log directory. With say it reports
// what is wrong with them; without, for a partition that is looked at alone, it
// makes do with what there is.
func (v *verifier) readTop(dir string, say bool) error {
	switch _, err := v.o.FS.Stat(filepath.Join(dir, cleanName)); {
	case err == nil:
		v.top.clean = true
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	for name, into := range map[string]*record.OffsetCheckpoint{
		recoveryPointName: &v.top.points, logStartName: &v.top.starts, watermarkName: &v.top.watermarks, cleanerName: &v.top.cleaned,
	} {
		path := filepath.Join(dir, name)
		b, err := v.o.readSmall(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			*into, err = record.ParseOffsetCheckpoint(b)
		}
		if !say && isBad(err) {
			continue
		}
		if err := v.bad(path, err); err != nil {
			return err
		}
	}
	return nil
}

// strangers notes what the checkpoints say of partitions that are not there.
func (v *verifier) strangers(dir string, there map[record.TopicPartition]bool) error {
	for _, c := range []struct {
		name    string
		offsets record.OffsetCheckpoint
	}{{recoveryPointName, v.top.points}, {logStartName, v.top.starts}, {watermarkName, v.top.watermarks}, {cleanerName, v.top.cleaned}} {
		for _, tp := range sortedPartitions(c.offsets) {
			if there[tp] {
				continue
			}
			if err := v.note(filepath.Join(dir, c.name), 0, "partition %s, which it names, is not there", tp); err != nil {
				return err
			}
		}
	}
	return nil
}

// fault reports what must not be.
func (v *verifier) fault(path string, at int64, format string, args ...any) error {
	v.sum.Faults++
	return v.report(Finding{File: path, Position: at, Fault: true, Reason: fmt.Sprintf(format, args...)})
}

// note reports what a person may want to know.
func (v *verifier) note(path string, at int64, format string, args ...any) error {
	v.sum.Notes++
	return v.report(Finding{File: path, Position: at, Reason: fmt.Sprintf(format, args...)})
}

// bad reports an error that says what is wrong with a file, and passes on any
// other. nil stays nil.
func (v *verifier) bad(path string, err error) error {
	var damage *record.CorruptionError
	switch {
	case errors.As(err, &damage):
		return v.fault(path, damage.Position, "%s", damage.Reason)
	case isBad(err):
		return v.fault(path, 0, "%v", err)
	}
	return err
}

// isBad says whether an error is about what a file holds.
func isBad(err error) bool { return isDamage(err) || errors.Is(err, record.ErrUnsupportedVersion) }

// gone says whether an error is that of a file which a running broker has
// deleted meanwhile.
func (v *verifier) gone(err error) bool { return v.o.InUse && errors.Is(err, fs.ErrNotExist) }
