// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"firn/record"
	"firn/record/recordtest"
)

func TestObjectHoldsTheLogAndSaysSo(t *testing.T) {
	log := testLog(100, 300, 9000) // two blocks and a half
	seg := newMemSegment(log)
	seg.aborted = []record.AbortedTxn{
		{ProducerID: 2, FirstOffset: 500, LastOffset: 900, LastStableOffset: 500}, // its marker lies beyond the segment
		{ProducerID: 1, FirstOffset: 20, LastOffset: 101, LastStableOffset: 101},
		{ProducerID: 3, FirstOffset: 700, LastOffset: 710, LastStableOffset: 700}, // does not overlap
	}
	o, err := BuildObject(context.Background(), seg, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := objectBytes(t, o)
	if !bytes.HasPrefix(b, log) || int64(len(b)) != o.Size() {
		t.Fatalf("object of %d bytes (Size says %d) does not begin with the log of %d", len(b), o.Size(), len(log))
	}
	if got := record.CRC32C(b); got != o.CRC32C() {
		t.Errorf("CRC32C is %08x, the bytes have %08x", o.CRC32C(), got)
	}
	f, err := ParseFooter("k", b, o.Size())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.Sections {
		if got := sha256.Sum256(b[s.Position : s.Position+s.Length]); got != s.Digest {
			t.Errorf("%v: digest does not match", s.Kind)
		}
	}
	for i, crc := range f.BlockCRCs {
		if got := record.CRC32C(log[i*BlockSize : min(len(log), (i+1)*BlockSize)]); got != crc {
			t.Errorf("block %d: CRC-32C %08x, want %08x", i, crc, got)
		}
	}
	txns, err := record.ParseTxnIndex(section(b, f, SectionAbortedTxns), 0)
	if err != nil || len(txns) != 2 || txns[0].ProducerID != 1 || txns[1].ProducerID != 2 {
		t.Errorf("aborted transactions are %v, %v; want those of producers 1 and 2", txns, err)
	}
	e := o.Entry()
	if e.From != 100 || e.To != 700 || e.Records != 600 || !e.HasAborted || e.LogSize != int64(len(log)) || e.FirstEpoch != 3 || e.LastEpoch != 3 {
		t.Errorf("entry is %+v", e)
	}
	if e.FirstTimestamp != recordtest.DefaultTimestamp || e.MaxTimestamp != recordtest.DefaultTimestamp+300 || e.MaxTimestampOffset != 699 {
		t.Errorf("timestamps are %d, %d at %d", e.FirstTimestamp, e.MaxTimestamp, e.MaxTimestampOffset)
	}
	if err := e.withEpoch(0).check(); err != nil {
		t.Errorf("the chain would refuse the entry: %v", err)
	}
}

func (e Entry) withEpoch(epoch record.Epoch) Entry { e.Epoch = epoch; return e }

func section(object []byte, f *Footer, k SectionKind) []byte {
	s := f.Section(k)
	return object[s.Position : s.Position+s.Length]
}

func TestEqualSegmentsGiveEqualObjects(t *testing.T) {
	log := testLog(0, 20, 5000)
	a, b := mustBuild(t, log), mustBuild(t, bytes.Clone(log))
	if a.Hash() != b.Hash() || !bytes.Equal(objectBytes(t, a), objectBytes(t, b)) {
		t.Error("two objects of one log differ")
	}
	log[len(log)-1] ^= 1
	recordtest.FixCRC(lastBatch(log))
	if c := mustBuild(t, log); c.Hash() == a.Hash() {
		t.Error("another log has the same hash")
	}
}

func lastBatch(log []byte) []byte {
	for {
		b, rest, err := record.SplitBatch(log)
		if err != nil {
			panic(err)
		}
		if len(rest) == 0 {
			return b
		}
		log = rest
	}
}

func TestBuildObjectRefusesDamage(t *testing.T) {
	const batches = 40
	log := testLog(10, batches, 60<<10) // more than two blocks
	size := len(log) / batches
	at := func(i int) []byte { return log[i*size : (i+1)*size] }
	cut := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, tc := range map[string]struct {
		damage   func(s *memSegment)
		position int64
	}{
		"flipped record byte": {func(s *memSegment) { s.log[20*size+5000] ^= 4 }, int64(20 * size)},
		"flipped CRC":         {func(s *memSegment) { s.log[7*size+17] ^= 1 }, int64(7 * size)},
		"old magic":           {func(s *memSegment) { s.log[3*size+16] = 1 }, int64(3 * size)},
		"wild length":         {func(s *memSegment) { binary.BigEndian.PutUint32(s.log[2*size+8:], 1<<30) }, int64(2 * size)},
		"short length":        {func(s *memSegment) { binary.BigEndian.PutUint32(s.log[2*size+8:], 3) }, int64(2 * size)},
		"lost batch":          {func(s *memSegment) { s.log = cut(log[:5*size], log[6*size:]) }, int64(5 * size)},
		"repeated batch":      {func(s *memSegment) { s.log = cut(log[:5*size], at(4), log[5*size:]) }, int64(5 * size)},
		"falling epoch":       {func(s *memSegment) { record.Batch(s.log[9*size:]).SetLeaderEpoch(2) }, int64(9 * size)},
		"beyond the end":      {func(s *memSegment) { s.next-- }, int64((batches - 1) * size)},
		"before the end":      {func(s *memSegment) { s.next++ }, int64(batches * size)},
		"cut in a batch":      {func(s *memSegment) { s.log = s.log[:len(s.log)-9] }, int64((batches - 1) * size)},
		"cut in a header":     {func(s *memSegment) { s.log = s.log[:(batches-1)*size+30] }, int64((batches - 1) * size)},
		"below the base":      {func(s *memSegment) { s.base++ }, 0},
		"empty":               {func(s *memSegment) { s.log = nil }, 0},
		"too many records": {func(s *memSegment) {
			binary.BigEndian.PutUint32(s.log[57:], 99)
			recordtest.FixCRC(s.log[:size])
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newMemSegment(bytes.Clone(log))
			tc.damage(s)
			_, err := BuildObject(context.Background(), s, nil)
			var bad *record.CorruptionError
			if !errors.As(err, &bad) {
				t.Fatalf("error is %v, want a CorruptionError", err)
			}
			if bad.Position != tc.position {
				t.Errorf("position is %d, want %d (%v)", bad.Position, tc.position, err)
			}
		})
	}
	t.Run("bad snapshot", func(t *testing.T) {
		s := newMemSegment(log)
		s.snapshot = []byte("not a snapshot")
		if _, err := BuildObject(context.Background(), s, nil); !errors.Is(err, record.ErrCorruptBatch) && !errors.Is(err, record.ErrUnsupportedVersion) {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("read error is no corruption", func(t *testing.T) {
		s := newMemSegment(log)
		s.failRead = errors.New("disk on fire")
		var bad *record.CorruptionError
		if _, err := BuildObject(context.Background(), s, nil); !errors.Is(err, s.failRead) || errors.As(err, &bad) {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := BuildObject(ctx, newMemSegment(log), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	})
}

func TestSourceNeverLetsChangedBytesOut(t *testing.T) {
	log := testLog(0, 50, 60<<10)
	seg := newMemSegment(log)
	o, err := BuildObject(context.Background(), seg, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := objectBytes(t, o)
	bad := BlockSize + 4711
	seg.log[bad] ^= 0x10
	for _, piece := range []int{100, 32 << 10, BlockSize, 3*BlockSize + 17} {
		src := o.Source()
		var got []byte
		for {
			p := make([]byte, piece)
			n, err := src.ReadAt(p, int64(len(got)))
			got = append(got, p[:n]...)
			if err != nil {
				var bad *record.CorruptionError
				if !errors.As(err, &bad) || bad.Position != BlockSize {
					t.Fatalf("pieces of %d: error is %v, want a CorruptionError at %d", piece, err, BlockSize)
				}
				break
			}
		}
		if !bytes.Equal(got, want[:BlockSize]) {
			t.Errorf("pieces of %d: %d bytes left, want the %d before the bad block", piece, len(got), BlockSize)
		}
	}
}

// The source follows io.ReaderAt for every piece, and reads the file once when
// a store reads it from front to back.
func TestSourceIsAReaderAt(t *testing.T) {
	log := testLog(7, 40, 60<<10)
	seg := newMemSegment(log)
	o, err := BuildObject(context.Background(), seg, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := objectBytes(t, o)
	seg.reads.Store(0)
	src := o.Source()
	if _, err := io.CopyBuffer(io.Discard, io.NewSectionReader(src, 0, src.Size()), make([]byte, 32<<10)); err != nil {
		t.Fatal(err)
	}
	if got := seg.reads.Load(); got != int64(len(log)) {
		t.Errorf("%d bytes read from a log of %d", got, len(log))
	}
	rapid.Check(t, func(rt *rapid.T) {
		off := rapid.Int64Range(0, int64(len(want))+10).Draw(rt, "off")
		p := make([]byte, rapid.IntRange(0, 2*BlockSize+100).Draw(rt, "n"))
		n, err := src.ReadAt(p, off)
		wantN := 0
		if off < int64(len(want)) {
			wantN = min(len(p), len(want)-int(off))
		}
		if n != wantN || (err != nil) != (n < len(p)) || err != nil && err != io.EOF {
			rt.Fatalf("ReadAt(%d bytes, %d) = %d, %v; want %d", len(p), off, n, err, wantN)
		}
		if n > 0 && !bytes.Equal(p[:n], want[off:off+int64(n)]) {
			rt.Fatal("other bytes")
		}
	})
}

// Whatever the batches and however the log is cut into pieces, the scan sees
// the same batches, and the index built from them leads to every offset.
func TestScanAndIndexAgreeWithTheLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log, heads, positions := drawLog(rt, 60)
		base, next := heads[0].BaseOffset, heads[len(heads)-1].NextOffset()
		x := newIndexer(base)
		var seen []record.Header
		scan := newLogScan("log", base, next, func(at int64, h record.Header) {
			if at != positions[len(seen)] {
				rt.Fatalf("batch %d visited at %d, want %d", len(seen), at, positions[len(seen)])
			}
			seen = append(seen, h)
			x.add(at, h)
		})
		for rest := log; len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 9000)).Draw(rt, "piece")
			if err := scan.feed(rest[:n]); err != nil {
				rt.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := scan.finish(); err != nil || len(seen) != len(heads) {
			rt.Fatalf("%d of %d batches, %v", len(seen), len(heads), err)
		}
		x.finish()
		if err := record.CheckIndex(x.offsets, base, int64(len(log))); err != nil {
			rt.Fatalf("offset index: %v", err)
		}
		if err := record.CheckTimeIndex(x.times, base, next); err != nil {
			rt.Fatalf("time index: %v", err)
		}
		for i, h := range heads {
			at := record.LookupIndex(x.offsets, base, h.BaseOffset).Position
			if int64(at) > positions[i] {
				rt.Fatalf("offset %d: index leads to %d, behind the batch at %d", h.BaseOffset, at, positions[i])
			}
		}
	})
}

// drawLog draws a log of up to n batches of very different sizes.
func drawLog(rt *rapid.T, n int) (log []byte, heads []record.Header, positions []int64) {
	next := record.Offset(rapid.Int64Range(0, 1<<40).Draw(rt, "base"))
	rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
	for range rapid.IntRange(1, n).Draw(rt, "batches") {
		size := 1 << rnd.IntN(15)
		b := recordtest.Batch(next, recordtest.ValueSize(1+rnd.IntN(5), 1+rnd.IntN(size)),
			recordtest.Timestamp(1e12+rnd.Int64N(1000)), recordtest.TimestampStep(rnd.Int64N(3)-1), recordtest.LeaderEpoch(0))
		h := record.Batch(b).Header()
		heads, positions = append(heads, h), append(positions, int64(len(log)))
		log = append(log, b...)
		next = h.NextOffset()
	}
	return log, heads, positions
}
