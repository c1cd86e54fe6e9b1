// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"firn/record"
)

// ErrInvalidKey marks a string that is no key of ours, or a prefix or cluster
// id that cannot be part of one.
var ErrInvalidKey = errors.New("invalid object key")

// WriterID is a random id of whoever writes heads and claims. It is new every
// time a partition is opened, so that no two lives write the same head key.
type WriterID [16]byte

// String is the id in lower-case hexadecimal digits.
func (w WriterID) String() string { return hex.EncodeToString(w[:]) }

// KeyKind says what kind of object a key names.
type KeyKind uint8

// The kinds of object in the bucket. The numbers of KeySegment and KeyPage are
// part of the manifest's format.
const (
	KeyStore   KeyKind = iota + 1 // the id of the store
	KeyTopic                      // one version of a topic's description
	KeyMeta                       // one version of the cluster's metadata
	KeyOffsets                    // one version of the committed offsets
	KeySegment                    // a closed segment
	KeyPage                       // older entries of a manifest
	KeyHead                       // a manifest
	KeyClaim                      // the claim of a leader epoch
)

// Key is an object key taken apart. Which fields are set depends on Kind;
// docs/format/bucket.md draws them all. ParseKey and Key.String are inverse.
type Key struct {
	Kind KeyKind
	// TopicID is set for a topic and everything of a partition.
	TopicID record.TopicID
	// TP is set for everything of a partition.
	TP record.TopicPartition
	// Version is set for topics, metadata and committed offsets.
	Version uint64
	// Base is the first offset of a segment or page.
	Base record.Offset
	// Epoch is set for everything of a partition.
	Epoch record.Epoch
	// Seq and Writer are set for a head.
	Seq    uint64
	Writer WriterID
	// Hash is set for a segment and a page.
	Hash Hash
}

const (
	segmentSuffix = ".seg"
	pageSuffix    = ".page"
	digits20      = 20
	digits10      = 10
)

// Root is the common beginning of a cluster's keys, "<prefix>/<cluster id>",
// without a slash at its end. An empty prefix is allowed. The error wraps
// ErrInvalidKey.
func Root(prefix, clusterID string) (string, error) {
	if err := CheckPrefix(prefix); err != nil {
		return "", err
	}
	if !isKeyElement(clusterID) {
		return "", fmt.Errorf("%w: cluster id %q: want letters, digits, '.', '_' and '-'", ErrInvalidKey, clusterID)
	}
	return joinPrefix(prefix, clusterID), nil
}

// CheckPrefix says whether prefix may stand before the cluster id: empty, or
// elements of letters, digits, '.', '_' and '-' joined by single slashes. The
// error wraps ErrInvalidKey.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	for _, element := range strings.Split(prefix, "/") {
		if !isKeyElement(element) {
			return fmt.Errorf("%w: prefix %q: want elements of letters, digits, '.', '_' and '-' joined by single slashes", ErrInvalidKey, prefix)
		}
	}
	return nil
}

func joinPrefix(prefix, rest string) string {
	if prefix == "" {
		return rest
	}
	return prefix + "/" + rest
}

// isKeyElement applies the rule for topic names, which keeps every element
// safe in a URL and as the name of a file.
func isKeyElement(s string) bool { return record.CheckTopicName(s) == nil }

// String is the whole key under root.
func (k Key) String(root string) string {
	switch k.Kind {
	case KeyStore:
		return storeKey(root)
	case KeyTopic:
		return topicPrefix(root, k.TopicID) + fmt.Sprintf("%020d", k.Version)
	case KeyMeta:
		return root + "/meta/" + fmt.Sprintf("%020d", k.Version)
	case KeyOffsets:
		return root + "/offsets/" + fmt.Sprintf("%020d", k.Version)
	}
	dir := partitionPrefix(root, k.TopicID, k.TP)
	switch k.Kind {
	case KeySegment:
		return dir + "seg/" + contentName(k.Base, k.Epoch, k.Hash) + segmentSuffix
	case KeyPage:
		return dir + "page/" + contentName(k.Base, k.Epoch, k.Hash) + pageSuffix
	case KeyHead:
		return dir + fmt.Sprintf("head/%010d-%020d-%s", k.Epoch, k.Seq, k.Writer)
	case KeyClaim:
		return dir + fmt.Sprintf("claim/%010d", k.Epoch)
	}
	return ""
}

func contentName(base record.Offset, epoch record.Epoch, hash Hash) string {
	return fmt.Sprintf("%020d-%010d-%s", base, epoch, hash)
}

// SegmentKey is the key of a segment entry's object.
func SegmentKey(root string, id record.TopicID, tp record.TopicPartition, e Entry) string {
	return Key{Kind: KeySegment, TopicID: id, TP: tp, Base: e.From, Epoch: e.Epoch, Hash: e.Hash}.String(root)
}

func storeKey(root string) string { return root + "/store" }

// topicPrefix begins the keys of a topic's description.
func topicPrefix(root string, id record.TopicID) string {
	return root + "/topics/" + id.String() + "/"
}

// topicDataPrefix begins the keys of all partitions of a topic.
func topicDataPrefix(root, topic string, id record.TopicID) string {
	return root + "/data/" + topic + "/" + id.String() + "/"
}

// partitionPrefix begins the keys of one partition.
func partitionPrefix(root string, id record.TopicID, tp record.TopicPartition) string {
	return topicDataPrefix(root, tp.Topic, id) + strconv.FormatInt(int64(tp.Partition), 10) + "/"
}

// ParseKey takes apart what Key.String made under the same root. The error
// wraps ErrInvalidKey.
func ParseKey(root, key string) (Key, error) {
	k, ok := parseKey(root, key)
	if !ok {
		return Key{}, fmt.Errorf("%w: %q under %q", ErrInvalidKey, key, root)
	}
	return k, nil
}

func parseKey(root, key string) (Key, bool) {
	rest, ok := strings.CutPrefix(key, root+"/")
	if !ok {
		return Key{}, false
	}
	parts := strings.Split(rest, "/")
	switch {
	case len(parts) == 1 && parts[0] == "store":
		return Key{Kind: KeyStore}, true
	case len(parts) == 2 && parts[0] == "meta":
		return parseVersion(Key{Kind: KeyMeta}, parts[1])
	case len(parts) == 2 && parts[0] == "offsets":
		return parseVersion(Key{Kind: KeyOffsets}, parts[1])
	case len(parts) == 3 && parts[0] == "topics":
		id, ok := parseTopicID(parts[1])
		if !ok {
			return Key{}, false
		}
		return parseVersion(Key{Kind: KeyTopic, TopicID: id}, parts[2])
	case len(parts) == 6 && parts[0] == "data":
		return parsePartitionKey(parts[1:])
	}
	return Key{}, false
}

func parseVersion(k Key, s string) (Key, bool) {
	v, ok := parseDigits(s, digits20, math.MaxUint64)
	k.Version = v
	return k, ok
}

// parsePartitionKey reads topic, topic id, partition, directory and name.
func parsePartitionKey(parts []string) (Key, bool) {
	var k Key
	var ok bool
	if k.TopicID, ok = parseTopicID(parts[1]); !ok {
		return Key{}, false
	}
	partition, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil || partition < 0 || strconv.FormatInt(partition, 10) != parts[2] || record.CheckTopicName(parts[0]) != nil {
		return Key{}, false
	}
	k.TP = record.TopicPartition{Topic: parts[0], Partition: int32(partition)}
	switch dir, name := parts[3], parts[4]; dir {
	case "seg":
		k.Kind = KeySegment
		return k.parseContentName(name, segmentSuffix)
	case "page":
		k.Kind = KeyPage
		return k.parseContentName(name, pageSuffix)
	case "head":
		k.Kind = KeyHead
		return k.parseHeadName(name)
	case "claim":
		k.Kind = KeyClaim
		epoch, ok := parseDigits(name, digits10, math.MaxInt32)
		k.Epoch = record.Epoch(epoch)
		return k, ok
	}
	return Key{}, false
}

func (k Key) parseContentName(name, suffix string) (Key, bool) {
	name, ok := strings.CutSuffix(name, suffix)
	parts := strings.Split(name, "-")
	if !ok || len(parts) != 3 {
		return Key{}, false
	}
	base, ok1 := parseDigits(parts[0], digits20, math.MaxInt64)
	epoch, ok2 := parseDigits(parts[1], digits10, math.MaxInt32)
	hash, ok3 := parseHex(parts[2])
	k.Base, k.Epoch, k.Hash = record.Offset(base), record.Epoch(epoch), hash
	return k, ok1 && ok2 && ok3
}

func (k Key) parseHeadName(name string) (Key, bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 3 {
		return Key{}, false
	}
	epoch, ok1 := parseDigits(parts[0], digits10, math.MaxInt32)
	seq, ok2 := parseDigits(parts[1], digits20, math.MaxUint64)
	writer, ok3 := parseHex(parts[2])
	k.Epoch, k.Seq, k.Writer = record.Epoch(epoch), seq, WriterID(writer)
	return k, ok1 && ok2 && ok3
}

// parseTopicID takes an id in the one form that TopicID.String writes.
func parseTopicID(s string) (record.TopicID, bool) {
	id, err := record.ParseTopicID(s)
	return id, err == nil && id.String() == s
}

// parseDigits reads exactly n decimal digits, at most limit.
func parseDigits(s string, n int, limit uint64) (uint64, bool) {
	if len(s) != n || s[0] == '+' {
		return 0, false
	}
	v, err := strconv.ParseUint(s, 10, 64)
	return v, err == nil && v <= limit
}

// parseHex reads 32 lower-case hexadecimal digits.
func parseHex(s string) ([16]byte, bool) {
	var out [16]byte
	if len(s) != hex.EncodedLen(len(out)) || strings.ToLower(s) != s {
		return out, false
	}
	_, err := hex.Decode(out[:], []byte(s))
	return out, err == nil
}
