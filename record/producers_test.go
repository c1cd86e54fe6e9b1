// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"firn/record"
	"firn/record/recordtest"
)

// batch is the header of a producer's batch of n records.
func batch(base record.Offset, id int64, epoch int16, sequence int32, n int) record.Header {
	return record.Batch(recordtest.Batch(base, recordtest.Count(n), recordtest.Producer(id, epoch, sequence))).Header()
}

// apply takes in the header of a data batch or of a marker, which aborts for
// producers with an odd id.
func apply(p *record.Producers, h record.Header) {
	if h.IsControl() {
		p.ApplyMarker(h, record.Marker{Abort: h.ProducerID%2 == 1, CoordinatorEpoch: int32(h.ProducerEpoch)})
		return
	}
	p.Apply(h)
}

// applied is a state to which batches of one record each, of producer 1 in
// epoch 0 and with the sequence numbers from up to and without to, were
// applied at offsets equal to the sequence numbers.
func applied(from, to int32) *record.Producers {
	p := record.NewProducers()
	for s := from; s < to; s++ {
		p.Apply(batch(record.Offset(s), 1, 0, s, 1))
	}
	return p
}

func TestCheck(t *testing.T) {
	afterMarker := record.NewProducers()
	marker := batch(5, 1, 3, 0, 1)
	marker.Attributes |= 0x30
	afterMarker.ApplyMarker(marker, record.Marker{})

	wrapped := record.NewProducers()
	wrapped.Apply(batch(0, 1, 0, math.MaxInt32-2, 3)) // ends at 2^31-1

	tests := []struct {
		name  string
		state *record.Producers
		batch record.Header
		want  error
	}{
		{"no producer", applied(0, 1), record.Batch(recordtest.Batch(9)).Header(), nil},
		{"an unknown producer, sequence 0", record.NewProducers(), batch(0, 1, 0, 0, 1), nil},
		{"an unknown producer, any sequence", record.NewProducers(), batch(0, 1, 4, 77, 1), nil},
		{"no sequence", record.NewProducers(), batch(0, 1, 0, -1, 1), record.ErrInvalidBatch},
		{"no epoch", record.NewProducers(), batch(0, 1, -1, 0, 1), record.ErrInvalidBatch},
		{"the next batch", applied(0, 3), batch(0, 1, 0, 3, 1), nil},
		{"a gap", applied(0, 3), batch(0, 1, 0, 4, 1), record.ErrOutOfOrderSequence},
		{"a forgotten duplicate", applied(0, 8), batch(0, 1, 0, 2, 1), record.ErrDuplicateSequence},
		{"the last forgotten duplicate", applied(0, 8), batch(0, 1, 0, 1, 2), record.ErrDuplicateSequence},
		{"before what was ever seen", applied(5, 13), batch(0, 1, 0, 4, 1), record.ErrOutOfOrderSequence},
		{"half before what was ever seen", applied(5, 13), batch(0, 1, 0, 4, 2), record.ErrOutOfOrderSequence},
		{"before an unknown producer's first", applied(5, 6), batch(0, 1, 0, 4, 1), record.ErrOutOfOrderSequence},
		{"across remembered batches", applied(0, 8), batch(0, 1, 0, 4, 2), record.ErrOutOfOrderSequence},
		{"across the oldest remembered batch", applied(0, 8), batch(0, 1, 0, 2, 2), record.ErrOutOfOrderSequence},
		{"from remembered into new", applied(0, 8), batch(0, 1, 0, 7, 2), record.ErrOutOfOrderSequence},
		{"a newer epoch from 0", applied(0, 3), batch(0, 1, 1, 0, 1), nil},
		{"a newer epoch from 3", applied(0, 3), batch(0, 1, 1, 3, 1), record.ErrOutOfOrderSequence},
		{"an older epoch", afterMarker, batch(0, 1, 2, 0, 1), record.ErrInvalidProducerEpoch},
		{"after a marker from 0", afterMarker, batch(0, 1, 3, 0, 1), nil},
		{"after a marker from 1", afterMarker, batch(0, 1, 3, 1, 1), record.ErrOutOfOrderSequence},
		{"after the wrap", wrapped, batch(0, 1, 0, 0, 1), nil},
		{"after the wrap, a gap", wrapped, batch(0, 1, 0, 1, 1), record.ErrOutOfOrderSequence},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, err := tt.state.Check(tt.batch, 0)
			if !errors.Is(err, tt.want) || v != (record.Verdict{}) {
				t.Errorf("got %+v, %v, want %v", v, err, tt.want)
			}
		})
	}
}

// TestDuplicates attacks P1 and P2, across the wrap as well.
func TestDuplicates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := record.NewProducers()
		sequence := rapid.SampledFrom([]int32{0, 1000, math.MaxInt32 - 10, math.MaxInt32}).Draw(t, "first sequence")
		next := record.Offset(rapid.Int64Range(0, 1000).Draw(t, "first offset"))
		var sent []record.Header
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			h := batch(next, 9, 2, sequence, rapid.IntRange(1, 4).Draw(t, "records"))
			if v, err := p.Check(h, 0); err != nil || v.Duplicate {
				t.Fatalf("batch %+v: %+v, %v", h, v, err)
			}
			p.Apply(h)
			sent = append(sent, h)
			sequence = record.AddSequence(sequence, h.Count)
			next = h.NextOffset() + record.Offset(rapid.IntRange(0, 3).Draw(t, "others"))
		}
		for i, h := range sent {
			again := h
			again.BaseOffset = 0 // as a client sends it
			v, err := p.Check(again, 0)
			if i >= len(sent)-5 {
				if want := (record.Verdict{Duplicate: true, Base: h.BaseOffset, Next: h.NextOffset()}); err != nil || v != want {
					t.Fatalf("batch %d of %d: %+v, %v, want %+v", i, len(sent), v, err, want)
				}
			} else if !errors.Is(err, record.ErrDuplicateSequence) {
				t.Fatalf("batch %d of %d: %+v, %v, want ErrDuplicateSequence", i, len(sent), v, err)
			}
		}
	})
}

// TestApplyIsIdempotent attacks P3 and P4 with markers, transactions and
// epochs among the batches.
func TestApplyIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := record.NewProducers()
		var log []record.Header
		next := record.Offset(0)
		for range rapid.IntRange(1, 30).Draw(t, "batches") {
			h := batch(next, int64(rapid.IntRange(0, 3).Draw(t, "id")), int16(rapid.IntRange(0, 2).Draw(t, "epoch")),
				int32(rapid.IntRange(0, 9).Draw(t, "sequence")), rapid.IntRange(1, 3).Draw(t, "records"))
			h.Attributes = rapid.SampledFrom([]int16{0, 0, 0x10, 0x30}).Draw(t, "attributes")
			apply(p, h)
			log = append(log, h)
			next = h.NextOffset()
		}
		before := p.Marshal(next)
		for _, h := range log {
			apply(p, h)
		}
		if !bytes.Equal(p.Marshal(next), before) {
			t.Fatal("applying the log again changed the state")
		}
		if !bytes.Equal(p.Clone().Marshal(next), before) {
			t.Fatal("the clone differs")
		}
		loaded, err := record.ParseProducers(before)
		if err != nil || !bytes.Equal(loaded.Marshal(next), before) || loaded.Len() != p.Len() || loaded.MaxProducerID() != p.MaxProducerID() {
			t.Fatalf("the snapshot does not round-trip: %v", err)
		}
		for _, h := range log {
			apply(loaded, h)
		}
		if !bytes.Equal(loaded.Marshal(next), before) {
			t.Fatal("applying the log to the loaded state changed it")
		}
	})
}

func TestCloneIsIndependent(t *testing.T) {
	p := applied(0, 5)
	c := p.Clone()
	for s := int32(5); s < 9; s++ {
		c.Apply(batch(record.Offset(s), 1, 0, s, 1))
	}
	c.Apply(batch(20, 2, 0, 0, 1))
	if _, err := p.Check(batch(0, 1, 0, 5, 1), 0); err != nil {
		t.Errorf("the original moved with its clone: %v", err)
	}
	if v, _ := p.Check(batch(0, 1, 0, 0, 1), 0); !v.Duplicate || v.Base != 0 {
		t.Errorf("the original forgot a batch: %+v", v)
	}
	if p.Len() != 1 || p.MaxProducerID() != 1 || c.Len() != 2 || c.MaxProducerID() != 2 {
		t.Errorf("%d producers up to %d, clone %d up to %d", p.Len(), p.MaxProducerID(), c.Len(), c.MaxProducerID())
	}
}

func TestExpire(t *testing.T) {
	const stamp = recordtest.DefaultTimestamp
	p := record.NewProducers()
	p.Apply(batch(0, 1, 0, 0, 1)) // rebuilt: only its timestamp is known
	open := batch(1, 2, 0, 0, 1)
	open.Attributes |= 0x10
	p.Apply(open)
	p.Expire(stamp+999, time.Second)
	if p.Len() != 2 {
		t.Fatalf("%d producers, want 2: none was idle for a second", p.Len())
	}
	p.Expire(stamp+1000, time.Second)
	if p.Len() != 1 {
		t.Fatalf("%d producers, want the one with a transaction", p.Len())
	}
	marker := batch(2, 2, 0, 0, 1)
	marker.Attributes |= 0x30
	p.ApplyMarker(marker, record.Marker{})
	p.Expire(stamp+1000, time.Second)
	if p.Len() != 0 || p.MaxProducerID() != 2 {
		t.Errorf("%d producers up to %d, want none left and the highest id kept", p.Len(), p.MaxProducerID())
	}
}

func TestOldTimestampsDoNotExpireALiveProducer(t *testing.T) {
	const day = 24 * 3600 * 1000
	now := recordtest.DefaultTimestamp + 30*day
	p := record.NewProducers()
	h := batch(0, 1, 0, 0, 1)
	if _, err := p.Check(h, now); err != nil {
		t.Fatal(err)
	}
	p.Apply(h)
	p.Expire(now+day-1, 24*time.Hour)
	if v, err := p.Check(h, now); err != nil || !v.Duplicate {
		t.Errorf("got %+v, %v, want the duplicate found", v, err)
	}
	p.Expire(now+day, 24*time.Hour)
	if p.Len() != 0 {
		t.Error("a producer idle for a day stayed")
	}
}

func TestExpireSurvivesAnyTimestamp(t *testing.T) {
	p := record.NewProducers()
	for i, ts := range []int64{math.MinInt64, -1, math.MaxInt64} {
		h := batch(record.Offset(i), int64(i), 0, 0, 1)
		h.MaxTimestamp = ts
		p.Apply(h)
	}
	p.Expire(recordtest.DefaultTimestamp, time.Hour)
	if p.Len() != 1 {
		t.Errorf("%d producers, want the one of the future alone", p.Len())
	}
}

func TestAnEmptyControlBatchIsIgnored(t *testing.T) {
	h := batch(0, 1, 0, 0, 1)
	h.Attributes |= 0x30
	h.Count = 0
	p := record.NewProducers()
	p.Apply(h)
	p.Apply(record.Batch(recordtest.Batch(1)).Header())
	if p.Len() != 0 || p.MaxProducerID() != record.NoProducerID {
		t.Errorf("%d producers up to %d", p.Len(), p.MaxProducerID())
	}
}

func TestMarshalBelowTheNewestBatch(t *testing.T) {
	p := applied(0, 8) // offsets 3 to 7 are remembered
	p.Apply(batch(8, 2, 0, 0, 1))
	marker := batch(9, 3, 0, 0, 1)
	marker.Attributes |= 0x30
	p.ApplyMarker(marker, record.Marker{})
	old, err := record.ParseProducers(p.Marshal(5))
	if err != nil || old.Len() != 1 {
		t.Fatalf("%v, %d producers, want producer 1 alone", err, old.Len())
	}
	if v, err := old.Check(batch(0, 1, 0, 4, 1), 0); err != nil || !v.Duplicate || v.Base != 4 {
		t.Errorf("got %+v, %v, want offset 4 as the newest", v, err)
	}
	if _, err := old.Check(batch(0, 1, 0, 5, 1), 0); err != nil {
		t.Error(err)
	}
	if none, err := record.ParseProducers(p.Marshal(3)); err != nil || none.Len() != 0 {
		t.Errorf("%v, %d producers, want none", err, none.Len())
	}
}

func TestParseProducersRefuses(t *testing.T) {
	good := applied(0, 3).Marshal(3)
	seal := func(b []byte) []byte { return put(b, 2, record.CRC32C(b[6:])) }
	entry := good[10:]
	tests := []struct {
		name string
		b    []byte
		at   int64
	}{
		{"nothing", nil, 0},
		{"half a head", good[:9], 0},
		{"a flipped bit", put(good, 20, good[20]^1), 2},
		{"a cut entry", seal(good[:len(good)-1]), 6},
		{"bytes after the end", seal(append(bytes.Clone(good), 0)), 6},
		{"a negative count", seal(put(good, 6, uint32(1<<31))), 6},
		{"a count that is too high", seal(put(good, 6, uint32(2))), 6},
		{"a producer twice", seal(append(put(good, 6, uint32(2)), entry...)), 56},
		{"a negative producer id", seal(put(good, 10, uint64(1<<63))), 10},
		{"a negative sequence", seal(put(good, 20, uint32(1<<31))), 20},
		{"a negative offset", seal(put(good, 24, uint64(1<<63))), 24},
		{"a negative delta", seal(put(good, 32, uint32(1<<31))), 32},
		{"a delta beyond the offset", seal(put(good, 32, uint32(3))), 32},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := record.ParseProducers(tt.b)
			requireCorruption(t, err, tt.at)
			if p != nil {
				t.Error("a state came with the error")
			}
		})
	}
	for _, version := range []uint16{0, 2, 0xffff} {
		if _, err := record.ParseProducers(put(good, 0, version)); !errors.Is(err, record.ErrUnsupportedVersion) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// FuzzParseProducers: a snapshot that parses is written back byte for byte,
// when its entries are ordered as ours, and the state answers without panic.
func FuzzParseProducers(f *testing.F) {
	f.Add(applied(0, 7).Marshal(7))
	f.Add(record.NewProducers().Marshal(0))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 10 {
			b = put(b, 2, record.CRC32C(b[6:])) // reach past the CRC
		}
		p, err := record.ParseProducers(b)
		entries, entriesErr := record.ParseSnapshot(b)
		if (err == nil) != (entriesErr == nil) || err == nil && len(entries) != p.Len() {
			t.Fatalf("%d entries, %v; %v", len(entries), entriesErr, err)
		}
		if err != nil {
			return
		}
		text := p.Marshal(math.MaxInt64)
		again, err := record.ParseProducers(text)
		if err != nil || !bytes.Equal(again.Marshal(math.MaxInt64), text) {
			t.Fatalf("%x came back as %x, %v", b, text, err)
		}
		h := batch(100, p.MaxProducerID()&math.MaxInt64, 0, 0, 1)
		_, _ = p.Check(h, 0)
		p.Apply(h)
		p.Expire(math.MaxInt64, 0)
	})
}

func BenchmarkCheckAndApply(b *testing.B) {
	p := record.NewProducers()
	h := batch(0, 1, 0, 0, 10)
	for b.Loop() {
		if _, err := p.Check(h, 0); err != nil {
			b.Fatal(err)
		}
		p.Apply(h)
		h.BaseOffset = h.NextOffset()
		h.BaseSequence = record.AddSequence(h.BaseSequence, 10)
	}
}
