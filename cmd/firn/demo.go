// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"firn/config"
)

const (
	demoTopic = "demo"
	// demoRecordBytes is the size of one record's value.
	demoRecordBytes = 1 << 10
	// demoSegments is about how many segments the history makes.
	demoSegments = 16
	// demoTime bounds the whole demo.
	demoTime = 10 * time.Minute
	// demoPoll is how often the demo looks whether the history is offloaded.
	demoPoll = 100 * time.Millisecond
)

func newDemoCommand(a *app) *cobra.Command {
	size := "256MiB"
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the main job on this machine",
		Long: "Run a broker with an object store in a temporary directory, fill a tiered topic, watch its history move\n" +
			"into the store and leave the local disk, replay it from offset 0 and verify every record.",
		Example: "  firn demo\n  firn demo --bytes 2GiB",
		Args:    cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			bytes, err := config.ParseBytes(size)
			if err != nil || bytes < demoRecordBytes {
				return exitf(exitUsage, "--bytes %q: want a size of at least 1KiB, such as 256MiB", size)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), demoTime)
			defer cancel()
			return runDemo(ctx, a.stdout, bytes/demoRecordBytes)
		}),
	}
	cmd.Flags().StringVar(&size, "bytes", size, "how much history to write, as a `size`")
	return cmd
}

// demo is one run: a broker of its own and a client to it.
type demo struct {
	out     io.Writer
	dir     string
	node    *node
	client  *kgo.Client
	records int64
}

func runDemo(ctx context.Context, out io.Writer, records int64) (err error) {
	dir, err := os.MkdirTemp("", "firn-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &demo{out: out, dir: dir, records: records}
	if err := d.start(ctx); err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		err = errors.Join(err, d.node.Close(stop))
	}()
	if d.client, err = kgo.NewClient(d.clientOptions()...); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	defer d.client.Close()
	for _, step := range []func(context.Context) error{d.createTopic, d.produce, d.awaitOffload, d.replay} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) start(ctx context.Context) error {
	cfg, _, err := config.Load(config.LoadOptions{Flags: []string{
		"log.dirs=" + filepath.Join(d.dir, "data"),
		"listeners=PLAINTEXT://127.0.0.1:0",
		"admin.listeners=",
		"tier.store=dir",
		"tier.dir.path=" + filepath.Join(d.dir, "store"),
		"tier.roll.ms=1s",
		"log.retention.check.interval.ms=500ms",
		"log.segment.delete.delay.ms=0",
	}})
	if err != nil {
		return fmt.Errorf("configure the demo: %w", err)
	}
	if d.node, err = startNode(ctx, cfg, nodeOptions{logger: newLogger(cfg, io.Discard)}); err != nil {
		return fmt.Errorf("start the broker: %w", err)
	}
	d.node.printBanner(d.out)
	return nil
}

func (d *demo) clientOptions(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(d.node.address()),
		kgo.ProducerBatchMaxBytes(1 << 20),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.DefaultProduceTopic(demoTopic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, more...)
}

func (d *demo) createTopic(ctx context.Context) error {
	segment := strconv.FormatInt(max(1<<20, d.records*demoRecordBytes/demoSegments), 10)
	soon := "1" // ms: nothing that the store has stays local
	_, err := kadm.NewClient(d.client).CreateTopic(ctx, 1, 1, map[string]*string{
		"segment.bytes":      &segment,
		"local.retention.ms": &soon,
	}, demoTopic)
	if err != nil {
		return fmt.Errorf("create the topic: %w", err)
	}
	return nil
}

// demoValues makes the values of the demo's records, one after another: the
// number of the record, then noise that depends on it alone.
type demoValues struct {
	next  int64
	noise *rand.ChaCha8
}

func newDemoValues() *demoValues {
	return &demoValues{noise: rand.NewChaCha8([32]byte{'f', 'i', 'r', 'n'})}
}

func (v *demoValues) fill(value []byte) {
	binary.BigEndian.PutUint64(value, uint64(v.next))
	_, _ = v.noise.Read(value[8:]) // it cannot fail
	v.next++
}

func (d *demo) produce(ctx context.Context) error {
	started := time.Now()
	values := newDemoValues()
	failed := make(chan error, 1)
	for range d.records {
		value := make([]byte, demoRecordBytes)
		values.fill(value)
		d.client.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := d.client.Flush(ctx); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	select {
	case err := <-failed:
		return fmt.Errorf("produce: %w", err)
	default:
	}
	d.report("produced", started, d.records, "acks=all, each batch synced")
	return nil
}

// awaitOffload waits until the whole history is in the store and none of it on
// local disk any more.
func (d *demo) awaitOffload(ctx context.Context) error {
	started := time.Now()
	partitions, ok := d.node.broker.Partitions(demoTopic)
	if !ok {
		return exitf(exitFaulty, "the topic is gone")
	}
	p := partitions[0]
	ticker := time.NewTicker(demoPoll)
	defer ticker.Stop()
	for int64(p.LocalStartOffset()) < d.records {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return exitf(exitFaulty, "the history did not leave the local disk in time: local start %d of %d, in the store up to %d: %w",
				p.LocalStartOffset(), d.records, p.Tier().End(), ctx.Err())
		}
	}
	d.report("offloaded", started, d.records, fmt.Sprintf("%d objects in the store, nothing left on local disk", p.Tier().State().Segments))
	return nil
}

// replay reads everything from offset 0 and compares it with what was written.
func (d *demo) replay(ctx context.Context) error {
	started := time.Now()
	consumer, err := kgo.NewClient(d.clientOptions(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{demoTopic: {0: kgo.NewOffset().AtStart()}}),
	)...)
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	defer consumer.Close()
	values := newDemoValues()
	want := make([]byte, demoRecordBytes)
	sum := crc32.NewIEEE()
	for values.next < d.records {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("replay after %d records: %w", values.next, err)
		}
		for r := range fetches.RecordsAll() {
			number := values.next
			values.fill(want)
			if r.Offset != number || string(r.Value) != string(want) {
				return exitf(exitFaulty, "record %d came back at offset %d with other bytes than were written", number, r.Offset)
			}
			_, _ = sum.Write(r.Value) // it cannot fail
		}
	}
	stats := d.node.fetcher.Stats()
	d.report("replayed", started, d.records, fmt.Sprintf("from hot %s, warm %s, cold %s",
		humanBytes(stats.HotBytes), humanBytes(stats.WarmBytes), humanBytes(stats.ColdBytes)))
	fmt.Fprintf(d.out, "  %-13s %d records, in order, every byte as it was written (CRC-32 %08x)\n", "verified", d.records, sum.Sum32())
	return nil
}

func (d *demo) report(what string, started time.Time, records int64, remark string) {
	took := time.Since(started)
	bytes := records * demoRecordBytes
	rate := float64(bytes) / (1 << 20) / took.Seconds()
	fmt.Fprintf(d.out, "  %-13s %s in %.2fs (%.0f MiB/s): %s\n", what, humanBytes(bytes), took.Seconds(), rate, remark)
}
