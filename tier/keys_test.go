// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"firn/record"
	"firn/tier/store"
)

func TestKeysAreAsDrawn(t *testing.T) {
	tp := record.TopicPartition{Topic: "orders", Partition: 12}
	id := record.TopicID{0xff, 0xfe, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}
	hash := Hash{0xab, 1}
	const root = "history/prod/c-1"
	const data = root + "/data/orders/__4BAgMEBQYHCAkKCwwNDg/12/"
	for want, k := range map[string]Key{
		root + "/store": {Kind: KeyStore},
		root + "/topics/__4BAgMEBQYHCAkKCwwNDg/00000000000000000007":                        {Kind: KeyTopic, TopicID: id, Version: 7},
		root + "/meta/18446744073709551615":                                                 {Kind: KeyMeta, Version: math.MaxUint64},
		root + "/offsets/00000000000000000000":                                              {Kind: KeyOffsets},
		data + "seg/00000000000000001000-0000000003-ab010000000000000000000000000000.seg":   {Kind: KeySegment, TopicID: id, TP: tp, Base: 1000, Epoch: 3, Hash: hash},
		data + "page/00000000000000000000-2147483647-ab010000000000000000000000000000.page": {Kind: KeyPage, TopicID: id, TP: tp, Epoch: math.MaxInt32, Hash: hash},
		data + "head/0000000003-00000000000000000042-ab010000000000000000000000000000":      {Kind: KeyHead, TopicID: id, TP: tp, Epoch: 3, Seq: 42, Writer: WriterID(hash)},
		data + "claim/0000000003":                                                           {Kind: KeyClaim, TopicID: id, TP: tp, Epoch: 3},
	} {
		if got := k.String(root); got != want {
			t.Errorf("key is %s, want %s", got, want)
		}
		if got, err := ParseKey(root, want); err != nil || got != k {
			t.Errorf("parse %s: %+v, %v, want %+v", want, got, err, k)
		}
		if err := store.CheckKey(want); err != nil {
			t.Errorf("a store refuses %s: %v", want, err)
		}
	}
	if got := SegmentKey(root, id, tp, Entry{From: 1000, Epoch: 3, Hash: hash}); !strings.HasPrefix(got, data+"seg/00000000000000001000-") {
		t.Errorf("SegmentKey is %s", got)
	}
}

func TestRoot(t *testing.T) {
	for _, test := range []struct{ prefix, cluster, want string }{
		{"", "c1", "c1"}, {"a", "c1", "a/c1"}, {"a/b-c_d.e", "MkU3OEVBNTcwNTJENDM2Qg", "a/b-c_d.e/MkU3OEVBNTcwNTJENDM2Qg"},
		{"/a", "c1", ""}, {"a/", "c1", ""}, {"a//b", "c1", ""}, {"..", "c1", ""}, {"a", "", ""}, {"a", "c/1", ""}, {"a b", "c", ""}, {"a", "..", ""},
	} {
		got, err := Root(test.prefix, test.cluster)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("Root(%q, %q) = %q, %v, want %q", test.prefix, test.cluster, got, err, test.want)
		}
		if err != nil && !isErr(err, ErrInvalidKey) {
			t.Errorf("Root(%q, %q): %v, want ErrInvalidKey", test.prefix, test.cluster, err)
		}
	}
}

func drawKey(rt *rapid.T) Key {
	k := Key{Kind: KeyKind(rapid.IntRange(int(KeyStore), int(KeyClaim)).Draw(rt, "kind"))}
	if k.Kind == KeyTopic || k.Kind >= KeySegment {
		copy(k.TopicID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "id"))
	}
	if k.Kind == KeyTopic || k.Kind == KeyMeta || k.Kind == KeyOffsets {
		k.Version = rapid.Uint64().Draw(rt, "version")
	}
	if k.Kind >= KeySegment {
		k.TP.Topic = rapid.StringMatching(`[a-z._-][a-zA-Z0-9._-]{2,20}`).Draw(rt, "topic")
		k.TP.Partition = rapid.Int32Range(0, math.MaxInt32).Draw(rt, "partition")
		k.Epoch = record.Epoch(rapid.Int32Range(0, math.MaxInt32).Draw(rt, "epoch"))
	}
	if k.Kind == KeySegment || k.Kind == KeyPage {
		k.Base = record.Offset(rapid.Int64Range(0, math.MaxInt64).Draw(rt, "base"))
		copy(k.Hash[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "hash"))
	}
	if k.Kind == KeyHead {
		k.Seq = rapid.Uint64().Draw(rt, "seq")
		copy(k.Writer[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "writer"))
	}
	return k
}

func TestKeysRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := drawKey(rt)
		got, err := ParseKey("r", k.String("r"))
		if err != nil || got != k {
			rt.Fatalf("%s parses to %+v, %v, want %+v", k.String("r"), got, err, k)
		}
	})
}

// The names of heads, segments and pages sort as what they stand for, which is
// what LIST relies on.
func TestKeysSortAsTheirNumbers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := drawKey(rt), drawKey(rt)
		a.Kind, b.Kind, b.TopicID, b.TP = KeyHead, KeyHead, a.TopicID, a.TP
		ra, rb := headRef{a.Epoch, a.Seq, a.Writer}, headRef{b.Epoch, b.Seq, b.Writer}
		if ra.above(rb) && a.String("r") <= b.String("r") {
			rt.Fatalf("%s does not sort above %s", a.String("r"), b.String("r"))
		}
	})
}

// Whatever parses is written in the one form that parses.
func FuzzParseKey(f *testing.F) {
	for _, k := range []Key{
		{Kind: KeyStore}, {Kind: KeyTopic, Version: 3}, {Kind: KeyMeta}, {Kind: KeyOffsets, Version: 1},
		{Kind: KeySegment, TP: testTP, Base: 5}, {Kind: KeyPage, TP: testTP}, {Kind: KeyHead, TP: testTP, Seq: 9}, {Kind: KeyClaim, TP: testTP, Epoch: 1},
	} {
		f.Add(k.String("root"))
	}
	f.Add("root/data/t/AAAAAAAAAAAAAAAAAAAAAA/+1/claim/0000000001")
	f.Add("root/topics/AAAAAAAAAAAAAAAAAAAAAB/00000000000000000001")
	f.Fuzz(func(t *testing.T, s string) {
		k, err := ParseKey("root", s)
		if err != nil {
			return
		}
		if got := k.String("root"); got != s {
			t.Fatalf("%q parses, and is written as %q", s, got)
		}
	})
}

func TestFindClusters(t *testing.T) {
	s := newMemStore()
	for _, key := range []string{
		"p/a/store", "p/a/data/x", "p/a-1/store", "p/a.b/store", "p/a0/store", "p/a/topics/1", "p/no-store/data/1",
		"p/file", "p/zz/store", "p/b c/store", "q/c/store", "root-cluster/store",
	} {
		s.objects[key] = []byte("x")
	}
	for prefix, want := range map[string][]string{
		"p": {"a-1", "a.b", "a", "a0", "zz"}, "q": {"c"}, "none": nil, "": {"root-cluster"},
	} {
		got, err := FindClusters(t.Context(), s, prefix)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("clusters under %q: %v, %v, want %v", prefix, got, err, want)
		}
	}
	if _, err := FindClusters(t.Context(), s, "a//b"); !isErr(err, ErrInvalidKey) {
		t.Errorf("a wrong prefix: %v", err)
	}
}
