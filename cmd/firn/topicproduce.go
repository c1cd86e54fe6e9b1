// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// maxLine bounds a record that is read as a line. The broker has a limit of its
// own, max.message.bytes.
const maxLine = 256 << 20

// produceOptions are the flags of firn topic produce.
type produceOptions struct {
	delimiter string
	codec     string
	acks      string
	partition int32
	headers   []string
}

func newTopicProduce(a *app) *cobra.Command {
	var client *clientFlags
	var o produceOptions
	cmd := &cobra.Command{
		Use:   "produce TOPIC [FILE...]",
		Short: "Write lines as records",
		Long:  "Write every line of the files, or of standard input, as one record. It ends when all of them are acknowledged, and fails if one is not.",
		Example: "  seq 1000 | firn topic produce numbers\n" +
			"  firn topic produce clicks -k : -z zstd clicks.txt\n" +
			"  tail -f access.log | firn topic produce access --acks 1",
		Args: cobra.MinimumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			opts, err := o.clientOptions()
			if err != nil {
				return exit(exitUsage, err)
			}
			opts = append(opts, kgo.DefaultProduceTopic(args[0]), kgo.AllowAutoTopicCreation(), kgo.RecordDeliveryTimeout(client.timeout))
			cl, err := client.client(opts...)
			if err != nil {
				return err
			}
			defer cl.Close()
			n, err := o.produce(cmd.Context(), a, cl, args[1:])
			if err != nil {
				return produceError(args[0], n, err)
			}
			fmt.Fprintf(a.stderr, "%s to topic %s\n", plural(n, "record"), args[0])
			return nil
		}),
	}
	client = addClient(cmd)
	cmd.Flags().StringVarP(&o.delimiter, "key-delimiter", "k", "", "split each line into key and value at the first `text`")
	cmd.Flags().StringVarP(&o.codec, "compression", "z", "none", "`codec`: none, gzip, snappy, lz4 or zstd")
	cmd.Flags().StringVar(&o.acks, "acks", "all", "`acknowledgements` to wait for: 0, 1 or all")
	cmd.Flags().Int32VarP(&o.partition, "partition", "p", -1, "write to this `partition`; -1 lets the key decide")
	cmd.Flags().StringArrayVarP(&o.headers, "header", "H", nil, "header of every record as `name=value`, as often as needed")
	return cmd
}

// clientOptions are what the flags mean to the client.
func (o *produceOptions) clientOptions() ([]kgo.Opt, error) {
	var opts []kgo.Opt
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	codec, ok := codecs[o.codec]
	if !ok {
		return nil, fmt.Errorf("-z %s: want none, gzip, snappy, lz4 or zstd", o.codec)
	}
	opts = append(opts, kgo.ProducerBatchCompression(codec))
	switch o.acks {
	case "all", "-1":
		opts = append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, fmt.Errorf("--acks %s: want 0, 1 or all", o.acks)
	}
	if o.partition < -1 {
		return nil, fmt.Errorf("--partition %d: want a number from 0 up", o.partition)
	}
	if o.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	for _, h := range o.headers {
		if name, _, ok := strings.Cut(h, "="); !ok || name == "" {
			return nil, fmt.Errorf("--header %s: want name=value", h)
		}
	}
	return opts, nil
}

// produce writes all lines and waits for the answers. It says how many records
// were acknowledged.
func (o *produceOptions) produce(ctx context.Context, a *app, cl *kgo.Client, files []string) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := producer{o: o, cl: cl, fail: cancel}
	err := eachInput(a, files, func(in io.Reader) error { return p.lines(ctx, in) })
	// What was handed over is waited for, whatever came after it.
	flushed := cl.Flush(context.WithoutCancel(ctx))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.done, p.err
	}
	return p.done, errors.Join(err, flushed)
}

// eachInput calls read for every file, or for standard input without any; the
// name - is standard input as well.
func eachInput(a *app, files []string, read func(io.Reader) error) error {
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, name := range files {
		in := a.stdin
		if in == nil {
			in = strings.NewReader("")
		}
		if name == "-" {
			if err := read(in); err != nil {
				return err
			}
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return exit(exitUsage, err)
		}
		if err := errors.Join(read(f), f.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// producer counts what becomes of the records.
type producer struct {
	o    *produceOptions
	cl   *kgo.Client
	fail context.CancelCauseFunc

	mu   sync.Mutex
	done int64
	err  error // the first one
}

// lines hands every line to the client, which holds back when too many wait.
func (p *producer) lines(ctx context.Context, in io.Reader) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 64<<10), maxLine)
	for scanner.Scan() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.cl.Produce(ctx, p.o.record(bytes.Clone(scanner.Bytes())), p.answered)
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read lines: %w", err)
	}
	return nil
}

func (p *producer) answered(_ *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.done++
		return
	}
	if p.err == nil {
		p.err = err
		p.fail(err)
	}
}

// record makes a record of a line, which it keeps.
func (o *produceOptions) record(line []byte) *kgo.Record {
	r := &kgo.Record{Value: line, Partition: max(o.partition, 0)}
	if o.delimiter != "" {
		if key, value, ok := bytes.Cut(line, []byte(o.delimiter)); ok {
			r.Key, r.Value = key, value
		}
	}
	for _, h := range o.headers {
		name, value, _ := strings.Cut(h, "=")
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return r
}

// produceError says how far it came.
func produceError(topic string, done int64, err error) error {
	if _, classified := asExit(err); classified {
		return err
	}
	code := codeOf(err)
	if errors.Is(err, kgo.ErrRecordTimeout) {
		code = exitUnreachable
	}
	return exitf(code, "%w (%s were acknowledged before)", topicError(topic, err, ""), plural(done, "record"))
}
