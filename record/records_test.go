// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/record"
	"firn/record/recordtest"
)

// collect goes through all records.
func collect(h record.Header, section []byte) (got []record.Record, err error) {
	for r, e := range h.Records(section) {
		if e != nil {
			return got, e
		}
		got = append(got, r)
	}
	return got, nil
}

func TestRecords(t *testing.T) {
	b := record.Batch(recordtest.Batch(100, recordtest.Values([]byte("a"), nil, []byte{}), recordtest.Keys([]byte("k")),
		recordtest.Timestamp(1000), recordtest.TimestampStep(-5), recordtest.Headers(2)))
	h := b.Header()
	got, err := collect(h, b.Section())
	if err != nil || len(got) != 3 {
		t.Fatalf("%d records, %v", len(got), err)
	}
	for i, r := range got {
		if r.OffsetDelta != int32(i) || r.TimestampDelta != int64(-5*i) || r.Headers != 2 {
			t.Errorf("record %d: %+v", i, r)
		}
		if h.RecordOffset(r) != 100+record.Offset(i) || h.RecordTimestamp(r) != int64(1000-5*i) {
			t.Errorf("record %d: offset %d, timestamp %d", i, h.RecordOffset(r), h.RecordTimestamp(r))
		}
	}
	if string(got[0].Key) != "k" || got[1].Key != nil || string(got[0].Value) != "a" || got[1].Value != nil || got[2].Value == nil {
		t.Errorf("keys and values: %+v", got)
	}
	var headers []string
	for k, v := range got[2].EachHeader() {
		headers = append(headers, string(k)+"="+string(v))
	}
	if !slices.Equal(headers, []string{"header-0=0", "header-1=1"}) {
		t.Errorf("headers %q", headers)
	}
	b.SetLogAppendTime(77)
	if ts := b.Header().RecordTimestamp(got[1]); ts != 77 {
		t.Errorf("stamped by the broker: %d", ts)
	}
	for range h.Records(b.Section()) {
		break // leaving early must be allowed
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 1, 20).Draw(t, "values")
		b := record.Batch(recordtest.Batch(0, recordtest.Values(values...), recordtest.Headers(rapid.IntRange(0, 3).Draw(t, "headers"))))
		got, err := collect(b.Header(), b.Section())
		if err != nil || len(got) != len(values) {
			t.Fatalf("%d of %d records, %v", len(got), len(values), err)
		}
		for i, r := range got {
			if !bytes.Equal(r.Value, values[i]) {
				t.Fatalf("record %d has the value %x, want %x", i, r.Value, values[i])
			}
		}
	})
}

// raw is a record of the fields given, as varints, with its length before it.
func raw(fields ...int64) []byte {
	body := []byte{0}
	for _, f := range fields {
		body = binary.AppendVarint(body, f)
	}
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

func TestRecordsRefuse(t *testing.T) {
	whole := raw(0, 0, -1, -1, 0)
	long := bytes.Repeat([]byte{0x80}, 10)
	tests := []struct {
		name    string
		section []byte
	}{
		{"nothing", nil},
		{"a negative length", binary.AppendVarint(nil, -1)},
		{"a length past the end", []byte{20, 0}},
		{"a length over 32 bits", binary.AppendVarint(nil, 1<<40)},
		{"a length without an end", long},
		{"an empty record", []byte{0}},
		{"a cut record", whole[:len(whole)-1]},
		{"an offset delta over 32 bits", raw(0, 1<<33, -1, -1, 0)},
		{"a negative offset delta", raw(0, -1, -1, -1, 0)},
		{"an offset delta past the last", raw(0, 1, -1, -1, 0)},
		{"a key past the end", raw(0, 0, 5, -1, 0)},
		{"a key of length -2", raw(0, 0, -2, -1, 0)},
		{"a value past the end", raw(0, 0, -1, 9, 0)},
		{"a negative header count", raw(0, 0, -1, -1, -1)},
		{"a header count past the end", raw(0, 0, -1, -1, 1<<30)},
		{"a null header key", raw(0, 0, -1, -1, 1, -1, -1)},
		{"a header cut", raw(0, 0, -1, -1, 1, 0)},
		{"bytes after the headers", raw(0, 0, -1, -1, 0, 0)},
		{"a second record", append(bytes.Clone(whole), whole...)},
		{"a byte after the last record", append(bytes.Clone(whole), 0)},
	}
	h := record.Header{Count: 1}
	if _, err := collect(h, whole); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := collect(h, tt.section); !errors.Is(err, record.ErrCorruptBatch) {
				t.Errorf("got %v, want ErrCorruptBatch", err)
			}
		})
	}
	twice := append(bytes.Clone(whole), whole...)
	if _, err := collect(record.Header{Count: 2, LastOffsetDelta: 1}, twice); !errors.Is(err, record.ErrCorruptBatch) {
		t.Errorf("an offset delta twice: %v", err)
	}
}

// FuzzRecords: no panic; without an error there are as many records as the
// header says, within the header's offsets, and together no longer than the
// section.
func FuzzRecords(f *testing.F) {
	f.Add(record.Batch(recordtest.Batch(0, recordtest.Count(3), recordtest.Headers(1))).Section(), int32(3), int32(2))
	f.Add(raw(0, 0, -1, -1, 0), int32(1), int32(0))
	f.Fuzz(func(t *testing.T, section []byte, count, lastDelta int32) {
		if count < 0 || lastDelta < 0 {
			return
		}
		got, err := collect(record.Header{Count: count, LastOffsetDelta: lastDelta}, section)
		if err != nil {
			if !errors.Is(err, record.ErrCorruptBatch) {
				t.Fatal(err)
			}
			return
		}
		if len(got) != int(count) {
			t.Fatalf("%d records, want %d", len(got), count)
		}
		total, last := 0, int32(-1)
		for _, r := range got {
			total += len(r.Key) + len(r.Value) + 2*r.Headers
			headers := 0
			for k, v := range r.EachHeader() {
				headers++
				total += len(k) + len(v)
			}
			if headers != r.Headers {
				t.Fatalf("%d headers, want %d", headers, r.Headers)
			}
			if r.OffsetDelta <= last || r.OffsetDelta > lastDelta {
				t.Fatalf("offset delta %d after %d, at most %d", r.OffsetDelta, last, lastDelta)
			}
			last = r.OffsetDelta
		}
		if total > len(section) {
			t.Fatalf("%d bytes out of %d", total, len(section))
		}
	})
}
