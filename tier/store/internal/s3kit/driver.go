// SPDX-License-Identifier: Apache-2.0

package s3kit

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"

	"firn/tier/store"
)

// Driver makes single requests to one bucket. It retries nothing. All methods
// may be called concurrently, except for Close. An answer of the store that is
// an error is an *APIError; anything else is an error of the way to it.
type Driver interface {
	Put(ctx context.Context, key string, body []byte, o PutHeaders) error

	CreateUpload(ctx context.Context, key string, checksums bool) (id string, err error)
	UploadPart(ctx context.Context, u Upload, number int32, body []byte, crc *uint32) (etag string, err error)
	CompleteUpload(ctx context.Context, u Upload, parts []Part, ifNoneMatch bool) error
	AbortUpload(ctx context.Context, u Upload) error

	// Get asks for n bytes from off on.
	Get(ctx context.Context, key string, off int64, n int) (*RangeAnswer, error)
	Head(ctx context.Context, key string) (store.Info, error)
	// List asks for one page; it may be shorter than limit when more is true.
	List(ctx context.Context, prefix, after string, limit int) (infos []store.Info, more bool, err error)
	Delete(ctx context.Context, key string) error
	// DeleteBulk removes at most store.MaxList keys in one request.
	DeleteBulk(ctx context.Context, keys []string) error

	CreateBucket(ctx context.Context) error
	// Versioned tells whether the bucket keeps what is deleted.
	Versioned(ctx context.Context) (bool, error)
	// Close drops idle connections.
	Close()
}

// PutHeaders are the conditions and checks of a Put in one request.
type PutHeaders struct {
	IfNoneMatch bool
	CRC32C      *uint32
}

// Upload names a multipart upload under way.
type Upload struct{ Key, ID string }

// Part is one part that was uploaded.
type Part struct {
	Number int32
	ETag   string
	CRC32C *uint32
}

// RangeAnswer is an answer to a Get. The receiver closes Body.
type RangeAnswer struct {
	Body io.ReadCloser
	// ContentRange is the header of that name, empty if there was none, as
	// with status 200.
	ContentRange string
	// Length is the Content-Length, -1 if there was none.
	Length int64
}

// EncodeCRC writes a CRC-32C as the checksum headers of S3 have it.
func EncodeCRC(crc uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc))
}

// Range is the header that asks for n bytes, at least 1, from off on.
func Range(off int64, n int) string {
	return fmt.Sprintf("bytes=%d-%d", off, off+int64(n)-1)
}
