// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"firn/internal/testutil"
)

// dumped is one line of kafka-dump-log: its fields by Kafka's names.
type dumped map[string]string

func (d dumped) number(t testing.TB, name string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(d[name], 10, 64)
	if err != nil {
		t.Fatalf("field %s of %v: %v", name, d, err)
	}
	return n
}

// dumpedFile is what kafka-dump-log says of one file.
type dumpedFile struct {
	batches []dumped
	records []dumped
	entries []dumped // of anything that is no .log file
}

var (
	fieldPattern = regexp.MustCompile(`(\w+): (\S+)`)
	// complaints are the words by which the tool tells that something is wrong.
	complaints = regexp.MustCompile(`(?i)mismatch|non-consecutive|out of order|\blost\b|\bfound\b|invalid|isvalid: false|exception|\berror|corrupt|fail`)
)

// parseDump takes the output of kafka-dump-log apart, by the base names of the
// files. A complaint in it fails the test.
func parseDump(t testing.TB, output string) map[string]*dumpedFile {
	t.Helper()
	if complaint := complaints.FindStringIndex(output); complaint != nil {
		from, to := max(complaint[0]-300, 0), min(complaint[1]+300, len(output))
		t.Fatalf("kafka-dump-log complains:\n…%s…", output[from:to])
	}
	files := map[string]*dumpedFile{}
	var now *dumpedFile
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		if path, ok := strings.CutPrefix(line, "Dumping "); ok {
			now = &dumpedFile{}
			files[filepath.Base(path)] = now
			continue
		}
		fields := dumped{}
		if before, payload, ok := strings.Cut(line, " payload: "); ok {
			line, fields["payload"] = before, payload // the last field, of any text
		}
		for _, m := range fieldPattern.FindAllStringSubmatch(line, -1) {
			fields[m[1]] = m[2]
		}
		switch {
		case now == nil || strings.HasPrefix(line, "Log starting offset") || strings.HasSuffix(line, " passed sanity check."), strings.HasSuffix(line, "index is empty."):
		case strings.HasPrefix(line, "baseOffset: "):
			now.batches = append(now.batches, fields)
		case strings.HasPrefix(line, "| "):
			now.records = append(now.records, fields)
		case len(fields) > 0:
			now.entries = append(now.entries, fields)
		default:
			t.Fatalf("kafka-dump-log says what the test does not know: %q", line)
		}
	}
	return files
}

// kafkaDump runs kafka-dump-log over all files of a partition directory that it
// reads, in every way that it offers, and answers what it shows.
func kafkaDump(t testing.TB, tools testutil.KafkaTools, dir string) map[string]*dumpedFile {
	t.Helper()
	var all, indexes []string
	for _, suffix := range []string{"log", "index", "timeindex", "txnindex", "snapshot"} {
		found, err := filepath.Glob(filepath.Join(dir, "*."+suffix))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
		if strings.HasSuffix(suffix, "index") && suffix != "txnindex" {
			indexes = append(indexes, found...)
		}
	}
	if len(indexes) == 0 {
		t.Fatalf("no index is in %s", dir)
	}
	sane := tools.DumpLog(t, indexes, "--index-sanity-check")
	parseDump(t, sane)
	if n := strings.Count(sane, " passed sanity check.") + strings.Count(sane, "index is empty."); n != len(indexes) {
		t.Errorf("%d of %d indexes pass the sanity check:\n%s", n, len(indexes), sane)
	}
	verified := tools.DumpLog(t, indexes, "--verify-index-only")
	for name, f := range parseDump(t, verified) {
		if len(f.entries) > 0 {
			t.Errorf("the verification of %s finds %v", name, f.entries)
		}
	}
	files := parseDump(t, tools.DumpLog(t, all, "--deep-iteration", "--print-data-log"))
	if len(files) != len(all) {
		t.Fatalf("%d of %d files were dumped", len(files), len(all))
	}
	return files
}

// firnItem is one line of firn log dump -o json, any kind.
type firnItem struct {
	Kind, File                    string
	Position, Bytes               int64
	BaseOffset                    int64 `json:"base_offset"`
	LastOffset                    int64 `json:"last_offset"`
	FirstOffset                   int64 `json:"first_offset"`
	LastStableOffset              int64 `json:"last_stable_offset"`
	Records                       int64
	LeaderEpoch                   int64 `json:"leader_epoch"`
	Codec                         string
	BaseTimestamp                 int64 `json:"base_timestamp_ms"`
	MaxTimestamp                  int64 `json:"max_timestamp_ms"`
	ProducerID                    int64 `json:"producer_id"`
	ProducerEpoch                 int64 `json:"producer_epoch"`
	BaseSequence                  int64 `json:"base_sequence"`
	LastSequence                  int64 `json:"last_sequence"`
	FirstSequence                 int64 `json:"first_sequence"`
	Transactional, Control, Valid bool
	CRC                           int64
	Offset, Sequence              int64
	Timestamp                     int64 `json:"timestamp_ms"`
	Key, Payload                  *string
	CoordinatorEpoch              int64  `json:"coordinator_epoch"`
	OffsetDelta                   int64  `json:"offset_delta"`
	TxnFirstOffset                int64  `json:"txn_first_offset"`
	Epoch                         int64  `json:"epoch"`
	StartOffset                   int64  `json:"start_offset"`
	TopicID                       string `json:"topic_id"`
	Topic                         string
	Partition                     int64
	Marker                        *struct{ Type string }
	Headers                       []struct{ Name string }
}

// firnDump is what firn log dump shows of a path, by the base names of files.
func firnDump(t testing.TB, path string) map[string][]firnItem {
	t.Helper()
	r := testutil.RunFirn(t, "log", "dump", "--records", "-o", "json", path)
	if r.Code != 0 {
		t.Fatalf("firn log dump %s: exit code %d\n%s", path, r.Code, r.Stderr)
	}
	files := map[string][]firnItem{}
	lines := bufio.NewScanner(bytes.NewReader(r.Stdout))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var item firnItem
		if err := json.Unmarshal(lines.Bytes(), &item); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		name := filepath.Base(item.File)
		files[name] = append(files[name], item)
	}
	return files
}

// firnVerify fails the test unless firn log verify finds a path whole.
func firnVerify(t testing.TB, path string) {
	t.Helper()
	if r := testutil.RunFirn(t, "log", "verify", path); r.Code != 0 {
		t.Errorf("firn log verify %s: exit code %d\n%s%s", path, r.Code, r.Stdout, r.Stderr)
	}
}

// sameAsKafka compares what the two tools say of one file, item by item and
// field by field. The names are those of Kafka's tool.
func sameAsKafka(t testing.TB, name string, kafka *dumpedFile, ours []firnItem) {
	t.Helper()
	var batches, records, entries []firnItem
	for _, item := range ours {
		switch item.Kind {
		case "batch":
			batches = append(batches, item)
		case "record":
			records = append(records, item)
		default:
			entries = append(entries, item)
		}
	}
	for _, c := range []struct {
		kafka []dumped
		ours  []firnItem
	}{{kafka.batches, batches}, {kafka.records, records}, {kafka.entries, entries}} {
		if len(c.kafka) != len(c.ours) {
			t.Errorf("%s: kafka-dump-log shows %d, firn log dump %d", name, len(c.kafka), len(c.ours))
			return
		}
		// The producers of a snapshot have no order in Kafka's files.
		if strings.HasSuffix(name, ".snapshot") {
			slices.SortFunc(c.kafka, func(a, b dumped) int { return strings.Compare(a["producerId"], b["producerId"]) })
			slices.SortFunc(c.ours, func(a, b firnItem) int {
				return strings.Compare(fmt.Sprint(a.ProducerID), fmt.Sprint(b.ProducerID))
			})
		}
		for i := range c.kafka {
			want := c.ours[i].asKafka(c.kafka[i])
			for field, value := range want {
				if got := c.kafka[i][field]; got != value {
					t.Errorf("%s, item %d: kafka-dump-log says %s: %q, firn log dump %q\n%v", name, i, field, got, value, c.kafka[i])
				}
			}
		}
	}
}

// asKafka are the fields of an item by the names of Kafka's tool, whose line
// for it is given.
func (f firnItem) asKafka(line dumped) dumped {
	fields := map[string]any{}
	switch f.Kind {
	case "batch":
		fields = map[string]any{
			"baseOffset": f.BaseOffset, "lastOffset": f.LastOffset, "count": f.Records, "baseSequence": f.BaseSequence, "lastSequence": f.LastSequence,
			"producerId": f.ProducerID, "producerEpoch": f.ProducerEpoch, "partitionLeaderEpoch": f.LeaderEpoch, "isTransactional": f.Transactional,
			"isControl": f.Control, "position": f.Position, "size": f.Bytes, "magic": 2, "compresscodec": f.Codec, "crc": f.CRC, "isvalid": f.Valid,
		}
		if _, stamped := line["LogAppendTime"]; stamped {
			fields["LogAppendTime"] = f.MaxTimestamp
		} else {
			fields["CreateTime"] = f.MaxTimestamp
		}
	case "record":
		fields = map[string]any{"offset": f.Offset, "sequence": f.Sequence, "keySize": -1, "valueSize": -1}
		if f.Marker != nil {
			return dumped{"offset": fmt.Sprint(f.Offset), "endTxnMarker": strings.ToUpper(f.Marker.Type)}
		}
		if f.Key != nil {
			fields["keySize"], fields["key"] = len(*f.Key), *f.Key
		}
		if f.Payload != nil {
			fields["valueSize"], fields["payload"] = len(*f.Payload), *f.Payload
		}
		for _, name := range []string{"CreateTime", "LogAppendTime"} {
			if _, ok := line[name]; ok {
				fields[name] = f.Timestamp
			}
		}
	case "index":
		fields = map[string]any{"offset": f.Offset, "position": f.Position}
	case "timeindex":
		fields = map[string]any{"offset": f.Offset, "timestamp": f.Timestamp}
	case "txnindex":
		fields = map[string]any{"version": 0, "producerId": f.ProducerID, "firstOffset": f.FirstOffset, "lastOffset": f.LastOffset, "lastStableOffset": f.LastStableOffset}
	case "snapshot":
		txn := "OptionalLong.empty"
		if f.TxnFirstOffset >= 0 {
			txn = fmt.Sprintf("OptionalLong[%d]", f.TxnFirstOffset)
		}
		fields = map[string]any{
			"producerId": f.ProducerID, "producerEpoch": f.ProducerEpoch, "coordinatorEpoch": f.CoordinatorEpoch, "currentTxnFirstOffset": txn,
			"lastTimestamp": f.Timestamp,
		}
		if f.LastOffset >= 0 {
			fields["firstSequence"], fields["lastSequence"] = f.FirstSequence, f.LastSequence
			fields["lastOffset"], fields["offsetDelta"] = f.LastOffset, f.OffsetDelta
		}
	}
	out := dumped{}
	for name, v := range fields {
		out[name] = fmt.Sprint(v)
	}
	return out
}
