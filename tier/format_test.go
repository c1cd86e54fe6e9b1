// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"firn/record"
)

var updateManifestGolden = flag.Bool("update-manifest-golden", false, "write the golden files of the manifest's formats")

// The objects that the golden files hold.

func goldenPage() page {
	return makePage(testTopicID, 4, 2, []Entry{segmentEntry(0, 100, 1), Gap(100, 250, GapExpired), segmentEntry(250, 300, 2)})
}

func goldenManifest() Manifest {
	p := goldenPage()
	recent := []Entry{segmentEntry(300, 400, 3), Gap(400, 410, GapLateEnabling), segmentEntry(410, 500, 4)}
	m := Manifest{
		TopicID: testTopicID, Partition: 4, Epoch: 7, Seq: 42, Writer: WriterID{0xaa, 0xbb}, CreatedMs: 1_700_000_000_000,
		LogStart: 120, Start: 100, End: 500, Pages: []PageRef{p.ref}, Recent: recent,
		Tombstones: []Tombstone{
			{Kind: KeySegment, Base: 0, Epoch: 3, Hash: segmentEntry(0, 100, 1).Hash, Size: 1501, AtMs: 1_700_000_000_001},
			{Kind: KeyPage, Base: 0, Epoch: 1, Hash: Hash{9}, Size: 4000, AtMs: 1_700_000_000_002},
		},
	}
	var sum totals
	for _, e := range append([]Entry{segmentEntry(250, 300, 2)}, recent...) {
		sum.add(e)
	}
	m.Segments, m.Bytes = sum.segments, sum.bytes
	return m
}

func goldenClaim() claim {
	return claim{topicID: testTopicID, partition: 4, epoch: 7, writer: WriterID{0xaa, 0xbb}, createdMs: 1_700_000_000_000}
}

func goldenTopic() TopicState {
	return TopicState{Name: "orders", ID: testTopicID, Partitions: 12, Config: map[string]string{"retention.ms": "-1", "cleanup.policy": "delete"}}
}

func goldenCopy() localCopy {
	m := goldenManifest()
	return localCopy{writers: []WriterID{{1}, {0xaa, 0xbb}}, head: m.encode()}
}

func TestGoldenFiles(t *testing.T) {
	m := goldenManifest()
	if err := m.check(); err != nil {
		t.Fatal(err)
	}
	files := map[string]struct {
		bytes  []byte
		decode func(b []byte) (any, error)
		want   any
	}{
		"page.bin": {goldenPage().bytes, func(b []byte) (any, error) { return parsePage("page", b, testTopicID, 4, goldenPage().ref) },
			[]Entry{segmentEntry(0, 100, 1), Gap(100, 250, GapExpired), segmentEntry(250, 300, 2)}},
		"head.bin":  {m.encode(), func(b []byte) (any, error) { return DecodeHead("head", b) }, &m},
		"claim.bin": {goldenClaim().encode(), func(b []byte) (any, error) { return decodeClaim("claim", b) }, goldenClaim()},
		"topic.bin": {goldenTopic().encode(), func(b []byte) (any, error) { return DecodeTopic("topic", b) }, goldenTopic()},
		"store.bin": {encodeStoreID(testStoreID, 1_700_000_000_000), func(b []byte) (any, error) { return decodeStoreID("store", b) }, testStoreID},
		"firn-manifest.bin": {goldenCopy().encode(), func(b []byte) (any, error) {
			c, _, err := decodeLocalCopy("copy", b)
			return c, err
		}, goldenCopy()},
	}
	for name, file := range files {
		path := filepath.Join("testdata", "manifest", name)
		if *updateManifestGolden {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, file.bytes, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(golden, file.bytes) {
			t.Errorf("%s: the format has changed", name)
		}
		got, err := file.decode(golden)
		if err != nil || !reflect.DeepEqual(got, file.want) {
			t.Errorf("%s: decoded %+v, %v, want %+v", name, got, err, file.want)
		}
	}
}

// decoders are all of them, on one input.
func decodeAll(b []byte) map[string]error {
	errs := make(map[string]error)
	_, errs["head"] = DecodeHead("x", b)
	_, _, _, errs["page"] = decodePage("x", b)
	_, errs["claim"] = decodeClaim("x", b)
	_, errs["topic"] = DecodeTopic("x", b)
	_, errs["store"] = decodeStoreID("x", b)
	_, _, errs["copy"] = decodeLocalCopy("x", b)
	return errs
}

func goldens() map[string][]byte {
	m := goldenManifest()
	return map[string][]byte{
		"head": m.encode(), "page": goldenPage().bytes, "claim": goldenClaim().encode(), "topic": goldenTopic().encode(),
		"store": encodeStoreID(testStoreID, 1), "copy": goldenCopy().encode(),
	}
}

// Every cut and every flipped bit is found, and told as corruption.
func TestDamageIsFound(t *testing.T) {
	for kind, whole := range goldens() {
		for n := range whole {
			if err := decodeAll(whole[:n])[kind]; !isErr(err, record.ErrCorruptBatch) {
				t.Fatalf("%s cut to %d bytes: %v, want corruption", kind, n, err)
			}
			flipped := slices.Clone(whole)
			flipped[n] ^= 0x10
			if err := decodeAll(flipped)[kind]; !isErr(err, record.ErrCorruptBatch) {
				t.Fatalf("%s with a flipped bit at %d: %v, want corruption", kind, n, err)
			}
		}
		if err := decodeAll(append(slices.Clone(whole), 0))[kind]; !isErr(err, record.ErrCorruptBatch) {
			t.Fatalf("%s with a byte more: %v, want corruption", kind, err)
		}
		for other, err := range decodeAll(whole) {
			if (err == nil) != (other == kind) {
				t.Fatalf("%s read as %s: %v", kind, other, err)
			}
		}
	}
}

// An unknown version is refused as such, never taken for damage or nothing.
func TestUnknownVersionIsRefused(t *testing.T) {
	for kind, whole := range goldens() {
		if err := decodeAll(reframe(whole, 2))[kind]; !isErr(err, record.ErrUnsupportedVersion) || isErr(err, record.ErrCorruptBatch) {
			t.Errorf("%s of version 2: %v, want an unsupported version", kind, err)
		}
	}
}

// A frame whose CRC is right but whose body lies: decoders do not panic, do not
// allocate beyond their input, and whatever passes is encoded to the same bytes.
func FuzzDecode(f *testing.F) {
	for _, whole := range goldens() {
		f.Add(whole[:8], whole[frameHeadSize:len(whole)-4])
	}
	f.Fuzz(func(t *testing.T, kind, body []byte) {
		if len(kind) != 8 {
			return
		}
		b := appendFrame(nil, magic(kind), body)
		if m, err := DecodeHead("x", b); err == nil {
			if err := m.check(); err != nil {
				t.Fatalf("a decoded manifest breaks its invariants: %v", err)
			}
			same(t, b, m.encode())
		}
		if id, partition, entries, err := decodePage("x", b); err == nil {
			same(t, b, makePage(id, partition, 1, entries).bytes)
		}
		if c, err := decodeClaim("x", b); err == nil {
			same(t, b, c.encode())
		}
		if s, err := DecodeTopic("x", b); err == nil {
			same(t, b, s.encode())
		}
		if c, _, err := decodeLocalCopy("x", b); err == nil {
			same(t, b, c.encode())
		}
		_, _ = decodeStoreID("x", b)
	})
}

func same(t *testing.T, b, again []byte) {
	t.Helper()
	if !bytes.Equal(b, again) {
		t.Fatalf("decoded and encoded again\n%x\nfrom\n%x", again, b)
	}
}

// A page under a reference that does not mean it is refused.
func TestPageMustBeTheOneNamed(t *testing.T) {
	p := goldenPage()
	for name, change := range map[string]func(ref *PageRef, id *record.TopicID, partition *int32){
		"hash":      func(ref *PageRef, _ *record.TopicID, _ *int32) { ref.Hash[0]++ },
		"count":     func(ref *PageRef, _ *record.TopicID, _ *int32) { ref.Count++ },
		"bytes":     func(ref *PageRef, _ *record.TopicID, _ *int32) { ref.Bytes++ },
		"offsets":   func(ref *PageRef, _ *record.TopicID, _ *int32) { ref.To++ },
		"timestamp": func(ref *PageRef, _ *record.TopicID, _ *int32) { ref.MaxTimestamp++ },
		"topic":     func(_ *PageRef, id *record.TopicID, _ *int32) { id[0]++ },
		"partition": func(_ *PageRef, _ *record.TopicID, partition *int32) { *partition++ },
	} {
		ref, id, partition := p.ref, testTopicID, int32(4)
		change(&ref, &id, &partition)
		if _, err := parsePage("page", p.bytes, id, partition, ref); !isErr(err, record.ErrCorruptBatch) {
			t.Errorf("another %s: %v, want corruption", name, err)
		}
	}
}
