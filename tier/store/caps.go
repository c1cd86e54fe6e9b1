// SPDX-License-Identifier: Apache-2.0

package store

import "strings"

// Capabilities is what a store can do beyond the minimum.
type Capabilities struct {
	// Name is the kind of store and where it is, without secrets.
	Name string
	// ConditionalPut: PutOptions.IfNoneMatch is atomic.
	ConditionalPut bool
	// BulkDelete: many keys go in one request.
	BulkDelete bool
	// Multipart: large objects go up in parts.
	Multipart bool
	// Checksums: the store itself refuses a body that does not match the
	// CRC-32C sent with it.
	Checksums bool
	// Versioned: what is deleted or written over is kept, and costs money,
	// until a lifecycle rule of the bucket removes it.
	Versioned bool
	// PathStyle: the bucket is in the path of the address, not in its host name.
	PathStyle bool
}

// String is the capabilities in words, for a banner: "conditional-put
// multipart …", and "none" without any.
func (c Capabilities) String() string {
	var words []string
	for _, w := range []struct {
		has  bool
		word string
	}{
		{c.ConditionalPut, "conditional-put"},
		{c.Checksums, "checksums"},
		{c.Multipart, "multipart"},
		{c.BulkDelete, "bulk-delete"},
		{c.Versioned, "versioned"},
		{c.PathStyle, "path-style"},
	} {
		if w.has {
			words = append(words, w.word)
		}
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, " ")
}
