// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"firn/record"
)

// TestCheckFindsEveryDamagedByte reads an object through its key alone, whole
// and with one byte changed in each of its parts.
func TestCheckFindsEveryDamagedByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		defer w.close()
		w.produce(40)
		w.pass(time.Minute)
		entries, err := w.log.Entries(t.Context(), 0, 10)
		if err != nil || len(entries) != 1 {
			t.Fatalf("%v, %v", entries, err)
		}
		key := w.log.Key(entries[0])
		o, err := OpenObject(t.Context(), w.bucket, key)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		visit := func(position int64, b record.Batch) error {
			if position != int64(len(got)) {
				t.Errorf("batch at %d, want %d", position, len(got))
			}
			got = append(got, b...)
			return nil
		}
		if faults := o.Check(t.Context(), visit); faults != nil || !bytes.Equal(got, w.model) {
			t.Fatalf("faults %v, %d bytes of %d", faults, len(got), len(w.model))
		}
		for _, s := range o.Footer.Sections {
			if s.Length == 0 {
				continue
			}
			for _, at := range []int64{s.Position, s.Position + s.Length/2, s.Position + s.Length - 1} {
				w.bucket.damage(key, int(at))
				faults := o.Check(t.Context(), func(int64, record.Batch) error { return nil })
				w.bucket.damage(key, int(at)) // back again
				var bad *record.CorruptionError
				if len(faults) == 0 || !errors.As(errors.Join(faults...), &bad) {
					t.Errorf("byte %d of the %v: %v", at, s.Kind, faults)
				}
			}
		}
		stop := errors.New("stop")
		if err := o.Batches(t.Context(), func(int64, record.Batch) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("the visitor's error: %v", err)
		}
	})
}

func TestLocate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		defer w.close()
		w.produce(5)
		w.produce(5)
		w.pass(time.Minute)
		for _, o := range []record.Offset{0, 1, 7, 10, 19} {
			at, _, ok, err := w.log.Locate(t.Context(), o)
			if err != nil || !ok {
				t.Fatalf("offset %d: %v, %v", o, ok, err)
			}
			if !at.Entry.Covers(o) || at.Key != w.log.Key(at.Entry) || at.BaseOffset != o-o%2 || at.NextOffset != at.BaseOffset+2 || at.Epoch != 1 {
				t.Errorf("offset %d: %+v", o, at)
			}
			// A part that was asked for stays in memory for a moment.
			if first := o%10 == 0; at.InMemory == first {
				t.Errorf("offset %d: in memory %v", o, at.InMemory)
			}
			b := make([]byte, at.Size)
			if _, err := w.bucket.GetRange(t.Context(), at.Key, b, at.Position); err != nil {
				t.Fatal(err)
			}
			if h, err := record.ParseHeader(b); err != nil || h.BaseOffset != at.BaseOffset || int64(h.Size()) != at.Size {
				t.Errorf("offset %d: the bytes there are %+v, %v", o, h, err)
			}
		}
		if _, next, ok, err := w.log.Locate(t.Context(), 20); ok || err != nil || next != 20 {
			t.Errorf("above the chain: %d, %v, %v", next, ok, err)
		}
		w.setLogStart(10)
		w.pass(time.Minute)
		if _, _, _, err := w.log.Locate(t.Context(), 3); !errors.Is(err, record.ErrOffsetOutOfRange) {
			t.Errorf("below the log start: %v", err)
		}
	})
}
