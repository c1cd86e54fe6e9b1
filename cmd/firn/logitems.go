// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"firn/hot/inspect"
)

// flushRows is how many rows of a table are aligned together at most: a dump
// may be longer than memory.
const flushRows = 500

// itemPrinter writes what a dump finds: one line of JSON or one document of
// YAML each, or tables, of which every file and every kind of item begins one.
type itemPrinter struct {
	format  format
	records bool

	out   *bufio.Writer
	table *tabwriter.Writer
	rows  int
	file  string
	kind  string
}

func newItemPrinter(w io.Writer, f format, records bool) *itemPrinter {
	out := bufio.NewWriter(w)
	return &itemPrinter{format: f, records: records, out: out, table: tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)}
}

func (p *itemPrinter) print(item inspect.Item) error {
	switch p.format {
	case "json":
		b, err := jsonLine(item)
		if err != nil {
			return err
		}
		_, err = p.out.Write(b)
		return err
	case "yaml":
		if _, err := p.out.WriteString("---\n"); err != nil {
			return err
		}
		return printYAML(p.out, item)
	}
	if p.rows++; p.rows%flushRows == 0 {
		if err := p.table.Flush(); err != nil {
			return err
		}
	}
	return p.row(item)
}

func (p *itemPrinter) flush() error {
	if err := p.table.Flush(); err != nil {
		return err
	}
	return p.out.Flush()
}

// row writes one item to the table.
func (p *itemPrinter) row(item inspect.Item) error {
	heading, cells := describeItem(item)
	batch, isBatch := item.(*inspect.Batch)
	if item.At() != p.file {
		if p.file != "" {
			row(p.table)
		}
		row(p.table, item.At())
	}
	if (item.At() != p.file || item.Kind() != p.kind) && heading != "" && !(isBatch && p.records) {
		fmt.Fprintln(p.table, strings.ReplaceAll(heading, " ", "\t"))
	}
	p.file, p.kind = item.At(), item.Kind()
	if isBatch && p.records {
		// Its own line between the rows of records, which it does not align.
		if err := p.table.Flush(); err != nil {
			return err
		}
		_, err := fmt.Fprintln(p.out, batchLine(batch))
		return err
	}
	row(p.table, cells...)
	return nil
}

// describeItem is the heading of the table that an item stands in, and its
// cells.
func describeItem(item inspect.Item) (heading string, cells []any) {
	switch x := item.(type) {
	case *inspect.Batch:
		return "POSITION BYTES OFFSETS RECORDS EPOCH CODEC PRODUCER SEQUENCES FLAGS MAX-TIMESTAMP CRC",
			[]any{x.Position, x.Bytes, span(int64(x.BaseOffset), int64(x.LastOffset)), x.Records, x.LeaderEpoch, x.Codec, producerOf(x.ProducerID, x.ProducerEpoch),
				span(int64(x.BaseSequence), int64(x.LastSequence)), flagsOf(x), x.MaxTimestamp, crcOf(x)}
	case *inspect.Record:
		if x.Marker != nil {
			return "", []any{"  marker", x.Offset, x.Timestamp, x.Marker.Type, fmt.Sprintf("coordinator epoch %d", x.Marker.CoordinatorEpoch)}
		}
		return "", []any{"  record", x.Offset, x.Timestamp, quoted(x.Key, x.KeyBase64), quoted(x.Payload, x.PayloadBase64), headersOf(x.Headers)}
	case *inspect.IndexEntry:
		return "OFFSET POSITION", []any{x.Offset, x.Position}
	case *inspect.TimeIndexEntry:
		return "TIMESTAMP OFFSET TIME", []any{x.Timestamp, x.Offset, humanTime(x.Timestamp)}
	case *inspect.AbortedTxn:
		return "PRODUCER FIRST-OFFSET LAST-OFFSET LAST-STABLE", []any{x.ProducerID, x.FirstOffset, x.LastOffset, x.LastStableOffset}
	case *inspect.Producer:
		return "PRODUCER SEQUENCES LAST-OFFSET DELTA TIMESTAMP COORDINATOR-EPOCH TRANSACTION-FROM",
			[]any{producerOf(x.ProducerID, x.ProducerEpoch), span(int64(x.FirstSequence), int64(x.LastSequence)), number(int64(x.LastOffset)), x.OffsetDelta,
				x.Timestamp, number(int64(x.CoordinatorEpoch)), number(int64(x.TxnFirstOffset))}
	case *inspect.Epoch:
		return "EPOCH START-OFFSET", []any{x.Epoch, x.StartOffset}
	case *inspect.Metadata:
		return "TOPIC-ID", []any{x.TopicID}
	case *inspect.Checkpoint:
		return "TOPIC PARTITION OFFSET", []any{x.Topic, x.Partition, x.Offset}
	case *inspect.CleanMark:
		return "STOPPED-CLEAN", []any{x.Content}
	case *inspect.Padding:
		return "", []any{fmt.Sprintf("%d bytes of zeros from byte %d on: the file was given its size in advance", x.Bytes, x.Position)}
	case *inspect.Damage:
		return "", []any{fmt.Sprintf("DAMAGED at byte %d: %s", x.Position, x.Reason)}
	}
	return "", []any{item.Kind()}
}

// batchLine is a batch as a line above its records.
func batchLine(b *inspect.Batch) string {
	s := fmt.Sprintf("batch %s at %d: %d bytes, %s, %s, epoch %d", span(int64(b.BaseOffset), int64(b.LastOffset)), b.Position, b.Bytes,
		plural(int64(b.Records), "record"), b.Codec, b.LeaderEpoch)
	if b.ProducerID >= 0 {
		s += fmt.Sprintf(", producer %s, sequences %s", producerOf(b.ProducerID, b.ProducerEpoch), span(int64(b.BaseSequence), int64(b.LastSequence)))
	}
	if flags := flagsOf(b); flags != "-" {
		s += ", " + flags
	}
	return s + ", CRC " + crcOf(b)
}

// number is a number, or a dash for -1, which stands for none.
func number(n int64) string {
	if n == -1 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// span is a range of numbers, both ends included.
func span(from, to int64) string {
	if from == to {
		return number(from)
	}
	return fmt.Sprintf("%d-%d", from, to)
}

func producerOf(id int64, epoch int16) string {
	if id < 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", id, epoch)
}

func crcOf(b *inspect.Batch) string {
	if !b.Valid {
		return fmt.Sprintf("%08x WRONG", b.CRC)
	}
	return fmt.Sprintf("%08x", b.CRC)
}

func flagsOf(b *inspect.Batch) string {
	var flags []string
	for _, f := range []struct {
		set  bool
		word string
	}{{b.Transactional, "transactional"}, {b.Control, "control"}, {b.LogAppendTime, "log-append-time"}} {
		if f.set {
			flags = append(flags, f.word)
		}
	}
	if len(flags) == 0 {
		return "-"
	}
	return strings.Join(flags, ",")
}

// quoted is a key or value that keeps to one cell.
func quoted(text *string, encoded string) string {
	switch {
	case text != nil:
		return strconv.Quote(*text)
	case encoded != "":
		return "base64:" + encoded
	}
	return "null"
}

func headersOf(headers []inspect.Header) string {
	parts := make([]string, len(headers))
	for i, h := range headers {
		parts[i] = strconv.Quote(h.Name) + "=" + quoted(h.Value, h.ValueBase64)
	}
	return strings.Join(parts, ",")
}
