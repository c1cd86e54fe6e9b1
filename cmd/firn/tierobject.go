// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/hot/inspect"
	"firn/record"
	"firn/tier"
	"firn/tier/store"
)

// objectCommand is what cat and inspect share: they open one object of the
// store that the settings name, with no broker.
func objectCommand(a *app, cmd *cobra.Command, do func(ctx context.Context, o *tier.ObjectFile) error) *cobra.Command {
	var settings settingsFlags
	var timeout time.Duration
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = runE(func(cmd *cobra.Command, args []string) error {
		c, err := settings.load(a)
		if err != nil {
			return err
		}
		if !c.Tier.Enabled() {
			return exitf(exitUsage, "tier.store is none: set it to dir, s3 or minio")
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		s, err := openStore(ctx, c.Tier, nil, nil)
		if err != nil {
			return storeExit(c.Tier, err)
		}
		// The object may be large, and one failed range must not end it all.
		retried := store.WithRetry(s, store.RetryOptions{Attempts: 3})
		o, err := tier.OpenObject(ctx, retried, args[0])
		if err == nil {
			err = do(ctx, o)
		}
		return errors.Join(objectExit(args[0], err), s.Close())
	})
	settings.add(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "give up after this `time`")
	return cmd
}

// objectExit gives an error about an object its exit code.
func objectExit(key string, err error) error {
	if err == nil {
		return nil
	}
	if _, classified := asExit(err); classified {
		return err
	}
	var bad *record.CorruptionError
	switch {
	case errors.As(err, &bad):
		return exitf(exitFaulty, "object %s is damaged: %w", key, err)
	case errors.Is(err, store.ErrNotFound):
		return exitf(exitNotFound, "object %s is not there; firn tier ls --keys shows what is", key)
	}
	return exitf(codeOf(err), "object %s: %w", key, err)
}

func newTierCat(a *app) *cobra.Command {
	var flags formatFlags
	cmd := &cobra.Command{
		Use:   "cat KEY",
		Short: "Print the records of an object, with no broker",
		Long: "Print the records of a segment object as firn topic consume does, with no broker running. The store is the one of the\n" +
			"settings. Every byte that is printed was verified; at damage it stops, with exit code 6.\n\n" + formatHelp,
		Example: "  firn tier cat firn/…/seg/00000000000000000000-0000000001-….seg --set tier.store=dir --set tier.dir.path=/mnt/cold",
	}
	cmd = objectCommand(a, cmd, func(ctx context.Context, o *tier.ObjectFile) error {
		format, err := flags.parse()
		if err != nil {
			return err
		}
		return catObject(ctx, a, o, format)
	})
	cmd.Flags().StringVarP(&flags.format, "format", "f", `%s\n`, "`format` of a record")
	cmd.Flags().BoolVarP(&flags.json, "json", "J", false, "print records as JSON, one a line")
	return cmd
}

// catObject prints the records, batch by batch.
func catObject(ctx context.Context, a *app, o *tier.ObjectFile, format *recordFormat) error {
	topic, partition := placeOf(o.Key)
	decoder := kgo.DefaultDecompressor()
	var out []byte
	return o.Batches(ctx, func(position int64, b record.Batch) error {
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.Partition, rp.RecordBatches = partition, b
		fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: topic, Partition: partition}, &rp, decoder, nil)
		if fp.Err != nil {
			return &record.CorruptionError{Path: o.Key, Position: position, Reason: fp.Err.Error()}
		}
		out = out[:0]
		for _, r := range fp.Records {
			var err error
			if out, err = format.append(out, r, ""); err != nil {
				return err
			}
		}
		if _, err := a.stdout.Write(out); err != nil {
			return exitf(exitFailed, "write the records: %w", err)
		}
		return nil
	})
}

// placeOf reads topic and partition out of a key, which ends with
// data/<topic>/<topic id>/<partition>/seg/<name>.
func placeOf(key string) (topic string, partition int32) {
	parts := strings.Split(key, "/")
	if n := len(parts); n >= 6 && parts[n-6] == "data" {
		if k, err := tier.ParseKey(strings.Join(parts[:n-6], "/"), key); err == nil {
			return k.TP.Topic, k.TP.Partition
		}
	}
	return "", -1
}

// objectReport is what firn tier inspect prints.
type objectReport struct {
	Key            string          `json:"key"`
	Size           int64           `json:"size"`
	From           int64           `json:"from"`
	To             int64           `json:"to"`
	Records        int64           `json:"records"`
	Batches        int64           `json:"batches"`
	FirstEpoch     int32           `json:"first_epoch"`
	LastEpoch      int32           `json:"last_epoch"`
	FirstTimestamp int64           `json:"first_timestamp_ms"`
	MaxTimestamp   int64           `json:"max_timestamp_ms"`
	Sections       []sectionReport `json:"sections"`
	BatchList      []batchReport   `json:"batch_list,omitempty"`
	// Faults is everything that is wrong, empty when the object is whole.
	Faults []string `json:"faults"`
}

type sectionReport struct {
	Name     string `json:"name"`
	Position int64  `json:"position"`
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256"`
}

type batchReport struct {
	Position     int64  `json:"position"`
	Bytes        int64  `json:"bytes"`
	From         int64  `json:"from"`
	To           int64  `json:"to"`
	Records      int32  `json:"records"`
	Epoch        int32  `json:"epoch"`
	MaxTimestamp int64  `json:"max_timestamp_ms"`
	Codec        string `json:"codec"`
	ProducerID   int64  `json:"producer_id"`
}

func newTierInspect(a *app) *cobra.Command {
	var f *format
	var batches bool
	cmd := &cobra.Command{
		Use:   "inspect KEY",
		Short: "Verify an object byte by byte and describe it, with no broker",
		Long: "Read a whole segment object from the store of the settings, with no broker running, and hold it against its footer and its\n" +
			"key: the digest of every section, the CRC of every block and of every batch, indexes and snapshots, offsets and counts.\n" +
			"Exit code 6 when something is damaged.",
		Example: "  firn tier inspect firn/…/seg/00000000000000000000-0000000001-….seg --batches --set tier.store=dir --set tier.dir.path=/mnt/cold",
	}
	cmd = objectCommand(a, cmd, func(ctx context.Context, o *tier.ObjectFile) error {
		report, faults := inspectObject(ctx, o, batches)
		if err := f.print(a.stdout, report, func(t *tabwriter.Writer) { objectTable(t, report) }); err != nil {
			return exit(exitFailed, err)
		}
		var bad *record.CorruptionError
		err := errors.Join(faults...)
		if errors.As(err, &bad) {
			return exitf(exitFaulty, "object %s is damaged", o.Key)
		}
		return err
	})
	f = addFormat(cmd)
	cmd.Flags().BoolVar(&batches, "batches", false, "list the batches")
	return cmd
}

func inspectObject(ctx context.Context, o *tier.ObjectFile, batches bool) (objectReport, []error) {
	footer := o.Footer
	r := objectReport{
		Key: o.Key, Size: o.Size, From: int64(footer.BaseOffset), To: int64(footer.NextOffset),
		Records: footer.Records, Batches: footer.Batches, FirstEpoch: int32(footer.FirstEpoch), LastEpoch: int32(footer.LastEpoch),
		FirstTimestamp: footer.FirstTimestamp, MaxTimestamp: footer.MaxTimestamp, Faults: []string{},
	}
	for _, s := range footer.Sections {
		r.Sections = append(r.Sections, sectionReport{s.Kind.String(), s.Position, s.Length, hex.EncodeToString(s.Digest[:])})
	}
	faults := o.Check(ctx, func(position int64, b record.Batch) error {
		if h := b.Header(); batches {
			r.BatchList = append(r.BatchList, batchReport{
				Position: position, Bytes: int64(h.Size()), From: int64(h.BaseOffset), To: int64(h.NextOffset()),
				Records: h.Count, Epoch: int32(h.LeaderEpoch), MaxTimestamp: h.MaxTimestamp, Codec: inspect.CodecName(h.Codec()), ProducerID: h.ProducerID,
			})
		}
		return nil
	})
	for _, err := range faults {
		r.Faults = append(r.Faults, err.Error())
	}
	return r, faults
}

func objectTable(t *tabwriter.Writer, r objectReport) {
	row(t, "object", r.Key)
	row(t, "size", humanBytes(r.Size))
	row(t, "offsets", fmt.Sprintf("%d to %d, %s in %d batches", r.From, r.To-1, plural(r.Records, "record"), r.Batches))
	row(t, "epochs", fmt.Sprintf("%d to %d", r.FirstEpoch, r.LastEpoch))
	row(t, "times", humanTime(r.FirstTimestamp)+" to "+humanTime(r.MaxTimestamp)+" UTC")
	row(t)
	row(t, "SECTION", "POSITION", "BYTES", "SHA-256")
	for _, s := range r.Sections {
		row(t, s.Name, s.Position, s.Bytes, s.SHA256[:16]+"…")
	}
	if len(r.BatchList) > 0 {
		row(t)
		row(t, "POSITION", "BYTES", "FROM", "TO", "RECORDS", "EPOCH", "CODEC", "LAST-RECORD")
		for _, b := range r.BatchList {
			row(t, b.Position, b.Bytes, b.From, b.To, b.Records, b.Epoch, b.Codec, humanTime(b.MaxTimestamp))
		}
	}
	row(t)
	if len(r.Faults) == 0 {
		row(t, "whole: every digest and CRC is right")
	}
	for _, f := range r.Faults {
		row(t, "damaged", f)
	}
}
