// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"firn/broker"
	"firn/hot/inspect"
	"firn/internal/vfs"
	"firn/record"
)

func newLogCommand(a *app) *cobra.Command {
	return group("log", "Look at the files of a log directory, with no broker", newLogDump(a), newLogVerify(a))
}

// inspectOptions are those for one path: whether a broker uses the log
// directory that it is or lies in is found out, and said.
func inspectOptions(a *app, path string) (inspect.Options, error) {
	o := inspect.Options{Decompress: unpackRecords}
	// The probe needs a file of its own, and the log directory is not ours to
	// write in. Without its help the reads are plain ones.
	if io, err := vfs.ProbeIO(os.TempDir(), ""); err == nil {
		o.IO = io
	}
	for _, dir := range []string{path, filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		info, err := os.Stat(filepath.Join(dir, lockFileName))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		held, err := vfs.LockHeld(filepath.Join(dir, lockFileName))
		if err != nil {
			return o, exit(exitFailed, err)
		}
		if o.InUse = held; held {
			fmt.Fprintf(a.stderr, "firn: note: a broker uses %s: what it writes meanwhile may be missing, or half there\n", dir)
		}
		break
	}
	return o, nil
}

// lockFileName is the lock of a log directory, Kafka's and Firn's.
const lockFileName = ".lock"

// unpackRecords is the decompression of the packages that inspect batches.
func unpackRecords(codec record.Codec, section []byte) ([]byte, error) {
	b, err := broker.Decompress(codec, section)
	if errors.Is(err, broker.ErrTooMuchDecoded) {
		return nil, fmt.Errorf("%w: %w", inspect.ErrNotUnpacked, err)
	}
	return b, err
}

// inspectExit gives an error about a path its exit code.
func inspectExit(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return exitf(exitNotFound, "%s is not there: %w", path, err)
	case errors.Is(err, inspect.ErrUnknownFile):
		return exitf(exitUsage, "%w: want a directory, a file of a partition or a checkpoint", err)
	}
	return err
}

func newLogDump(a *app) *cobra.Command {
	var f *format
	var records bool
	cmd := &cobra.Command{
		Use:   "dump PATH...",
		Short: "Print what the files of a log directory hold, with no broker",
		Long: "Print what files hold: batches of a .log file, entries of .index, .timeindex, .txnindex and .snapshot files, the leader epochs and\n" +
			"the topic id of a partition, and the checkpoints of a log directory. PATH is such a file, a partition's directory or a whole log\n" +
			"directory, of Firn or of Kafka. Nothing is locked or changed: a broker may run meanwhile.\n\n" +
			"JSON is one object a line, by its \"kind\". What cannot be read is told with its place, the rest is printed as far as it can be\n" +
			"found, and the exit code is 6.",
		Example: "  firn log dump firn-data/orders-0/00000000000000000000.log --records\n  firn log dump firn-data -o json | jq 'select(.kind == \"damage\")'",
		Args:    cobra.MinimumNArgs(1),
	}
	cmd.RunE = runE(func(cmd *cobra.Command, args []string) error {
		damaged := int64(0)
		for _, path := range args {
			n, err := dumpPath(cmd.Context(), a, path, records, *f)
			if err != nil {
				return inspectExit(path, err)
			}
			damaged += n
		}
		if damaged > 0 {
			return exitf(exitFaulty, "%s cannot be read", plural(damaged, "place"))
		}
		return nil
	})
	f = addFormat(cmd)
	cmd.Flags().BoolVar(&records, "records", false, "print the records of the batches, unpacked")
	cmd.Flags().BoolVar(&records, "print-data", false, "the same as --records")
	return cmd
}

// dumpPath prints one path and answers how many places of it are damaged.
func dumpPath(ctx context.Context, a *app, path string, records bool, f format) (damaged int64, err error) {
	o, err := inspectOptions(a, path)
	if err != nil {
		return 0, err
	}
	o.Records = records
	out := newItemPrinter(a.stdout, f, records)
	err = inspect.Dump(ctx, path, o, func(item inspect.Item) error {
		if _, bad := item.(*inspect.Damage); bad {
			damaged++
		}
		if err := out.print(item); err != nil {
			return exitf(exitFailed, "write the output: %w", err)
		}
		return nil
	})
	return damaged, errors.Join(err, out.flush())
}

func newLogVerify(a *app) *cobra.Command {
	var f *format
	var gaps bool
	cmd := &cobra.Command{
		Use:   "verify DIR...",
		Short: "Check every byte of a log directory or a partition's directory, with no broker",
		Long: "Read all of a log directory, or of one partition's directory, of Firn or of Kafka, and hold its files against one another: the CRC\n" +
			"of every batch and the records in it, offsets, leader epochs, timestamps, sequences of producers and transactions, what both\n" +
			"indexes, the transaction index and the producer snapshots say of them, the checkpoints, names and sizes. Nothing is locked,\n" +
			"changed or repaired: a broker may run meanwhile.\n\n" +
			"Each fault is told with file and position, and the exit code is 6. A note is no fault: what a broker that runs, or was killed,\n" +
			"leaves unfinished at the end of a log is one.",
		Example: "  firn log verify firn-data\n  firn log verify firn-data/orders-0 firn-data/orders-1 -o json",
		Args:    cobra.MinimumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	cmd.RunE = runE(func(cmd *cobra.Command, args []string) error {
		return verifyDirs(cmd.Context(), a, args, gaps, *f)
	})
	f = addFormat(cmd)
	cmd.Flags().BoolVar(&gaps, "gaps", false, "allow offsets that are missing, as compaction leaves them")
	return cmd
}

// verifyReport is what firn log verify says of one directory.
type verifyReport struct {
	Directory string `json:"directory"`
	InUse     bool   `json:"in_use"`
	inspect.Summary
	Findings []inspect.Finding `json:"findings"`
}

// verifyDirs verifies the directories and prints what was found.
func verifyDirs(ctx context.Context, a *app, dirs []string, gaps bool, f format) error {
	reports := []verifyReport{}
	var total inspect.Summary
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil {
			return inspectExit(dir, err)
		} else if !info.IsDir() {
			return exitf(exitUsage, "%s is not a directory; firn log dump reads single files", dir)
		}
		o, err := inspectOptions(a, dir)
		if err != nil {
			return err
		}
		o.Gaps = gaps
		r := verifyReport{Directory: dir, InUse: o.InUse, Findings: []inspect.Finding{}}
		r.Summary, err = inspect.Verify(ctx, dir, o, func(found inspect.Finding) error {
			r.Findings = append(r.Findings, found)
			return nil
		})
		if err != nil {
			return inspectExit(dir, err)
		}
		total.Add(r.Summary)
		reports = append(reports, r)
	}
	if err := f.print(a.stdout, reports, func(t *tabwriter.Writer) { verifyTable(t, reports) }); err != nil {
		return exit(exitFailed, err)
	}
	if total.Faults > 0 {
		return exitf(exitFaulty, "%s found", plural(int64(total.Faults), "fault"))
	}
	return nil
}

func verifyTable(t *tabwriter.Writer, reports []verifyReport) {
	for _, r := range reports {
		for _, found := range r.Findings {
			word := "note"
			if found.Fault {
				word = "fault"
			}
			row(t, word, fmt.Sprintf("%s:%d", found.File, found.Position), found.Reason)
		}
		verdict := "whole"
		if r.Faults > 0 {
			verdict = plural(int64(r.Faults), "fault")
		}
		fmt.Fprintf(t, "%s: %s, %s, %s, %s, %s: %s\n", r.Directory, plural(int64(r.Partitions), "partition"), plural(int64(r.Segments), "segment"),
			pluralOf(r.Batches, "batch", "batches"), plural(r.Records, "record"), humanBytes(r.Bytes), verdict)
	}
}

func pluralOf(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// jsonLine writes a value as one line of JSON.
func jsonLine(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the output: %w", err)
	}
	return append(b, '\n'), nil
}
