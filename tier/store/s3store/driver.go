// SPDX-License-Identifier: Apache-2.0

package s3store

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"firn/tier/store"
	"firn/tier/store/internal/s3kit"
)

// driver is an s3kit.Driver over the SDK. Downloads have a client, and so
// connections, of their own.
type driver struct {
	bucket     *string
	region     string
	up, down   *s3.Client
	transports []*http.Transport
}

var _ s3kit.Driver = (*driver)(nil)

func (d *driver) Put(ctx context.Context, key string, body []byte, o s3kit.PutHeaders) error {
	in := &s3.PutObjectInput{
		Bucket: d.bucket, Key: &key, Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))),
		ChecksumCRC32C: encode(o.CRC32C), IfNoneMatch: condition(o.IfNoneMatch),
	}
	_, err := d.up.PutObject(ctx, in)
	return answer(err)
}

func (d *driver) CreateUpload(ctx context.Context, key string, checksums bool) (string, error) {
	in := &s3.CreateMultipartUploadInput{Bucket: d.bucket, Key: &key}
	if checksums {
		in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32c
	}
	out, err := d.up.CreateMultipartUpload(ctx, in)
	if err != nil {
		return "", answer(err)
	}
	return aws.ToString(out.UploadId), nil
}

func (d *driver) UploadPart(ctx context.Context, u s3kit.Upload, number int32, body []byte, crc *uint32) (string, error) {
	out, err := d.up.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: d.bucket, Key: &u.Key, UploadId: &u.ID, PartNumber: &number,
		Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))), ChecksumCRC32C: encode(crc),
	})
	if err != nil {
		return "", answer(err)
	}
	return aws.ToString(out.ETag), nil
}

func (d *driver) CompleteUpload(ctx context.Context, u s3kit.Upload, parts []s3kit.Part, ifNoneMatch bool) error {
	completed := make([]types.CompletedPart, len(parts))
	for i, p := range parts {
		completed[i] = types.CompletedPart{PartNumber: aws.Int32(p.Number), ETag: aws.String(p.ETag), ChecksumCRC32C: encode(p.CRC32C)}
	}
	_, err := d.up.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: d.bucket, Key: &u.Key, UploadId: &u.ID, IfNoneMatch: condition(ifNoneMatch),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: completed},
	})
	return answer(err)
}

func (d *driver) AbortUpload(ctx context.Context, u s3kit.Upload) error {
	_, err := d.up.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: d.bucket, Key: &u.Key, UploadId: &u.ID})
	return answer(err)
}

func (d *driver) Get(ctx context.Context, key string, off int64, n int) (*s3kit.RangeAnswer, error) {
	out, err := d.down.GetObject(ctx, &s3.GetObjectInput{Bucket: d.bucket, Key: &key, Range: aws.String(s3kit.Range(off, n))})
	if err != nil {
		return nil, answer(err)
	}
	length := int64(-1)
	if out.ContentLength != nil {
		length = *out.ContentLength
	}
	return &s3kit.RangeAnswer{Body: out.Body, ContentRange: aws.ToString(out.ContentRange), Length: length}, nil
}

func (d *driver) Head(ctx context.Context, key string) (store.Info, error) {
	out, err := d.up.HeadObject(ctx, &s3.HeadObjectInput{Bucket: d.bucket, Key: &key})
	if err != nil {
		return store.Info{}, answer(err)
	}
	size := int64(-1)
	if out.ContentLength != nil {
		size = *out.ContentLength
	}
	return store.Info{Key: key, Size: size, Modified: aws.ToTime(out.LastModified)}, nil
}

func (d *driver) List(ctx context.Context, prefix, after string, limit int) ([]store.Info, bool, error) {
	in := &s3.ListObjectsV2Input{Bucket: d.bucket, Prefix: &prefix, MaxKeys: aws.Int32(int32(limit))}
	if after != "" {
		in.StartAfter = &after
	}
	out, err := d.up.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, false, answer(err)
	}
	infos := make([]store.Info, len(out.Contents))
	for i, o := range out.Contents {
		size := int64(-1)
		if o.Size != nil {
			size = *o.Size
		}
		infos[i] = store.Info{Key: aws.ToString(o.Key), Size: size, Modified: aws.ToTime(o.LastModified)}
	}
	return infos, aws.ToBool(out.IsTruncated), nil
}

func (d *driver) Delete(ctx context.Context, key string) error {
	_, err := d.up.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: d.bucket, Key: &key})
	return answer(err)
}

func (d *driver) DeleteBulk(ctx context.Context, keys []string) error {
	objects := make([]types.ObjectIdentifier, len(keys))
	for i := range keys {
		objects[i] = types.ObjectIdentifier{Key: &keys[i]}
	}
	out, err := d.up.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: d.bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)},
	}, contentMD5)
	if err != nil {
		return answer(err)
	}
	for _, e := range out.Errors {
		if code := aws.ToString(e.Code); code != "NoSuchKey" {
			return &s3kit.APIError{Status: http.StatusOK, Code: code, Message: aws.ToString(e.Key) + ": " + aws.ToString(e.Message)}
		}
	}
	return nil
}

// contentMD5 adds the header that many stores want with a bulk delete, and that
// the SDK has stopped to send.
func contentMD5(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, smithyhttp.AddContentChecksumMiddleware)
}

func (d *driver) CreateBucket(ctx context.Context) error {
	in := &s3.CreateBucketInput{Bucket: d.bucket}
	// The default region is the one that must not be named.
	if d.region != defaultRegion {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(d.region)}
	}
	_, err := d.up.CreateBucket(ctx, in)
	return answer(err)
}

func (d *driver) Versioned(ctx context.Context) (bool, error) {
	out, err := d.up.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: d.bucket})
	if err != nil {
		return false, answer(err)
	}
	return out.Status == types.BucketVersioningStatusEnabled, nil
}

func (d *driver) Close() {
	for _, t := range d.transports {
		t.CloseIdleConnections()
	}
}

func encode(crc *uint32) *string {
	if crc == nil {
		return nil
	}
	return aws.String(s3kit.EncodeCRC(*crc))
}

func condition(ifNoneMatch bool) *string {
	if !ifNoneMatch {
		return nil
	}
	return aws.String("*")
}

// answer turns what the SDK says of the store's answer into an *s3kit.APIError,
// and leaves errors of the way alone.
func answer(err error) error {
	if err == nil {
		return nil
	}
	e := &s3kit.APIError{Err: err}
	var response *awshttp.ResponseError
	if errors.As(err, &response) {
		e.Status = response.HTTPStatusCode()
	}
	var api smithy.APIError
	switch {
	case errors.As(err, &api):
		e.Code, e.Message = api.ErrorCode(), api.ErrorMessage()
	case e.Status < http.StatusMultipleChoices:
		// No answer, or one that broke off in the middle. What net/http says of
		// it names the address; the SDK adds empty fields.
		var request *url.Error
		if errors.As(err, &request) {
			return request
		}
		return err
	}
	return e
}
