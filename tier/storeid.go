// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"firn/tier/store"
)

// ErrStoreMismatch says that the bucket's store id is not the one in the data
// directory: they do not belong together.
var ErrStoreMismatch = errors.New("the bucket does not belong to this data directory")

// StoreID is the random id that ties a cluster's part of a bucket to its data
// directories. Whoever makes one stores it locally before the bucket sees it.
type StoreID [16]byte

// NewStoreID draws a random id.
func NewStoreID() StoreID { return StoreID(randomID()) }

// ParseStoreID reads what StoreID.String wrote.
func ParseStoreID(s string) (StoreID, error) {
	id, ok := parseHex(s)
	if !ok {
		return StoreID{}, fmt.Errorf("parse store id %q: want 32 lower-case hexadecimal digits", s)
	}
	return StoreID(id), nil
}

// String is the id in lower-case hexadecimal digits.
func (id StoreID) String() string { return hex.EncodeToString(id[:]) }

// IsZero says whether the id is unset.
func (id StoreID) IsZero() bool { return id == StoreID{} }

// randomID draws 16 bytes. crypto/rand does not fail.
func randomID() (id [16]byte) {
	_, _ = rand.Read(id[:])
	return id
}

// storeObjectSize is the size of the store object in bytes.
const storeObjectSize = frameOverhead + 16 + 8

func encodeStoreID(id StoreID, createdMs int64) []byte {
	return appendFrame(nil, magicStore, appendI64(append([]byte(nil), id[:]...), createdMs))
}

// decodeStoreID reads the store object. The error is a
// *record.CorruptionError or wraps record.ErrUnsupportedVersion.
func decodeStoreID(path string, b []byte) (StoreID, error) {
	body, err := openFrame(path, magicStore, b)
	if err != nil {
		return StoreID{}, fmt.Errorf("read store id: %w", err)
	}
	r := newBodyReader(path, body)
	id := StoreID(r.id())
	r.i64()
	if err := r.end(); err != nil {
		return StoreID{}, fmt.Errorf("read store id: %w", err)
	}
	return id, nil
}

// ensureStoreID compares the bucket's store id with the one of the options,
// and writes it when the bucket never had one. The error wraps
// ErrStoreMismatch, or is the store's.
func ensureStoreID(ctx context.Context, s store.Store, root string, o Options, nowMs int64) error {
	key, want := storeKey(root), o.StoreID
	got, err := readStoreID(ctx, s, key)
	if errors.Is(err, store.ErrNotFound) {
		if o.StoreSeen {
			return fmt.Errorf("%w: the data directory has its history under %s, and there is no such object here: is it another bucket or prefix?", ErrStoreMismatch, key)
		}
		body := encodeStoreID(want, nowMs)
		err := s.Put(ctx, key, store.BytesSource(body), store.PutOptions{IfNoneMatch: true})
		if err != nil && !errors.Is(err, store.ErrExists) {
			return fmt.Errorf("write store id: %w", err)
		}
		// Read it back in any case: where the condition is not atomic two
		// brokers may both have written.
		got, err = readStoreID(ctx, s, key)
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%w: %s says %v, the data directory %v", ErrStoreMismatch, key, got, want)
	}
	return nil
}

func readStoreID(ctx context.Context, s store.Store, key string) (StoreID, error) {
	b := make([]byte, storeObjectSize)
	if _, err := s.GetRange(ctx, key, b, 0); err != nil {
		return StoreID{}, fmt.Errorf("read store id: %w", err)
	}
	return decodeStoreID(key, b)
}

// FindClusters lists the ids of the clusters whose store object lies under
// prefix, in the order of their names. What else is in the bucket is passed
// over. It asks the store twice for each element below the prefix.
func FindClusters(ctx context.Context, s store.Store, prefix string) ([]string, error) {
	if err := CheckPrefix(prefix); err != nil {
		return nil, err
	}
	base := joinPrefix(prefix, "")
	var ids []string
	for after := ""; ; {
		infos, _, err := s.List(ctx, base, after, 1)
		if err != nil {
			return nil, fmt.Errorf("find clusters: %w", err)
		}
		if len(infos) == 0 {
			return ids, nil
		}
		element, nested := firstElement(infos[0].Key[len(base):])
		if !nested {
			after = infos[0].Key
			continue
		}
		if isKeyElement(element) {
			switch _, err := s.Head(ctx, storeKey(base+element)); {
			case err == nil:
				ids = append(ids, element)
			case !errors.Is(err, store.ErrNotFound):
				return nil, fmt.Errorf("find clusters: %w", err)
			}
		}
		// "0" follows "/", so this is above every key in the element and not
		// above any key outside of it that comes later.
		after = base + element + "0"
		if after <= infos[0].Key {
			after = infos[0].Key
		}
	}
}

// firstElement cuts rest at its first slash; nested says that there is one.
func firstElement(rest string) (element string, nested bool) {
	for i := range len(rest) {
		if rest[i] == '/' {
			return rest[:i], true
		}
	}
	return rest, false
}
