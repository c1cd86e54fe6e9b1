// SPDX-License-Identifier: Apache-2.0

package miniostore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"

	"github.com/minio/minio-go/v7"

	"firn/tier/store"
	"firn/tier/store/internal/s3kit"
)

const (
	crcHeader       = "X-Amz-Checksum-Crc32c"
	algorithmHeader = "X-Amz-Checksum-Algorithm"

	// notChunked keeps minio-go from signing bodies in chunks over plain HTTP;
	// in spite of the option's name a digest that is given is sent and signed.
	// The chunk that ends an empty body is taken for a request of its own by
	// some servers, whose answer to it may then meet the next real request.
	notChunked = true
)

// driver is an s3kit.Driver over minio-go. Downloads have a client, and so
// connections, of their own.
type driver struct {
	bucket, region string
	up, down       *minio.Core
	transports     []*http.Transport
}

var _ s3kit.Driver = (*driver)(nil)

func (d *driver) Put(ctx context.Context, key string, body []byte, o s3kit.PutHeaders) error {
	opts := minio.PutObjectOptions{DisableContentSha256: notChunked}
	if o.CRC32C != nil {
		// minio-go passes headers of this name on as they are.
		opts.UserMetadata = map[string]string{crcHeader: s3kit.EncodeCRC(*o.CRC32C)}
	}
	if o.IfNoneMatch {
		opts.SetMatchETagExcept("*")
	}
	_, err := d.up.PutObject(ctx, d.bucket, key, bytes.NewReader(body), int64(len(body)), "", digest(body), opts)
	return answer(err)
}

func (d *driver) CreateUpload(ctx context.Context, key string, checksums bool) (string, error) {
	opts := minio.PutObjectOptions{}
	if checksums {
		opts.UserMetadata = map[string]string{algorithmHeader: "CRC32C"}
	}
	id, err := d.up.NewMultipartUpload(ctx, d.bucket, key, opts)
	return id, answer(err)
}

func (d *driver) UploadPart(ctx context.Context, u s3kit.Upload, number int32, body []byte, crc *uint32) (string, error) {
	opts := minio.PutObjectPartOptions{Sha256Hex: digest(body), DisableContentSha256: notChunked}
	if crc != nil {
		opts.CustomHeader = http.Header{crcHeader: {s3kit.EncodeCRC(*crc)}}
	}
	part, err := d.up.PutObjectPart(ctx, d.bucket, u.Key, u.ID, int(number), bytes.NewReader(body), int64(len(body)), opts)
	return part.ETag, answer(err)
}

func (d *driver) CompleteUpload(ctx context.Context, u s3kit.Upload, parts []s3kit.Part, ifNoneMatch bool) error {
	completed := make([]minio.CompletePart, len(parts))
	for i, p := range parts {
		completed[i] = minio.CompletePart{PartNumber: int(p.Number), ETag: p.ETag}
		if p.CRC32C != nil {
			completed[i].ChecksumCRC32C = s3kit.EncodeCRC(*p.CRC32C)
		}
	}
	opts := minio.PutObjectOptions{}
	if ifNoneMatch {
		opts.SetMatchETagExcept("*")
	}
	_, err := d.up.CompleteMultipartUpload(ctx, d.bucket, u.Key, u.ID, completed, opts)
	return answer(err)
}

func (d *driver) AbortUpload(ctx context.Context, u s3kit.Upload) error {
	return answer(d.up.AbortMultipartUpload(ctx, d.bucket, u.Key, u.ID))
}

func (d *driver) Get(ctx context.Context, key string, off int64, n int) (*s3kit.RangeAnswer, error) {
	opts := minio.GetObjectOptions{}
	opts.Set("Range", s3kit.Range(off, n))
	body, info, header, err := d.down.GetObject(ctx, d.bucket, key, opts)
	if err != nil {
		return nil, answer(err)
	}
	return &s3kit.RangeAnswer{Body: body, ContentRange: header.Get("Content-Range"), Length: info.Size}, nil
}

func (d *driver) Head(ctx context.Context, key string) (store.Info, error) {
	info, err := d.up.StatObject(ctx, d.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return store.Info{}, answer(err)
	}
	return store.Info{Key: key, Size: info.Size, Modified: info.LastModified}, nil
}

// List asks for one key more than the page has: minio-go's iterator does not
// tell whether there are others, and would fetch the next page to find out.
func (d *driver) List(ctx context.Context, prefix, after string, limit int) (infos []store.Info, more bool, err error) {
	limit = min(limit, store.MaxList-1)
	owner := false
	opts := minio.ListObjectsOptions{Prefix: prefix, StartAfter: after, Recursive: true, MaxKeys: limit + 1, FetchOwner: &owner}
	for o := range d.up.ListObjectsIter(ctx, d.bucket, opts) {
		if o.Err != nil {
			return nil, false, answer(o.Err)
		}
		if len(infos) == limit {
			return infos, true, nil
		}
		infos = append(infos, store.Info{Key: o.Key, Size: o.Size, Modified: o.LastModified})
	}
	// The iterator ends without a word when the context does.
	return infos, false, ctx.Err()
}

func (d *driver) Delete(ctx context.Context, key string) error {
	return answer(d.up.RemoveObject(ctx, d.bucket, key, minio.RemoveObjectOptions{}))
}

// DeleteBulk is signed with Content-MD5 by minio-go itself.
func (d *driver) DeleteBulk(ctx context.Context, keys []string) error {
	objects := func(yield func(minio.ObjectInfo) bool) {
		for key := range slices.Values(keys) {
			if !yield(minio.ObjectInfo{Key: key}) {
				return
			}
		}
	}
	results, err := d.up.RemoveObjectsWithIter(ctx, d.bucket, objects, minio.RemoveObjectsOptions{})
	if err != nil {
		return answer(err)
	}
	for r := range results {
		if r.Err == nil {
			continue
		}
		if err := answer(r.Err); !absent(err) {
			return err
		}
	}
	return ctx.Err()
}

func absent(err error) bool {
	var api *s3kit.APIError
	return errors.As(err, &api) && api.Code == minio.NoSuchKey
}

func (d *driver) CreateBucket(ctx context.Context) error {
	return answer(d.up.MakeBucket(ctx, d.bucket, minio.MakeBucketOptions{Region: d.region}))
}

func (d *driver) Versioned(ctx context.Context) (bool, error) {
	v, err := d.up.GetBucketVersioning(ctx, d.bucket)
	return v.Enabled(), answer(err)
}

func (d *driver) Close() {
	for _, t := range d.transports {
		t.CloseIdleConnections()
	}
}

// digest is the SHA-256 that the signature covers, so that the store refuses a
// body that changed on its way.
func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// answer turns what minio-go says of the store's answer into an
// *s3kit.APIError, and leaves errors of the way alone.
func answer(err error) error {
	var response minio.ErrorResponse
	if !errors.As(err, &response) {
		return err
	}
	return &s3kit.APIError{Status: response.StatusCode, Code: response.Code, Message: response.Message, Err: err}
}
