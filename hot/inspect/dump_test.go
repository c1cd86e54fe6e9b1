// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"firn/hot/inspect"
	"firn/internal/vfs"
	"firn/record"
	"firn/record/recordtest"
)

// dump collects the items of a path.
func dump(t testing.TB, path string, o inspect.Options) (items []inspect.Item) {
	t.Helper()
	err := inspect.Dump(t.Context(), path, o, func(item inspect.Item) error {
		items = append(items, item)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// of picks the items of one type.
func of[T inspect.Item](items []inspect.Item) (out []T) {
	for _, item := range items {
		if x, ok := item.(T); ok {
			out = append(out, x)
		}
	}
	return out
}

func TestDumpShowsAllThatKafkaWrote(t *testing.T) {
	mem := copyDir(t, "../../record/testdata/kafka-4.3.1")
	o := options(t, mem)
	o.Records = true
	items := dump(t, logDir, o)
	batches, records := of[*inspect.Batch](items), of[*inspect.Record](items)
	if len(batches) != 17 || len(records) != 41 || len(of[*inspect.IndexEntry](items)) != 13 || len(of[*inspect.TimeIndexEntry](items)) != 15 ||
		len(of[*inspect.Producer](items)) != 6 || len(of[*inspect.Epoch](items)) != 2 || len(of[*inspect.Checkpoint](items)) != 2 || len(of[*inspect.Damage](items)) != 0 {
		t.Errorf("%d items", len(items))
	}
	if b := batches[1]; b.Position != 117 || b.Bytes != 125 || b.Codec != "gzip" || b.LastOffset != 5 || b.ProducerID != 7 || b.LastSequence != 5 || !b.Valid {
		t.Errorf("%+v", b)
	}
	if r := records[1]; r.Offset != 1 || r.Key != nil || *r.Payload != "value-0-1" || r.Timestamp != 1_700_000_000_001 || len(r.Headers) != 2 ||
		r.Headers[0].Name != "h" || r.Headers[1].Value != nil {
		t.Errorf("%+v", r)
	}
	if m := records[39].Marker; m == nil || *m != (inspect.Marker{Type: "abort", CoordinatorEpoch: 4}) {
		t.Errorf("marker %+v", m)
	}
	if x := of[*inspect.AbortedTxn](items); len(x) != 1 || x[0].ProducerID != 8 || x[0].FirstOffset != 37 || x[0].LastOffset != 39 || x[0].LastStableOffset != 38 {
		t.Errorf("%+v", x)
	}
	if x := of[*inspect.Producer](items)[2]; x.ProducerID != 9 || x.TxnFirstOffset != 38 || x.ProducerEpoch != 2 {
		t.Errorf("%+v", x)
	}
	if x := of[*inspect.Metadata](items); len(x) != 1 || x[0].TopicID != "AAECAwQFBgcICQoLDA0ODw" {
		t.Errorf("%+v", x)
	}
	line, err := json.Marshal(of[*inspect.IndexEntry](items)[0])
	want := `{"kind":"index","file":"/firn/golden-0/00000000000000000000.index","offset":5,"position":117}`
	if err != nil || string(line) != want {
		t.Errorf("%s, %v", line, err)
	}
}

func TestDumpGoesOnAfterDamage(t *testing.T) {
	mem, _ := written(t)
	edit(t, mem, fileAt(0, ".log"), func(b []byte) []byte {
		b[second(b)+16] = 9 // the magic of the second batch
		return b
	})
	edit(t, mem, fileAt(0, ".index"), func(b []byte) []byte { return append(b, 1, 2, 3) })
	writeFile(t, mem, inDir("leader-epoch-checkpoint"), []byte("nothing"))
	items := dump(t, inDir(""), options(t, mem))
	var places []string
	for _, d := range of[*inspect.Damage](items) {
		places = append(places, fmt.Sprintf("%s:%d", strings.TrimPrefix(d.At(), inDir("")+"/"), d.Position))
	}
	log := readFile(t, mem, fileAt(0, ".log"))
	index := readFile(t, mem, fileAt(0, ".index"))
	want := []string{
		fmt.Sprintf("%s.index:%d", record.Offset(0).FileName(), len(index)-3),
		fmt.Sprintf("%s.log:%d", record.Offset(0).FileName(), second(log)),
		"leader-epoch-checkpoint:0",
	}
	if !slices.Equal(places, want) {
		t.Errorf("got %q, want %q", places, want)
	}
	if n := len(of[*inspect.Batch](items)); n != 29 {
		t.Errorf("%d batches, want all but the damaged one", n)
	}
}

func TestDumpTellsWhatItCannotUnpack(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll(inDir(""), 0o755); err != nil {
		t.Fatal(err)
	}
	b := append(recordtest.Batch(0, recordtest.CodecBits(record.CodecGzip)), recordtest.Batch(1, recordtest.Values([]byte{0xff}))...)
	writeFile(t, mem, fileAt(0, ".log"), b)
	o := options(t, mem)
	o.Records = true
	items := dump(t, fileAt(0, ".log"), o)
	if d := of[*inspect.Damage](items); len(d) != 1 || d[0].Position != 0 || !strings.Contains(d[0].Reason, "gzip") {
		t.Errorf("%+v", d)
	}
	if r := of[*inspect.Record](items); len(r) != 1 || r[0].Payload != nil || r[0].PayloadBase64 != "/w==" {
		t.Errorf("%+v", r)
	}
	o.Decompress = nil
	if d := of[*inspect.Damage](dump(t, fileAt(0, ".log"), o)); len(d) != 1 {
		t.Errorf("without a codec: %+v", d)
	}
}

func TestDumpOfPreallocatedIndexes(t *testing.T) {
	mem, _ := written(t)
	edit(t, mem, fileAt(0, ".timeindex"), func(b []byte) []byte { return append(b, make([]byte, 1200)...) })
	items := dump(t, fileAt(0, ".timeindex"), options(t, mem))
	if p := of[*inspect.Padding](items); len(p) != 1 || p[0].Bytes != 1200 || len(of[*inspect.Damage](items)) != 0 {
		t.Errorf("%+v", items)
	}
}

func TestDumpErrors(t *testing.T) {
	mem, _ := written(t)
	writeFile(t, mem, logDir+"/notes.txt", []byte("x"))
	stop := errors.New("enough")
	for path, want := range map[string]error{"/nowhere": fs.ErrNotExist, logDir + "/notes.txt": inspect.ErrUnknownFile, logDir: stop} {
		err := inspect.Dump(t.Context(), path, options(t, mem), func(inspect.Item) error { return stop })
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}
