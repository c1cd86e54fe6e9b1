// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"firn/record"
)

// ErrUnknownFile says that the name of a file is none that Dump knows.
var ErrUnknownFile = errors.New("not a file of a log directory")

// dumper is one Dump.
type dumper struct {
	o     Options
	visit func(Item) error
}

// Dump calls visit for every item of a file, or of the files of a directory: of
// a partition in the order of their names, of a log directory its checkpoints
// and then its partitions. What cannot be read as what it should be is visited
// as *Damage, and the rest of its file is shown as far as it can be found. The
// error is one of reading, visit's own, or wraps ErrUnknownFile when path names
// a file that is none of a log's.
func Dump(ctx context.Context, path string, o Options, visit func(Item) error) error {
	o.EnsureDefaults()
	d := &dumper{o: o, visit: visit}
	info, err := o.FS.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return d.dir(ctx, path)
	}
	k, base := kindOf(filepath.Base(path))
	if known, err := d.file(ctx, path, k, base); err != nil || known {
		return err
	}
	return fmt.Errorf("%s: %w", path, ErrUnknownFile)
}

// dir dumps the files of a directory, then the partitions in it.
func (d *dumper) dir(ctx context.Context, dir string) error {
	entries, err := d.o.FS.ReadDir(dir)
	if err != nil {
		return err
	}
	var below []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			if _, err := record.ParseTopicPartition(e.Name()); err == nil {
				below = append(below, path)
			}
			continue
		}
		k, base := kindOf(e.Name())
		if _, err := d.file(ctx, path, k, base); err != nil && !d.gone(err) {
			return err
		}
	}
	for _, path := range below {
		if err := d.dir(ctx, path); err != nil && !d.gone(err) {
			return err
		}
	}
	return nil
}

// gone says whether an error is that of a file which a running broker has
// deleted meanwhile.
func (d *dumper) gone(err error) bool { return d.o.InUse && errors.Is(err, fs.ErrNotExist) }

// file dumps one file; known is false when it is none of the log's.
func (d *dumper) file(ctx context.Context, path string, k kind, base record.Offset) (known bool, err error) {
	if k == kindLog {
		return true, d.log(ctx, path, base)
	}
	show := map[kind]func(path string, base record.Offset, b []byte) error{
		kindIndex: d.index, kindTimeIndex: d.timeIndex, kindTxnIndex: d.txnIndex, kindSnapshot: d.snapshot,
		kindEpochs: d.epochs, kindMetadata: d.metadata, kindCheckpoint: d.checkpoint, kindCleanMark: d.cleanMark,
	}[k]
	if show == nil {
		return false, nil
	}
	b, err := d.o.readSmall(path)
	if err == nil {
		err = show(path, base, b)
	}
	return true, d.damage(path, err)
}

// damage visits an error that says what is wrong with a file, and passes on any
// other.
func (d *dumper) damage(path string, err error) error {
	var bad *record.CorruptionError
	switch {
	case errors.As(err, &bad):
		return d.visit(&Damage{place{"damage", path}, bad.Position, bad.Reason})
	case errors.Is(err, record.ErrUnsupportedVersion):
		return d.visit(&Damage{place{"damage", path}, 0, err.Error()})
	}
	return err
}

// log dumps the batches of a .log file.
func (d *dumper) log(ctx context.Context, path string, base record.Offset) error {
	starts, err := d.o.starts(path, base)
	if err != nil && !d.gone(err) {
		return err
	}
	w, err := openWalk(&d.o, path, starts)
	if err != nil {
		return err
	}
	err = w.each(ctx, func(at int64, h record.Header) error { return d.batch(w, at, h) }, func(l lost) error {
		return d.visit(&Damage{place{"damage", path}, l.from, l.describe()})
	})
	return d.damage(path, errors.Join(err, w.close()))
}

func (l lost) describe() string {
	return fmt.Sprintf("%s; %d bytes hold no batch", l.reason, l.to-l.from)
}

func (d *dumper) batch(w *walk, at int64, h record.Header) error {
	crc, err := w.crc(at, h)
	if err != nil {
		return err
	}
	if err := d.visit(batchItem(w.path, at, h, crc == h.CRC)); err != nil {
		return err
	}
	if crc != h.CRC {
		return d.visit(&Damage{place{"damage", w.path}, at, crcReason(h, crc)})
	}
	if !d.o.Records {
		return nil
	}
	section, err := w.section(at, h)
	if err != nil {
		return err
	}
	if section, err = d.o.Decompress(h.Codec(), section); err != nil {
		return d.visit(&Damage{place{"damage", w.path}, at, fmt.Sprintf("the records of the batch at offset %d: %v", h.BaseOffset, err)})
	}
	for r, err := range h.Records(section) {
		if err != nil {
			return d.visit(&Damage{place{"damage", w.path}, at, err.Error()})
		}
		if err := d.visit(recordItem(w.path, h, r)); err != nil {
			return err
		}
	}
	return nil
}

func crcReason(h record.Header, crc uint32) string {
	return fmt.Sprintf("CRC-32C is %08x, the header of the batch at offset %d says %08x", crc, h.BaseOffset, h.CRC)
}

// starts are the positions that the offset index beside a .log file names,
// rising; none where there is no index.
func (o *Options) starts(path string, base record.Offset) ([]int64, error) {
	b, err := o.readSmall(fileOf(filepath.Dir(path), base, ".index"))
	if errors.Is(err, fs.ErrNotExist) || isDamage(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var starts []int64
	for ; len(b) >= record.IndexEntrySize; b = b[record.IndexEntrySize:] {
		if p := record.ParseIndexEntry(b, base).Position; p > 0 {
			starts = append(starts, int64(p))
		}
	}
	slices.Sort(starts)
	return slices.Compact(starts), nil
}

func isDamage(err error) bool {
	var bad *record.CorruptionError
	return errors.As(err, &bad)
}
