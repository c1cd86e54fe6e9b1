// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/record"
	"firn/record/recordtest"
)

// inTxn is the header of a transactional batch of n records.
func inTxn(base record.Offset, id int64, epoch int16, sequence int32, n int) record.Header {
	h := batch(base, id, epoch, sequence, n)
	h.Attributes |= 0x10
	return h
}

// markerOf is the header of a control batch.
func markerOf(base record.Offset, id int64, epoch int16) record.Header {
	return record.Batch(recordtest.Marker(base, id, epoch, record.Marker{})).Header()
}

func TestCheckTxn(t *testing.T) {
	open := record.NewProducers()
	open.Apply(inTxn(0, 1, 2, 0, 1))
	ended := open.Clone()
	ended.ApplyMarker(markerOf(1, 1, 2), record.Marker{})
	for name, tt := range map[string]struct {
		state    *record.Producers
		batch    record.Header
		verified bool
		want     error
	}{
		"no producer":                   {open, record.Batch(recordtest.Batch(9)).Header(), false, nil},
		"another producer":              {open, batch(0, 7, 0, 0, 1), false, nil},
		"another one begins, unknown":   {open, inTxn(0, 7, 0, 0, 1), false, record.ErrInvalidTxnState},
		"another one begins, verified":  {open, inTxn(0, 7, 0, 0, 1), true, nil},
		"goes on":                       {open, inTxn(0, 1, 2, 1, 1), false, nil},
		"goes on in a newer epoch":      {open, inTxn(0, 1, 3, 0, 1), false, record.ErrInvalidTxnState},
		"a batch outside of it":         {open, batch(0, 1, 2, 1, 1), false, record.ErrInvalidTxnState},
		"a verified batch outside":      {open, batch(0, 1, 2, 1, 1), true, record.ErrInvalidTxnState},
		"after the end, unknown":        {ended, inTxn(0, 1, 2, 1, 1), false, record.ErrInvalidTxnState},
		"after the end, verified":       {ended, inTxn(0, 1, 2, 1, 1), true, nil},
		"after the end, no transaction": {ended, batch(0, 1, 2, 1, 1), false, nil},
	} {
		if err := tt.state.CheckTxn(tt.batch, tt.verified); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestCheckMarker(t *testing.T) {
	p := record.NewProducers()
	p.Apply(inTxn(0, 1, 2, 0, 1))
	p.ApplyMarker(markerOf(1, 1, 2), record.Marker{CoordinatorEpoch: 5})
	for name, tt := range map[string]struct {
		id          int64
		epoch       int16
		coordinator int32
		want        error
	}{
		"an unknown producer":         {9, 0, 0, nil},
		"the same epochs":             {1, 2, 5, nil},
		"newer epochs":                {1, 3, 6, nil},
		"an older producer epoch":     {1, 1, 5, record.ErrInvalidProducerEpoch},
		"an older coordinator's":      {1, 2, 4, record.ErrFencedCoordinator},
		"a newer epoch, an older one": {1, 3, 4, record.ErrFencedCoordinator},
	} {
		err := p.CheckMarker(markerOf(0, tt.id, tt.epoch), record.Marker{CoordinatorEpoch: tt.coordinator})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

// txnModel is what P5 and ApplyMarker are held against.
type txnModel struct{ open []record.OpenTxn }

func (m *txnModel) of(id int64) int {
	return slices.IndexFunc(m.open, func(t record.OpenTxn) bool { return t.ProducerID == id })
}

func (m *txnModel) end(h record.Header, abort bool) (record.EndedTxn, bool) {
	i := m.of(h.ProducerID)
	if i < 0 {
		return record.EndedTxn{}, false
	}
	ended := record.EndedTxn{Abort: abort, AbortedTxn: record.AbortedTxn{
		ProducerID: h.ProducerID, FirstOffset: m.open[i].FirstOffset, LastOffset: h.BaseOffset, LastStableOffset: h.NextOffset(),
	}}
	m.open = slices.Delete(m.open, i, i+1)
	for _, t := range m.open {
		ended.LastStableOffset = min(ended.LastStableOffset, t.FirstOffset)
	}
	return ended, true
}

// TestTransactions drives any interleaving of producers, with snapshots in
// between that are loaded again (P5).
func TestTransactions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, m := record.NewProducers(), txnModel{}
		next := record.Offset(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			id := int64(rapid.IntRange(0, 4).Draw(t, "id"))
			switch rapid.SampledFrom([]string{"data", "data", "marker", "load", "clone", "expire"}).Draw(t, "step") {
			case "data":
				began := p.Apply(inTxn(next, id, 0, 0, 2))
				if began != (m.of(id) < 0) {
					t.Fatalf("the batch at %d begins a transaction: %v, open are %v", next, began, m.open)
				}
				if began {
					m.open = append(m.open, record.OpenTxn{ProducerID: id, FirstOffset: next})
				}
				next += 2
			case "marker":
				h, abort := markerOf(next, id, int16(rapid.IntRange(0, 1).Draw(t, "epoch"))), rapid.Bool().Draw(t, "abort")
				want, wantOK := m.end(h, abort)
				if got, ok := p.ApplyMarker(h, record.Marker{Abort: abort}); got != want || ok != wantOK {
					t.Fatalf("marker at %d: %+v, %v, want %+v, %v", next, got, ok, want, wantOK)
				}
				if got, ok := p.ApplyMarker(h, record.Marker{Abort: abort}); ok {
					t.Fatalf("marker at %d again: %+v", next, got)
				}
				next++
			case "load":
				loaded, err := record.ParseProducers(p.Marshal(next))
				if err != nil {
					t.Fatal(err)
				}
				p = loaded
			case "clone":
				p.Clone().ForgetTransactions()
				p = p.Clone()
			case "expire":
				p.Expire(math.MaxInt64, 0)
			}
			if !slices.Equal(p.Open(), m.open) {
				t.Fatalf("open are %v, want %v", p.Open(), m.open)
			}
		}
		p.ForgetTransactions()
		if len(p.Open()) > 0 || p.InTransaction(0, 0) {
			t.Fatal("transactions are open that were forgotten")
		}
	})
}

func TestMarkerRefuses(t *testing.T) {
	good := recordtest.Marker(3, 7, 1, record.Marker{Abort: true, CoordinatorEpoch: 4})
	parse := func(b []byte) (record.Marker, error) {
		return record.Batch(b).Header().Marker(record.Batch(b).Section())
	}
	if m, err := parse(good); err != nil || m != (record.Marker{Abort: true, CoordinatorEpoch: 4}) {
		t.Fatalf("got %+v, %v", m, err)
	}
	control := func(key, value []byte, opts ...recordtest.Option) []byte {
		opts = append([]recordtest.Option{recordtest.Keys(key), recordtest.Values(value), recordtest.Producer(7, 1, -1),
			recordtest.Transactional(), recordtest.Control()}, opts...)
		return recordtest.Batch(3, opts...)
	}
	if m, err := parse(control([]byte{0, 9, 0, 1, 5}, []byte{0, 9, 0, 0, 0, 2, 5})); err != nil || m != (record.Marker{CoordinatorEpoch: 2}) {
		t.Errorf("a later version: %+v, %v", m, err)
	}
	value := []byte{0, 0, 0, 0, 0, 4}
	for name, b := range map[string][]byte{
		"a data batch":            recordtest.Batch(3, recordtest.Producer(7, 1, 0), recordtest.Transactional()),
		"no producer":             control([]byte{0, 0, 0, 0}, value, recordtest.Producer(-1, -1, -1)),
		"no records":              control([]byte{0, 0, 0, 0}, value, recordtest.ClaimCount(0)),
		"a short key":             control([]byte{0, 0, 0}, value),
		"a short value":           control([]byte{0, 0, 0, 0}, value[:5]),
		"no value":                control([]byte{0, 0, 0, 0}, nil),
		"a negative key version":  control([]byte{255, 255, 0, 0}, value),
		"a negative version":      control([]byte{0, 0, 0, 0}, []byte{255, 255, 0, 0, 0, 4}),
		"a change of leaders":     control([]byte{0, 0, 0, 2}, value),
		"compressed":              control([]byte{0, 0, 0, 0}, value, recordtest.CodecBits(record.CodecZstd)),
		"records that are broken": control([]byte{0, 0, 0, 0}, value, recordtest.Compressed(record.CodecNone, func(b []byte) []byte { return b[:len(b)-1] })),
	} {
		if m, err := parse(b); !errors.Is(err, record.ErrInvalidBatch) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// FuzzMarker: a marker that parses is one of ours when it is made again.
func FuzzMarker(f *testing.F) {
	f.Add(record.Batch(recordtest.Marker(0, 7, 1, record.Marker{Abort: true, CoordinatorEpoch: 4})).Section())
	f.Add([]byte{})
	h := markerOf(5, 7, 1)
	f.Fuzz(func(t *testing.T, section []byte) {
		m, err := h.Marker(bytes.Clone(section))
		if err != nil {
			if !errors.Is(err, record.ErrInvalidBatch) {
				t.Fatal(err)
			}
			return
		}
		again := record.Batch(recordtest.Marker(5, 7, 1, m))
		if got, err := h.Marker(again.Section()); err != nil || got != m {
			t.Fatalf("%+v came back as %+v, %v", m, got, err)
		}
	})
}
